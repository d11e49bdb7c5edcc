"""Whatever is in a transcript, reading it raises nothing and invents nothing."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from bounds import set_bound
from hypothesis import example, given, strategies as st
from stored import Stored, call

from claude_agent_py.sessions import fork_session, get_session, get_subagent_messages, list_sessions, search_sessions


def transcript() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        stored = Stored(Path(name))
        stored.user("one")
        calls = [stored.assistant(call(f"t{number}", "Agent"), id="msg") for number in range(2)]
        launched = {"status": "async_launched", "agentId": "a1", "description": "look"}
        stored.result("t1", "launched", after=calls[1], toolUseResult=launched)
        last = stored.result("t0", "done", after=calls[0])
        kept = {"preservedMessages": {"anchorUuid": "x", "uuids": [last]}}
        stored.entry("system", after=None, subtype="compact_boundary", logicalParentUuid=last, compactMetadata=kept)
        stored.user("summary", isCompactSummary=True)
        stored.user(
            "<task-notification><task-id>a1</task-id></task-notification>", origin={"kind": "task-notification"}
        )
        stored.note("last-prompt", lastPrompt="one", leafUuid=last, explicit=True)
        stored.note("cost-state", totalCostUSD=1, modelUsage={"m": {}})
        return stored.path.read_bytes()


WHOLE = transcript()
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["user", "assistant", "x"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
KEYS = sorted({key for line in WHOLE.splitlines() for key in json.loads(line)} | {"message"})


def read_all(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        stored = Stored(Path(name))
        stored.path.write_bytes(content)
        stored.agent("a1", ["Look"])
        infos = list_sessions(config_dir=name)
        assert {info.session_id for info in infos} <= {stored.id}
        list(search_sessions("one", config_dir=name))
        if not content:
            return
        session = get_session(stored.id, config_dir=name)
        uuids = [message.uuid for message in session.messages]
        assert len(uuids) == len(session.messages)
        assert len(session.messages) <= len(session.history) + 1
        assert [message.uuid for message in reversed(session.messages)] == uuids[::-1]
        _ = session.tool_calls, session.tasks, session.usage, session.messages.damage
        if any(message.raw.get("type") == "user" for message in session.history):
            fork_session(stored.id, config_dir=name)


@given(st.integers(0, len(WHOLE)), st.integers(0, 400), st.binary(max_size=40))
@example(WHOLE.index(b'"cost-state"') + 20, 0, b"\x80")
def test_bytes_that_are_lost_or_overwritten(place: int, length: int, instead: bytes) -> None:
    read_all(WHOLE[:place] + instead + WHOLE[place + length :])


@given(st.integers(0, len(WHOLE.splitlines()) - 1), st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_fields_of_any_type(number: int, changed: dict[str, Any]) -> None:
    lines = WHOLE.splitlines(keepends=True)
    lines[number] = json.dumps({**json.loads(lines[number]), **changed}).encode() + b"\n"
    read_all(b"".join(lines))


def entries() -> list[bytes]:
    with tempfile.TemporaryDirectory() as name:
        stored = Stored(Path(name))
        stored.user("one", note="the longest line, at the beginning of the file" * 5)
        stored.assistant("two")
        return stored.path.read_bytes().splitlines()


ENTRIES = entries()
LONGEST = max(map(len, ENTRIES))
JUNK = st.sampled_from([0, 1, 2, LONGEST - 1, LONGEST, LONGEST + 1, 3 * LONGEST]).map(lambda length: b"x" * length)


@given(st.lists(JUNK, max_size=6), st.integers(0, 6), st.integers(1, 9) | st.integers(1, 4 * LONGEST), st.booleans())
@example([], 0, 1, False)
@example([b"x" * 3 * LONGEST, b"x" * LONGEST], 1, 3, True)
def test_each_damaged_line_is_found_in_pieces_of_any_size_also_at_the_longest_length(
    junk: list[bytes], between: int, chunk: int, is_whole: bool
) -> None:
    first, last = ENTRIES
    lines = [first, *junk[:between], last, *junk[between:]]
    content = b"\n".join(lines) + b"\n" * is_whole
    with pytest.MonkeyPatch.context() as changes, tempfile.TemporaryDirectory() as name:
        set_bound(changes, "READ_CHUNK", chunk)
        set_bound(changes, "READ_LINE_BYTES", LONGEST)
        stored = Stored(Path(name))
        stored.path.write_bytes(content)
        messages = get_session(stored.id, config_dir=name).messages
        assert [getattr(message, "text", None) for message in messages] == ["one", "two"]
        found = {line.offset: line.reason.partition(":")[0] for line in messages.damage}
    expected, offset = dict[int, str](), 0
    for line in lines:
        if len(line) > LONGEST:
            expected[offset] = "longer than any line of the CLI"
        elif line.startswith(b"x"):
            is_half = offset + len(line) == len(content)
            expected[offset] = "not complete (yet)" if is_half else "not an entry"
        offset += len(line) + 1
    assert found == expected


def test_an_empty_transcript_of_a_subagent_has_no_messages(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("one")
    stored.agent("a1", ["Look"]).write_bytes(b"")
    assert list(get_subagent_messages(stored.id, "a1", config_dir=tmp_path)) == []
