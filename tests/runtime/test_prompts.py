"""What goes to the CLI: prompts, and the bodies of control requests; and what its replies mean."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import pytest
from asking_cli import asking
from hypothesis import given, strategies as st
from peers import start_in_memory
from reply_models import REPLIES
from wire_values import as_json

from claude_agent_py import AssistantMessage, Client, ClientOptions, TextBlock, UnknownBlock, UserMessage, run
from claude_agent_py.errors import OptionsError, RemoteProtocolError
from claude_agent_py.messages import AssistantContent, ImageBlock, MediaSource, UserContent
from claude_agent_py.testing import FakeCLI, steps
from claude_agent_py.wire import JSONObject

pytestmark = pytest.mark.anyio

IMAGE = ImageBlock(source=MediaSource(type="base64", media_type="image/png", data="iVBORw0KGgo="))


async def stream() -> AsyncIterator[str]:
    yield "one"


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"in": value}
    return value


async def sent(prompt: Any, *, uuid: str | None = None, **options: Any) -> dict[str, Any]:
    """Return what the CLI gets of a prompt."""
    fake = FakeCLI(steps.turn())
    async with start_in_memory(fake, **options) as client:
        await client.query(prompt, uuid=uuid)
    [frame] = fake.received_like({"type": "user"})
    return frame


@pytest.mark.parametrize("prompt", ["hi", " hi\n", "\N{GRINNING FACE}", "/clear"])
async def test_text_is_a_prompt_as_it_stands(prompt: str) -> None:
    frame = await sent(prompt)
    assert str(uuid.UUID(frame.pop("uuid")))
    assert frame == {"type": "user", "message": {"role": "user", "content": prompt}}


async def test_every_prompt_has_its_own_uuid() -> None:
    fake = FakeCLI(*[steps.turn()] * 100)
    async with start_in_memory(fake) as client:
        for _ in range(100):
            await client.query("hi")
    uuids = [frame["uuid"] for frame in fake.received_like({"type": "user"})]
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
async def test_content_blocks_are_a_prompt(blocks: Any) -> None:
    assert (await sent(blocks))["message"]["content"] == [as_json(block) for block in blocks]


async def test_a_whole_message_is_sent_with_all_that_it_says() -> None:
    whole = UserMessage(message=UserContent(role="user", content="hi"), priority="now", should_query=False)
    frame = await sent(whole)
    its = frame.pop("uuid")
    assert frame == {
        "type": "user",
        "message": {"role": "user", "content": "hi"},
        "priority": "now",
        "shouldQuery": False,
    }
    assert str(uuid.UUID(its)) == its
    assert whole.uuid == ""
    named = UserMessage(message=UserContent(role="user", content="hi"), uuid=its)
    assert (await sent(named))["uuid"] == its


async def test_a_whole_message_may_be_a_dict_of_the_official_sdk() -> None:
    given = {
        "type": "user",
        "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        "parent_tool_use_id": None,
        "session_id": "qa",
        "new": 1,
    }
    frame = await sent(given, verbatim_prompts=True)
    assert frame.pop("uuid")
    assert frame == {**given, "client_composed": True}


async def test_blocks_may_be_dicts_of_the_api_and_are_sent_as_they_are() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    blocks = [{"type": "text", "text": "hi"}, image, {"type": "text", "text": "x", "odd": 1}, {"type": "new", "a": 1}]
    frame = await sent([*blocks, TextBlock(text="end")])
    assert frame["message"]["content"] == [*blocks, {"type": "text", "text": "end"}]


async def test_a_prompt_may_be_marked_as_not_to_be_touched() -> None:
    assert (await sent("/clear", verbatim_prompts=True))["client_composed"] is True


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
        (UserMessage(message=UserContent(role="user", content="x"), uuid="a\ud800"), "the uuid must be JSON"),
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
async def test_an_invalid_prompt_is_refused(prompt: Any, words: str) -> None:
    async with asking() as cli:
        with pytest.raises(OptionsError, match=words) as caught:
            cli.client.query(prompt)
    assert caught.value.option == "prompt"


@pytest.mark.usefixtures("nothing_left")
async def test_a_prompt_that_cannot_be_written_starts_nothing_that_stays(tmp_path: Path) -> None:
    prompt = [UnknownBlock(raw={"type": "new", "value": float("nan")})]
    with pytest.raises(OptionsError, match="must be JSON"):
        await run(prompt, ClientOptions(cli_path=FakeCLI(steps.turn()).install(tmp_path)))


async def test_a_prompt_may_have_a_uuid_of_the_callers_choice() -> None:
    chosen = str(uuid.uuid4())
    for prompt in ("hi", UserMessage(message=UserContent(role="user", content="hi"), uuid=str(uuid.uuid4()))):
        assert (await sent(prompt, uuid=chosen))["uuid"] == chosen
    wrong: list[Any] = [("hi", "one"), ("hi", chosen.upper()), (stream(), chosen)]
    for prompt, another in wrong:
        with pytest.raises(OptionsError) as caught:
            await sent(prompt, uuid=another)
        assert caught.value.option == "uuid"


ASK: Final[Mapping[str, Callable[[Client], Awaitable[Any]]]] = {
    "read_file": lambda client: client.files.read("a"),
    "list_models": lambda client: client.list_models(),
    "get_context_usage": lambda client: client.usage.context(),
    "get_usage": lambda client: client.usage.session(),
    "set_cwd": lambda client: client.files.set_cwd("/a"),
    "reload_plugins": lambda client: client.settings.reload_plugins(),
    "list_permission_rules": lambda client: client.settings.permission_rules(),
}
"""Requests, by their subtype."""


async def answer(subtype: str, payload: Any) -> Any:
    """Return what a program gets for a reply of the CLI."""
    async with asking(answers={subtype: payload}) as cli:
        return await ASK[subtype](cli.client)


async def test_a_reply_that_fits_keeps_what_is_new() -> None:
    reply = await answer("read_file", {"contents": "x", "requested_path": "a"})
    assert reply.contents == "x"
    assert reply.raw == {"contents": "x", "requested_path": "a"}


async def test_a_field_of_a_wrong_type_is_left_out() -> None:
    reply = await answer("read_file", {"contents": "x", "truncated": {"at": 3}, "lossy": True})
    assert (reply.contents, reply.truncated, reply.lossy) == ("x", None, True)
    assert reply.raw["truncated"] == {"at": 3}


async def test_an_entry_that_makes_no_sense_is_left_out_of_its_list() -> None:
    models = [{"value": "a"}, {"displayName": "nameless"}, 5, {"value": "b", "supportsEffort": "perhaps"}]
    reply = await answer("list_models", {"models": models})
    assert [model.value for model in reply.models] == ["a", "b"]
    assert reply.models[1].supports_effort is None


async def test_deep_misfits_cost_only_themselves() -> None:
    payload = {
        "totalTokens": 7,
        "skills": {"tokens": 5, "skillFrontmatter": [{"name": "one"}, {"source": "x"}, {"name": "two", "tokens": []}]},
    }
    reply = await answer("get_context_usage", payload)
    assert reply.total_tokens == 7
    assert reply.skills is not None
    assert [skill.name for skill in reply.skills.skill_frontmatter] == ["one", "two"]


async def test_many_misfits_in_one_list_are_all_found() -> None:
    models: list[Any] = [{"value": str(i)} if i % 3 == 0 else i for i in range(40)]
    reply = await answer("list_models", {"models": models})
    assert [model.value for model in reply.models] == [str(i) for i in range(0, 40, 3)]


@pytest.mark.parametrize(
    ("subtype", "payload"),
    [
        ("read_file", {}),
        ("read_file", {"absPath": "/a"}),
        ("read_file", {"contents": 5, "absPath": "/a"}),
        ("get_usage", {"session": []}),
        ("set_cwd", {"status": {"code": 1}}),
        ("get_context_usage", {"totalTokens": "many"}),
    ],
)
async def test_a_reply_without_sense_is_an_error_that_has_it(subtype: str, payload: JSONObject) -> None:
    with pytest.raises(RemoteProtocolError, match=subtype) as caught:
        await answer(subtype, payload)
    assert caught.value.raw == payload


async def test_the_error_does_not_show_the_values() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        await answer("get_usage", {"session": "hunter2"})
    assert "hunter2" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("subtype", ["get_context_usage", "reload_plugins", "get_usage", "list_permission_rules"])
@given(data=st.data())
async def test_no_reply_raises_anything_else(subtype: str, data: st.DataObject) -> None:
    model: Any = REPLIES[subtype]
    names = [name for name in model.__struct_encode_fields__ if name != "<source>"]
    payload = data.draw(st.dictionaries(st.sampled_from(names), JSON, max_size=5))
    try:
        reply = await answer(subtype, payload)
    except RemoteProtocolError as error:
        reply = error
    assert isinstance(reply, (model, RemoteProtocolError))
