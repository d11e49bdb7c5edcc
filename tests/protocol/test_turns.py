"""The router: which run a message belongs to, and when a run is over. One rule a test, or nearly."""

import gc
import json
import weakref
from typing import get_args

import pytest
from anyio.lowlevel import checkpoint
from scene import (
    FIRST_NOTICE,
    FOLLOW_UP_GRACE,
    OpenRun,
    RunEnded,
    RunLimits,
    RunWaits,
    Scene,
    TimeoutKind,
    agent,
    agent_says,
    cancelled,
    coalesced,
    completed,
    ends,
    follow_up,
    follow_up_result,
    idle,
    init,
    peer_turn,
    queued,
    result,
    route,
    running,
    says,
    shell,
    started,
    turn,
)

from claude_agent_py import TaskStartedMessage
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

# Results and prompts ---------------------------------------------------------------------------------------------


def test_a_run_receives_its_turn_and_ends_with_its_result() -> None:
    scene = Scene()
    run = scene.ask("a")
    scene.cli(queued("a"), turn("hello", "a"))
    assert scene.end_of(run) == "result"
    assert scene.results(run) == ["hello"]
    assert scene.texts(run) == ["hello"]
    assert scene.router.prompts == {"a"}


def test_a_run_with_several_prompts_ends_with_the_last_result() -> None:
    scene = Scene()
    run = scene.ask("a", "b")
    scene.cli(queued("a"), queued("b"), turn("first", "a"))
    assert scene.end_of(run) is None
    scene.cli(turn("second", "b"))
    assert scene.end_of(run) == "result"
    assert scene.results(run) == ["first", "second"]


def test_a_run_whose_prompts_still_come_is_not_over() -> None:
    scene = Scene()
    run = scene.ask("a", is_sealed=False)
    scene.cli(turn("first", "a"))
    assert scene.end_of(run) is None
    scene.seal(run)
    assert scene.end_of(run) == "result"


def test_the_result_of_a_turn_in_between_answers_no_run() -> None:
    scene = Scene()
    first = scene.ask("a")
    scene.cli(queued("a"), turn("answer to a", "a"))
    second = scene.ask("b")
    scene.cli(queued("b"), peer_turn("hello, colleague"), turn("answer to b", "b"))
    assert scene.results(first) == ["answer to a"]
    assert scene.results(second) == ["answer to b"]
    assert scene.texts(second) == ["answer to b"]


def test_prompts_that_were_folded_into_a_turn_share_its_result() -> None:
    scene = Scene()
    first, second = scene.ask("a"), scene.ask("b")
    scene.cli(queued("a"), started("a"), init("a"), says("working", "a"), queued("b"))
    scene.cli(frames.tool_result("toolu_1"), started("b"), says("both done"), completed("b"))
    assert scene.end_of(second) is None  # that it is completed is said too early
    scene.cli(result("both done", "a", "b"))
    assert scene.results(first) == scene.results(second) == ["both done"]
    assert scene.texts(first) == ["working", "both done"]
    assert scene.texts(second) == ["both done"]


def test_queued_prompts_that_were_merged_share_a_turn() -> None:
    scene = Scene()
    first, second, third = scene.ask("a"), scene.ask("b"), scene.ask("c")
    scene.cli(queued("a"), started("a"), init("a"), queued("b"), queued("c"), result("one", "a"), completed("a"))
    assert (scene.end_of(first), scene.end_of(second), scene.end_of(third)) == ("result", None, None)
    scene.cli(turn("two and three", "b", "c"))
    assert scene.results(second) == scene.results(third) == ["two and three"]


def test_a_result_answers_all_prompts_of_its_turn_although_it_names_only_some() -> None:
    scene = Scene()
    runs = [scene.ask(f"p{number}") for number in range(70)]
    names = [f"p{number}" for number in range(70)]
    scene.cli([started(name) for name in names], init(*names[-64:]), result("all", *names[-64:]))
    assert {scene.end_of(run) for run in runs} == {"result"}
    assert all(scene.results(run) == ["all"] for run in runs)


def test_an_interrupted_turn_ends_its_runs_with_its_result() -> None:
    scene = Scene()
    run, waiting = scene.ask("a"), scene.ask("b")
    scene.cli(queued("a"), started("a"), init("a"), queued("b"))
    scene.cli(result("stopped", "a", subtype="error_during_execution"), cancelled("a"))
    assert scene.end_of(run) == "result"
    assert scene.end_of(waiting) is None
    scene.cli(turn("answer to b", "b"))
    assert scene.results(waiting) == ["answer to b"]


def test_a_run_whose_turn_is_interrupted_waits_for_no_task() -> None:
    scene = Scene()
    run, other = scene.ask("a", until="idle"), scene.ask("b", until="idle")
    scene.cli(started("a"), init("a"), agent("t"))
    scene.cli(result("", "a", subtype="error_during_execution", terminal_reason="aborted_streaming"))
    assert scene.end_of(run) == "result"
    scene.cli(turn("answer to b", "b"))
    assert scene.end_of(other) is None


def test_a_folded_prompt_that_is_cancelled_with_its_turn_gets_the_result_of_the_turn() -> None:
    scene = Scene()
    first, second = scene.ask("a"), scene.ask("b")
    scene.cli(started("a"), init("a"), started("b"), cancelled("b"))
    assert scene.end_of(second) is None
    scene.cli(result("stopped", "a", "b", subtype="error_during_execution"), cancelled("a"))
    assert (scene.end_of(first), scene.end_of(second)) == ("result", "result")


