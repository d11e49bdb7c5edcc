"""Transcripts of subagents: their messages, and what they say about an end."""

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from bounds import set_bound
from folding import Counted, TaskFinding, child, intake_of, shell_started, track_hook, tracking

from claude_agent_py import AssistantMessage, TaskManager, TaskStatus, UnknownBlock, UserMessage
from claude_agent_py.errors import TaskOutputError
from claude_agent_py.tasks import Evidence
from claude_agent_py.tasks.files.paths import Paths, project_slug
from claude_agent_py.tasks.files.task_file import TaskFile
from claude_agent_py.tasks.files.transcript import inspect_transcript, parse_entry, read_notes, read_transcript
from claude_agent_py.tasks.reconcile import _count_each
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio

RECORDED = Path(__file__).parent / "transcripts"
OUTER, INNER, FAILED, STOPPED = "ae71ede37b9cf8f78", "ab70b7f13d920ddec", "a7688ee10904ba3ac", "abd5d86cc1d6fe502"


def recorded(agent_id: str) -> str:
    return str(RECORDED / f"agent-{agent_id}.jsonl")


def entry(kind: str, content: Any, **fields: Any) -> str:
    """One line of a transcript."""
    message = {"role": kind, "content": content} | fields.pop("message", {})
    return json.dumps({"type": kind, "message": message, "uuid": "u", "sessionId": "s", **fields}) + "\n"


# Counting


def test_a_missing_directory_is_looked_for_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looked: list[str] = []

    def isdir(path: str) -> bool:
        looked.append(path)
        return Path(path).exists()

    monkeypatch.setattr("os.path.isdir", isdir)
    missing, there = tmp_path / "missing", tmp_path / "there"
    there.mkdir()
    files = [[TaskFile(f"{missing}/agent-{n}.jsonl"), TaskFile(f"{there}/\0{n}")] for n in range(9)]
    assert _count_each(files, [[]] * 9) == [None] * 9
    assert looked == [str(missing)]
    files = [[TaskFile(f"{there}/agent-1.jsonl")], [], [TaskFile(f"{there}/\0")]]
    found = _count_each(files, [[1.0, 2.0], [], []])
    assert found == [Counted(by_run=[Counted(), Counted()]), None, None]


# Reading


def test_only_messages_are_read() -> None:
    messages = list(read_transcript(TaskFile(recorded(OUTER)), parent_tool_use_id="toolu_x"))
    assert [type(message) for message in messages[:3]] == [UserMessage, AssistantMessage, AssistantMessage]
    assert messages[0].text == "AG-OUT"
    assert messages[-1].text == "outer report"
    assert {message.agent_id for message in messages} == {OUTER}
    assert {message.parent_tool_use_id for message in messages} == {"toolu_x"}
    assert all(message.uuid and message.session_id and message.timestamp for message in messages)
    calls = [use.name for message in messages if isinstance(message, AssistantMessage) for use in message.tool_uses]
    assert calls == ["Bash", "Agent"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b'"message"',
        b'[{"message": 1}]',
        b'{"type":"user"}',
        b'{"type":"user","message":{"role":"robot","content":"x"}}',
        b'{"type":"attachment","message":{"role":"user","content":"x"}}',
        b'{"type":7,"message":{"role":"user","content":"x"}}',
        b'\xff\xfe "message"',
    ],
)
def test_a_line_that_is_no_message_is_skipped(line: bytes) -> None:
    assert parse_entry(line) is None


def test_an_unknown_block_with_a_replacement_character_is_a_message() -> None:
    block = {"type": "hologram", "text": "\ufffd"}
    message = parse_entry(
        json.dumps({"type": "user", "message": {"role": "user", "content": [block]}}, ensure_ascii=False).encode()
    )
    assert message is not None
    assert message.content == [UnknownBlock(raw=block)]


def test_the_notes_next_to_a_transcript_are_read() -> None:
    outer, stopped = (read_notes(TaskFile(recorded(agent))) for agent in (OUTER, STOPPED))
    assert outer is not None
    assert stopped is not None
    assert (outer.is_finished, outer.was_stopped) == (True, False)
    assert (stopped.is_finished, stopped.was_stopped) == (False, True)


@pytest.mark.parametrize(("content"), [None, "", "[]", "{", "7"])
def test_notes_that_cannot_be_read_are_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "agent-a1.meta.json").write_text(content)
    assert read_notes(TaskFile(str(tmp_path / "agent-a1.jsonl"))) is None


# What it says about the end


