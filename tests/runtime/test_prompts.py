"""What goes to the CLI: prompts, and the bodies of control requests; and what its replies mean."""

import copy
import uuid
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st
from reply_models import REPLIES
from wire_values import as_json

from claude_agent_py import AssistantMessage, TextBlock, UnknownBlock, UserMessage
from claude_agent_py._connection.control_bodies import read_reply
from claude_agent_py._connection.runs.prompts import is_stream, prepare_prompt, prompt_message
from claude_agent_py.control import ContextUsageReply, GetUsageReply, ListModelsReply, ReadFileReply, SetCwdReply
from claude_agent_py.errors import OptionsError, RemoteProtocolError
from claude_agent_py.messages import AssistantContent, ImageBlock, MediaSource, UserContent
from claude_agent_py.wire import JSONObject

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
    for prompt, another in wrong:
        with pytest.raises(OptionsError) as caught:
            prepare_prompt(prompt, verbatim=False, uuid=another)
        assert caught.value.option == "uuid"


def test_a_reply_that_fits_keeps_what_is_new() -> None:
    reply = read_reply(ReadFileReply, "read_file", {"contents": "x", "requested_path": "a"})
    assert reply.contents == "x"
    assert reply.raw == {"contents": "x", "requested_path": "a"}


def test_a_field_of_a_wrong_type_is_left_out() -> None:
    reply = read_reply(ReadFileReply, "read_file", {"contents": "x", "truncated": {"at": 3}, "lossy": True})
    assert (reply.contents, reply.truncated, reply.lossy) == ("x", None, True)


def test_an_entry_that_makes_no_sense_is_left_out_of_its_list() -> None:
    models = [{"value": "a"}, {"displayName": "nameless"}, 5, {"value": "b", "supportsEffort": "perhaps"}]
    reply = read_reply(ListModelsReply, "list_models", {"models": models})
    assert [model.value for model in reply.models] == ["a", "b"]
    assert reply.models[1].supports_effort is None


def test_deep_misfits_cost_only_themselves() -> None:
    payload = {
        "totalTokens": 7,
        "skills": {"tokens": 5, "skillFrontmatter": [{"name": "one"}, {"source": "x"}, {"name": "two", "tokens": []}]},
    }
    reply = read_reply(ContextUsageReply, "get_context_usage", payload)
    assert reply.total_tokens == 7
    assert reply.skills is not None
    assert [skill.name for skill in reply.skills.skill_frontmatter] == ["one", "two"]


def test_many_misfits_in_one_list_are_all_found() -> None:
    models: list[Any] = [{"value": str(i)} if i % 3 == 0 else i for i in range(40)]
    reply = read_reply(ListModelsReply, "list_models", {"models": models})
    assert [model.value for model in reply.models] == [str(i) for i in range(0, 40, 3)]


def test_the_payload_itself_is_left_alone() -> None:
    payload: JSONObject = {"contents": "x", "truncated": {"at": 3}}
    before = copy.deepcopy(payload)
    read_reply(ReadFileReply, "read_file", payload)
    assert payload == before


@pytest.mark.parametrize(
    ("model", "payload"),
    [
        (ReadFileReply, {}),
        (ReadFileReply, {"absPath": "/a"}),
        (ReadFileReply, {"contents": 5, "absPath": "/a"}),
        (GetUsageReply, {"session": []}),
        (SetCwdReply, {"status": {"code": 1}}),
        (ContextUsageReply, {"totalTokens": "many"}),
    ],
)
def test_a_reply_without_sense_is_an_error_that_has_it(model: Any, payload: JSONObject) -> None:
    with pytest.raises(RemoteProtocolError, match="get_it") as caught:
        read_reply(model, "get_it", payload)
    assert caught.value.raw == payload


def test_the_error_does_not_show_the_values() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read_reply(GetUsageReply, "get_usage", {"session": "hunter2"})
    assert "hunter2" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "subtype", ["get_context_usage", "reload_plugins", "get_usage", "mcp_status", "list_permission_rules"]
)
@given(data=st.data())
def test_no_reply_raises_anything_else(subtype: str, data: st.DataObject) -> None:
    model: Any = REPLIES[subtype]
    names = [name for name in model.__struct_encode_fields__ if name != "<source>"]
    payload = data.draw(st.dictionaries(st.sampled_from(names), JSON, max_size=5))
    try:
        reply: Any = read_reply(model, subtype, payload)
    except RemoteProtocolError as error:
        reply = error
    assert isinstance(reply, (model, RemoteProtocolError))