@pytest.mark.parametrize("state", ["cancelled", "discarded", "refused"])
def test_a_prompt_that_left_the_queue_ends_its_run_without_a_result(state: str) -> None:
    scene = Scene()
    working, waiting = scene.ask("a"), scene.ask("b")
    scene.cli(started("a"), init("a"), queued("b"), frames.lifecycle(state, "b"))
    assert scene.end_of(waiting) == "cancelled"
    assert scene.results(waiting) == []
    assert scene.end_of(working) is None


def test_a_run_of_which_one_prompt_was_answered_has_a_result_even_if_another_was_taken_back() -> None:
    scene = Scene()
    run = scene.ask("a", "b")
    scene.cli(turn("answer", "a"), queued("b"), cancelled("b"))
    assert scene.end_of(run) == "result"


def test_a_prompt_that_comes_now_ends_the_turn_under_way() -> None:
    scene = Scene()
    first, urgent = scene.ask("a"), scene.ask("b")
    scene.cli(started("a"), init("a"), queued("b"), result("", "a", terminal_reason="aborted_tools"))
    assert scene.end_of(first) == "result"
    scene.cli(cancelled("a"), turn("at once", "b"))
    assert scene.results(urgent) == ["at once"]


def test_a_prompt_that_a_hook_blocked_has_a_result() -> None:
    scene = Scene()
    run = scene.ask("a")
    scene.cli(queued("a"), started("a"), frames.system("informational", level="warning", content="no"))
    scene.cli(result("blocked by hook", "a"))
    assert scene.end_of(run) == "result"
    assert len(scene.received[run]) == 4


def test_a_prompt_that_was_folded_into_a_follow_up_turn_gets_its_result() -> None:
    scene = Scene()
    waiting = scene.ask("a", until="idle")
    scene.cli(running(), started("a"), init("a"), agent("t"), result("started", "a"), ends("t"))
    second = scene.ask("b")
    scene.cli(queued("b"), init(), says("looking"), started("b"), says("found", "b"), completed("b"))
    scene.cli(follow_up_result("found", "t", "b"), idle())
    assert scene.results(second) == ["found"]
    assert scene.texts(second) == ["found"]
    assert scene.results(waiting) == ["started", "found"]
    assert (scene.end_of(waiting), scene.end_of(second)) == ("idle", "result")


def test_a_turn_on_a_foreign_prompt_goes_to_no_run() -> None:
    scene = Scene()
    waiting = scene.ask("a", until="idle")
    scene.cli(started("a"), init("a"), agent("t"), result("started", "a"))
    heard = len(scene.received[waiting])
    scene.cli(started("x"), init("x"), says("not for you", "x"), result("not for you", "x"), completed("x"))
    assert len(scene.received[waiting]) == heard
    assert scene.end_of(waiting) is None


def test_a_turn_without_a_result_ends_when_the_session_is_idle() -> None:
    scene = Scene()
    run = scene.ask("a")
    scene.cli(running(), started("a"), init("a"), idle())
    assert scene.end_of(run) == "cancelled"


def test_idle_says_nothing_of_a_prompt_that_was_just_sent() -> None:
    scene = Scene()
    run = scene.ask("a")
    scene.cli(idle(), queued("a"))
    assert scene.end_of(run) is None
    scene.cli(turn("hello", "a"))
    assert scene.end_of(run) == "result"


def test_the_end_of_the_connection_ends_every_run() -> None:
    scene = Scene()
    runs = scene.ask("a"), scene.ask("b", until="idle")
    assert [(end.run, end.reason) for end in scene.router.close()] == [(run, "closed") for run in runs]
    assert scene.router.open_runs == ()


# Who receives what -----------------------------------------------------------------------------------------------


def test_messages_outside_a_turn_go_to_every_open_run() -> None:
    scene = Scene()
    runs: tuple[OpenRun, ...] = (scene.ask("a"), scene.ask("b"))
    scene.cli(frames.user("<local-command-stdout>Set model</local-command-stdout>", isReplay=True))
    assert scene.last_runs == runs
    scene.cli(queued("a"), started("a"), init("a"), says("hi", "a"))
    assert scene.last_runs == (runs[0],)  # and it began no turn


def test_a_note_about_a_prompt_goes_to_its_run_only() -> None:
    scene = Scene()
    _, second = scene.ask("a"), scene.ask("b")
    scene.cli(started("a"), queued("b"))
    assert scene.last_runs == (second,)
    scene.cli(queued("not ours"))
    assert not scene.last_runs


def test_a_subagent_speaks_to_the_run_that_started_it_also_in_anothers_turn() -> None:
    scene = Scene()
    first = scene.ask("a", until="idle")
    scene.cli(started("a"), init("a"), agent("t"), result("started", "a"))
    second = scene.ask("b")
    scene.cli(started("b"), init("b"), agent_says("from the task", "t"))
    assert scene.last_runs == (first,)
    for frame in (
        frames.task_progress("t"),
        frames.task_updated("t", "paused"),
        frames.system("permission_denied", tool_name="Bash", tool_use_id="x", agent_id="t"),
    ):
        scene.cli(frame)
        assert scene.last_runs == (first,)
    scene.cli(says("from main", "b"))
    assert scene.texts(first) == ["from the task"]
    assert scene.texts(second) == ["from main"]


