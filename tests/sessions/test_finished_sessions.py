"""What a finished session was: its tool calls, tasks and usage."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from bounds import set_bound
from stored import Stored, call

from claude_agent_py import TaskStatus
from claude_agent_py.journal import (
    CallEnded,
    CallStarted,
    MessageAdded,
    PromptSent,
    TaskFinished,
    TaskReopened,
    TaskStarted,
    TurnEnded,
    TurnStarted,
)
from claude_agent_py.messages import LocalCommandOutputMessage, TextBlock
from claude_agent_py.sessions import StoredSession, StoredTask, get_session, is_prompt
from claude_agent_py.tasks import EndedBy, Evidence
from claude_agent_py.wire import CUT_OFF, JSONObject

NOTIFICATION = """<task-notification>
<task-id>{id}</task-id>
<tool-use-id>t1</tool-use-id>
<output-file>/tmp/{id}.output</output-file>
<status>{status}</status>
<summary>{summary}</summary>
{rest}</task-notification>"""


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    stored = Stored(tmp_path)
    stored.user("go")
    return stored


def session(stored: Stored) -> StoredSession:
    return get_session(stored.id, config_dir=stored.config)


def launch_shell(stored: Stored, task_id: str, output: Path | str = "/nowhere") -> None:
    stored.assistant(call(f"call_{task_id}", command="make", run_in_background=True))
    text = f"Command running in background with ID: {task_id}. Output is being written to: {output}"
    stored.result(f"call_{task_id}", text, toolUseResult={"stdout": "", "backgroundTaskId": task_id})


def tasks(stored: Stored) -> dict[str, StoredTask]:
    return {task.id: task for task in session(stored).tasks}


def test_tool_calls_have_their_results(stored: Stored) -> None:
    stored.assistant(call("t1", command="ls"))
    stored.result("t1", "a file", toolUseResult={"stdout": "a file"})
    stored.assistant(call("t2", "Read", file_path="/x"))
    first, second = session(stored).tool_calls
    assert (first.name, first.input, first.text, first.tool_use_result) == (
        "Bash",
        {"command": "ls"},
        "a file",
        {"stdout": "a file"},
    )
    assert (second.name, second.status, second.was_cut_off) == ("Read", "cancelled", True)


def test_a_conversation_can_be_sent_to_the_api(stored: Stored) -> None:
    last = stored.assistant("forgotten")
    stored.entry("system", after=None, subtype="compact_boundary", logicalParentUuid=last, compactMetadata={})
    stored.user("summary", isCompactSummary=True)
    calls = {number: stored.assistant(call(f"t{number}"), id="msg") for number in (1, 2)}
    for number in (2, 1):
        stored.result(f"t{number}", f"result {number}", after=calls[number])
    stored.assistant("done")
    sent = session(stored).to_api_messages()
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "assistant"]
    assert sent[0]["content"] == [{"type": "text", "text": "summary"}]
    assert [block["content"] for block in sent[2]["content"]] == ["result 1", "result 2"]


def test_what_the_cli_writes_as_the_user_is_no_prompt() -> None:
    def entry(content: object, **fields: object) -> JSONObject:
        return {"type": "user", "message": {"role": "user", "content": content}, **fields}

    result = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
    assert is_prompt(entry("go"))
    assert is_prompt(entry([{"type": "text", "text": "go"}]))
    assert is_prompt(entry("summary", isCompactSummary=True, promptSource="sdk"))
    written: list[JSONObject] = [
        entry([result]), entry(""), entry([]), entry("<bash-stdout>"), entry("go", isMeta=True),
        entry("summary", isCompactSummary=True), entry("go on", promptSource="system"),
        entry("a task", origin={"kind": "task-notification"}), {"type": "assistant"},
    ]  # fmt: skip
    assert not any(map(is_prompt, written))


def test_a_resumed_session_ends_the_earlier_process_once(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    go = stored.user("go")
    for number in (1, 2):
        stored.assistant(call(f"t{number}"), id="msg")
    for number in (1, 2):
        stored.result(f"t{number}", CUT_OFF)
    answer = [{"type": "text", "text": "No response requested."}]
    stored.entry("assistant", message={"role": "assistant", "model": "<synthetic>", "content": answer})
    more = stored.user("more")
    stored.assistant("done")
    facts = [*session(stored).journal()]
    assert [fact.id for fact in facts if isinstance(fact, CallEnded) and fact.status == "cancelled"] == ["t1", "t2"]
    assert [fact.content for fact in facts if isinstance(fact, MessageAdded) and fact.content] == [
        [TextBlock(text="done")]
    ]
    assert [fact.run for fact in facts if isinstance(fact, TurnEnded)] == [go, more]


def test_a_notification_ends_a_task(stored: Stored) -> None:
    stored.assistant(call("t1", "Agent", prompt="Look"))
    launched = {"status": "async_launched", "agentId": "a1", "description": "look", "prompt": "Look"}
    stored.result("t1", "launched", toolUseResult=launched)
    rest = "<result>I <status>failed</status> saw it</result>\n<usage><subagent_tokens>7</subagent_tokens></usage>\n"
    text = NOTIFICATION.format(id="a1", status="completed", summary="Agent finished", rest=rest)
    stored.user(text, origin={"kind": "task-notification"})
    stored.agent("a1", ["Look", "I saw it"], description="look", toolUseId="t1")
    task = tasks(stored)["a1"]
    assert task.outcome is not None
    assert task.subagent is not None
    assert (task.status, task.type, task.description, task.prompt) == (
        TaskStatus.COMPLETED,
        "local_agent",
        "look",
        "Look",
    )
    assert (task.outcome.summary, task.outcome.is_report) == ("I <status>failed</status> saw it", True)
    assert task.outcome.usage is not None
    assert task.outcome.usage.total_tokens == 15  # of all requests; the CLI reports those of the last one
    assert [message.text for message in task.subagent.messages] == ["Look", "I saw it"]


def test_a_notification_may_be_a_block_of_a_message(stored: Stored) -> None:
    launch_shell(stored, "b11111111")
    told = NOTIFICATION.format(id="b11111111", status="failed", summary="exited with code 3", rest="")
    stored.user([{"type": "text", "text": told}, {"type": "image"}], origin={"kind": "task-notification"})
    assert tasks(stored)["b11111111"].status is TaskStatus.FAILED


def test_a_line_that_is_too_long_or_broken_or_has_no_content_tells_of_no_task(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "READ_LINE_BYTES", 2000)
    launch_shell(stored, "b11111111")
    told = NOTIFICATION.format(id="b11111111", status="failed", summary="exited with code 3", rest="")
    stored.user(told + "x" * 2000, origin={"kind": "task-notification"})
    stored.user(None, origin={"kind": "task-notification"}, slug=told)
    whole = stored.path.read_text()
    stored.path.write_text(f'{{"origin": {{"kind": "task-notification"}}, "message": "{NOTIFICATION!r}\n{whole}')
    outcome = tasks(stored)["b11111111"].outcome
    assert outcome is not None
    assert (outcome.status, outcome.evidence) == (TaskStatus.FAILED, Evidence.PROCESS_EXIT)


def test_a_notification_within_a_turn_counts_and_one_that_a_person_wrote_does_not(stored: Stored) -> None:
    for task_id in ("b11111111", "b22222222"):
        launch_shell(stored, task_id)
    told = [
        NOTIFICATION.format(id=task_id, status="failed", summary="exited with code 3", rest="")
        for task_id in ("b11111111", "b22222222")
    ]
    attachment = {"type": "queued_command", "prompt": told[0], "origin": {"kind": "task-notification"}}
    stored.entry("attachment", attachment=attachment)
    stored.user(told[1], origin={"kind": "human"}, slug="task-notification")
    found = tasks(stored)
    first, second = found["b11111111"].outcome, found["b22222222"].outcome
    assert first is not None
    assert second is not None
    assert (first.status, first.exit_code, first.evidence) == (TaskStatus.FAILED, 3, Evidence.NOTIFICATION)
    assert (second.status, second.evidence) == (TaskStatus.FAILED, Evidence.PROCESS_EXIT)
    assert second.failure_reason == "the CLI process ended before the task"


def test_prompts_within_a_turn_and_the_output_of_commands_are_told(stored: Stored) -> None:
    stored.assistant("First,")
    for number, more in enumerate([{}, {"origin": {"kind": "human"}}, {"origin": {"kind": "coordinator"}}]):
        queued = {"type": "queued_command", "commandMode": "prompt", "prompt": f"and {number}?", **more}
        stored.entry("attachment", attachment={**queued, "source_uuid": f"within {number}"})
    stored.assistant("second.")
    command = stored.user("<command-name>/cost</command-name>")
    stored.entry("system", subtype="local_command", content="<local-command-stdout>$1</local-command-stdout>")
    events = list(session(stored).events())
    prompts = [event for event in events if isinstance(event, PromptSent)]
    assert [prompt.content for prompt in prompts[1:3]] == ["and 0?", "and 1?"]
    assert [prompt.id for prompt in prompts[1:]] == ["within 0", "within 1", command]
    assert len([event for event in events if isinstance(event, TurnStarted)]) == 2
    assert [event.content for event in events if isinstance(event, LocalCommandOutputMessage)] == ["$1"]


def test_a_turn_that_reached_the_maximum_of_api_calls_is_an_error(stored: Stored) -> None:
    for number in (1, 2):
        if number > 1:
            stored.user("go on")
        stored.assistant(call(f"t{number}"))
        stored.result(f"t{number}", "done")
        stored.entry("attachment", attachment={"type": "max_turns_reached", "maxTurns": 1, "turnCount": 2})
    ends = [fact for fact in session(stored).journal() if isinstance(fact, TurnEnded)]
    assert [(end.status, end.error) for end in ends] == [("error", "Reached maximum number of turns (1)")] * 2
    assert not [event for event in session(stored).events() if "Stopped" in type(event).__name__]


@pytest.mark.parametrize("note", ["hook_stopped_continuation", "structured_output"])
def test_a_turn_that_ends_with_its_calls_is_no_error_if_the_cli_notes_why(stored: Stored, note: str) -> None:
    stored.assistant(call("t1"), call("t2"))
    stored.entry("attachment", attachment={"type": note, "toolUseID": "t1"})
    for name in ("t1", "t2"):
        stored.result(name, "done")
    facts = list(session(stored).journal())
    assert [fact.status for fact in facts if isinstance(fact, TurnEnded)] == ["ok"]
    assert [fact.status for fact in facts if isinstance(fact, CallEnded)] == ["succeeded"] * 2


def test_a_task_that_the_cli_says_was_cut_off_has_that_as_its_reason(stored: Stored) -> None:
    launch_shell(stored, "b11111111")
    told = "Background shell command didn't finish before the previous session ended"
    text = NOTIFICATION.format(id="b11111111", status="stopped", summary=told, rest="")
    stored.user(text, origin={"kind": "task-notification"})
    outcome = tasks(stored)["b11111111"].outcome
    assert outcome is not None
    assert (outcome.status, outcome.failure_reason, outcome.ended_by) == (TaskStatus.FAILED, told, EndedBy.PROCESS)


def test_a_subagent_that_ended_without_a_report_has_its_last_text(stored: Stored) -> None:
    stored.assistant(call("t1", "Agent", prompt="Look"))
    launched = {"status": "async_launched", "agentId": "a1", "description": "look", "prompt": "Look"}
    stored.result("t1", "launched", toolUseResult=launched)
    text = NOTIFICATION.format(id="a1", status="stopped", summary="look", rest="")
    stored.user(text, origin={"kind": "task-notification"})
    stored.agent("a1", ["Look", "so far"], description="look", toolUseId="t1")
    task = tasks(stored)["a1"]
    assert task.outcome is not None
    assert (task.status, task.outcome.summary, task.is_backgrounded) == (TaskStatus.STOPPED, "so far", True)


def test_the_facts_of_a_subagent_come_between_its_call_and_its_end(stored: Stored) -> None:
    stored.assistant(call("t1", "Agent", prompt="Look"))
    launched = {"status": "async_launched", "agentId": "a1", "description": "look", "prompt": "Look"}
    stored.result("t1", "launched", toolUseResult=launched)
    rest = "<result>seen</result>\n"
    text = NOTIFICATION.format(id="a1", status="completed", summary="Agent finished", rest=rest)
    stored.user(text, origin={"kind": "task-notification"})
    stored.agent("a1", ["Look", "seen"], description="look", toolUseId="t1", requestShape="background")
    stored.agent("a2", ["Help", "helped"], description="help", toolUseId="lost", finished=True)
    facts = list(session(stored).journal())
    told = [
        (fact.fact, fact.id) for fact in facts if isinstance(fact, CallStarted | CallEnded | TaskStarted | TaskFinished)
    ]
    assert list(dict.fromkeys(told)) == [
        ("call_started", "t1"),
        ("task_started", "a1"),
        ("call_ended", "t1"),
        ("task_finished", "a1"),
        ("task_started", "a2"),
        ("task_finished", "a2"),
    ]
    assert [fact.agent for fact in facts if isinstance(fact, MessageAdded)] == ["", "a1", "a2"]
    reported = {fact.task_id: fact.outcome.is_reported for fact in facts if isinstance(fact, TaskFinished)}
    assert reported == {"a1": True, "a2": False}


def test_the_journal_until_a_time_is_that_of_the_session_as_it_was_then(stored: Stored) -> None:
    launch_shell(stored, "b1")
    stored.assistant(call("t1", command="ls"))
    before = list(session(stored).journal())
    stored.result("t1", "a file")
    stored.user("again")
    later = Stored(stored.config)
    later.path = stored.agent("a1", [], description="look")
    later.user("Look", isSidechain=True, agentId="a1", timestamp="2026-01-02T00:00:00.000Z")
    found = session(stored)
    assert [fact.content for fact in found.journal() if isinstance(fact, PromptSent)] == ["go", "again"]
    until = next(fact.at for fact in found.journal() if isinstance(fact, CallEnded) and fact.id == "t1")
    assert until is not None
    found = session(stored)
    assert list(found.journal(until=until)) == before
    assert found.tasks == session(stored).tasks


def test_a_subagent_that_its_call_waits_for_lasts_from_its_prompt_to_its_report(stored: Stored) -> None:
    stored.assistant(call("t1", "Agent", prompt="Look"))
    completed = {"status": "completed", "agentId": "a1", "content": [{"type": "text", "text": "seen"}]}
    stored.result("t1", "seen", toolUseResult=completed)
    stored.agent("a1", ["Look", "seen"], toolUseId="t1", requestShape="foreground")
    task = tasks(stored)["a1"]
    assert task.outcome is not None
    assert (task.is_backgrounded, task.prompt, task.outcome.summary) == (False, "Look", "seen")
    assert task.outcome.duration == 2.0


def test_each_run_of_a_resumed_subagent_has_its_end(stored: Stored) -> None:
    stored.assistant(call("t1", "Agent", prompt="Look"))
    launched = {"status": "async_launched", "agentId": "a1", "description": "look", "prompt": "Look"}
    stored.result("t1", "launched", toolUseResult=launched)
    runs = {"t2": ("0mx0o77do-5daa6385", "seen"), "t3": ("0mx0o77xq-5848daac", "seen again")}
    for next_call, (run_id, report) in runs.items():
        text = NOTIFICATION.format(id="a1", status="completed", summary="", rest=f"<result>{report}</result>\n")
        stored.user(text, origin={"kind": "task-notification", "runId": run_id})
        stored.assistant(call(next_call, "SendMessage", to="a1", message="Look again"))
        stored.result(next_call, "resumed", toolUseResult={"success": True, "resumedAgentId": "a1"})
    facts = list(session(stored).journal())
    started = {fact.id: (fact.prompt, fact.call) for fact in facts if isinstance(fact, TaskStarted | TaskReopened)}
    assert started == {"a1": ("Look", "t1"), "a1#2": ("Look again", "t2"), "a1#3": ("Look again", "t3")}
    ends = {fact.id: fact.outcome for fact in facts if isinstance(fact, TaskFinished)}
    ended = {run: (outcome.status, outcome.summary) for run, outcome in ends.items()}
    assert ended == {"a1": ("completed", "seen"), "a1#2": ("completed", "seen again"), "a1#3": ("failed", "")}
    assert [fact.causes for fact in facts if isinstance(fact, TurnStarted)] == [(), ("a1",), ("a1#2",)]


def test_the_transcript_of_a_subagent_tells_of_its_runs(stored: Stored) -> None:
    """Also without notes of the CLI, and where no entry names the subagent, as other programs write it."""
    told = NOTIFICATION.format(id="a1", status="completed", summary="", rest="<result>seen</result>\n")
    stored.user(told, origin={"kind": "task-notification"})
    agent = Stored(stored.config)
    agent.path = stored.agent("a1", [])
    for prompt, report in (("Look", "seen"), ("Look again", "seen again")):
        agent.user(prompt, isSidechain=True)
        message = {"id": report, "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        content = [{"type": "text", "text": report}]
        agent.entry("assistant", isSidechain=True, message={**message, "content": content})
    facts = list(session(stored).journal())
    started = [(fact.id, fact.prompt) for fact in facts if isinstance(fact, TaskStarted | TaskReopened)]
    assert started == [("a1", "Look"), ("a1#2", "Look again")]
    assert [fact.agent for fact in facts if isinstance(fact, MessageAdded)] == ["a1", "a1"]


def test_a_subagent_whose_transcript_was_removed_is_a_task_that_nobody_prompted(stored: Stored) -> None:
    stored.assistant(call("t1", "Agent", prompt="Look"))
    path = stored.agent("a1", ["Look", "seen"], toolUseId="t1", description="look")
    found = session(stored)
    assert [agent.agent_id for agent in found.subagents] == ["a1"]
    path.unlink()
    [task] = found.tasks
    assert (task.id, task.description, task.status) == ("a1", "look", TaskStatus.FAILED)


def test_what_a_subagent_is_told_before_its_first_message_does_not_begin_it(stored: Stored) -> None:
    launch_shell(stored, "b11111111")
    agent = Stored(stored.config)
    agent.path = stored.agent("a1", [])
    told = NOTIFICATION.format(id="b11111111", status="completed", summary="done", rest="")
    attachment = {"type": "queued_command", "prompt": told, "origin": {"kind": "task-notification"}}
    agent.entry("attachment", isSidechain=True, agentId="a1", attachment=attachment)
    agent.user("Look", isSidechain=True, agentId="a1")
    found = tasks(stored)
    assert found["b11111111"].status is TaskStatus.COMPLETED
    assert found["a1"].prompt == "Look"


def test_the_model_that_stopped_a_task_is_the_cause_of_its_end(stored: Stored) -> None:
    launch_shell(stored, "b11111111")
    stored.assistant(call("t2", "TaskStop", task_id="b11111111"))
    stored.result("t2", "stopped", toolUseResult={"task_id": "b11111111", "task_type": "local_bash"})
    outcome = tasks(stored)["b11111111"].outcome
    assert outcome is not None
    assert (outcome.status, outcome.evidence, outcome.ended_by) == (
        TaskStatus.STOPPED,
        Evidence.TOOL_RESULT,
        EndedBy.MODEL,
    )


def test_the_notification_about_a_subagent_that_the_model_stopped_is_about_its_run(stored: Stored) -> None:
    stored.assistant(call("t1", "Agent", prompt="Look"))
    stored.result("t1", "launched", toolUseResult={"status": "async_launched", "agentId": "a1", "description": "look"})
    stored.agent("a1", ["Look"], description="look", toolUseId="t1")
    stored.assistant(call("t2", "TaskStop", task_id="a1"))
    stored.result("t2", "stopped", toolUseResult={"task_id": "a1", "task_type": "local_agent"})
    told = NOTIFICATION.format(id="a1", status="killed", summary="It was stopped by Claude", rest="")
    stored.user(told, origin={"kind": "task-notification", "runId": "0-a1"})
    assert [fact.id for fact in session(stored).journal() if isinstance(fact, TaskFinished)] == ["a1"]
    outcome = tasks(stored)["a1"].outcome
    assert outcome is not None
    assert (outcome.status, outcome.evidence, outcome.ended_by, outcome.run_id) == (
        *(TaskStatus.STOPPED, Evidence.NOTIFICATION),
        *(EndedBy.MODEL, "0-a1"),
    )


def test_a_monitor_that_expired_was_stopped(stored: Stored) -> None:
    stored.assistant(call("t1", "Monitor", command="make"))
    stored.result("t1", "Monitor started", toolUseResult={"taskId": "b11111111", "timeoutMs": 20_000})
    expired = "<event>[Monitor expired after 20s with 0 events delivered.]</event>\n</task-notification>"
    told = f"<task-notification>\n<task-id>b11111111</task-id>\n<summary>Monitor event</summary>\n{expired}"
    stored.user(told, origin={"kind": "task-notification"})
    assert tasks(stored)["b11111111"].status is TaskStatus.STOPPED


def test_what_a_monitor_sees_does_not_end_it(stored: Stored) -> None:
    stored.assistant(call("t1", "Monitor", command="make"))
    stored.result("t1", "Monitor started", toolUseResult={"taskId": "b11111111", "timeoutMs": 20_000})
    seen = "<task-id>b11111111</task-id>\n<summary>Monitor event</summary>\n<event>a <status>failed</status></event>\n"
    stored.user(f"<task-notification>\n{seen}</task-notification>", origin={"kind": "task-notification"})
    told = NOTIFICATION.format(id="b11111111", status="completed", summary="It ended", rest="<event>the last</event>")
    stored.user(told, origin={"kind": "task-notification", "runId": "0-b1"})
    assert [fact.id for fact in session(stored).journal() if isinstance(fact, TaskFinished)] == ["b11111111"]
    outcome = tasks(stored)["b11111111"].outcome
    assert outcome is not None
    assert (outcome.status, outcome.summary, outcome.run_id) == (TaskStatus.COMPLETED, "It ended", "0-b1")


def test_tasks_of_subagents_have_their_parents(stored: Stored) -> None:
    stored.assistant(call("t1", "Agent", prompt="Look"))
    above = Stored(stored.config)
    above.path = stored.agent("a1", ["Look"], description="above", toolUseId="t1")
    above.assistant(call("t2", "Agent"), isSidechain=True, agentId="a1", after=None)
    above.assistant(call("t3", command="make"), isSidechain=True, agentId="a1")
    shell = "Command running in background with ID: b11111111. Output is being written to: /nowhere"
    launched = {"stdout": "", "backgroundTaskId": "b11111111"}
    above.result("t3", shell, toolUseResult=launched, isSidechain=True, agentId="a1")
    stored.agent("a2", ["Look deeper", "seen"], description="below", toolUseId="t2")
    found = tasks(stored)
    assert {task.id: task.parent_id for task in found.values()} == {"a1": None, "a2": "a1", "b11111111": "a1"}
    assert found["a2"].outcome is not None
    assert found["a2"].outcome.usage is not None
    assert found["a2"].outcome.usage.total_tokens == 15


def test_the_shells_of_subagents_are_known_by_the_texts_of_their_results_alone(stored: Stored, tmp_path: Path) -> None:
    output = tmp_path / "b11111111.output"
    output.write_text("half\n\n[killed]\n")
    above = Stored(stored.config)
    above.path = stored.agent("a1", ["Look"])
    own: dict[str, Any] = {"isSidechain": True, "agentId": "a1"}
    above.assistant(call("t1", command="make", run_in_background=True), call("t2", command="cat log"), **own)
    text = f"Command running in background with ID: b11111111. Output is being written to: {output}. You will be told."
    above.result("t1", text, **own)
    above.result("t2", text.replace("b11111111", "b22222222"), **own)
    found = tasks(stored)
    assert list(found) == ["a1", "b11111111"]
    shell = found["b11111111"]
    assert (shell.status, shell.parent_id, shell.description, shell.tool_use_id, shell.output_file) == (
        *(TaskStatus.STOPPED, "a1", "make", "t1"),
        str(output),
    )
    [start] = [each for each in session(stored).journal() if isinstance(each, TaskStarted) and each.agent == "a1"]
    assert start.is_backgrounded


def test_files_tell_how_a_task_ended_that_nobody_reported(stored: Stored, tmp_path: Path) -> None:
    output = tmp_path / "b11111111.output"
    output.write_text("hello\n[exited with code 0]\n")
    launch_shell(stored, "b11111111", output)
    stored.agent("a1", ["Look", "done"], finished=True)
    found = tasks(stored)
    ends = {task_id: task.outcome and (task.status, task.outcome.evidence) for task_id, task in found.items()}
    assert ends == {
        "b11111111": (TaskStatus.COMPLETED, Evidence.END_MARKER),
        "a1": (TaskStatus.COMPLETED, Evidence.TRANSCRIPT),
    }
    assert found["b11111111"].output_file == str(output)


@pytest.mark.parametrize(
    ("stop_reason", "status"), [("end_turn", TaskStatus.COMPLETED), ("tool_use", TaskStatus.FAILED)]
)
def test_the_last_message_tells_how_the_subagent_of_a_skill_ended(
    stored: Stored, stop_reason: str, status: TaskStatus
) -> None:
    above = Stored(stored.config)
    above.path = stored.agent("a1", ["Look"], agentType="general-purpose", requestShape="foreground")
    message = {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "Seen."}]}
    above.entry("assistant", message={**message, "stop_reason": stop_reason}, isSidechain=True, agentId="a1")
    found = tasks(stored)["a1"]
    assert found.outcome is not None
    assert (found.status, found.outcome.summary) == (status, "Seen.")


def test_a_subagent_that_was_interrupted_was_stopped_with_the_turn_that_waited_for_it(stored: Stored) -> None:
    stored.assistant(call("t1", "Agent", prompt="Look"))
    above = Stored(stored.config)
    above.path = stored.agent("a1", ["Look", "I look"], toolUseId="t1", requestShape="foreground")
    above.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}], isSidechain=True, agentId="a1")
    stored.result("t1", "interrupted")
    outcome = tasks(stored)["a1"].outcome
    assert outcome is not None
    assert (outcome.status, outcome.ended_by, outcome.summary) == (TaskStatus.STOPPED, EndedBy.PARENT, "I look")


def test_a_tool_of_somebody_else_cannot_speak_of_tasks(stored: Stored) -> None:
    stored.assistant(call("t1", "mcp__x__y"))
    stored.result("t1", "done", toolUseResult={"backgroundTaskId": "b11111111"})
    assert session(stored).tasks == []


def test_usage_counts_each_answer_once(stored: Stored) -> None:
    for text in ("a", "b"):
        stored.assistant(text, id="msg_1")
    stored.assistant("c", id="msg_2")
    stored.agent("a1", ["Look", "done"])
    stored.note("cost-state", totalCostUSD=0.5, modelUsage={"m": {"inputTokens": 99, "costUSD": 0.5}})
    usage = session(stored).usage
    assert (usage.total.input_tokens, usage.total.output_tokens) == (30, 15)
    assert list(usage.by_model) == ["m"]
    assert (usage.cost_usd, usage.reported["m"].input_tokens) == (0.5, 99)


@pytest.mark.parametrize("first", ["tool_calls", "tasks", "usage"])
def test_one_pass_over_the_transcripts_gives_the_tasks_and_the_usage(stored: Stored, first: str) -> None:
    launch_shell(stored, "b1")
    stored.agent("a1", ["look", "seen"], toolUseId="nowhere")
    one = session(stored)
    getattr(one, first)
    shutil.rmtree(stored.config)
    assert [task.id for task in one.tasks] == ["b1", "a1"]
    assert one.usage.total.output_tokens == 10
