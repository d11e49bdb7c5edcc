"""Tool results about tasks, and that the results of other tools are ignored."""

from typing import Any

import pytest
from folding import Announcement, Desk, OpenCalls, find_announcements, kinds, level, message, shell_started

from claude_agent_py.messages import TaskUsage
from claude_agent_py.tasks import EndedBy, Evidence
from claude_agent_py.testing import frames

ASYNC_AGENT = {
    "isAsync": True,
    "status": "async_launched",
    "agentId": "a1",
    "description": "review",
    "prompt": "look at it",
    "outputFile": "/tmp/tasks/a1.output",
}
COMPLETED_AGENT = {
    "status": "completed",
    "agentId": "a1",
    "prompt": "look at it",
    "content": [{"type": "text", "text": "<a note of the CLI>"}, {"type": "text", "text": "the report"}],
    "totalTokens": 120,
    "totalToolUseCount": 2,
    "totalDurationMs": 30,
}
SHELL = {"stdout": "", "stderr": "", "interrupted": False, "backgroundTaskId": "b1"}
SHELL_TEXT = (
    "Command running in background with ID: b1. Output is being written to: /tmp/x y/tasks/b1.output. "
    "You will be notified when it completes."
)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def call(name: str, call_id: str = "toolu_1", **fields: Any) -> dict[str, Any]:
    return frames.assistant([frames.tool_use_block(name, id=call_id)], **fields)


def result(structured: Any, text: Any = "", call_id: str = "toolu_1") -> dict[str, Any]:
    return frames.tool_result(call_id, text, tool_use_result=structured)


def test_a_foreground_shell_starts_with_its_call(desk: Desk) -> None:
    """The CLI (2.1.332) announces it only after some seconds, or at its end."""
    desk.fold(call("Bash", "toolu_1"))
    began = desk.clock.now
    desk.clock.now += 3.0
    desk.fold(shell_started("b1", tool_use_id="toolu_1", is_backgrounded=False))
    desk.fold(shell_started("b2", tool_use_id="toolu_1", is_backgrounded=True))
    desk.fold(frames.task_notification("b1"))
    assert (desk.run("b1").started_at, desk.run("b1").ended_at) == (began, began + 3.0)
    assert desk.run("b2").started_at == began + 3.0


def test_a_launched_agent_is_known_by_the_result_alone(desk: Desk) -> None:
    assert kinds(desk.fold(call("Agent"), result(ASYNC_AGENT))) == ["output_available", "started"]
    record = desk.ledger.records["a1"]
    assert (record.type, record.description, record.run.prompt) == ("local_agent", "review", "look at it")
    assert record.output_file == "/tmp/tasks/a1.output"
    assert record.is_backgrounded
    assert desk.ledger.live_ids() == {"a1"}


def test_counts_of_other_types_are_left_out(desk: Desk) -> None:
    odd = {**COMPLETED_AGENT, "totalTokens": True, "totalToolUseCount": "2"}
    desk.fold(call("Agent"), result(odd))
    assert desk.run("a1").spent.reported == TaskUsage(duration_ms=30)


def test_the_subagent_whose_call_launched_a_task_is_its_parent_and_the_call_describes_it(desk: Desk) -> None:
    block = frames.tool_use_block("Bash", {"command": "make"}, id="toolu_1")
    desk.fold(frames.assistant([block], agent_id="a1", parent_tool_use_id="toolu_a1"))
    desk.fold(frames.tool_result("toolu_1", SHELL_TEXT, tool_use_result=SHELL, agent_id="a1"))
    record = desk.ledger.records["b1"]
    assert (record.parent_id, record.description) == ("a1", "make")


def test_the_result_of_a_launch_is_no_second_start(desk: Desk) -> None:
    desk.fold(level("a1"), frames.task_started("a1", tool_use_id="toolu_1"))
    assert kinds(desk.fold(call("Agent"), result(ASYNC_AGENT))) == ["output_available"]
    assert len(desk.ledger.records["a1"].runs) == 1