def test_a_new_message_that_names_a_task_goes_to_the_tasks_run() -> None:
    scene = Scene()
    first = scene.ask("a", until="idle")
    scene.cli(started("a"), init("a"), agent("t"), result("started", "a"))
    second = scene.ask("b")
    scene.cli(started("b"), init("b"))
    for field in ("task_id", "agent_id"):
        scene.cli(frames.system("from_the_future", **{field: "t"}))
        assert scene.last_runs == (first,)
    scene.cli(frames.system("from_the_future", task_id=7))
    assert scene.last_runs == (second,)


def test_a_prompt_that_the_cli_is_done_with_at_idle_has_no_answer_to_wait_for() -> None:
    scene = Scene()
    run = scene.ask("a")
    scene.cli(running(), frames.lifecycle("completed", "a"))
    assert not scene.ends
    scene.cli(idle())
    assert scene.end_of(run) == "cancelled"


def test_a_subagent_that_no_call_started_is_known_by_its_id() -> None:
    scene = Scene()
    run, other = scene.ask("a"), scene.ask("b")
    scene.cli(started("a"), init("a"), agent("t", tool_use_id=None))
    scene.cli(agent_says("by its id", "t", parent_tool_use_id=None))
    assert scene.texts(run) == ["by its id"]
    assert scene.received[other] == []


def test_a_subagent_of_a_subagent_speaks_to_the_same_run() -> None:
    scene = Scene()
    first = scene.ask("a", until="idle")
    scene.cli(started("a"), init("a"), agent("t"), result("started", "a"))
    scene.ask("b")
    scene.cli(started("b"), init("b"), agent("child", parent_task_id="t", spawn_depth=2))
    scene.cli(agent_says("deep down", "child"))
    assert scene.last_runs == (first,)
    assert first.tasks == {"t", "child"}


def test_a_child_of_an_ownerless_task_belongs_to_no_run() -> None:
    scene = Scene()
    scene.cli(init(), agent("t"), result("nobody asked"))
    run = scene.ask("a")
    scene.cli(started("a"), init("a"), agent("child", parent_task_id="t"))
    assert run.tasks == set()


def test_messages_from_tasks_of_an_ended_run_reach_the_run_that_waits_until_idle() -> None:
    scene = Scene()
    scene.ask("a")
    scene.cli(started("a"), init("a"), agent("t"), result("started", "a"))
    waiting = scene.ask("b", until="idle")
    scene.cli(turn("answer", "b"), agent_says("still here", "t"))
    assert scene.last_runs == (waiting,)


def test_a_subagent_of_an_older_cli_is_known_by_the_call_that_started_it() -> None:
    scene = Scene()
    run = scene.ask("a", until="idle")
    scene.cli(started("a"), init("a"), agent("t"), result("started", "a"))
    other = scene.ask("b")
    scene.cli(started("b"), init("b"), agent_says("hello", "t", agent_id=None))
    assert scene.last_runs == (run,)
    scene.cli(agent_says("who is this?", "unheard of", agent_id=None))
    assert scene.last_runs == (other,)


def test_a_subagent_that_speaks_between_turns_begins_none() -> None:
    scene = Scene()
    run = scene.ask("a", until="idle")
    scene.cli(running(), started("a"), init("a"), agent("t"), result("started", "a"), ends("t", "stopped"), idle())
    assert scene.end_of(run) == "idle"
    later = scene.ask("b")
    scene.cli(agent_says("trailing", "t"), frames.user("[interrupted]", agent_id="t", parent_tool_use_id="toolu_t"))
    scene.cli(init(), result("for somebody without a uuid"))
    assert scene.end_of(later) is None
    scene.cli(turn("answer", "b"))
    assert scene.results(later) == ["answer"]


# Until idle ------------------------------------------------------------------------------------------------------

with_and_without_states = pytest.mark.parametrize("says_states", [True, False], ids=["states", "no states"])


def asked_with(scene: Scene, *tasks: frames.JSONObject, says_states: bool) -> OpenRun:
    """Ask something that starts tasks, and get the first result."""
    run = scene.ask("a", until="idle")
    scene.cli([running()] if says_states else [], started("a"), init("a"), list(tasks), result("started", "a"))
    return run


@with_and_without_states
def test_without_tasks_the_session_is_idle_after_the_result(says_states: bool) -> None:
    scene = Scene()
    run = asked_with(scene, says_states=says_states)
    if says_states:
        assert scene.end_of(run) is None
        scene.cli(idle())
    assert scene.end_of(run) == "idle"
    assert scene.now == 100.0


@with_and_without_states
def test_a_background_agent_is_waited_for_and_so_is_its_follow_up_turn(says_states: bool) -> None:
    scene = Scene()
    run = asked_with(scene, agent("t"), says_states=says_states)
    scene.cli(completed("a"), agent_says("report", "t"), ends("t"), frames.background_tasks())
    assert scene.end_of(run) is None
    scene.cli(follow_up("synthesis", "t"))
    if says_states:
        assert scene.end_of(run) is None
        scene.cli(idle())
    assert scene.end_of(run) == "idle"
    assert scene.results(run) == ["started", "synthesis"]
    assert run.tasks == {"t"}
    assert scene.now == 100.0


