"""Changing sessions: what is written, what is refused, and that nothing else is touched."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from stored import SESSION, Stored, call

from claude_agent_py.errors import OptionsError, SessionBusyError, SessionError, SessionNotFoundError
from claude_agent_py.sessions import (
    SessionInfo,
    archive_session,
    delete_session,
    fork_session,
    get_session,
    list_sessions,
    rename_session,
    tag_session,
    unarchive_session,
)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    stored = Stored(tmp_path)
    stored.user("one")
    stored.assistant("first answer")
    return stored


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@contextmanager
def process_at_work(stored: Stored, **record: Any) -> Iterator[int]:
    """A process that the CLI's record says is at work on the session."""
    folder = stored.config / "sessions"
    folder.mkdir(exist_ok=True)
    program = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        path = folder / f"{process.pid}.json"
        path.write_text(json.dumps({"pid": process.pid, "sessionId": stored.id, "status": "idle", **record}))
        yield process.pid


def test_titles_and_tags_are_appended(stored: Stored) -> None:
    before = stored.path.read_bytes()
    rename_session(stored.id, "  A new\ntitle ", config_dir=stored.config)
    tag_session(stored.id, " \u202eurgent\u200b ", config_dir=stored.config)
    assert stored.path.read_bytes().startswith(before)
    assert lines(stored.path)[2:] == [
        {"type": "custom-title", "customTitle": "A new title", "sessionId": stored.id},
        {"type": "tag", "tag": "urgent", "sessionId": stored.id},
    ]
    [info] = list_sessions(config_dir=stored.config)
    assert (info.custom_title, info.tag) == ("A new title", "urgent")
    tag_session(stored.id, None, config_dir=stored.config)
    assert list_sessions(config_dir=stored.config)[0].tag is None
    for change, option in ((rename_session, "title"), (tag_session, "tag")):
        with pytest.raises(OptionsError, match=option):
            change(stored.id, " \u200b" if change is tag_session else "  ", config_dir=stored.config)


def test_a_line_that_was_not_ended_is_not_lost(stored: Stored) -> None:
    stored.path.write_bytes(stored.path.read_bytes().rstrip(b"\n"))
    rename_session(stored.id, "title", config_dir=stored.config)
    assert [entry["type"] for entry in lines(stored.path)] == ["user", "assistant", "custom-title"]
    assert [message.text for message in get_session(stored.id, config_dir=stored.config).messages] == [
        "one",
        "first answer",
    ]


def test_archiving(stored: Stored) -> None:
    archive_session(stored.id, config_dir=stored.config)
    record = stored.path.with_suffix("") / "archived.json"
    assert json.loads(record.read_text())["archived"] is True
    if os.name == "posix":
        assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert [info.archived for info in list_sessions(config_dir=stored.config)] == [True]
    assert list_sessions(archived=False, config_dir=stored.config) == []
    unarchive_session(stored.id, config_dir=stored.config)
    assert [info.archived for info in list_sessions(archived=False, config_dir=stored.config)] == [False]
    assert os.listdir(record.parent) == ["archived.json"]


def test_deletion_takes_the_subagents_along_and_nothing_else(stored: Stored, tmp_path: Path) -> None:
    stored.agent("a1", ["Look"])
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").touch()
    (stored.path.with_suffix("") / "linked").symlink_to(outside)
    other = Stored(tmp_path, SESSION.replace("1", "2"))
    other.user("hi")
    delete_session(stored.id, config_dir=stored.config)
    assert os.listdir(stored.path.parent) == [other.path.name]
    assert os.listdir(outside) == ["mine"]
    with pytest.raises(SessionNotFoundError):
        delete_session(stored.id, config_dir=stored.config)