@pytest.mark.parametrize(
    ("agent_id", "status", "summary"),
    [
        (OUTER, TaskStatus.COMPLETED, "outer report"),
        (FAILED, TaskStatus.FAILED, "API Error: 400 boom"),
        (STOPPED, TaskStatus.STOPPED, ""),
    ],
)
def test_recorded_ends(agent_id: str, status: TaskStatus, summary: str) -> None:
    finding = inspect_transcript(TaskFile(recorded(agent_id)))
    assert finding is not None
    assert (finding.evidence, finding.status, finding.summary) == (Evidence.TRANSCRIPT, status, summary)


def test_an_agent_that_runs_has_notes_that_do_not_say_finished(tmp_path: Path) -> None:
    shutil.copy(recorded(OUTER), tmp_path / "agent-a1.jsonl")
    (tmp_path / "agent-a1.meta.json").write_text('{"agentType":"x"}')
    assert inspect_transcript(TaskFile(str(tmp_path / "agent-a1.jsonl"))) == TaskFinding(Evidence.TRANSCRIPT)


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([entry("user", "go")], None),
        ([entry("assistant", [{"type": "text", "text": "hm"}])], None),
        ([entry("assistant", [{"type": "text", "text": "done"}], message={"stop_reason": "end_turn"})], "completed"),
        (
            [
                entry(
                    "assistant",
                    [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}],
                    message={"stop_reason": "tool_use"},
                )
            ],
            None,
        ),
        ([entry("user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}])], "stopped"),
        ([entry("assistant", [{"type": "text", "text": "API Error"}], isApiErrorMessage=True)], "failed"),
    ],
)
def test_without_notes_the_last_message_has_to_do(tmp_path: Path, lines: list[str], status: str | None) -> None:
    path = tmp_path / "agent-a1.jsonl"
    path.write_text("".join(lines))
    finding = inspect_transcript(TaskFile(str(path)))
    assert finding is not None
    assert finding.status == (None if status is None else TaskStatus(status))


def test_nothing_to_look_at(tmp_path: Path) -> None:
    assert inspect_transcript(TaskFile(str(tmp_path / "agent-a1.jsonl"))) is None


def test_only_the_end_of_a_long_transcript_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "agent-a1.jsonl"
    last = entry("assistant", [{"type": "text", "text": "the end"}], message={"stop_reason": "end_turn"})
    path.write_text(entry("user", "x" * 1000) * 2000 + last)
    finding = inspect_transcript(TaskFile(str(path)))
    assert finding is not None
    assert (finding.status, finding.summary) == (TaskStatus.COMPLETED, "the end")


# From the task


def recorded_tree(tmp_path: Path) -> TaskManager:
    """The recorded agents as tasks, with the files where the CLI has them."""
    subagents = tmp_path / "projects" / project_slug("/home/user/work") / "session" / "subagents"
    shutil.copytree(RECORDED, subagents)
    manager = TaskManager(config_dir=tmp_path)
    tracking(manager, frames.init() | {"cwd": "/home/user/work", "session_id": "session"})
    tracking(manager, frames.task_started(OUTER, "outer", tool_use_id="toolu_outer"))
    return tracking(manager, frames.task_started(INNER, "inner", parent_task_id=OUTER, spawn_depth=2))


async def test_the_transcript_of_a_task_has_the_nested_ones_in_order_of_time(tmp_path: Path) -> None:
    manager = recorded_tree(tmp_path)
    messages = await manager[OUTER].transcript()
    assert {message.agent_id for message in messages} == {OUTER, INNER}
    texts = [message.text for message in messages if message.text]
    assert texts.index("AG-IN") < texts.index("inner report") < texts.index("outer report")
    own = await manager[OUTER].transcript(nested=False)
    assert {message.agent_id for message in own} == {OUTER}
    assert own[0].parent_tool_use_id == "toolu_outer"


async def test_a_nested_agent_without_messages_is_left_out(tmp_path: Path) -> None:
    manager = recorded_tree(tmp_path)
    whole = await manager[OUTER].transcript()
    [path] = tmp_path.rglob(f"agent-{INNER}.jsonl")
    path.unlink()
    assert await manager[OUTER].transcript() == [message for message in whole if message.agent_id == OUTER]


def finished_agent(path: Path, report: str) -> TaskManager:
    """An agent whose transcript has only its prompt so far."""
    path.write_text(entry("user", "do it"))
    end = frames.task_notification("a1", "completed", summary=report, output_file=str(path))
    return tracking(TaskManager(), frames.task_started("a1", "Review"), end)


def write_report(path: Path, report: str, **fields: Any) -> None:
    with path.open("a") as file:
        file.write(entry("assistant", [{"type": "text", "text": report}], **fields))


async def test_the_transcript_of_an_agent_that_just_ended_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "ENTRY_DELAY", 0.0)
    set_bound(monkeypatch, "REPORT_DELAY", 3600.0)
    path = tmp_path / "agent-a1.jsonl"
    task = finished_agent(path, "the report")["a1"]
    read: list[str] = []

    async def read_all() -> None:
        read.extend([message.text for message in await task.transcript()])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as workers:
            workers.start_soon(read_all)
            await anyio.sleep(0.2)  # longer than one look; whether it is long enough decides nothing
            write_report(path, "the report")
    assert read == ["do it", "the report"]