@with_and_without_states
def test_a_background_shell_is_waited_for_although_the_session_says_idle(says_states: bool) -> None:
    scene = Scene()
    run = asked_with(scene, shell("b"), says_states=says_states)
    if says_states:
        scene.cli(idle())
    scene.wait(60)
    assert scene.end_of(run) is None
    scene.cli(ends("b"), frames.background_tasks())
    scene.wait(0.5)
    assert scene.end_of(run) is None
    scene.cli([running()] if says_states else [], follow_up("noted", "b"), [idle()] if says_states else [])
    assert scene.end_of(run) == "idle"
    assert scene.results(run) == ["started", "noted"]


@with_and_without_states
def test_after_a_shell_that_was_stopped_there_is_only_a_grace(says_states: bool) -> None:
    scene = Scene()
    run = asked_with(scene, shell("b"), says_states=says_states)
    scene.cli([idle()] if says_states else [], ends("b", "stopped"), frames.background_tasks())
    assert scene.end_of(run) is None
    assert scene.router.next_deadline() == scene.now + FOLLOW_UP_GRACE
    scene.wait(10)
    assert scene.end_of(run) == "idle"
    assert scene.ended_at[run] == 100.0 + FOLLOW_UP_GRACE


def test_the_grace_period_ends_when_the_session_is_idle_again() -> None:
    scene = Scene()
    run = asked_with(scene, shell("b"), says_states=True)
    scene.cli(idle(), ends("b", "stopped"), idle())
    assert scene.end_of(run) == "idle"


@with_and_without_states
def test_a_grace_that_runs_out_while_another_task_lives_is_forgotten(says_states: bool) -> None:
    scene = Scene()
    run = asked_with(scene, shell("b1"), shell("b2"), says_states=says_states)
    scene.cli([idle()] if says_states else [], ends("b1", "stopped"))
    scene.wait(5)
    assert scene.end_of(run) is None
    assert scene.router.next_deadline() == 100.0 + FIRST_NOTICE
    scene.cli(ends("b2", "stopped"))
    scene.wait(5)
    assert scene.ended_at[run] == 105.0 + FOLLOW_UP_GRACE


def test_an_old_grace_does_not_hold_up_a_later_run() -> None:
    scene = Scene()
    scene.ask("a")
    scene.cli(started("a"), init("a"), shell("b"), result("started", "a"), ends("b", "stopped"))
    scene.wait(60)
    run = scene.ask("c", until="idle")
    scene.cli(turn("answer", "c"))
    assert scene.end_of(run) == "idle"


@with_and_without_states
def test_tasks_that_end_together_have_one_real_turn_and_empty_results(says_states: bool) -> None:
    scene = Scene()
    run = asked_with(scene, agent("t1"), agent("t2"), shell("b"), says_states=says_states)
    scene.cli(ends("t1"), ends("b"), ends("t2"), coalesced("t1"), coalesced("b"))
    assert scene.end_of(run) is None
    scene.cli(follow_up("all three", "t2"), [idle()] if says_states else [])
    assert scene.end_of(run) == "idle"
    assert scene.results(run) == ["started", "", "", "all three"]


@with_and_without_states
def test_tasks_that_end_one_after_the_other_have_a_turn_each(says_states: bool) -> None:
    scene = Scene()
    run = asked_with(scene, agent("t1"), agent("t2"), says_states=says_states)
    scene.cli(ends("t1"), follow_up("one", "t1"))
    assert scene.end_of(run) is None
    scene.cli(ends("t2"), follow_up("two", "t2"), [idle()] if says_states else [])
    assert scene.end_of(run) == "idle"
    assert scene.results(run) == ["started", "one", "two"]


@with_and_without_states
def test_a_task_that_ends_in_a_long_turn_may_still_cause_one_after_it(says_states: bool) -> None:
    scene = Scene()
    run = scene.ask("a", until="idle")
    scene.cli([running()] if says_states else [], started("a"), init("a"), shell("b"), ends("b"))
    scene.wait(30)
    scene.cli(result("answer", "a"))
    assert scene.end_of(run) is None
    scene.wait(0.1)
    scene.cli(follow_up("noted", "b"), [idle()] if says_states else [])
    assert scene.end_of(run) == "idle"
    assert scene.results(run) == ["answer", "noted"]


@with_and_without_states
def test_a_task_whose_end_was_folded_into_a_turn_causes_none(says_states: bool) -> None:
    scene = Scene()
    run = scene.ask("a", until="idle")
    scene.cli([running()] if says_states else [], started("a"), init("a"), shell("b"), ends("b"))
    scene.wait(30)
    scene.cli(says("I see that it is over"), result("answer", "a"), [idle()] if says_states else [])
    scene.wait(10)
    assert scene.end_of(run) == "idle"
    assert scene.ended_at[run] == 130.0 + (0.0 if says_states else FOLLOW_UP_GRACE)


@with_and_without_states
def test_tasks_in_the_foreground_cause_no_turn(says_states: bool) -> None:
    scene = Scene()
    run = scene.ask("a", until="idle")
    scene.cli([running()] if says_states else [], started("a"), init("a"), agent("t", is_backgrounded=False), ends("t"))
    scene.cli(shell("b", is_backgrounded=False), frames.task_notification("b"), result("done", "a"))
    if says_states:
        scene.cli(idle())
    assert scene.end_of(run) == "idle"
    assert run.tasks == {"t", "b"}


