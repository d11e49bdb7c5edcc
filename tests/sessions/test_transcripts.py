"""Which messages of a transcript are the conversation, in which order, and how they are read."""

import functools
import json
import shutil
import tracemalloc
from pathlib import Path

import anyio
import pytest
from bounds import set_bound
from stored import SESSION, Stored, call

from claude_agent_py import AssistantMessage, UserMessage
from claude_agent_py.errors import OptionsError, SessionError, SessionNotFoundError
from claude_agent_py.messages import UnknownBlock
from claude_agent_py.sessions import (
    MemoryStore,
    StoredSession,
    Transcript,
    fork_session,
    get_session,
    get_session_messages,
    get_subagent_messages,
    import_session,
    list_sessions,
    list_subagents,
    rename_session,
)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


def session(stored: Stored) -> StoredSession:
    return get_session(stored.id, config_dir=stored.config)


def said(messages: Transcript) -> list[str]:
    """What each message says, or which call it makes or answers."""
    return [
        message.text
        or ",".join(
            [f"call {block.id}" for block in message.tool_uses]
            if isinstance(message, AssistantMessage)
            else [f"result {block.tool_use_id}" for block in message.tool_results]
        )
        for message in messages
    ]


def test_messages_are_typed_and_keep_what_the_file_says(stored: Stored) -> None:
    prompt = stored.user("hi", origin={"kind": "human"}, promptId="p")
    stored.assistant(call("t1", command="ls"), requestId="req_1")
    stored.result("t1", "a file", toolUseResult={"stdout": "a file"})
    first, second, third = session(stored).messages
    assert isinstance(first, UserMessage)
    assert (first.uuid, first.session_id, first.text, first.timestamp) == (
        prompt,
        SESSION,
        "hi",
        "2026-01-01T00:00:01.000Z",
    )
    assert first.raw["promptId"] == "p"
    assert isinstance(second, AssistantMessage)
    assert (second.model, second.request_id, second.tool_uses[0].input) == ("m", "req_1", {"command": "ls"})
    assert isinstance(third, UserMessage)
    assert third.tool_use_result == {"stdout": "a file"}


def test_a_branch_that_was_left_is_not_in_the_conversation(stored: Stored) -> None:
    stored.user("one")
    fork = stored.assistant("first answer")
    stored.user("two")
    stored.assistant("left behind")
    stored.user("two, better", after=fork)
    stored.entry("attachment", attachment={"type": "date"})
    stored.user("a note to the model", isMeta=True)
    stored.assistant("second answer")
    stored.entry("system", subtype="informational", content="hm")
    assert said(session(stored).messages) == ["one", "first answer", "two, better", "second answer"]


def test_a_rewind_without_a_prompt_ends_the_conversation_there(stored: Stored) -> None:
    stored.user("one")
    kept = stored.assistant("first answer")
    stored.user("two")
    stored.assistant("second answer")
    stored.note("last-prompt", leafUuid=kept, explicit=True)
    assert said(session(stored).messages) == ["one", "first answer"]


@pytest.mark.parametrize("leaf", ["ffffffff-ffff-4fff-8fff-ffffffffffff", None])
def test_a_rewind_that_was_withdrawn_or_leads_nowhere_does_not_count(stored: Stored, leaf: str | None) -> None:
    first = stored.user("one")
    stored.assistant("first answer")
    stored.note("last-prompt", leafUuid=first, explicit=True)
    stored.note("last-prompt", leafUuid=leaf, explicit=True)
    assert said(session(stored).messages) == ["one", "first answer"]


def test_answers_that_all_have_the_same_id_stay_apart(stored: Stored) -> None:
    """As some gateways write them."""
    stored.user("one")
    first = stored.assistant(call("t1"), id="msg")
    second = stored.assistant(call("t2"), id="msg")
    stored.result("t1", "done", after=first)
    stored.result("t2", "done", after=second)
    fork = stored.assistant("first answer", id="msg")
    stored.user("left behind")
    stored.assistant("lost", id="msg")
    stored.user("two", after=fork)
    stored.assistant("second answer", id="msg")
    assert said(session(stored).messages) == [
        "one",
        *("call t1", "call t2", "result t1", "result t2"),
        "first answer",
        "two",
        "second answer",
    ]


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
@pytest.mark.parametrize("goes_on", [True, False])
def test_calls_in_parallel_and_their_results_are_whole(stored: Stored, order: tuple[int, ...], goes_on: bool) -> None:
    """Each call continues the one before, each result its own call, and the next prompt only the last result."""
    stored.user("go")
    calls = {number: stored.assistant(call(f"t{number}"), id="msg_parallel") for number in (1, 2, 3)}
    for number in order:
        stored.result(f"t{number}", "done", after=calls[number])
    if goes_on:
        stored.assistant("all done")
    expected = ["go", "call t1", "call t2", "call t3", *(f"result t{number}" for number in order)]
    assert said(session(stored).messages) == [*expected, *(["all done"] if goes_on else [])]