async def test_following_a_subagent_waits_for_the_report_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier run ended with the same words, so that only the times tell that the latest are missing."""
    set_bound(monkeypatch, "ENTRY_DELAY", 0.0)
    set_bound(monkeypatch, "REPORT_DELAY", 3600.0)
    path = tmp_path / "agent-a1.jsonl"
    final = {"stop_reason": "end_turn"}
    path.write_text(entry("user", "do it"))
    write_report(path, "done", timestamp="2026-01-01T00:00:00.000Z", message=final)
    manager = tracking(TaskManager(), frames.task_started("a1", "Review", run_id="0mwog4bqn-b5295008"))
    told: dict[str, Any] = {
        "summary": "done",
        "output_file": str(path),
        "run_id": "0mwog4bqn-b5295008",
        "summary_is_report": True,
    }
    tracking(manager, frames.task_notification("a1", "completed", **told))
    chunks: list[str] = []
    seen = anyio.Event()

    async def follow() -> None:
        async for chunk in manager["a1"].follow():
            chunks.append(chunk)
            seen.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as workers:
            workers.start_soon(follow)
            await seen.wait()
            await anyio.sleep(0.2)  # longer than one look; whether it is long enough decides nothing
            assert manager["a1"].done
            write_report(path, "done", timestamp="2027-01-01T00:00:00.000Z", message=final)
    assert chunks == ["done\n"] * 2


async def test_a_report_that_never_gets_into_the_transcript_is_awaited_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "REPORT_DELAY", 0.05)
    task = finished_agent(tmp_path / "agent-a1.jsonl", "handed back otherwise")["a1"]
    assert [message.text for message in await task.transcript()] == ["do it"]
    set_bound(monkeypatch, "REPORT_DELAY", 3600.0)
    with anyio.fail_after(30):
        assert [message.text for message in await task.transcript()] == ["do it"]


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"summary_is_report": False},
        {"summary_is_report": True, "handback_report": {"text": "handed back", "flagged": False}},
    ],
)
async def test_a_report_in_other_words_is_not_awaited_once_the_transcript_ends(
    told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "ENTRY_DELAY", 0.0)
    set_bound(monkeypatch, "REPORT_DELAY", 3600.0)
    path = tmp_path / "agent-a1.jsonl"
    write_report(path, "its last text", message={"stop_reason": "end_turn"})
    end = frames.task_notification("a1", "completed", summary="in other words", output_file=str(path), **told)
    task = tracking(TaskManager(), frames.task_started("a1", "Review"), end)["a1"]
    with anyio.fail_after(30):
        assert [message.text for message in await task.transcript()] == ["its last text"]
        assert [chunk async for chunk in task.follow()] == ["its last text\n"]


async def test_a_report_is_awaited_although_the_transcript_ends_with_another_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "REPORT_DELAY", 3600.0)
    path = tmp_path / "agent-a1.jsonl"
    write_report(path, "of its first run", message={"stop_reason": "end_turn"})
    told: dict[str, Any] = {"summary": "of its second run", "output_file": str(path), "summary_is_report": True}
    end = frames.task_notification("a1", "completed", **told)
    task = tracking(TaskManager(), frames.task_started("a1", "Review"), end)["a1"]
    chunks: list[str] = []
    with anyio.fail_after(30):
        async for chunk in task.follow():
            chunks.append(chunk)
            if len(chunks) == 1:
                write_report(path, "of its second run", message={"stop_reason": "end_turn"})
    assert chunks == ["of its first run\n", "of its second run\n"]


@pytest.mark.parametrize("status", ["failed", "stopped", "completed"])
async def test_where_no_report_is_due_none_is_awaited(
    status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "ENTRY_DELAY", 0.01)
    set_bound(monkeypatch, "REPORT_DELAY", 3600.0)
    path = tmp_path / "agent-a1.jsonl"
    write_report(path, "so far")
    summary = "" if status == "completed" else "why it ended"
    end = frames.task_notification("a1", status, summary=summary, output_file=str(path))
    task = tracking(TaskManager(), frames.task_started("a1", "Review"), end)["a1"]
    with anyio.fail_after(30):
        assert [chunk async for chunk in task.follow()] == ["so far\n"]


async def test_the_report_comes_from_the_transcript_where_no_notification_told_it(tmp_path: Path) -> None:
    manager = recorded_tree(tmp_path)
    assert await manager[OUTER].read_output() == "outer report"
    assert await manager[OUTER].read_output(tail_bytes=6) == "report"


async def test_following_a_subagent_yields_its_texts(tmp_path: Path) -> None:
    manager = tracking(recorded_tree(tmp_path), frames.task_notification(OUTER, summary="outer report"))
    assert [chunk async for chunk in manager[OUTER].follow()] == ["I look around.\n", "outer report\n"]


async def test_without_a_file_the_messages_that_were_seen_have_to_do() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"), child("a1", "one"), child("a1", "two"))
    denied = {"tool_name": "Bash", "tool_use_id": "toolu_2", "agent_id": "a1", "message": "no"}
    tracking(manager, frames.system("permission_denied", **denied))
    assert len(manager["a1"].seen_messages) == 3
    assert [message.text for message in await manager["a1"].transcript()] == ["one", "two"]
    assert await manager["a1"].read_output() == "two"


async def test_neither_file_nor_messages_is_a_typed_error(tmp_path: Path) -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"))
    with pytest.raises(TaskOutputError, match="location is unknown"):
        await manager["a1"].transcript()
    missing = str(tmp_path / "a1.output")
    tracking(manager, frames.task_notification("a1", "failed", "no report", output_file=missing))
    with pytest.raises(TaskOutputError, match="No such file") as caught:
        await manager["a1"].transcript()
    assert caught.value.path == missing
    assert await manager["a1"].read_output() == "no report"


async def test_a_shell_has_no_transcript() -> None:
    manager = tracking(TaskManager(), shell_started("b1"))
    with pytest.raises(TaskOutputError, match="a shell has no transcript"):
        await manager["b1"].transcript()


def linked_agent(output: Path, target: Path) -> TaskManager:
    """The recorded agent as a task, whose output is a link to this file."""
    output.symlink_to(target)
    manager = tracking(TaskManager(), frames.task_started(OUTER))
    return tracking(manager, frames.task_notification(OUTER, "stopped", output_file=str(output)))


async def test_the_output_file_of_a_subagent_is_a_link_to_its_transcript(tmp_path: Path) -> None:
    subagents = tmp_path / "session" / "subagents"
    shutil.copytree(RECORDED, subagents)
    manager = linked_agent(tmp_path / f"{OUTER}.output", subagents / f"agent-{OUTER}.jsonl")
    assert (await manager[OUTER].transcript())[-1].text == "outer report"
    assert await manager[OUTER].read_output() == "outer report"


@pytest.mark.parametrize(
    "target", ["subagents/agent-a0.jsonl", "agent-{id}.jsonl", "subagents/agent-{id}.jsonl", "/proc/self/environ"]
)
async def test_a_link_to_another_file_is_no_transcript(tmp_path: Path, target: str) -> None:
    path = tmp_path / target.format(id=OUTER)
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        shutil.copy(recorded(OUTER), path)
    if target.startswith("subagents/agent-{"):  # the transcript itself leads elsewhere
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    manager = linked_agent(tmp_path / f"{OUTER}.output", path)
    with pytest.raises(TaskOutputError, match="not a regular file"):
        await manager[OUTER].transcript()


# Paths


def test_hooks_tell_where_transcripts_are() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"))
    paths = intake_of(manager).paths
    entry_of = intake_of(manager).ledger.records["a1"]
    assert paths.list_candidates(entry_of) == []
    track_hook(intake_of(manager), "Stop", {"transcript_path": "/c/projects/p/session.jsonl"})
    assert [file.path for file in paths.list_candidates(entry_of)] == ["/c/projects/p/session/subagents/agent-a1.jsonl"]
    track_hook(
        intake_of(manager),
        "SubagentStop",
        {"agent_id": "a1", "agent_type": "x", "agent_transcript_path": "/elsewhere/agent-a1.jsonl"},
    )
    assert paths.list_candidates(entry_of)[0].path == "/elsewhere/agent-a1.jsonl"


def test_without_a_configuration_directory_nothing_is_guessed() -> None:
    paths = Paths()
    paths.record_init("/work", "session")
    manager = tracking(TaskManager(), frames.task_started("a1"))
    assert paths.list_candidates(intake_of(manager).ledger.records["a1"]) == []


def test_the_slug_of_a_directory() -> None:
    assert project_slug("/home/user/my project.v2") == "-home-user-my-project-v2"