@with_and_without_states
def test_a_task_that_was_moved_to_the_background_causes_a_turn(says_states: bool) -> None:
    scene = Scene()
    run = asked_with(
        scene,
        agent("t", is_backgrounded=False),
        frames.task_updated("t", None, is_backgrounded=True),
        says_states=says_states,
    )
    scene.cli(ends("t"))
    assert scene.end_of(run) is None
    scene.cli(follow_up("synthesis", "t"), [idle()] if says_states else [])
    assert scene.end_of(run) == "idle"


def test_housekeeping_is_not_waited_for_and_causes_no_turn() -> None:
    scene = Scene()
    run = asked_with(scene, agent("t", ambient=True), says_states=False)
    assert scene.end_of(run) == "idle"
    later = scene.ask("b", until="idle")
    scene.cli(started("b"), init("b"), agent("u", ambient=True), ends("u", ambient=True), result("answer", "b"))
    assert scene.end_of(later) == "idle"


def test_a_task_that_the_cli_does_not_know_causes_no_turn() -> None:
    scene = Scene()
    start = decode(json.dumps(agent("t")).encode())
    assert isinstance(start, TaskStartedMessage)
    scene.intake.adopt(start, checkpoint)
    run = asked_with(scene, agent("t"), says_states=False)
    assert scene.end_of(run) is None
    scene.cli(ends("t"))
    assert scene.end_of(run) == "idle"


@with_and_without_states
def test_an_agent_that_resumes_by_itself_is_waited_for_again(says_states: bool) -> None:
    scene = Scene()
    run = asked_with(scene, agent("t"), says_states=says_states)
    scene.cli(shell("b", parent_task_id="t", owned_by_subagent=True), ends("t"), follow_up("one", "t"))
    scene.cli([idle()] if says_states else [], ends("b"))
    assert scene.end_of(run) is None
    again = agent("t", run_id="1-t")
    del again["prompt"]
    scene.cli(again, agent_says("the shell is over", "t"))
    assert scene.last_runs == (run,)
    scene.cli(frames.task_updated("t") | {"run_id": "1-t"}, frames.task_notification("t", run_id="1-t"))
    assert scene.end_of(run) is None
    scene.cli([running()] if says_states else [], init(), says("two"))
    scene.cli(frames.result("two", origin={"kind": "task-notification", "runId": "1-t"}))
    scene.cli([idle()] if says_states else [])
    scene.wait(10)
    assert scene.end_of(run) == "idle"
    assert scene.results(run) == ["started", "one", "two"]


def test_an_agent_that_a_later_run_resumes_belongs_to_both() -> None:
    scene = Scene()
    first = scene.ask("a", until="idle")
    scene.cli(
        started("a"), init("a"), agent("t"), agent("u"), result("started", "a"), ends("t"), follow_up("noted", "t")
    )
    second = scene.ask("b", until="idle")
    scene.cli(started("b"), init("b"), agent("t", run_id="1-t", prompt="go on"), agent_says("more", "t"))
    assert list(scene.last_runs) == [first, second]
    scene.cli(agent_says("else", "u"))
    assert list(scene.last_runs) == [first]


def test_an_agent_that_a_later_run_resumes_does_not_keep_one_that_has_ended() -> None:
    scene = Scene()
    first = scene.ask("a")
    scene.cli(started("a"), init("a"), agent("t"), result("started", "a"), ends("t"), follow_up("noted", "t"))
    second = scene.ask("b", until="idle")
    scene.cli(started("b"), init("b"), agent("t", run_id="1-t", prompt="go on"), agent_says("more", "t"))
    assert scene.last_runs == (second,)
    scene.cli(result("asked again", "b"))
    assert (scene.end_of(first), scene.end_of(second)) == ("result", None)
    assert second.tasks == {"t"}


def test_output_of_a_monitor_is_a_turn_and_not_the_end() -> None:
    scene = Scene()
    run = asked_with(scene, shell("m"), says_states=False)
    burst = frames.result("saw it", origin={"kind": "task-notification", "producer": "session-task"})
    scene.cli(init(), says("saw it"), burst)
    assert scene.end_of(run) is None
    scene.cli(ends("m"), follow_up("over", "m"))
    assert scene.end_of(run) == "idle"
    assert scene.results(run) == ["started", "saw it", "over"]


def test_several_runs_wait_for_the_same_idle_session() -> None:
    scene = Scene()
    first = asked_with(scene, agent("t"), says_states=True)
    second = scene.ask("b", until="idle")
    scene.cli(turn("answer to b", "b"))
    assert (scene.end_of(first), scene.end_of(second)) == (None, None)
    scene.cli(ends("t"), follow_up("synthesis", "t"), idle())
    assert (scene.end_of(first), scene.end_of(second)) == ("idle", "idle")
    assert scene.results(first) == ["started", "synthesis"]
    assert scene.results(second) == ["answer to b", "synthesis"]
    assert first.tasks == {"t"}
    assert second.tasks == set()


def test_a_run_that_is_answered_and_idle_does_not_wait_for_a_queued_one() -> None:
    scene = Scene()
    first, second = scene.ask("a", until="idle"), scene.ask("b", until="idle")
    scene.cli(queued("a"), queued("b"), turn("answer to a", "a"))
    assert (scene.end_of(first), scene.end_of(second)) == ("idle", None)
    scene.cli(turn("answer to b", "b"))
    assert scene.end_of(second) == "idle"