def test_results_that_come_before_the_answer_is_complete_follow_it(stored: Stored) -> None:
    stored.user("go")
    first = stored.assistant(call("t1"), id="msg_streamed")
    second = stored.assistant(call("t2"), id="msg_streamed")
    stored.result("t1", "early", after=first)
    third = stored.assistant(call("t3"), id="msg_streamed", after=second)
    stored.result("t3", "late", after=third)
    stored.result("t2", "late", after=second)
    stored.assistant("done")
    expected = ["go", "call t1", "call t2", "call t3", "result t1", "result t3", "result t2", "done"]
    assert said(session(stored).messages) == expected


@pytest.mark.parametrize("last", ["t1", "t2", "t3"])
def test_a_call_that_continues_an_early_result_is_part_of_the_answer(stored: Stored, last: str) -> None:
    stored.user("go")
    first = stored.assistant(call("t1"), id="msg_streamed")
    second = stored.assistant(call("t2"), id="msg_streamed")
    early = stored.result("t1", "early", after=first)
    third = stored.assistant(call("t3"), id="msg_streamed", after=early)
    results = {
        "t1": early,
        "t2": stored.result("t2", "late", after=second),
        "t3": stored.result("t3", "late", after=third),
    }
    stored.assistant("done", after=results[last])
    told = said(session(stored).messages)
    assert [told[0], told[-1]] == ["go", "done"]
    assert sorted(told[1:-1]) == [*(f"call t{n}" for n in (1, 2, 3)), *(f"result t{n}" for n in (1, 2, 3))]
    assert all(told.index(f"call t{n}") < told.index(f"result t{n}") for n in (1, 2, 3))


def test_calls_of_a_branch_that_was_left_are_not_recovered(stored: Stored) -> None:
    prompt = stored.user("go")
    lost = stored.assistant(call("t1"), id="msg_lost")
    stored.result("t1", "lost", after=lost)
    stored.assistant("other", after=prompt)
    assert said(session(stored).messages) == ["go", "other"]


def test_a_compaction_begins_the_messages_and_not_the_history(stored: Stored) -> None:
    stored.user("one")
    last = stored.assistant("first answer")
    stored.entry("system", after=None, subtype="compact_boundary", logicalParentUuid=last, compactMetadata={})
    stored.user("summary", isCompactSummary=True)
    stored.user("two")
    stored.assistant("second answer")
    found = session(stored)
    assert said(found.messages) == ["summary", "two", "second answer"]
    assert said(found.history) == ["one", "first answer", "summary", "two", "second answer"]


def test_compacted_messages_are_not_read(stored: Stored) -> None:
    stored.user("one")
    with stored.path.open("a") as file:
        file.write("nonsense\n")
    last = stored.assistant("first answer")
    stored.entry("system", after=None, subtype="compact_boundary", logicalParentUuid=last, compactMetadata={})
    stored.user("summary", isCompactSummary=True)
    found = session(stored)
    assert said(found.messages) == ["summary"]
    assert found.messages.damage == []
    assert said(found.history) == ["one", "first answer", "summary"]
    assert len(found.history.damage) == 1


@pytest.mark.parametrize("continues", ["the summary", "what was kept"])
def test_messages_that_a_compaction_kept_follow_its_summary(stored: Stored, continues: str) -> None:
    stored.user("one")
    stored.assistant("first answer")
    kept = [stored.user("two"), stored.assistant("kept answer")]
    boundary = {"preservedMessages": {"anchorUuid": "", "uuids": kept}}
    summary = "00000000-0000-0000-0000-000000000006"
    boundary["preservedMessages"]["anchorUuid"] = summary
    stored.entry("system", after=None, subtype="compact_boundary", logicalParentUuid=kept[1], compactMetadata=boundary)
    assert stored.user("summary", isCompactSummary=True) == summary
    stored.user("three", after=summary if continues == "the summary" else kept[1])
    found = session(stored)
    assert said(found.messages) == ["summary", "two", "kept answer", "three"]
    assert said(found.history) == ["one", "first answer", "two", "kept answer", "summary", "three"]


