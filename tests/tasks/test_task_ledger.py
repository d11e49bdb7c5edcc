"""The ledger, signal by signal: starts, ends, levels, doubts, runs, parents."""

from typing import Any

import pytest
from folding import (
    Desk,
    TaskFinding,
    answer_question,
    child,
    close_question,
    kinds,
    level,
    open_question,
    shell_started,
    turn_over,
)

from claude_agent_py import TaskNotificationMessage, TaskStatus
from claude_agent_py.journal import Spent, Tokens
from claude_agent_py.messages import TaskUsage
from claude_agent_py.tasks import (
    Answered,
    Asked,
    EndedBy,
    Evidence,
    TaskFinished,
    TaskOutcome,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py.testing import frames


@pytest.fixture
def desk() -> Desk:
    return Desk()


def finished(desk: Desk, task_id: str = "a1") -> list[TaskFinished]:
    return [event for event in desk.events if isinstance(event, TaskFinished) and event.task_id == task_id]


# A whole life


def test_a_background_agent_from_start_to_end(desk: Desk) -> None:
    desk.fold(level("a1"))
    assert desk.events == []  # the start that follows says more
    assert kinds(desk.fold(frames.task_started("a1", "review"))) == ["started"]
    assert desk.status("a1") == "running"
    assert kinds(desk.fold(frames.task_progress("a1", "Running ls"))) == ["progressed"]
    ended = desk.fold(*frames.task_end("a1", summary="all good", usage={"total_tokens": 700}))
    assert kinds(ended) == ["status_changed", "finished"]
    outcome = finished(desk)[0].outcome
    assert (outcome.status, outcome.summary, outcome.evidence) == ("completed", "all good", Evidence.NOTIFICATION)
    assert outcome.usage is not None
    assert outcome.usage.total_tokens == 700
    assert outcome.failure_reason is None
    assert desk.ledger.live_ids() == frozenset()


def test_run_in_background_absent_means_background(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))  # the wire says so itself, whatever the call asked for
    assert desk.ledger.records["a1"].is_backgrounded is True


def test_the_outcome_waits_for_the_report(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))
    assert kinds(desk.fold(frames.task_updated("a1", "completed", end_time=5000))) == ["status_changed"]
    assert desk.status("a1") == "completed"
    assert desk.run("a1").outcome is None
    assert desk.ledger.live_ids() == {"a1"}  # its follow-up is still to come
    desk.fold(frames.task_notification("a1", summary="report"))
    assert desk.run("a1").outcome.summary == "report"
    assert desk.run("a1").outcome.ended_at == 5.0


def test_an_end_is_never_before_its_start(desk: Desk) -> None:
    desk.clock.now = 9000.0  # a replay: the end is by the clock of the CLI
    for task_id, usage in (("a1", {"duration_ms": 1500}), ("a2", None)):
        desk.fold(frames.task_started(task_id), frames.task_updated(task_id, "completed", end_time=5_000_000))
        desk.fold(frames.task_notification(task_id, usage=usage))
        outcome = desk.run(task_id).outcome
        assert (outcome.ended_at, outcome.duration) == (5000.0, 1.5 if usage else 0.0)


def test_a_killed_task_may_end_with_an_update_alone(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_updated("a1", "killed"))
    assert desk.status("a1") == "stopped"
    assert desk.pass_time(0.4) == []
    assert kinds(desk.pass_time(0.2)) == ["finished"]
    outcome = finished(desk)[0].outcome
    assert (outcome.status, outcome.evidence) == (TaskStatus.STOPPED, Evidence.UPDATE)


def test_a_notification_after_an_update_that_was_settled_revises_it(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_updated("a1", "failed", error="boom"))
    desk.pass_time(1)
    late = desk.fold(frames.task_notification("a1", "failed", "boom in full"))
    assert kinds(late) == ["revised"]
    assert isinstance(late[0], TaskRevised)
    assert (late[0].old.summary, late[0].outcome.summary) == ("", "boom in full")
    assert late[0].outcome.failure_reason == "boom"