def test_with_session_states_an_idle_run_waits_for_the_queue() -> None:
    scene = Scene()
    first, second = scene.ask("a", until="idle"), scene.ask("b")
    scene.cli(running(), queued("a"), queued("b"), turn("answer to a", "a"), turn("answer to b", "b"))
    assert (scene.end_of(first), scene.end_of(second)) == (None, "result")
    assert scene.results(first) == ["answer to a"]
    scene.cli(idle())
    assert scene.end_of(first) == "idle"


def test_a_run_whose_prompt_was_taken_back_does_not_wait_for_idle() -> None:
    scene = Scene()
    scene.ask("a")
    run = scene.ask("b", until="idle")
    scene.cli(running(), started("a"), init("a"), agent("t"), queued("b"), cancelled("b"))
    assert scene.end_of(run) == "cancelled"


def test_while_a_question_is_open_the_session_is_not_idle() -> None:
    scene = Scene()
    run = asked_with(scene, agent("t"), says_states=True)
    scene.cli(frames.session_state("requires_action"), ends("t"))
    scene.wait(60)
    assert scene.end_of(run) is None


def test_an_agent_killed_by_an_interrupt_causes_no_turn() -> None:
    scene = Scene()
    run = asked_with(scene, agent("t"), says_states=True)
    scene.cli(ends("t", "stopped"), frames.background_tasks(), idle(), agent_says("[interrupted]", "t"))
    assert scene.end_of(run) == "idle"


def test_a_task_that_an_earlier_process_left_is_reported_before_anything_else() -> None:
    scene = Scene()
    run = scene.ask("a", until="idle")
    orphan = frames.task_notification("old", "stopped")
    del orphan["run_id"]
    left = frames.result("", origin={"kind": "task-notification"}, num_turns=0)
    scene.cli(orphan, init(), left, turn("answer", "a"))
    scene.wait(FOLLOW_UP_GRACE)
    assert scene.end_of(run) == "idle"
    assert scene.results(run)[-1] == "answer"


# A CLI that says little ------------------------------------------------------------------------------------------


def test_without_uuids_and_life_cycles_results_answer_in_order() -> None:
    scene = Scene()
    first, second = scene.ask("a"), scene.ask("b", until="idle")
    scene.cli(init(), says("one"))
    assert scene.router.queued_prompts(first) == ()
    assert scene.router.queued_prompts(second) == ("b",)
    scene.cli(result("one"), init(), says("two"), result("two"))
    assert scene.results(first) == ["one"]
    assert scene.results(second) == ["two"]
    assert (scene.end_of(first), scene.end_of(second)) == ("result", "idle")


def test_without_uuids_a_turn_of_the_clis_own_still_answers_nothing() -> None:
    scene = Scene()
    run = scene.ask("a")
    scene.cli(peer_turn("hello, colleague"))
    assert scene.end_of(run) is None
    scene.cli(init(), says("answer"), result("answer"))
    assert scene.end_of(run) == "result"
    assert scene.results(run)[-1] == "answer"


def test_without_uuids_follow_up_turns_go_to_the_run_that_waits() -> None:
    scene = Scene()
    run = scene.ask("a", until="idle")
    scene.cli(init(), agent("t"), says("started"), result("started"), ends("t"), follow_up("synthesis", "t"))
    assert scene.end_of(run) == "idle"
    assert scene.results(run) == ["started", "synthesis"]


def test_without_an_init_the_first_delta_begins_the_turn() -> None:
    scene = Scene()
    first, second = scene.ask("a"), scene.ask("b")
    scene.cli(frames.stream_event({"type": "message_start", "message": frames.assistant("")["message"]}))
    assert scene.last_runs == (first,)
    scene.cli(frames.text_stream("hel", "lo"), result("hello"))
    assert scene.end_of(first) == "result"
    assert scene.end_of(second) is None


def test_a_result_alone_is_enough() -> None:
    scene = Scene()
    run = scene.ask("a")
    scene.cli(result("startup failed", subtype="error_during_execution"))
    assert scene.end_of(run) == "result"


def test_names_without_life_cycles_are_enough() -> None:
    scene = Scene()
    first, second = scene.ask("a"), scene.ask("b")
    scene.cli(init("b"), says("answer to b", "b"), result("answer to b", "b"))
    assert (scene.end_of(first), scene.end_of(second)) == (None, "result")
    assert scene.received[first] == []


def test_after_a_lifecycle_frame_of_a_prompt_nothing_is_inferred() -> None:
    scene = Scene()
    run = scene.ask("a")
    scene.cli(queued("a"), init(), says("for somebody without a uuid"), result("for somebody without a uuid"))
    assert scene.end_of(run) is None
    assert scene.texts(run) == []


# Limits ----------------------------------------------------------------------------------------------------------


def test_a_run_may_not_take_longer_than_its_limit_however_busy_it_is() -> None:
    scene = Scene()
    run = scene.ask("a", limits=RunLimits(run=10.0))
    scene.cli(started("a"), init("a"))
    for _ in range(9):
        scene.wait(1)
        scene.cli(says("still at it"))
    assert scene.end_of(run) is None
    scene.wait(5)
    assert scene.end_of(run) == "run"
    assert scene.ended_at[run] == 110.0
    assert (scene.ends[run].reason, scene.ends[run].limit) == ("timeout", 10.0)
    assert scene.ends[run].was_in_turn