def compacted(stored: Stored, kept: list[str], anchor: str, last: str) -> None:
    """Append the mark of a compaction that kept messages after the summary that it names."""
    kept_messages = {"preservedMessages": {"anchorUuid": anchor, "uuids": kept}}
    stored.entry(
        "system", after=None, subtype="compact_boundary", logicalParentUuid=last, compactMetadata=kept_messages
    )


def test_kept_messages_that_are_not_for_people_are_left_out(stored: Stored) -> None:
    stored.user("one")
    kept = [stored.user("two"), stored.user("for the model", isMeta=True), stored.assistant("kept answer")]
    compacted(stored, kept, "00000000-0000-0000-0000-000000000006", kept[-1])
    stored.user("summary", isCompactSummary=True)
    stored.user("three")
    assert said(session(stored).messages) == ["summary", "two", "kept answer", "three"]


def test_what_was_kept_needs_no_summary(stored: Stored) -> None:
    """The process died before it wrote the summary, and the next one continued what was kept."""
    stored.user("one")
    kept = [stored.user("two"), stored.assistant("kept answer")]
    compacted(stored, kept, "00000000-0000-0000-0000-000000000009", kept[-1])
    stored.user("three", after=kept[-1])
    found = session(stored)
    assert said(found.messages) == ["two", "kept answer", "three"]
    assert said(found.history) == ["one", "two", "kept answer", "three"]


def test_what_was_kept_precedes_a_summary_that_is_not_the_one_named(stored: Stored) -> None:
    one = stored.user("one")
    kept = [stored.user("two"), stored.assistant("kept answer")]
    stored.assistant("an answer that was left", after=one)
    compacted(stored, kept, "00000000-0000-0000-0000-000000000009", kept[-1])
    stored.user("summary", isCompactSummary=True)
    stored.user("three")
    assert said(session(stored).messages) == ["two", "kept answer", "summary", "three"]


def test_a_compaction_on_a_branch_that_was_left_does_not_count(stored: Stored) -> None:
    stored.user("one")
    last = stored.assistant("first answer")
    for details in ({}, {"preservedMessages": {"anchorUuid": "x", "uuids": ["another"]}}):
        stored.entry("system", after=None, subtype="compact_boundary", logicalParentUuid=last, compactMetadata=details)
        stored.user("summary", isCompactSummary=True)
    stored.user("two", after=last)
    assert said(session(stored).messages) == ["one", "first answer", "two"]


def test_an_answer_on_a_branch_that_continues_the_same_call_is_not_recovered(stored: Stored) -> None:
    stored.user("go")
    first = stored.assistant(call("t1"), id="msg_one")
    stored.assistant("left", id="msg_left", after=first)
    stored.result("t1", "done", after=first)
    stored.assistant("all done")
    assert said(session(stored).messages) == ["go", "call t1", "result t1", "all done"]


@pytest.mark.parametrize(("most", "found"), [(4, ["t1", "t2", "t3", "t4"]), (2, ["t3", "t4"])])
def test_only_so_many_results_off_the_path_are_remembered(
    most: int, found: list[str], stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "MOST_SIDE_ENTRIES", most)
    stored.user("go")
    calls = [stored.assistant(call(f"t{number}"), id="msg_one") for number in range(1, 5)]
    for number in (4, 3, 2, 1):
        stored.result(f"t{number}", "done", after=calls[number - 1])
    path = ["go", *(f"call t{number}" for number in range(1, 5)), *(f"result {name}" for name in reversed(found))]
    stored.assistant("all done", after=calls[-1])
    assert said(session(stored).messages) == [*path, "all done"]


def test_a_subagent_of_an_early_version_is_not_in_the_conversation(stored: Stored) -> None:
    prompt = stored.user("go")
    stored.user("look around", isSidechain=True, after=None)
    stored.assistant("I looked", isSidechain=True)
    stored.assistant("done", after=prompt)
    assert said(session(stored).messages) == ["go", "done"]


# Damage ----------------------------------------------------------------------------------------------------------