def test_a_session_folder_that_is_a_link_is_not_followed(stored: Stored, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").touch()
    stored.path.with_suffix("").symlink_to(outside)
    with pytest.raises(SessionError, match="cannot be archived"):
        archive_session(stored.id, config_dir=stored.config)
    assert get_session(stored.id, config_dir=stored.config).subagents == []
    delete_session(stored.id, config_dir=stored.config)
    assert os.listdir(outside) == ["mine"]
    assert os.listdir(stored.path.parent) == []


CHANGES: list[tuple[str, Callable[[Stored], object]]] = [
    ("delete", lambda stored: delete_session(stored.id, config_dir=stored.config)),
    ("archive", lambda stored: archive_session(stored.id, config_dir=stored.config)),
]


@pytest.mark.parametrize("change", [change for _, change in CHANGES], ids=[name for name, _ in CHANGES])
def test_a_session_at_work_is_not_taken_away(stored: Stored, change: Callable[[Stored], object]) -> None:
    before = stored.path.read_bytes()
    with process_at_work(stored) as pid:
        with pytest.raises(SessionBusyError, match=rf"is open in the process {pid} \(idle\); close it") as caught:
            change(stored)
        assert (caught.value.pid, caught.value.session_id) == (pid, stored.id)
        process = get_session(stored.id, config_dir=stored.config).process
        assert process is not None
        assert process.pid == pid
    assert stored.path.read_bytes() == before
    change(stored)  # its record is still there, but the process is gone


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when a process started")
def test_another_process_with_the_same_id_is_not_at_work(stored: Stored) -> None:
    with process_at_work(stored, procStart="1"):
        delete_session(stored.id, config_dir=stored.config)


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces of processes are Linux's")
def test_a_process_in_another_container_counts_as_running(stored: Stored) -> None:
    with process_at_work(stored, pidDomain="linux:abc:pid:[1]", pid=2**30), pytest.raises(SessionBusyError):
        delete_session(stored.id, config_dir=stored.config)


def test_a_half_written_line_of_a_process_is_waited_for(stored: Stored) -> None:
    whole = stored.path.read_bytes()
    with process_at_work(stored):
        with stored.path.open("ab") as file:
            file.write(b'{"type":"mo')
        with pytest.raises(SessionBusyError):
            rename_session(stored.id, "title", config_dir=stored.config)
        assert stored.path.read_bytes() == whole + b'{"type":"mo'
        stored.path.write_bytes(whole)
        rename_session(stored.id, "title", config_dir=stored.config)
    assert [entry["type"] for entry in lines(stored.path)] == ["user", "assistant", "custom-title"]


# Copies ----------------------------------------------------------------------------------------------------------


def test_a_copy_is_a_separate_session(stored: Stored) -> None:
    stored.note("tag", tag="x")
    stored.note("queue-operation", operation="enqueue", content="later")
    stored.note("content-replacement", replacements=[{"a": 1}])
    stored.user("with \u2028 and \x85 in it, and its id: " + json.dumps({"sessionId": stored.id}))
    stored.assistant(call("t1"))
    stored.user("beside", isSidechain=True)
    before = stored.path.read_bytes()
    copy = fork_session(stored.id, config_dir=stored.config)
    assert stored.path.read_bytes() == before
    assert copy.session_id != stored.id
    assert copy.custom_title == "one (fork)"
    source = get_session(stored.id, config_dir=stored.config)
    copied = get_session(copy.session_id, config_dir=stored.config)
    assert len(source.messages) == 4
    assert [(m.uuid, m.content) for m in copied.messages] == [(m.uuid, m.content) for m in source.messages]
    assert {message.session_id for message in copied.messages} == {copy.session_id}
    written = lines(Path(copy.path))
    assert [entry["type"] for entry in written] == [
        "user",
        "assistant",
        "content-replacement",
        "user",
        "assistant",
        "custom-title",
    ]
    assert {entry["sessionId"] for entry in written} == {copy.session_id}
    assert written[0]["forkedFrom"] == {"sessionId": stored.id, "messageUuid": source.messages[0].uuid}
    if os.name == "posix":
        assert stat.S_IMODE(os.stat(copy.path).st_mode) == 0o600


def test_a_copy_up_to_a_message_continues_there(stored: Stored) -> None:
    middle = stored.user("two")
    stored.assistant("second answer")
    copy = fork_session(stored.id, None, middle, "Another way", config_dir=stored.config)
    assert copy.custom_title == "Another way"
    messages = get_session(copy.session_id, config_dir=stored.config).messages
    assert [message.text for message in messages] == ["one", "first answer", "two"]
    again = fork_session(copy.session_id, config_dir=stored.config)
    assert lines(Path(again.path))[0]["forkedFrom"]["sessionId"] == stored.id
    assert lines(Path(again.path))[0]["sessionId"] == again.session_id


def test_a_copy_has_the_subagents_that_its_part_launched(stored: Stored) -> None:
    stored.assistant(call("t1"))
    middle = stored.result("t1", "looked")
    stored.assistant(call("t2"))
    agent = stored.agent("a1", ["look", "looked"], agentType="Explore", toolUseId="t1")
    last = lines(agent)[-1]["uuid"]
    nested = {"parentUuid": last, "type": "assistant", "uuid": "n", "message": {"content": [call("t3")]}}
    with agent.open("a") as file:
        file.write(json.dumps(nested, separators=(",", ":")) + "\n{damaged\n")
    stored.agent("a2", ["later"], toolUseId="t2")
    stored.agent("a3", ["below"], toolUseId="t3")
    stored.agent("a4", ["of nobody"])

    def agents_of(copy: SessionInfo) -> list[str]:
        return sorted(agent.agent_id for agent in get_session(copy.session_id, config_dir=stored.config).subagents)

    whole = fork_session(stored.id, config_dir=stored.config)
    assert agents_of(whole) == ["a1", "a2", "a3", "a4"]
    part = fork_session(stored.id, None, middle, config_dir=stored.config)
    assert agents_of(part) == ["a1", "a3"]
    [copied] = [a for a in get_session(part.session_id, config_dir=stored.config).subagents if a.agent_id == "a1"]
    assert [message.text for message in copied.messages][:2] == ["look", "looked"]
    assert (copied.agent_type, copied.tool_use_id) == ("Explore", "t1")
    assert stored.id not in Path(copied.path).read_text()
    delete_session(stored.id, config_dir=stored.config)
    assert agents_of(whole) == ["a1", "a2", "a3", "a4"]


def test_a_copy_leaves_the_team_and_the_plan_to_the_original(stored: Stored) -> None:
    ties = {"teamName": "t", "agentName": "a", "slug": "a-plan"}
    number = 12345678901234567890.12345678901234567890
    stored.user("of a team", **ties, toolUseResult={"slug": "stays", "sessionId": stored.id, "x": number})
    agent = stored.agent("a1", ["look", "looked"])
    agent.write_text("".join(json.dumps({**line, **ties}) + "\n" for line in lines(agent)))
    copy = fork_session(stored.id, config_dir=stored.config)
    own, inner = lines(Path(copy.path))[2], stored.path.parent / copy.session_id / "subagents" / "agent-a1.jsonl"
    assert own["message"]["content"] == "of a team"
    assert own["toolUseResult"] == {"slug": "stays", "sessionId": stored.id, "x": number}
    for entry in (*lines(Path(copy.path)), *lines(inner)):
        assert not ties.keys() & entry.keys()


def test_a_copy_that_fails_leaves_nothing(stored: Stored) -> None:
    with pytest.raises(SessionError, match="has no message nonsense"):
        fork_session(stored.id, up_to_message_id="nonsense", config_dir=stored.config)
    stored.path.write_text('{"type":"mode","mode":"normal"}\n')
    with pytest.raises(SessionError, match="has no messages to copy"):
        fork_session(stored.id, config_dir=stored.config)
    assert os.listdir(stored.path.parent) == [stored.path.name]


@pytest.mark.parametrize("is_at_work", [False, True])
def test_a_disk_that_is_full_loses_no_line(is_at_work: bool, stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process at work may have written a line since, so what was written of the title stays then."""
    real, before = os.write, stored.path.read_bytes()
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:5]))
    with process_at_work(stored) if is_at_work else nullcontext(), pytest.raises(SessionError, match="No space left"):
        rename_session(stored.id, "title", config_dir=stored.config)
    assert stored.path.read_bytes() == before + b'{"typ' * is_at_work


def test_a_transcript_that_was_emptied_since_gets_no_title(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def empty(path: Any, *arguments: Any, **more: Any) -> int:
        if path == str(stored.path):
            os.truncate(path, 0)
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, "open", empty)
    with pytest.raises(SessionError, match="the file is empty"):
        rename_session(stored.id, "title", config_dir=stored.config)
    assert stored.path.read_bytes() == b""


def test_a_copy_has_no_empty_and_no_damaged_lines(stored: Stored) -> None:
    stored.path.write_bytes(stored.path.read_bytes().replace(b"\n", b"\n\n") + b'{"type": "user", "mess\n')
    copy = fork_session(stored.id, config_dir=stored.config)
    assert [message.text for message in get_session(copy.id, config_dir=stored.config).messages] == [
        "one",
        "first answer",
    ]
    assert b"\n\n" not in Path(copy.path).read_bytes()
    assert [entry["type"] for entry in lines(Path(copy.path))] == ["user", "assistant", "custom-title"]


def test_the_last_cost_note_that_can_be_read_counts(stored: Stored) -> None:
    stored.note("cost-state", totalCostUSD=1.5, modelUsage={})
    with stored.path.open("a") as file:
        file.write('{"type":"cost-state","totalCostUSD":"no number"}\n{"type":"cost-state","totalC\n')
    assert get_session(stored.id, config_dir=stored.config).usage.cost_usd == 1.5