@pytest.mark.parametrize("limit", RunLimits.__struct_fields__)
def test_each_limit_of_a_run_expires(limit: str) -> None:
    run = OpenRun(limits=RunLimits(**{limit: 5.0}))
    run.is_sealed, run.waiting_since = True, 0.0
    assert run.deadline(0.0, is_between_turns=True) == (5.0, limit, 5.0)
    assert limit in get_args(TimeoutKind)


def test_the_first_message_must_come_in_time() -> None:
    scene = Scene()
    slow = scene.ask("a", limits=RunLimits(first_message=5.0))
    scene.cli(queued("a"), started("a"), running(), init("a"))  # says that it was heard, not that the model works
    scene.wait(60)
    assert scene.end_of(slow) == "first_message"
    assert scene.ended_at[slow] == 105.0


def test_the_limit_of_the_first_message_ends_with_it() -> None:
    scene = Scene()
    run = scene.ask("a", limits=RunLimits(first_message=5.0))
    scene.cli(started("a"), init("a"), says("something"))
    scene.wait(60)
    assert scene.end_of(run) is None


def test_silence_counts_from_the_last_progress() -> None:
    scene = Scene()
    run = scene.ask("a", limits=RunLimits(silence=5.0))
    scene.cli(started("a"), init("a"))
    scene.wait(4)
    scene.cli(says("something"))
    scene.wait(4)
    scene.cli(frames.system("thinking_tokens", estimated_tokens=10, estimated_tokens_delta=5))
    scene.wait(60)
    assert scene.end_of(run) == "silence"
    assert scene.ended_at[run] == 113.0


def test_signs_of_life_are_no_progress() -> None:
    scene = Scene()
    run = scene.ask("a", limits=RunLimits(silence=5.0))
    scene.cli(started("a"), init("a"))
    for _ in range(4):
        scene.wait(1)
        scene.cli(frames.system("status", status="requesting"), frames.system("api_retry", attempt=1, max_retries=10))
    scene.wait(2)
    assert scene.end_of(run) == "silence"
    assert scene.ended_at[run] == 105.0


def test_the_progress_of_its_tasks_counts_for_a_run() -> None:
    scene = Scene()
    run = scene.ask("a", until="idle", limits=RunLimits(silence=5.0))
    scene.cli(started("a"), init("a"), agent("t"), result("started", "a"))
    for _ in range(4):
        scene.wait(4)
        scene.cli(frames.task_progress("t"))
    assert scene.end_of(run) is None
    scene.wait(60)
    assert scene.end_of(run) == "silence"


def test_what_others_work_on_is_no_progress_of_the_current_turn() -> None:
    scene = Scene()
    scene.ask("a", until="idle")
    scene.cli(started("a"), init("a"), frames.task_started("t"), result("done", "a"), completed("a"))
    run = scene.ask("b", limits=RunLimits(silence=5.0))
    scene.cli(started("b"), init("b"), says("hi", "b"))
    scene.wait(4.0)
    scene.cli(frames.task_progress("t"))
    scene.wait(1.5)
    assert scene.end_of(run) == "silence"


def test_an_open_question_suspends_the_limit_of_silence() -> None:
    scene = Scene()
    run = scene.ask("a", limits=RunLimits(silence=5.0, first_message=5.0))
    scene.cli(started("a"))
    scene.wait(4)
    scene.router.restart_silence(scene.now)
    scene.wait(4)
    assert scene.end_of(run) is None
    scene.wait(60)
    assert scene.ended_at[run] == 109.0


def test_a_run_that_waits_in_the_queue_is_not_held_responsible_for_the_turn_before_it() -> None:
    scene = Scene()
    busy = scene.ask("a")
    waiting = scene.ask("b", limits=RunLimits(silence=5.0, first_message=5.0))
    scene.cli(started("a"), init("a"), queued("b"))
    for _ in range(5):
        scene.wait(4)
        scene.cli(says("working"))
    scene.cli(result("done", "a"))
    assert (scene.end_of(busy), scene.end_of(waiting)) == ("result", None)
    scene.wait(60)
    assert scene.end_of(waiting) == "first_message"
    assert scene.ended_at[waiting] == 125.0
    assert not scene.ends[waiting].was_in_turn


def test_a_caller_who_takes_his_time_with_the_next_prompt_is_not_the_clis_silence() -> None:
    scene = Scene()
    run = scene.ask("a", limits=RunLimits(silence=5.0, first_message=5.0), is_sealed=False)
    scene.cli(turn("answer", "a"))
    scene.wait(600)
    assert scene.end_of(run) is None
    scene.router.add_prompt(run, "b", scene.now)
    scene.wait(4)
    assert scene.end_of(run) is None
    scene.wait(60)
    assert scene.end_of(run) == "silence"
    assert scene.ended_at[run] == 705.0


def test_a_stream_of_prompts_that_ends_late_leaves_time_for_its_tasks() -> None:
    scene = Scene()
    run = scene.ask("a", until="idle", limits=RunLimits(silence=5.0), is_sealed=False)
    scene.cli(started("a"), init("a"), agent("t"), result("started", "a"))
    scene.wait(600)
    scene.seal(run)
    scene.wait(4)
    assert scene.end_of(run) is None
    scene.wait(1)
    assert scene.end_of(run) == "silence"