def test_damaged_lines_are_skipped_and_reported(stored: Stored) -> None:
    stored.user("one")
    with stored.path.open("ab") as file:
        file.write(b'{"parentUuid":null,"type":"user","mess\n\n[1]\n\0\0\0')
    stored.assistant("first answer")
    with stored.path.open("ab") as file:
        file.write(b'{"parentUuid":"' + b"x" * 64 * 1024 * 1024 + b'"}\n')
    stored.user("two")
    end = stored.path.stat().st_size
    with stored.path.open("ab") as file:
        file.write(b'{"parentUuid":"0000')
    messages = session(stored).messages
    assert said(messages) == ["one", "first answer", "two"]
    reasons = [line.reason for line in messages.damage]
    assert [reason.split(":")[0] for reason in reasons] == [
        "not an entry",
        "not an entry",
        "longer than any line of the CLI",
        "not complete (yet)",
    ]
    assert messages.damage[-1].offset == end


def test_the_conversation_continues_before_a_lost_entry(stored: Stored) -> None:
    stored.user("one")
    stored.assistant("first answer")
    lost = "ffffffff-ffff-4fff-8fff-ffffffffffff"
    stored.user("two", after=lost)
    messages = session(stored).messages
    assert said(messages) == ["one", "first answer", "two"]
    assert [line.reason.split(";")[0] for line in messages.damage] == ["the parent is missing"]


def test_an_entry_that_fits_no_model_is_still_a_message(stored: Stored) -> None:
    stored.user([{"type": "new kind", "x": 1}, {"type": "text", "text": 7}, "odd"])
    stored.assistant("fine")
    stored.entry("user", message=None, after=None)
    last, *_ = messages = session(stored).messages
    assert (len(messages), last.content) == (1, [])
    stored.path.write_text("".join(stored.path.read_text().splitlines(keepends=True)[:2]))
    first, second = messages = session(stored).messages
    assert isinstance(first, UserMessage)
    assert [type(block) for block in first.content] == [UnknownBlock] * 3
    assert first.raw["message"]["content"][1] == {"type": "text", "text": 7}
    assert second.text == "fine"
    assert [line.reason.split(":")[0] for line in messages.damage] == ["message.content.1.text"]


def test_fields_of_unexpected_types_do_not_lose_an_entry(stored: Stored) -> None:
    stored.user("one", isMeta="no", teamName=7, agentId=3, toolUseResult=[1])
    stored.assistant("answer", requestId=5, error={"a": 1})
    messages = session(stored).messages
    assert said(messages) == ["one", "answer"]
    assert [line.reason for line in messages.damage] == [
        "agentId does not fit its model",
        "requestId does not fit its model",
    ]


def test_half_a_character_loses_nothing(stored: Stored) -> None:
    """JavaScript reads and writes lone surrogates, for example of a text that was cut."""
    stored.user("one CUT")
    stored.assistant(call("t1", command="echo CUT"))
    stored.result("t1", "found CUT", toolUseResult={"stdout": "CUT"})
    stored.assistant("two CUT")
    stored.agent("a1", ["look CUT"])
    stored.note("last-prompt", lastPrompt="one CUT")
    for path in stored.path.parent.rglob("*.jsonl"):
        path.write_bytes(path.read_bytes().replace(b"CUT", b"\\ud83d"))
    copy = fork_session(stored.id, config_dir=stored.config)
    for found in (session(stored), get_session(copy.id, config_dir=stored.config)):
        assert said(found.messages) == ["one \ufffd", "call t1", "result t1", "two \ufffd"]
        assert [record.text for record in found.tool_calls] == ["found \ufffd"]
        assert [said(agent.messages) for agent in found.subagents] == [["look \ufffd"]]
    assert found.info.summary == "one \ufffd (fork)"
    rename_session(stored.id, "half \ud83d", config_dir=stored.config)
    assert [info.summary for info in list_sessions(config_dir=stored.config) if info.id == stored.id] == ["half \ufffd"]


def test_a_message_that_is_none_is_empty(stored: Stored) -> None:
    stored.user("one")
    stored.entry("user", message="not a message")
    stored.assistant("two")
    found = session(stored)
    assert said(found.messages) == ["one", "", "two"]
    assert (found.tool_calls, found.tasks, found.messages.damage[0].reason[:8]) == ([], [], "message.")


def test_text_may_hold_anything(stored: Stored) -> None:
    text = 'a \u2028 b \x85 "uuid":"x" \ud83d\ude00 {"type":"custom-title","customTitle":"hijacked"}'.encode(
        "utf-16", "surrogatepass"
    ).decode("utf-16")
    stored.user(text)
    stored.line(json.loads(json.dumps({"type": "user", "uuid": "u-lone", "parentUuid": None, "isSidechain": True})))
    stored.assistant("lone \\ud800")
    found = session(stored)
    assert said(found.messages) == [text, "lone \\ud800"]
    assert found.info.custom_title is None