def test_a_report_that_confirms_an_inferred_end_revises_it(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_updated("a1", "completed"))
    desk.pass_time(1)
    [revised] = desk.fold(frames.task_notification("a1", summary=""))
    assert isinstance(revised, TaskRevised)
    assert (revised.old.is_reported, revised.outcome.is_reported) == (False, True)


def test_a_foreground_shell_ends_with_a_notification_alone(desk: Desk) -> None:
    desk.fold(shell_started("b1", is_backgrounded=False))
    desk.fold(frames.task_notification("b1", summary="a task"))
    assert desk.status("b1") == "completed"
    assert desk.run("b1").outcome.output_file is None


def test_signals_reverse_the_last_frames(desk: Desk) -> None:
    desk.fold(shell_started("b1"), frames.task_notification("b1", "stopped", "a task"))
    assert desk.fold(frames.task_updated("b1", "killed", end_time=7000)) == []
    outcome = desk.run("b1").outcome
    assert (outcome.status, outcome.evidence, outcome.ended_at) == ("stopped", Evidence.NOTIFICATION, 7.0)


def test_the_same_notification_twice_is_one_end(desk: Desk) -> None:
    frame = frames.task_notification("a1", summary="once")
    desk.fold(frames.task_started("a1"), frame, frame, frame)
    assert len(finished(desk)) == 1
    assert kinds(desk.events).count("revised") == 0


def test_a_later_notification_replaces_an_earlier_one(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_notification("a1", "completed", "too early"))
    late = desk.fold(frames.task_notification("a1", "failed", "the truth"))
    assert kinds(late) == ["status_changed", "revised"]
    assert desk.status("a1") == "failed"


def test_a_notification_alone_describes_its_run(desk: Desk) -> None:
    desk.fold(frames.task_notification("a1", tool_use_id="toolu_9", output_file="/tmp/a1.output"))
    assert (desk.run("a1").tool_use_id, desk.run("a1").outcome.output_file) == ("toolu_9", "/tmp/a1.output")


def test_a_notification_before_the_start(desk: Desk) -> None:
    desk.fold(frames.task_notification("a1", summary="early"))
    assert kinds(desk.events) == ["finished"]
    assert desk.fold(frames.task_started("a1", "the task")) == []
    record = desk.ledger.records["a1"]
    assert (record.description, record.run.status) == ("the task", "completed")
    assert desk.ledger.live_ids() == frozenset()


@pytest.mark.parametrize(
    ("status", "summary", "reason"),
    [
        ("completed", "fine", None),
        ("failed", "exploded", "exploded"),
        ("stopped", "a task", None),  # the CLI repeats the description, which is no reason
        ("stopped", "was stopped after reaching its background time limit", "was stopped after reaching its"),
    ],
)
def test_failure_reasons(desk: Desk, status: str, summary: str, reason: str | None) -> None:
    desk.fold(frames.task_started("a1", "a task"), frames.task_notification("a1", status, summary))
    found = desk.run("a1").outcome.failure_reason
    assert found is None if reason is None else found.startswith(reason)


@pytest.mark.parametrize(
    ("summary", "code"),
    [
        ('Background command "x" completed (exit code 0)', 0),
        ('Background command "x" failed with exit code 3', 3),
        ('Background command "x" was stopped', None),
    ],
)
def test_exit_codes_of_shells_are_read_out_of_the_summary(desk: Desk, summary: str, code: int | None) -> None:
    desk.fold(shell_started("b1"), frames.task_notification("b1", "failed", summary))
    assert desk.run("b1").outcome.exit_code == code