def test_a_late_result_of_a_launch_opens_nothing(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", tool_use_id="toolu_1"), frames.task_notification("a1"))
    desk.fold(call("Agent"), result(ASYNC_AGENT))
    assert desk.status("a1") == "completed"
    assert desk.ledger.live_ids() == frozenset()


def test_the_result_of_a_foreground_agent_ends_it(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", is_backgrounded=False, tool_use_id="toolu_1"))
    desk.fold(call("Agent"), result(COMPLETED_AGENT))
    outcome = desk.run("a1").outcome
    assert (outcome.status, outcome.summary, outcome.evidence) == ("completed", "the report", Evidence.TOOL_RESULT)
    assert outcome.usage.total_tokens == 120


def test_the_result_of_a_foreground_agent_makes_it_known(desk: Desk) -> None:
    desk.fold(call("Agent"), result(COMPLETED_AGENT))
    record = desk.ledger.records["a1"]
    assert (record.type, record.is_backgrounded, record.run.prompt) == ("local_agent", False, "look at it")
    outcome = desk.run("a1").outcome
    assert (record.run.tool_use_id, outcome.summary) == ("toolu_1", "the report")
    assert outcome.usage == TaskUsage(total_tokens=120, tool_uses=2, duration_ms=30, uncounted_tokens=120)


def test_the_result_of_a_launch_completes_what_a_hook_said(desk: Desk) -> None:
    desk.hook("SubagentStart", agent_id="a1", agent_type="reviewer")
    desk.fold(call("Agent"), result(ASYNC_AGENT))
    assert (desk.run("a1").tool_use_id, desk.run("a1").prompt) == ("toolu_1", "look at it")
    assert len(desk.ledger.records["a1"].runs) == 1


def test_the_notification_is_better_than_the_result(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", is_backgrounded=False, tool_use_id="toolu_1"))
    desk.fold(*frames.task_end("a1", "completed", "its own words"), call("Agent"), result(COMPLETED_AGENT))
    assert desk.run("a1").outcome.summary == "its own words"
    assert kinds(desk.events).count("finished") == 1
    assert "revised" not in kinds(desk.events)


def test_the_result_of_the_first_run_does_not_end_the_second(desk: Desk) -> None:
    desk.fold(frames.task_started("a1", is_backgrounded=False, tool_use_id="toolu_1"))
    desk.fold(frames.task_started("a1", run_id="1-a1", tool_use_id="toolu_2"))
    desk.fold(call("Agent"), result(COMPLETED_AGENT))
    assert desk.status("a1") == "running"


def test_a_background_shell_and_its_output_file(desk: Desk) -> None:
    assert kinds(desk.fold(call("Bash"), result(SHELL, SHELL_TEXT))) == ["started", "output_available"]
    record = desk.ledger.records["b1"]
    assert (record.type, record.output_file) == ("local_bash", "/tmp/x y/tasks/b1.output")


def test_a_text_alone_makes_no_task_known(desk: Desk) -> None:
    echo = "Command running in background with ID: b7. Output is being written to: /etc/b7.output. You will"
    desk.fold(call("Bash"), result({"stdout": echo, "stderr": "", "interrupted": False}, echo))
    assert desk.ledger.records == {}


def test_a_text_cannot_redirect_the_output_of_another_task(desk: Desk) -> None:
    desk.fold(call("Bash"), result(SHELL, SHELL_TEXT))
    echo = "Command running in background with ID: b1. Output is being written to: /etc/b1.output. You will"
    desk.fold(call("Bash", "toolu_2"), result({"stdout": echo}, echo, "toolu_2"))
    assert desk.ledger.records["b1"].output_file == "/tmp/x y/tasks/b1.output"


def test_a_shell_in_a_subagent_has_its_path_in_the_text(desk: Desk) -> None:
    desk.fold(frames.task_started("b1", tool_use_id="toolu_1", task_type="local_bash", parent_task_id="a1"))
    desk.fold(frames.tool_result("toolu_1", SHELL_TEXT, agent_id="a1", parent_tool_use_id="toolu_a1"))
    assert desk.ledger.records["b1"].output_file == "/tmp/x y/tasks/b1.output"


def test_another_tool_cannot_speak_of_tasks(desk: Desk) -> None:
    desk.fold(call("mcp__evil__tool"), result(ASYNC_AGENT))
    desk.fold(call("Read", "toolu_2"), result(SHELL, SHELL_TEXT, "toolu_2"))
    assert desk.ledger.records == {}


def test_a_result_whose_call_was_not_seen_is_believed(desk: Desk) -> None:
    desk.fold(result(ASYNC_AGENT))
    assert desk.ledger.live_ids() == {"a1"}


def test_monitors_workflows_and_cloud_sessions(desk: Desk) -> None:
    desk.fold(call("Monitor"), result({"taskId": "b2", "timeoutMs": 60000, "persistent": False}))
    workflow = {"status": "async_launched", "taskId": "w1", "summary": "two phases"}
    desk.fold(call("Workflow", "toolu_2"), result(workflow, "", "toolu_2"))
    cloud = {"status": "remote_launched", "taskId": "r1", "sessionUrl": "https://x", "description": "far away"}
    desk.fold(call("Agent", "toolu_3"), result(cloud, "", "toolu_3"))
    other = {**workflow, "taskId": "m1", "taskType": "mcp_task", "outputFile": "/tmp/m1.output"}
    desk.fold(call("Workflow", "toolu_4"), result(other, "", "toolu_4"))
    known = {task.id: (task.type, task.description, task.tool_use_id) for task in desk.tasks}
    assert known == {
        "b2": ("local_bash", "", "toolu_1"),
        "w1": ("local_workflow", "two phases", "toolu_2"),
        "r1": ("remote_agent", "far away", "toolu_3"),
        "m1": ("mcp_task", "two phases", "toolu_4"),
    }
    assert desk.ledger.records["m1"].output_file == "/tmp/m1.output"


@pytest.mark.parametrize(
    "structured",
    [
        {"success": True, "taskId": "1", "updatedFields": ["status"]},  # the to-do list
        {"task": {"id": "1", "subject": "First"}},
        "Error: nothing",
        ["b1"],
        None,
        {"agentId": 7, "status": "async_launched"},
        {"agentId": "a1", "status": "refused"},
        {"task_id": "b1"},
        {"taskId": "x", "status": "unheard_of"},
    ],
)
def test_other_results_say_nothing(desk: Desk, structured: Any) -> None:
    assert desk.fold(call("Agent"), result(structured)) == []
    assert desk.ledger.records == {}


def test_task_stop_ends_the_stopped_task(desk: Desk) -> None:
    stopped = {"message": "Successfully stopped task: b1", "task_id": "b1", "task_type": "local_bash", "command": "x"}
    desk.fold(frames.task_started("b1", task_type="local_bash"), call("TaskStop"), result(stopped))
    outcome = desk.run("b1").outcome
    assert (outcome.status, outcome.evidence) == ("stopped", Evidence.TOOL_RESULT)
    assert outcome.failure_reason == "stopped by the model (TaskStop)"
    desk.fold(call("TaskStop", "toolu_2"), result(stopped | {"task_id": "nobody"}, "", "toolu_2"))
    assert "nobody" not in desk.ledger.records


@pytest.mark.parametrize("is_open", [True, False])
def test_an_end_while_the_model_stops_the_task_is_its_doing(desk: Desk, is_open: bool) -> None:
    stop = frames.tool_use_block("TaskStop", {"task_id": "a1"}, id="toolu_2")
    desk.fold(frames.task_started("a1"), frames.task_started("a2"), frames.assistant([stop]))
    if not is_open:
        desk.fold(frames.tool_result("toolu_2", "<tool_use_error>no</tool_use_error>", is_error=True))
    desk.fold(frames.task_notification("a2", "stopped"), frames.task_notification("a1", "stopped"))
    by_model = EndedBy.MODEL if is_open else None
    assert (desk.run("a1").outcome.ended_by, desk.run("a2").outcome.ended_by) == (by_model, None)


def test_a_message_that_resumes_an_agent_whose_start_is_lost(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_notification("a1"))
    resumed = {"success": True, "message": "Resuming agent", "resumedAgentId": "a1"}
    desk.fold(call("SendMessage", "toolu_9"), result(resumed, "", "toolu_9"))
    assert desk.status("a1") == "running"
    desk.fold(frames.task_notification("a1", summary="two", run_id="1-a1", tool_use_id="toolu_9"))
    runs = desk.ledger.records["a1"].runs
    assert [(run.run_id, run.summary) for run in runs] == [("0-a1", "done"), ("1-a1", "two")]


def test_a_message_that_resumed_an_agent_is_no_second_run(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"), frames.task_notification("a1"))
    desk.fold(frames.task_started("a1", run_id="1-a1", tool_use_id="toolu_9"))
    desk.fold(frames.task_notification("a1", run_id="1-a1", tool_use_id="toolu_9"))
    resumed = {"success": True, "message": "Resuming agent", "resumedAgentId": "a1"}
    desk.fold(call("SendMessage", "toolu_9"), result(resumed, "", "toolu_9"))
    assert desk.status("a1") == "completed"
    assert len(desk.ledger.records["a1"].runs) == 2


def test_a_message_to_a_running_agent_changes_nothing(desk: Desk) -> None:
    desk.fold(frames.task_started("a1"))
    queued = {"success": True, "message": "Message queued", "pin": {"id": "a1"}}
    assert desk.fold(call("SendMessage"), result(queued)) == []


def test_open_calls_are_bounded() -> None:
    calls = OpenCalls()
    for number in range(10_000):
        calls.add(message(call("Bash", f"toolu_{number}")), 0.0)
    assert calls.close("toolu_0") is None
    assert calls.close("toolu_9999") is not None
    assert calls.close("toolu_9999") is None


def test_the_subagent_that_made_a_call_is_known_until_its_result() -> None:
    calls = OpenCalls()
    calls.add(message(frames.assistant([frames.tool_use_block("Bash", {}, id="toolu_1")], agent_id="a1")), 0.0)
    calls.add(message(call("Bash", "toolu_2")), 0.0)
    assert [call and call.agent_id for call in map(calls.get, ("toolu_1", "toolu_2"))] == ["a1", None]
    assert calls.get(None) is None
    calls.close("toolu_1")
    assert calls.get("toolu_1") is None


def test_a_message_with_several_results() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": "x"} for n in (1, 2)]
    assert list(find_announcements(message(frames.user(blocks)), OpenCalls())) == []
    assert list(find_announcements(message(result(SHELL)), OpenCalls())) == [
        Announcement("launched", "b1", "toolu_1", type="local_bash")
    ]
