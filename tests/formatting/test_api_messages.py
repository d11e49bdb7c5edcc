"""Conversations rebuilt for the Messages API, from frames made here and from recordings of the real CLI."""

import json
from typing import Any

import pytest
from api_rules import refusals
from each import for_each
from hypothesis import given, strategies as st
from recordings_loader import lines, names

from claude_agent_py import ThinkingBlock, ToolResultBlock, ToolUseBlock, UnknownBlock, wire
from claude_agent_py.messages import (
    AssistantMessage,
    Citation,
    ContentBlock,
    FallbackBlock,
    ImageBlock,
    TextBlock,
    ToolReferenceBlock,
    UserContent,
    UserMessage,
    to_api_messages,
)
from claude_agent_py.testing import frames
from claude_agent_py.wire import CUT_OFF

PNG = ImageBlock.from_bytes(b"x", "image/png")


def read(*sent: dict[str, Any]) -> list[Any]:
    return [wire.decode(json.dumps(frame)) for frame in sent]


def prompt(text: str, uuid: str = "p1") -> UserMessage:
    return UserMessage(message=UserContent(role="user", content=text), uuid=uuid)


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {}}


def spoken(*blocks: dict[str, Any], message_id: str = "m1", **fields: Any) -> dict[str, Any]:
    frame = frames.assistant(list(blocks), **fields)
    frame["message"]["id"] = message_id
    return frame


def lifecycle(uuid: str, state: str) -> dict[str, Any]:
    return {"type": "command_lifecycle", "command_uuid": uuid, "state": state}


def result_of(call_id: str, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def notification(task_id: str, tool_use_id: str) -> dict[str, Any]:
    return {
        "type": "system",
        "subtype": "task_notification",
        "task_id": task_id,
        "tool_use_id": tool_use_id,
        "status": "completed",
        "summary": f"<{task_id}>",
    }


def test_blocks_are_joined_and_all_results_come_in_one_message_in_the_order_of_the_calls() -> None:
    """The CLI may send a result before the rest of the message that called."""
    messages = read(
        spoken(said("I look.")),
        spoken(call("a")),
        frames.tool_result("a", "A"),
        spoken(call("b")),
        spoken(call("c")),
        frames.tool_result("c", "C", is_error=True),
        frames.tool_result("b", "B"),
        spoken(said("Done."), message_id="m2"),
    )

    assert to_api_messages(messages, [prompt("Look.")]) == [
        {"role": "user", "content": [said("Look.")]},
        {"role": "assistant", "content": [said("I look."), call("a"), call("b"), call("c")]},
        {"role": "user", "content": [result_of("a", "A"), result_of("b", "B"), result_of("c", "C", is_error=True)]},
        {"role": "assistant", "content": [said("Done.")]},
    ]


def test_messages_without_an_id_are_not_joined() -> None:
    first, second = (spoken(said(text), message_id="") for text in ("One.", "Two."))
    messages = read(frames.user("Who?"), first, frames.user("And?"), second)
    texts = [message["content"][0]["text"] for message in to_api_messages(messages)]
    assert texts == ["Who?", "One.", "And?", "Two."]


def test_prompts_are_messages() -> None:
    with pytest.raises(TypeError, match=r"must be UserMessages, as in RunResult\.sent, not str"):
        to_api_messages([], ["p1"])  # type: ignore[list-item]


def test_prompts_are_placed_where_they_started() -> None:
    prompts = [prompt("One", "p1"), prompt("Two", "p2"), prompt("Never", "p3"), prompt("Taken back", "p4")]
    messages = read(
        lifecycle("p1", "started"),
        lifecycle("p2", "queued"),
        lifecycle("p3", "queued"),
        lifecycle("p4", "cancelled"),
        spoken(call("a")),
        lifecycle("p2", "started"),
        frames.tool_result("a", "done"),
        lifecycle("p1", "completed"),
        spoken(said("Both."), message_id="m2"),
    )

    rebuilt = to_api_messages(messages, prompts)

    assert [message["role"] for message in rebuilt] == ["user", "assistant", "user", "assistant"]
    assert rebuilt[0]["content"] == [said("One")]
    assert rebuilt[2]["content"] == [result_of("a"), said("Two")]


def test_content_that_the_model_did_not_see_is_left_out() -> None:
    api_error, _ = frames.api_error("API Error: 529")
    sent = [
        spoken(call("a")),
        spoken(said("of a subagent"), message_id="s1", parent_tool_use_id="a"),
        frames.tool_result("x", "of a subagent", parent_tool_use_id="a"),
        frames.tool_result("a", "done"),
        frames.tool_result("earlier", "its call is not here"),
        api_error,
        spoken(said("first try"), message_id="m2", uuid="u2"),
        spoken(said("second try"), message_id="m3", supersedes=["u2"]),
        frames.user("<local-command-stdout>Set model</local-command-stdout>", isReplay=True),
        frames.user("again", uuid="u4"),
        frames.user("again", uuid="u4", isReplay=True),
    ]

    assert to_api_messages(read(*sent)) == [
        {"role": "assistant", "content": [call("a")]},
        {"role": "user", "content": [result_of("a")]},
        {"role": "assistant", "content": [said("second try")]},
        {"role": "user", "content": [said("again")]},
    ]


def test_messages_without_a_block_that_the_api_takes_are_left_out() -> None:
    messages = read(frames.user("go"), spoken(said(" ")), frames.user(" "), spoken(said("done")))
    assert [message["role"] for message in to_api_messages(messages)] == ["user", "assistant"]


def test_a_prompt_that_a_local_command_answered_is_left_out() -> None:
    sent = [
        lifecycle("p1", "started"),
        {"type": "result", "subtype": "success", "local_command": "context", "user_message_uuids": ["p1"]},
    ]

    assert to_api_messages(read(*sent), [prompt("/context")]) == []


def test_a_summary_replaces_what_came_before_but_for_what_the_cli_kept() -> None:
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "compact_metadata": {"trigger": "auto", "preserved_messages": {"uuids": ["p2", "kept"]}},
    }
    messages = read(
        lifecycle("p1", "started"),
        spoken(said("Hello.")),
        lifecycle("p2", "started"),
        spoken(said("kept"), message_id="m2", uuid="kept"),
        boundary,
        frames.user("The summary.", isSynthetic=True),
        spoken(said("Done."), message_id="m3"),
    )

    assert to_api_messages(messages, [prompt("Hi."), prompt("Go on.", "p2")]) == [
        {"role": "user", "content": [said("The summary."), said("Go on.")]},
        {"role": "assistant", "content": [said("kept"), said("Done.")]},
    ]
    assert to_api_messages(messages[:5])[-1]["content"] == [said("Hello."), said("kept")]