def test_the_description_that_a_stop_repeats_is_no_report(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", "Review"), *frames.task_end("a1", "stopped", "Review"))
    desk.fold(frames.task_started("a2", "Review"), child("a2", "half of it"), child("a2", ""))
    desk.fold(*frames.task_end("a2", "stopped", "Review"))
    desk.fold(frames.task_started("a2", "Review", run_id="1-a2"))
    desk.fold(*frames.task_end("a2", "stopped", "Review", run_id="1-a2"))
    told = [event.outcome for event in desk.events if isinstance(event, TaskFinished)]
    assert [outcome.summary for outcome in told] == ["", "half of it", ""]


def test_a_subagents_report_is_not_searched_for_an_exit_code(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_notification("a1", summary="make ended with exit code 2"))
    assert desk.run("a1").outcome.exit_code is None


def test_a_status_of_a_newer_cli_ends_the_task_as_stopped(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_notification("a1", "evaporated", "gone"))
    assert desk.status("a1") == "stopped"
    assert desk.run("a1").outcome.failure_reason == "gone"


def test_a_hand_back_report_is_shown_instead_of_the_summary(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))
    desk.fold(frames.task_notification("a1", summary="frame", handback_report={"text": "the report"}))
    outcome = desk.run("a1").outcome
    assert (outcome.summary, outcome.is_report) == ("the report", True)


# Paused, waiting for the user, moved


def test_paused_and_resumed(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))
    desk.clock.now += 1
    desk.fold(frames.task_updated("a1", "paused"))
    assert (desk.status("a1"), desk.ledger.records["a1"].last_activity) == ("paused", desk.clock.now)
    desk.fold(frames.task_progress("a1"))
    assert desk.status("a1") == "paused"
    desk.fold(frames.task_updated("a1", "running"))
    assert desk.status("a1") == "running"


def test_a_permission_prompt_makes_a_task_wait_for_the_user(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))
    assert kinds(desk.caused_by(open_question, desk.intake, "r1", "a1")) == ["status_changed", "asked"]
    assert kinds(desk.caused_by(open_question, desk.intake, "r2", "a1")) == ["asked"]
    close_question(desk.intake, "r1")
    assert desk.status("a1") == "awaiting_user"
    close_question(desk.intake, "r2")
    assert desk.status("a1") == "running"
    assert desk.caused_by(close_question, desk.intake, "r2") == []


def test_only_the_first_answer_of_a_person_counts(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))
    open_question(desk.intake, "r1", "a1")
    for expected in (["answered"], []):
        assert kinds(desk.caused_by(answer_question, desk.intake, "r1", Answered({"behavior": "allow"}))) == expected


def test_a_task_that_ends_while_it_waits_for_the_user_is_done(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))
    open_question(desk.intake, "r1", "a1")
    desk.fold(frames.task_notification("a1", "stopped"))
    close_question(desk.intake, "r1")
    assert desk.status("a1") == "stopped"


def test_a_task_whose_question_was_withdrawn_runs_once_it_shows_activity(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))
    open_question(desk.intake, "r1", "a1")
    assert desk.caused_by(close_question, desk.intake, "r1", False) == []
    assert desk.status("a1") == "awaiting_user"
    desk.fold(frames.task_progress("a1"))
    assert desk.status("a1") == "running"


def test_prompts_without_a_task_are_ignored(desk: Desk) -> None:
    assert desk.caused_by(open_question, desk.intake, "r1", "unknown") == []
    assert desk.ledger.records == {}


def test_moving_to_the_background_is_one_event(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", is_backgrounded=False))
    moved = desk.fold(level("a1"), frames.task_updated("a1", None, is_backgrounded=True))
    assert kinds(moved) == ["backgrounded"]
    assert desk.ledger.records["a1"].is_backgrounded is True


# Unreported ends


def test_a_task_missing_from_the_list_is_done_after_a_grace_period(desk: Desk) -> None:
    desk.fold(level("a1"), frames.task_started("a1"), level())
    assert desk.pass_time(1.9) == []
    assert desk.status("a1") == "running"
    assert kinds(desk.pass_time(0.2)) == ["status_changed", "finished"]
    end = finished(desk)[0]
    assert (end.outcome.status, end.outcome.evidence) == ("completed", Evidence.LEVEL)
    assert not end.outcome.evidence.is_certain
    assert end.notification() == TaskNotificationMessage(
        task_id="a1", run_id="0-a1", status="completed", output_file="", summary=""
    )


def test_a_list_that_has_it_again_takes_the_doubt_away(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), level(), level("a1"))
    assert desk.pass_time(10) == []
    assert desk.status("a1") == "running"