def test_lines_that_were_written_twice_count_once(stored: Stored) -> None:
    stored.user("go")
    calls = [stored.assistant(call(f"t{number}"), id="msg") for number in (1, 2, 3)]
    for number in (3, 1, 2):
        stored.result(f"t{number}", f"result {number}", after=calls[number - 1])
    stored.assistant("done")
    once = said(session(stored).messages)
    lines = stored.path.read_text().splitlines(keepends=True)
    for doubled in ([line for line in lines for _ in range(2)], [*lines, *lines[2:]]):
        stored.path.write_text("".join(doubled))
        assert said(session(stored).messages) == once


def test_a_cycle_ends(stored: Stored) -> None:
    first = stored.user("one", after="00000000-0000-0000-0000-000000000002")
    stored.assistant("answer", after=first)
    assert said(session(stored).messages) == ["one", "answer"]


# Reading ---------------------------------------------------------------------------------------------------------


def test_a_transcript_is_a_sequence(stored: Stored) -> None:
    for number in range(10):
        stored.user(f"prompt {number}")
        stored.assistant(f"answer {number}")
    messages = session(stored).messages
    assert len(messages) == 20
    assert messages[3].text == "answer 1"
    assert messages[-1].text == "answer 9"
    assert [message.text for message in messages[4:8:2]] == ["prompt 2", "prompt 3"]
    assert [message.text for message in messages[-2:]] == ["prompt 9", "answer 9"]
    assert next(reversed(messages)).text == "answer 9"
    assert messages[18] in messages
    with pytest.raises(IndexError):
        _ = messages[20]
    pages = [get_session_messages(stored.id, None, 8, start, config_dir=stored.config) for start in (0, 8, 16, 24)]
    assert [len(page) for page in pages] == [8, 8, 4, 0]
    assert [message for page in pages for message in page] == list(messages)


@pytest.mark.anyio
async def test_messages_are_read_in_a_thread(stored: Stored) -> None:
    for number in range(450):
        stored.user(f"prompt {number}")
    assert [message.text async for message in session(stored).messages] == [f"prompt {n}" for n in range(450)]


def test_a_snapshot_omits_later_messages(stored: Stored) -> None:
    stored.user("one")
    stored.assistant("answer")
    found = session(stored)
    stored.user("two")
    assert said(found.messages) == ["one", "answer"]
    assert said(session(stored).messages) == ["one", "answer", "two"]


def test_a_file_that_is_replaced_or_gone_is_an_error(stored: Stored) -> None:
    for number in range(5):
        stored.user(f"prompt {number}")
    messages = session(stored).messages
    assert len(messages) == 5
    stored.path.write_bytes(b"x" * stored.path.stat().st_size)
    with pytest.raises(SessionError, match="was replaced while it was read") as caught:
        list(messages)
    assert caught.value.session_id == stored.id
    unread = session(stored)
    stored.path.unlink()
    with pytest.raises(SessionError, match="cannot be read"):
        list(messages)
    with pytest.raises(SessionError, match="cannot be read: No such file"):
        len(unread.messages)
    with pytest.raises(SessionError, match="cannot be read: No such file"):
        list(unread.journal())
    with pytest.raises(SessionNotFoundError):
        session(stored)


def test_a_deeply_nested_value_in_a_file_that_was_replaced_is_an_error(stored: Stored) -> None:
    stored.user("x" * 200_000)
    messages = session(stored).messages
    assert len(messages) == 1
    start = b'{"type":"user","x":'
    stored.path.write_bytes(start + b"[" * (stored.path.stat().st_size - len(start)))
    with pytest.raises(SessionError, match="was replaced while it was read"):
        messages[0]


def test_memory_does_not_grow_with_the_messages(stored: Stored) -> None:
    """A transcript of 40 MB is read with little more than what one piece of it takes."""
    stored.user("x" * 20_000)
    line = stored.path.read_bytes()
    with stored.path.open("wb") as file:
        for number in range(2000):
            uuids = f"{number:032x}", f"{number - 1:032x}"
            file.write(
                line.replace(b'"00000000-0000-0000-0000-000000000001"', f'"{uuids[0]}"'.encode()).replace(
                    b'"parentUuid":null', b'"parentUuid":' + (b"null" if not number else f'"{uuids[1]}"'.encode())
                )
            )
    found = session(stored)
    sum(1 for _ in found.messages[:1])
    tracemalloc.start()
    try:
        assert sum(1 for _ in session(stored).messages) == 2000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000


