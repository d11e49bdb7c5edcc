"""Hooks about tasks: a start, a stop that a hook may still prevent, and the list at the end of a turn."""

import pytest
from folding import Desk, child, kinds, level

from claude_agent_py.tasks import Evidence
from claude_agent_py.testing import frames

RUNNING = {"id": "a1", "type": "subagent", "status": "running", "description": ""}


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_subagent_that_a_hook_announced_is_pending_until_the_cli_sends_something_of_it(desk: Desk) -> None:
    assert desk.hook("SubagentStart", agent_id="a1", agent_type="reviewer") == []
    assert desk.status("a1") == "pending"
    assert desk.ledger.live_ids() == frozenset()
    assert kinds(desk.fold(frames.task_started("a1"))) == ["started"]
    assert desk.status("a1") == "running"
    assert desk.ledger.live_ids() == {"a1"}


def test_forks_of_the_cli_are_no_tasks(desk: Desk) -> None:
    desk.hook("SubagentStart", agent_id="a1", agent_type="")
    desk.hook("SubagentStop", agent_id="a2", agent_type="", agent_transcript_path="/tmp/agent-a2.jsonl")
    assert desk.ledger.records == {}


def test_a_stop_hook_of_a_subagent_is_only_a_hint(desk: Desk) -> None:
    desk.fold(level("a1"), frames.task_started("a1"))
    desk.hook(
        "SubagentStop",
        agent_id="a1",
        agent_type="reviewer",
        agent_transcript_path="/home/u/subagents/agent-a1.jsonl",
        last_assistant_message="my report",
    )
    record = desk.ledger.records["a1"]
    assert (record.transcript_path, record.last_text) == ("/home/u/subagents/agent-a1.jsonl", "my report")
    assert desk.pass_time(10) == []  # the CLI still lists it: another hook made it go on, perhaps
    assert desk.status("a1") == "running"


def test_activity_after_a_stop_hook_does_away_with_the_hint(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))
    desk.hook("SubagentStop", agent_id="a1", agent_type="x")
    desk.fold(child("a1", "going on"))
    assert desk.pass_time(10) == []
    assert desk.status("a1") == "running"


def test_without_a_list_the_hint_is_all_there_is(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))
    desk.hook("SubagentStop", agent_id="a1", agent_type="x", last_assistant_message="bye")
    desk.pass_time(3)
    assert desk.run("a1").outcome.evidence is Evidence.HOOK


def test_a_subagent_of_which_only_hooks_spoke_ends_with_them(desk: Desk) -> None:
    desk.fold(level())
    desk.hook("SubagentStart", agent_id="a1", agent_type="x")
    desk.hook("SubagentStop", agent_id="a1", agent_type="x")
    desk.pass_time(3)
    assert desk.status("a1") == "completed"


def test_the_list_of_a_stop_hook_makes_tasks_known(desk: Desk) -> None:
    listed = [
        {"id": "a1", "type": "subagent", "status": "running", "description": "review", "agent_type": "reviewer"},
        {"id": "b1", "type": "shell", "status": "running", "description": "make", "command": "make"},
        {"id": "w1", "type": "workflow", "status": "completed", "description": "over"},
        {"id": "x1", "type": "something new", "status": "unheard of"},
    ]
    desk.hook("Stop", stop_hook_active=False, background_tasks=listed)
    assert desk.ledger.live_ids() == {"a1", "b1"}
    agent, shell = desk.ledger.records["a1"], desk.ledger.records["b1"]
    assert (agent.type, agent.subagent_type, agent.description) == ("local_agent", "reviewer", "review")
    assert (shell.type, shell.subagent_type, shell.description) == ("local_bash", None, "make")


def test_the_list_of_a_stop_hook_opens_no_end(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_notification("a1"))
    desk.hook("Stop", background_tasks=[RUNNING])
    assert desk.status("a1") == "completed"


def test_a_task_that_the_cli_lists_as_ambient_after_a_hook_named_it_is_no_activity(desk: Desk) -> None:
    desk.hook("Stop", background_tasks=[RUNNING])
    assert desk.ledger.live_ids() == {"a1"}
    desk.fold(level({"task_id": "a1", "run_id": "0-a1", "task_type": "dream", "description": "d", "ambient": True}))
    assert desk.ledger.live_ids() == frozenset()


def test_the_end_of_a_task_that_a_hook_called_a_background_task_is_noticed(desk: Desk) -> None:
    desk.fold(level(), frames.task_updated("a1", "running"))
    desk.hook("Stop", background_tasks=[RUNNING])
    desk.fold(level())
    desk.pass_time(3)
    assert desk.run("a1").outcome.evidence is Evidence.LEVEL


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"agent_id": None, "agent_type": 5, "background_tasks": "none"},
        {"agent_id": 7, "background_tasks": [None, 1, {"id": 5}, {}]},
        {"background_tasks": [{"id": "b1", "type": 5, "description": 5, "agent_type": 10**400, "status": 5}]},
        {"agent_id": "a1", "agent_transcript_path": 5, "last_assistant_message": None},
    ],
)
@pytest.mark.parametrize("event", ["SubagentStart", "SubagentStop", "Stop", "PreToolUse", "Unheard"])
def test_odd_inputs_do_no_harm(desk: Desk, event: str, data: dict[str, object]) -> None:
    desk.hook(event, **data)
    assert desk.ledger.live_ids() == frozenset()