TOOL_PROGRESS = {
    "type": "tool_progress",
    "uuid": "u",
    "session_id": "s",
    "tool_use_id": "t",
    "tool_name": "Bash",
    "parent_tool_use_id": None,
    "elapsed_time_seconds": 1,
    "task_id": "a1",
}


@pytest.mark.parametrize("progress", [frames.task_progress("a1"), TOOL_PROGRESS])
def test_activity_postpones_the_doubt_of_the_list(desk: Desk, progress: dict[str, Any]) -> None:
    desk.fold(frames.task_started("a1"), level())
    desk.clock.now += 1.5
    desk.fold(progress)
    assert desk.pass_time(1.5) == []
    assert kinds(desk.pass_time(1.0)) == ["status_changed", "finished"]


def test_the_truth_that_comes_after_an_inferred_end_wins(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), level())
    desk.pass_time(3)
    late = desk.fold(frames.task_notification("a1", "failed", "it failed"))
    assert kinds(late) == ["status_changed", "revised"]
    assert desk.run("a1").outcome.evidence is Evidence.NOTIFICATION
    assert len(finished(desk)) == 1


def test_a_sign_of_life_opens_an_inferred_end_again(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), level())
    desk.pass_time(3)
    assert kinds(desk.fold(frames.task_progress("a1"))) == ["reopened", "progressed"]
    assert desk.ledger.live_ids() == {"a1"}
    desk.fold(frames.task_notification("a1"))
    assert [event.outcome.evidence for event in finished(desk)] == [Evidence.LEVEL, Evidence.NOTIFICATION]


def test_the_list_says_nothing_of_foreground_tasks(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", is_backgrounded=False), level())
    assert desk.pass_time(60) == []


def test_a_foreground_task_ends_with_its_turn(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", is_backgrounded=False), turn_over())
    desk.pass_time(3)
    assert desk.run("a1").outcome.evidence is Evidence.RESULT


def test_a_background_task_survives_the_result(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), level("a1"), turn_over())
    assert desk.pass_time(60) == []
    assert desk.ledger.live_ids() == {"a1"}


def test_foreground_tasks_of_a_subagent_end_with_it(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), shell_started("b1", is_backgrounded=False, parent_task_id="a1"))
    desk.fold(turn_over())
    assert desk.pass_time(60) == []  # the turn of the main agent is none of its business
    desk.fold(frames.task_notification("a1"))
    desk.pass_time(3)
    assert desk.run("b1").outcome.evidence is Evidence.RESULT


def test_files_decide_where_they_can(desk: Desk) -> None:
    desk.fold(shell_started("b1"), level())
    desk.clock.now += 3
    finding = TaskFinding(Evidence.END_MARKER, TaskStatus.FAILED, exit_code=3, failure_reason="exit code 3")
    desk.ledger.resolve(desk.ledger.records["b1"], finding, desk.clock.now)
    outcome = desk.run("b1").outcome
    assert (outcome.status, outcome.evidence, outcome.exit_code) == ("failed", Evidence.END_MARKER, 3)


def test_a_stop_that_is_confirmed_but_not_followed_by_an_end(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))
    desk.ledger.suspect(desk.ledger.records["a1"], Evidence.STOP_REQUEST, desk.clock.now)
    desk.pass_time(3)
    assert (desk.status("a1"), desk.run("a1").outcome.evidence) == ("stopped", Evidence.STOP_REQUEST)