@pytest.mark.parametrize("wrong", ["", "..", "../../x", "not-a-uuid", f"{SESSION}/..", f"{SESSION}\n", "*"])
def test_an_id_is_a_uuid(stored: Stored, wrong: str) -> None:
    stored.user("one")
    with pytest.raises(OptionsError, match="must be a UUID"):
        get_session(wrong, config_dir=stored.config)


def test_a_link_is_not_a_session(stored: Stored, tmp_path: Path) -> None:
    stored.user("secret")
    outside = tmp_path / "outside"
    (outside / "-other").mkdir(parents=True)
    stored.path.rename(outside / "-other" / stored.path.name)
    stored.path.symlink_to(outside / "-other" / stored.path.name)
    (stored.path.parent.parent / "-linked").symlink_to(outside / "-other")
    with pytest.raises(SessionNotFoundError):
        session(stored)


# Subagents -------------------------------------------------------------------------------------------------------


def test_links_among_subagents_are_not_followed(stored: Stored, tmp_path: Path) -> None:
    stored.user("one")
    stored.assistant("answer")
    agent = stored.agent("a1", ["look", "looked"])
    away = tmp_path / "away"
    away.mkdir()
    agent.replace(away / agent.name)
    agent.symlink_to(away / agent.name)
    session = get_session(stored.id, config_dir=stored.config)
    assert (list(session.subagents), list(session.tasks), session.usage.total.input_tokens) == ([], [], 10)
    fork = get_session(fork_session(stored.id, config_dir=stored.config).session_id, config_dir=stored.config)
    assert list(fork.subagents) == []
    folder = stored.path.with_suffix("")
    shutil.rmtree(folder)
    folder.symlink_to(away)
    store = MemoryStore()
    anyio.run(functools.partial(import_session, store, stored.id, config_dir=stored.config))
    assert [key.get("subpath") for key in store.keys] == [None]


def test_subagents_and_their_messages(stored: Stored) -> None:
    stored.user("go")
    stored.assistant(call("t1", "Agent", prompt="Look"))
    notes = {"agentType": "Explore", "toolUseId": "t1", "parentAgentId": "a0", "finished": True}
    path = stored.agent("a1111111111111111", ["Look", "I looked"], **notes)
    nested = stored.path.with_suffix("") / "subagents" / "workflows" / "w1" / "agent-a2222222222222222.jsonl"
    nested.parent.mkdir(parents=True)
    nested.write_text("nonsense\n")
    agents = {agent.agent_id: agent for agent in session(stored).subagents}
    assert set(agents) == {"a1111111111111111", "a2222222222222222"}
    agent = agents["a1111111111111111"]
    assert (agent.agent_type, agent.tool_use_id, agent.is_finished) == ("Explore", "t1", True)
    assert agent.parent_agent_id == "a0"
    assert said(agent.messages) == ["Look", "I looked"]
    assert {(message.agent_id, message.parent_tool_use_id) for message in agent.messages} == {(agent.agent_id, "t1")}
    assert list(agents["a2222222222222222"].messages) == []
    path.write_text(path.read_text().replace('"isSidechain":true,', ""))  # as other programs write it
    unmarked = {each.agent_id: each for each in session(stored).subagents}[agent.agent_id]
    assert said(unmarked.messages) == ["Look", "I looked"]


def test_the_messages_of_a_subagent_are_read_in_pages(stored: Stored) -> None:
    stored.user("go")
    stored.agent("a1111111111111111", ["Look", "I looked", "I found it"])
    read = functools.partial(get_subagent_messages, stored.id, config_dir=stored.config)
    [agent] = list_subagents(stored.id, config_dir=stored.config)
    assert [message.text for message in read(agent)] == ["Look", "I looked", "I found it"]
    assert [message.text for message in read(agent, limit=1, offset=1)] == ["I looked"]
    with pytest.raises(SessionError, match="has no subagent 'a2'"):
        read("a2")


def test_a_session_shows_what_it_is(stored: Stored) -> None:
    stored.user("go")
    shown = session(stored)
    assert repr(shown) == f"<StoredSession {stored.id} 'go', {stored.path.stat().st_size} bytes>"
    assert repr(shown.messages) == f"<Transcript of {stored.id}, {stored.path.stat().st_size} bytes>"
    assert shown.session_id == shown.id == stored.id