def test_an_abandoned_run_affects_no_other() -> None:
    scene = Scene()
    given_up = scene.ask("a", limits=RunLimits(run=5.0))
    waiting = scene.ask("b", until="idle")
    scene.cli(started("a"), init("a"), queued("b"))
    scene.wait(5)
    assert scene.end_of(given_up) == "run"
    scene.cli(says("too late", "a"), result("too late", "a"), cancelled("a"), turn("answer to b", "b"))
    assert scene.results(waiting) == ["answer to b"]
    assert scene.end_of(waiting) == "idle"


def test_a_run_that_is_dropped_receives_nothing_more() -> None:
    scene = Scene()
    run = scene.ask("a", "b", "c")
    scene.cli(turn("one", "a"), started("b"))
    assert scene.router.queued_prompts(run) == ("c",)
    scene.router.drop_run(run)
    scene.router.drop_run(run)
    scene.router.add_prompt(run, "d", scene.now)
    assert "d" not in scene.router.prompts
    assert scene.router.queued_prompts(run) == ()
    assert run.tasks == set()
    heard = len(scene.received[run])
    scene.cli(init("b"), says("nobody listens", "b"), result("nobody listens", "b", "c"))
    assert len(scene.received[run]) == heard


# Waiting for tasks -----------------------------------------------------------------------------------------------


def test_tasks_have_so_long_from_the_result_on_and_the_run_ends_without_an_error() -> None:
    scene = Scene()
    run = scene.ask("a", until="idle", limits=RunLimits(idle=30.0))
    scene.wait(100.0)  # the answer may take longer
    scene.cli(started("a"), init("a"), shell("b1"), result("under way", "a"), completed("a"))
    scene.wait(29.0)
    assert scene.end_of(run) is None
    scene.wait(1.0)
    assert (scene.ends[run].reason, scene.ends[run].limit) == ("idle", 30.0)
    assert scene.ends[run].late_tasks == {"b1"}


def test_a_turn_comes_to_its_end_and_tasks_have_the_whole_time_again() -> None:
    scene = Scene()
    run = scene.ask("a", until="idle", limits=RunLimits(idle=30.0))
    scene.cli(started("a"), init("a"), shell("b1"), shell("b2"), result("under way", "a"), completed("a"))
    scene.wait(29.0)
    scene.cli(ends("b1"), says("b1 is done"))
    scene.wait(40.0)
    assert scene.end_of(run) is None
    scene.cli(follow_up_result("b1 is done", "b1"))
    scene.wait(29.0)
    assert scene.end_of(run) is None
    scene.wait(1.0)
    assert scene.ends[run].late_tasks == {"b2"}
    assert scene.results(run) == ["under way", "b1 is done"]


def test_a_task_that_makes_progress_has_the_whole_time_again() -> None:
    scene = Scene()
    run = scene.ask("a", until="idle", limits=RunLimits(idle=30.0))
    scene.cli(started("a"), init("a"), agent("t1"), result("under way", "a"), completed("a"))
    for _ in range(3):
        scene.wait(29.0)
        scene.cli(frames.task_progress("t1", "Reading"))
    scene.wait(29.0)
    assert scene.end_of(run) is None
    scene.wait(1.0)
    assert scene.ends[run].late_tasks == {"t1"}


def test_tasks_that_end_in_time_end_the_run_as_usual() -> None:
    scene = Scene()
    run = scene.ask("a", until="idle", limits=RunLimits(idle=30.0))
    scene.cli(turn("hello", "a"))
    assert (scene.ends[run].reason, scene.ends[run].kind, scene.ends[run].late_tasks) == ("idle", None, frozenset())


def test_waiting_for_tasks_is_reported_after_a_minute_and_then_rarely() -> None:
    scene = Scene()
    run = scene.ask("a", until="idle")
    scene.wait(500.0)
    scene.cli(started("a"), init("a"), shell("b1"), result("under way", "a"), completed("a"))
    scene.wait(2000.0)
    assert scene.waits == [RunWaits(run, seconds) for seconds in (60.0, 660.0, 1260.0, 1860.0)]
    assert scene.end_of(run) is None


# Memory


def test_an_ended_run_is_forgotten_with_its_tasks() -> None:
    scene = Scene()
    router, run = scene.router, OpenRun()
    router.open_run(run, 0.0, ["a"])
    router.seal_run(run, 0.0)
    for frame in [started("a"), shell("b1"), result("under way", "a")]:
        route(router, decode(json.dumps(frame).encode()), 0.0)
    router.settle(0.0)
    assert router.open_runs == ()
    forgotten = weakref.ref(run)
    del run
    gc.collect()
    assert forgotten() is None


def test_a_run_without_prompts_ends_when_it_is_sealed() -> None:
    scene = Scene()
    assert scene.end_of(scene.ask()) == "cancelled"


def test_runs_notice_tasks_that_ended_without_a_message() -> None:
    scene = Scene()
    run = scene.ask("p", until="idle")
    scene.cli(started("p"), init("p"), shell("b1"), result("done", "p"))
    assert not scene.router.settle(scene.now)
    scene.intake.process_exited("gone")
    (end,) = scene.router.settle(scene.now)
    assert isinstance(end, RunEnded)
    assert (end.run, end.reason, run.tasks) == (run, "idle", {"b1"})