def test_the_end_of_the_process_fails_what_is_left(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_started("a2"), frames.task_notification("a2"))
    desk.fold(frames.task_started("a3"), frames.task_updated("a3", "killed"))
    desk.intake.process_exited("killed by signal 9")
    outcomes = {task_id: desk.run(task_id).outcome for task_id in desk.ledger.records}
    assert outcomes["a1"].status == "failed"
    assert outcomes["a1"].failure_reason == "killed by signal 9"
    assert outcomes["a1"].evidence is Evidence.PROCESS_EXIT
    assert outcomes["a2"].status == "completed"
    assert (outcomes["a3"].status, outcomes["a3"].evidence) == ("stopped", Evidence.UPDATE)
    assert desk.ledger.live_ids() == frozenset()


def test_tasks_of_an_earlier_process_count_as_stopped(desk: Desk) -> None:
    frame = frames.task_notification("a1", "stopped", "didn't finish before the previous session ended")
    del frame["run_id"]
    desk.fold(frame, frames.result("", origin={"kind": "task-notification"}))
    assert desk.status("a1") == "stopped"
    assert desk.run("a1").outcome.ended_by is EndedBy.PROCESS
    assert len(finished(desk)) == 1
    desk.fold(frames.task_started("a1", run_id="5-a1"))  # resumed by a message, in this process
    assert desk.status("a1") == "running"
    assert isinstance(desk.events[-1], TaskReopened)


# Runs


