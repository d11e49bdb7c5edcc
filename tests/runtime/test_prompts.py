"""Prompts: what is none is an error before anything is sent, and what is one gets a uuid."""

import uuid
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from wire_values import as_json

from claude_agent_py import AssistantMessage, TextBlock, UnknownBlock, UserMessage
from claude_agent_py._connection.runs.prompts import is_stream, prepare_prompt, prompt_message
from claude_agent_py.errors import OptionsError
from claude_agent_py.messages import AssistantContent, ImageBlock, MediaSource, UserContent

IMAGE = ImageBlock(source=MediaSource(type="base64", media_type="image/png", data="iVBORw0KGgo="))


async def stream() -> AsyncIterator[str]:
    yield "one"


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"in": value}
    return value


@pytest.mark.parametrize("prompt", ["hi", " hi\n", "\N{GRINNING FACE}", "/clear"])
def test_text_is_a_prompt_as_it_stands(prompt: str) -> None:
    message = prompt_message(prompt, verbatim=False)
    assert message.content == prompt
    assert as_json(message) == {
        "type": "user",
        "message": {"role": "user", "content": prompt},
        "uuid": message.uuid,
    }


def test_every_prompt_has_its_own_uuid() -> None:
    uuids = [prompt_message("hi", verbatim=False).uuid for _ in range(100)]
    assert len(set(uuids)) == 100
    assert all(str(uuid.UUID(one)) == one for one in uuids)


@pytest.mark.parametrize(
    "blocks",
    [
        [TextBlock(text="look")],
        [TextBlock(text="look"), IMAGE],
        (TextBlock(text=""), IMAGE),
        [UnknownBlock(raw={"type": "hologram", "depth": 3})],
    ],
    ids=["text", "text and image", "empty text and image", "unknown"],
)
def test_content_blocks_are_a_prompt(blocks: Any) -> None:
    message = prompt_message(blocks, verbatim=False)
    assert as_json(message)["message"]["content"] == [as_json(block) for block in blocks]


def test_a_whole_message_is_sent_with_all_that_it_says() -> None:
    whole = UserMessage(message=UserContent(role="user", content="hi"), priority="now", should_query=False)
    sent = prompt_message(whole, verbatim=False)
    assert as_json(sent) == {
        "type": "user",
        "message": {"role": "user", "content": "hi"},
        "uuid": sent.uuid,
        "priority": "now",
        "shouldQuery": False,
    }
    assert str(uuid.UUID(sent.uuid)) == sent.uuid
    assert whole.uuid == ""
    assert prompt_message(sent, verbatim=False).uuid == sent.uuid


def test_a_whole_message_may_be_a_dict_of_the_official_sdk() -> None:
    given = {
        "type": "user",
        "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        "parent_tool_use_id": None,
        "session_id": "qa",
        "new": 1,
    }
    sent = as_json(prompt_message(given, verbatim=True))
    assert sent.pop("uuid")
    assert sent == {**given, "client_composed": True}


def test_blocks_may_be_dicts_of_the_api_and_are_sent_as_they_are() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    blocks = [{"type": "text", "text": "hi"}, image, {"type": "text", "text": "x", "odd": 1}, {"type": "new", "a": 1}]
    message = prompt_message([*blocks, TextBlock(text="end")], verbatim=False)
    assert as_json(message)["message"]["content"] == [*blocks, {"type": "text", "text": "end"}]
    assert isinstance(message.content[0], TextBlock)


def test_a_prompt_may_be_marked_as_not_to_be_touched() -> None:
    assert as_json(prompt_message("/clear", verbatim=True))["client_composed"] is True


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ([], "must have content"),
        ([TextBlock(text="  ")], "must have content"),
        (None, "not NoneType"),
        (5, "not int"),
        (b"hi", "not bytes"),
        (bytearray(b"hi"), "not bytearray"),
        ({"type": "text", "text": "hi"}, "not dict"),
        (TextBlock(text="hi"), "not TextBlock"),
        ([{"type": "text", "text": " "}], "must have content"),
        ([TextBlock(text="hi"), {"type": "text"}], "block 1 is invalid: Object missing required field `text`"),
        ([{"text": "hi"}], "block 0 is invalid"),
        ([{"type": "image", "source": "SECRET"}], "block 0 is invalid: source: Expected"),
        (
            {"type": "user", "message": {"role": "user"}},
            "the user message is invalid: message: Object missing required field `content`",
        ),
        (
            {"type": "user", "message": {"role": "assistant", "content": "hi"}},
            "the user message is invalid: message.role",
        ),
        ({"type": "user", "message": {"role": "user", "content": " "}}, "empty"),
        (UserMessage(message=UserContent(role="user", content="")), "empty"),
        (UserMessage(message=UserContent(role="user", content="x"), should_query=cast(Any, "no")), "shouldQuery"),
        (UserMessage(message=UserContent(role="user", content="x"), tool_use_result=object()), "is not JSON"),
        (AssistantMessage(message=AssistantContent(role="assistant", content=[])), "not AssistantMessage"),
        ([{"type": "new", "value": object()}], "block 0 must be JSON"),
        ([{"type": "text", "text": "hi", "new": b"bytes"}], "block 0 must be JSON"),
        ([{"type": "new", "value": nested(100_000)}], "block 0 is nested too deeply"),
        (["hi"], "block 0 must be a content block, not str"),
        ([TextBlock(text="hi"), None], "block 1 must be a content block, not NoneType"),
        ([UserMessage(message=UserContent(role="user", content="hi"))], "must be a content block, not UserMessage"),
        ([AssistantMessage(message=AssistantContent(role="assistant", content=[]))], "not AssistantMessage"),
    ],
)
def test_an_invalid_prompt_is_refused(prompt: Any, words: str) -> None:
    with pytest.raises(OptionsError, match=words) as caught:
        prompt_message(prompt, verbatim=False)
    assert caught.value.option == "prompt"


def test_a_stream_of_prompts_is_known_by_its_kind() -> None:
    assert is_stream(stream())
    assert not any(is_stream(prompt) for prompt in ("hi", [TextBlock(text="hi")], None, iter(["hi"])))


def test_a_prompt_may_have_a_uuid_of_the_callers_choice() -> None:
    chosen = str(uuid.uuid4())
    for prompt in ("hi", UserMessage(message=UserContent(role="user", content="hi"), uuid=str(uuid.uuid4()))):
        sent = prepare_prompt(prompt, verbatim=False, uuid=chosen)
        assert isinstance(sent, UserMessage)
        assert sent.uuid == chosen
    wrong: list[Any] = [("hi", "one"), ("hi", chosen.upper()), (stream(), chosen)]
    for prompt, given in wrong:
        with pytest.raises(OptionsError) as caught:
            prepare_prompt(prompt, verbatim=False, uuid=given)
        assert caught.value.option == "uuid"