def test_a_call_without_a_result_gets_the_one_that_the_cli_would_give_it() -> None:
    rebuilt = to_api_messages(read(spoken(call("a")), spoken(call("b")), frames.tool_result("b", "done")))

    missing = result_of("a", CUT_OFF, is_error=True)
    assert rebuilt[1]["content"] == [missing, result_of("b")]


@pytest.mark.parametrize(
    ("block", "sent"),
    [
        (TextBlock(text=" \n"), None),
        (ThinkingBlock(thinking="hm"), None),
        (ThinkingBlock(thinking="hm", signature="x"), {"type": "thinking", "thinking": "hm", "signature": "x"}),
        (FallbackBlock(), None),
        (ToolReferenceBlock(tool_name="x"), None),
        (UnknownBlock(raw={"type": "new", "x": 1}), {"type": "new", "x": 1}),
        (PNG, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}),
        (
            TextBlock(text="x", citations=[Citation(type="char_location", cited_text="y", file_id="f")]),
            {"type": "text", "text": "x", "citations": [{"type": "char_location", "cited_text": "y"}]},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_blocks_that_the_api_refuses(block: ContentBlock, sent: dict[str, Any] | None) -> None:
    message = UserMessage(message=UserContent(role="user", content=[TextBlock(text="a"), block]))

    assert to_api_messages([message])[0]["content"][1:] == ([] if sent is None else [sent])


@pytest.mark.parametrize(
    ("block", "sent"),
    [
        (ToolResultBlock(tool_use_id="a", content="x", is_error=False), result_of("a", "x")),
        (ToolResultBlock(tool_use_id="a"), {"type": "tool_result", "tool_use_id": "a"}),
        (ToolResultBlock(tool_use_id="a", is_error=True), result_of("a", "[the call failed]", is_error=True)),
        (
            ToolResultBlock(tool_use_id="a", content=[PNG, TextBlock(text="x")], is_error=True),
            result_of("a", [said("x")], is_error=True),
        ),
        (
            ToolResultBlock(tool_use_id="a", content=[TextBlock(text=""), ToolReferenceBlock(tool_name="x")]),
            result_of("a", [{"type": "tool_reference", "tool_name": "x"}]),
        ),
        (
            ToolResultBlock(tool_use_id="a", content=[ToolUseBlock(id="b", name="c"), TextBlock(text="x")]),
            result_of("a", [said("x")]),
        ),
    ],
    ids=range(6),
)
def test_results_that_the_api_refuses(block: ToolResultBlock, sent: dict[str, Any]) -> None:
    answer = UserMessage(message=UserContent(role="user", content=[block]))

    assert to_api_messages([*read(spoken(call("a"))), answer])[1]["content"] == [sent]


def test_a_finished_background_task_is_reported_where_the_cli_reports_it() -> None:
    def started(task_id: str, tool_use_id: str) -> dict[str, Any]:
        return {"type": "system", "subtype": "task_started", "task_id": task_id, "tool_use_id": tool_use_id}

    rebuilt = to_api_messages(
        read(
            spoken(call("a"), call("b"), call("foreground")),
            started("nested", "call of a subagent"),
            notification("of foreground", "foreground"),
            frames.tool_result("a", "done"),
            frames.tool_result("b"),
            frames.tool_result("foreground"),
            spoken(call("c"), message_id="m2"),
            notification("first", "a"),
            notification("nested", "call of a subagent"),
            frames.tool_result("c"),
            spoken(said("One is done."), message_id="m3"),
            notification("second", "b"),
            spoken(said("Both are done."), message_id="m4"),
            notification("late", "c"),
        )
    )

    told = [
        [block["text"] for block in message["content"] if block["type"] == "text"]
        for message in rebuilt
        if message["role"] == "user"
    ]
    assert told == [
        [],
        [
            "<task-notification>\n<task-id>first</task-id>\n<status>completed</status>\n"
            "<summary>&lt;first&gt;</summary>\n</task-notification>"
        ],
        [
            "<task-notification>\n<task-id>second</task-id>\n<status>completed</status>\n"
            "<summary>&lt;second&gt;</summary>\n</task-notification>"
        ],
    ]


IDS = st.sampled_from("abc")
FRAMES = st.one_of(
    st.builds(lambda call_id, message_id: spoken(call(call_id + message_id), message_id=message_id), IDS, IDS),
    st.builds(lambda words, message_id: spoken(said(words), message_id=message_id), st.sampled_from(["x", " "]), IDS),
    st.builds(lambda call_id, is_error: frames.tool_result(call_id, is_error=is_error), st.text("abc"), st.booleans()),
    st.builds(frames.user, st.sampled_from(["x", "", "<local-command-stdout>"])),
    st.builds(lambda uuid, state: lifecycle(uuid, state), IDS, st.sampled_from(["queued", "started", "completed"])),
    st.builds(lambda task: notification(task, task), st.text("abc", min_size=1)),
)


@given(st.lists(FRAMES))
def test_any_frames_in_any_order_become_a_conversation_that_the_api_takes(sent: list[dict[str, Any]]) -> None:
    assert refusals(to_api_messages(read(*sent), [prompt("x", "a"), prompt("y", "b")])) == []


def test_every_recording_becomes_a_conversation_that_the_api_takes() -> None:
    def check(name: str) -> None:
        messages = [wire.decode(line) for line in lines(name)]
        prompts = [
            message
            for line in lines(name, "in")
            if isinstance(message := wire.decode(line), UserMessage) and message.uuid
        ]
        rebuilt = to_api_messages(messages, prompts)
        assert refusals(rebuilt) == []
        if any(isinstance(message, AssistantMessage) and message.model != "<synthetic>" for message in messages):
            assert rebuilt

    for_each(names(), check)