def test_a_resumed_task_is_a_new_run_of_the_same_task(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", prompt="first"), *frames.task_end("a1", summary="one"))
    again = desk.fold(frames.task_started("a1", run_id="1-a1", tool_use_id="toolu_send", prompt="more"))
    assert kinds(again) == ["reopened"]
    assert desk.status("a1") == "running"
    assert desk.run("a1").prompt == "more"
    desk.fold(child("a1", "working again", call="toolu_a1"))  # its messages keep the first call
    desk.fold(frames.task_notification("a1", summary="two", run_id="1-a1", tool_use_id="toolu_send"))
    assert [run.outcome.summary for run in desk.ledger.records["a1"].runs if run.outcome] == ["one", "two"]


def test_an_agent_that_its_shell_wakes_keeps_its_call_and_its_prompt(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", prompt="watch"), *frames.task_end("a1", summary="parked"))
    start = frames.task_started("a1", run_id="1-a1")
    del start["prompt"]
    desk.fold(start)
    assert (desk.run("a1").prompt, desk.run("a1").tool_use_id) == ("watch", "toolu_a1")
    assert desk.ledger.live_ids() == {"a1"}


def test_a_late_notification_of_an_earlier_run_leaves_the_current_one_alone(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_started("a1", run_id="1-a1"))
    first = desk.ledger.records["a1"].runs[0]
    assert first.outcome is not None
    assert first.outcome.evidence is Evidence.NEXT_RUN
    desk.fold(frames.task_notification("a1", "failed", "the first run failed"))
    assert first.status == "failed"
    assert desk.status("a1") == "running"
    assert desk.ledger.live_ids() == {"a1"}


def test_a_start_of_an_earlier_run_that_comes_late_is_history(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", run_id="1-a1"))
    desk.fold(frames.task_started("a1", run_id="0-a1", prompt="older"))
    active_at = desk.ledger.records["a1"].last_activity
    desk.clock.now += 1
    assert desk.fold(frames.task_updated("a1", "paused", run_id="0-a1")) == []
    assert desk.ledger.records["a1"].last_activity == active_at
    assert [run.run_id for run in desk.ledger.records["a1"].runs] == ["0-a1", "1-a1"]
    assert (desk.run("a1").run_id, desk.status("a1")) == ("1-a1", "running")
    desk.fold(frames.task_notification("a1", summary="of the older run", run_id="0-a1"))
    assert [end.outcome.summary for end in finished(desk)] == ["of the older run"]
    assert desk.status("a1") == "running"
    assert desk.ledger.live_ids() == {"a1"}


def test_a_run_whose_start_was_lost(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), *frames.task_end("a1", summary="one"))
    desk.fold(frames.task_notification("a1", summary="two", run_id="1-a1"))
    assert desk.run("a1").outcome.summary == "two"
    assert len(finished(desk)) == 2


@pytest.mark.parametrize("with_uuid", [True, False])
def test_a_repeated_start_without_run_ids_opens_nothing(desk: Desk, with_uuid: bool) -> None:
    start = frames.task_started("a1", uuid="u1" if with_uuid else "")
    del start["run_id"]
    end = frames.task_notification("a1")
    del end["run_id"]
    desk.fold(start, end, start)
    assert desk.status("a1") == "completed"


def test_without_run_ids_another_start_after_the_end_is_a_new_run(desk: Desk) -> None:
    first = frames.task_started("a1", uuid="u1")
    second = frames.task_started("a1", uuid="u2", tool_use_id="toolu_send")
    end = frames.task_notification("a1")
    for frame in (first, second, end):
        del frame["run_id"]
    desk.fold(first, end, second)
    assert desk.status("a1") == "running"
    assert len(desk.ledger.records["a1"].runs) == 2


# Parents


def test_parents_are_named_by_the_cli(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_started("a2", parent_task_id="a1", spawn_depth=2))
    assert desk.ledger.records["a2"].parent_id == "a1"
    assert desk.ledger.records["a1"].children == ("a2",)


def test_a_parent_that_becomes_known_later_has_its_children(desk: Desk) -> None:
    listed = {"task_id": "a3", "task_type": "local_agent", "description": "", "parent_task_id": "a1"}
    desk.fold(frames.task_started("a2", parent_task_id="a1"), level("a2", listed), frames.task_started("a1"))
    assert desk.ledger.records["a1"].children == ("a2", "a3")
    assert desk.ledger.records["a3"].parent_id == "a1"


def test_without_a_name_the_launching_call_shows_the_parent(desk: Desk) -> None:
    call = frames.assistant(
        [frames.tool_use_block("Agent", id="toolu_a2")], agent_id="a1", parent_tool_use_id="toolu_a1"
    )
    desk.fold(frames.task_started("a1"), call, frames.task_started("a2"))
    assert desk.ledger.records["a2"].parent_id == "a1"


def test_a_circle_of_parents_is_not_believed(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", parent_task_id="a2"), frames.task_started("a2", parent_task_id="a1"))
    assert desk.ledger.records["a1"].parent_id == "a2"
    assert desk.ledger.records["a2"].parent_id is None
    desk.fold(frames.task_started("a3", parent_task_id="a3"))
    assert desk.ledger.records["a3"].parent_id is None


# Messages of subagents


def test_a_message_of_an_unknown_subagent_makes_it_known(desk: Desk) -> None:
    desk.fold(child("a9", subagent_type="reviewer", task_description="review"))
    record = desk.ledger.records["a9"]
    assert (record.type, record.subagent_type, record.description) == ("local_agent", "reviewer", "review")
    assert desk.ledger.live_ids() == {"a9"}
    desk.fold(frames.task_notification("a9", summary="done"))
    assert len(record.runs) == 1
    assert record.run.outcome is not None


def test_messages_after_the_end_open_nothing(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), *frames.task_end("a1", "stopped"))
    straggler = frames.user(
        [{"type": "text", "text": "[Request interrupted by user]"}], agent_id="a1", parent_tool_use_id="toolu_a1"
    )
    assert desk.fold(straggler, child("a1")) == []
    assert desk.status("a1") == "stopped"


def test_progress_after_the_end_opens_nothing(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), *frames.task_end("a1", usage={"total_tokens": 9}))
    assert desk.fold(frames.task_progress("a1")) == []
    assert desk.run("a1").outcome.usage.total_tokens == 9


# Ambient


def test_ambient_tasks_are_no_activity(desk: Desk) -> None:
    desk.fold(frames.task_started("d1", ambient=True), frames.task_started("e1", skip_transcript=True))
    assert desk.ledger.live_ids() == frozenset()
    assert desk.ledger.records["d1"].is_live
    desk.fold(level({"task_id": "a1", "task_type": "dream", "description": "d", "ambient": True}))
    assert desk.ledger.live_ids() == frozenset()


# Events


def test_status_changes_are_events_in_order(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_updated("a1", "paused"), frames.task_updated("a1", "running"))
    desk.fold(*frames.task_end("a1", "failed"))
    changes = [(event.old.value, event.new.value) for event in desk.events if isinstance(event, TaskStatusChanged)]
    assert changes == [("running", "paused"), ("paused", "running"), ("running", "failed")]


def test_events_say_who_did_what_and_when(desk: Desk) -> None:
    """A subagent in the foreground runs a shell, which moves to the background and fails; then it is stopped."""
    make = frames.tool_use_block("Bash", {"command": "make"}, id="t2")
    moved = "Command running in background with ID: b1. Output is being written to: /tmp/b1.output. You"
    failed = "Command failed with exit code 2"
    used: dict[str, Any] = {"total_tokens": 900, "tool_uses": 1, "duration_ms": 9}
    asked, answered = Asked("May I?", "permission"), Answered({"behavior": "allow"}, "Ann")
    launch: dict[str, Any] = {"tool_use_id": "t1", "prompt": "look", "is_backgrounded": False}
    desk.fold(frames.task_started("a1", "Review", subagent_type="reviewer", **launch))
    desk.clock.now = 1001.0
    desk.fold(frames.assistant([make], agent_id="a1", parent_tool_use_id="t1"))
    desk.fold(shell_started("b1", "build", tool_use_id="t2", is_backgrounded=False, parent_task_id="a1"))
    desk.clock.now = 1002.0
    desk.fold(frames.task_updated("b1", None, is_backgrounded=True, description="build all"))
    desk.fold(frames.tool_result("t2", moved, agent_id="a1", parent_tool_use_id="t1"))
    desk.fold(frames.task_progress("a1", "Running make", last_tool_name="Bash", summary="half", usage=used))
    open_question(desk.intake, "r1", "a1", asked)
    desk.clock.now = 1003.0
    answer_question(desk.intake, "r1", answered)
    close_question(desk.intake, "r1")
    desk.fold(*frames.task_end("b1", "failed", failed))
    desk.fold(*frames.task_end("a1", "stopped", "Review", usage=used))

    assert [(event.kind, event.at, event.id, event.run_id, event.agent, event.author) for event in desk.events] == [
        ("started", 1000.0, "a1", "0-a1", "", ""),
        ("started", 1001.0, "b1", "0-b1", "a1", "reviewer"),
        ("backgrounded", 1002.0, "b1", "0-b1", "a1", "reviewer"),
        ("changed", 1002.0, "b1", "0-b1", "a1", "reviewer"),
        ("output_available", 1002.0, "b1", "0-b1", "a1", "reviewer"),
        ("progressed", 1002.0, "a1", "0-a1", "", "reviewer"),
        ("status_changed", 1002.0, "a1", "0-a1", "", "reviewer"),
        ("asked", 1002.0, "a1", "0-a1", "", "reviewer"),
        ("answered", 1003.0, "a1", "0-a1", "", "reviewer"),
        ("status_changed", 1003.0, "a1", "0-a1", "", "reviewer"),
        ("status_changed", 1003.0, "b1", "0-b1", "a1", "reviewer"),
        ("finished", 1003.0, "b1", "0-b1", "a1", "reviewer"),
        ("status_changed", 1003.0, "a1", "0-a1", "", ""),
        ("finished", 1003.0, "a1", "0-a1", "", ""),
    ]
    told = {name: [getattr(event, name) for event in desk.events if hasattr(event, name)] for name in FIELDS}
    usage = TaskUsage(**used, uncounted_tokens=790)
    tokens = Tokens(input=100, output=10, cache_read=0, cache_write=0)
    assert told == {
        "description": ["Review", "build", "build all"],
        "type": ["local_agent", "local_bash", "local_bash"],
        "name": ["reviewer", ""],
        "parent_id": [None, "a1", "a1"],
        "call": ["t1", "t2"],
        "prompt": ["look", None],
        "is_backgrounded": [False, False],
        "status": [TaskStatus.RUNNING, TaskStatus.RUNNING],
        "path": ["/tmp/b1.output"],
        "activity": ["Running make"],
        "last_tool_name": ["Bash"],
        "summary": ["half"],
        "usage": [usage],
        "old": ["running", "awaiting_user", "running", "running"],
        "new": ["awaiting_user", "running", "failed", "stopped"],
        "asked": [asked],
        "answered": [answered],
        "outcome": [
            TaskOutcome(
                task_id="b1",
                status=TaskStatus.FAILED,
                evidence=Evidence.NOTIFICATION,
                summary=failed,
                failure_reason=failed,
                output_file="/tmp/b1.output",
                exit_code=2,
                run_id="0-b1",
                started_at=1001.0,
                ended_at=1003.0,
                description="build all",
            ),
            TaskOutcome(
                task_id="a1",
                status=TaskStatus.STOPPED,
                evidence=Evidence.NOTIFICATION,
                usage=usage,
                run_id="0-a1",
                started_at=1000.0,
                ended_at=1003.0,
                description="Review",
                ended_by=EndedBy.PARENT,
                models={"claude-scripted": Spent(tokens=tokens, cost_usd=0.0)},
            ),
        ],
    }

    ends = [event for event in desk.events if isinstance(event, TaskFinished)]
    assert [event for event in desk.tasks.so_far() if isinstance(event, TaskFinished)] == [ends[1], ends[0]]
    assert [(event.id, event.at, event.outcome) for task in desk.tasks for event in task.list_ends()] == [
        (event.id, event.at, event.outcome) for event in (ends[1], ends[0])
    ]


FIELDS = (
    *("description", "type", "name", "parent_id", "call", "prompt", "is_backgrounded", "status", "path", "activity"),
    *("last_tool_name", "summary", "usage", "old", "new", "asked", "answered", "outcome"),
)


def test_a_task_without_a_start_message_is_announced_by_its_first_sign_of_life(desk: Desk) -> None:
    desk.fold(level("a1"), child("a1"))
    assert [type(event) for event in desk.events] == [TaskStarted]


def test_other_messages_are_none_of_its_business(desk: Desk) -> None:
    others: list[dict[str, Any]] = [
        frames.init(),
        frames.assistant("hello"),
        frames.user("hi"),
        frames.session_state("idle"),
        frames.system("something_new", task_id="a1"),
        {"type": "unheard_of"},
    ]
    assert desk.fold(*others) == []
    assert desk.ledger.records == {}


def test_a_corrected_end_is_still_counted(desk: Desk) -> None:
    desk.fold(level("a1"), frames.task_started("a1"), level())
    desk.pass_time(2.0)
    assert desk.run("a1").outcome.evidence is Evidence.LEVEL
    assert desk.run("a1") in desk.ledger.uncounted
    assert kinds(desk.fold(frames.task_notification("a1", "failed"))) == ["status_changed", "revised"]
    assert desk.run("a1") in desk.ledger.uncounted


def test_a_continuing_run_is_not_counted_before_its_end(desk: Desk) -> None:
    desk.fold(level("a1"), frames.task_started("a1"), level())
    desk.pass_time(2.0)
    desk.fold(level("a1"))
    assert not desk.ledger.uncounted
    desk.fold(frames.task_notification("a1"))
    assert desk.run("a1") in desk.ledger.uncounted
