"""Running calls without a CLI, and writing the results."""

from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from anyio import Event

from claude_agent_py import ToolChain, ToolContext, ToolResult, tool
from claude_agent_py.errors import OptionsError, ToolError, ToolInputError
from claude_agent_py.formatting import Image, JSONEncoder, MarkdownFormat, Media, TextFormat, XMLFormat, YAMLEncoder
from claude_agent_py.tools import ToolCall
from claude_agent_py.wire.base import dump
from claude_agent_py.wire.messages.content import ToolUseBlock

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\nrest"
XML = XMLFormat(wrapper="observation")


@dataclass
class Hit:
    title: str


@tool
async def search(query: str, limit: int = 1) -> list[Hit]:
    """Search for things."""
    return [Hit(f"{query} {index}") for index in range(limit)]


@tool
def picture() -> ToolResult:
    """Draw."""
    return ToolResult(text="drawn", media=[Image(PNG)])


@tool
def fail() -> None:
    """Fail."""
    raise ToolError("no <luck>")


CHAIN = ToolChain([search, picture, fail], text_format=XML)


def use(name: str, data: dict[str, Any] | None = None, call_id: str = "toolu_1") -> ToolUseBlock:
    return ToolUseBlock(id=call_id, name=name, input=data or {})


async def test_results_are_formatted_in_the_order_of_the_calls() -> None:
    result = await CHAIN.execute([use("search", {"query": "a"}), use("fail"), use("picture")])

    assert result.text == (
        '<observation>\n<search>[{"title": "a 0"}]</search>\n<fail>no &lt;luck&gt;</fail>\n'
        "<picture>drawn</picture>\n</observation>"
    )
    assert result.media == (Image(PNG),)


async def test_raw_keeps_calls_values_and_errors_index_by_index() -> None:
    result = await CHAIN.execute([use("search", {"query": "a"}), use("fail"), use("search", {"limit": 1})])

    assert [call.name for call in result.raw.calls] == ["search", "fail", "search"]
    assert result.raw.results == ([Hit("a 0")], None, None)
    assert [type(error) for error in result.raw.errors] == [type(None), ToolError, ToolInputError]


async def test_nothing_called_is_an_empty_text() -> None:
    result = await CHAIN.execute([])

    assert (result.text, result.media, result.raw.calls) == ("", (), ())
    assert result.as_content_blocks() == []


@pytest.mark.parametrize("text_format", [XML, XMLFormat(), MarkdownFormat()])
async def test_the_text_reads_back(text_format: TextFormat) -> None:
    result = await CHAIN.execute([use("fail"), use("picture"), use("fail")], text_format)

    assert text_format.parse(result.text) == {"fail": ["no <luck>", "no <luck>"], "picture": ["drawn"]}


async def test_the_format_of_a_call_wins_over_the_chains() -> None:
    result = await CHAIN.execute([use("picture")], MarkdownFormat())

    assert result.text == "# picture\ndrawn"


@pytest.mark.parametrize("text_format", [None, "markdown"])
async def test_a_missing_format_is_a_type_error(text_format: Any) -> None:
    with pytest.raises(TypeError, match="a text format is required"):
        await ToolChain([search]).execute([use("search", {"query": "a"})], text_format)


async def test_the_encoder_writes_the_data() -> None:
    chain = ToolChain([search], encoder=YAMLEncoder())

    result = await chain.execute([use("search", {"query": "a"})], MarkdownFormat())

    assert result.text == "# search\n- title: a 0"


# Calls of all forms -----------------------------------------------------------------------------------------------


async def test_calls_may_be_blocks_values_or_dicts() -> None:
    calls: list[Any] = [
        use("search", {"query": "a"}, "one"),
        ToolCall(id="two", name="search", input={"query": "b"}),
        {"type": "tool_use", "id": "three", "name": "search", "input": {"query": "c"}},
        {"name": "picture"},
    ]

    result = await CHAIN.execute(calls)

    assert [call.id for call in result.raw.calls] == ["one", "two", "three", "call_4"]
    assert result.raw.errors == (None,) * 4


@pytest.mark.parametrize("call", [5, {"input": {}}, {"name": 5}, None])
async def test_what_is_no_call_is_a_type_error(call: Any) -> None:
    with pytest.raises(TypeError, match="a call must be a ToolUseBlock"):
        await CHAIN.execute([call])


@pytest.mark.parametrize(
    ("text", "text_format"),
    [
        ('I will search.\n<search>{"query": "a"}</search> and <b>draw</b> <picture></picture>', XML),
        ('I will search.\n# search\n{"query": "a"}\n# notes\nx\n# picture\n', MarkdownFormat()),
        ('# search\n```json\n{"query": "a"}\n```\n# picture', MarkdownFormat()),
    ],
)
async def test_calls_in_text_are_read_by_the_format(text: str, text_format: TextFormat) -> None:
    result = await CHAIN.execute(text, text_format)

    assert result.raw.results[0] == [Hit("a 0")]
    assert [call.name for call in result.raw.calls] == ["search", "picture"]
    assert result.raw.errors == (None, None)


async def test_arguments_in_text_are_in_the_notation_of_the_encoder() -> None:
    chain = ToolChain([search], encoder=YAMLEncoder())

    result = await chain.execute("# search\nquery: a\nlimit: 2", MarkdownFormat())

    assert result.raw.results == ([Hit("a 0"), Hit("a 1")],)


async def test_arguments_in_text_that_cannot_be_read_are_an_error_to_mend() -> None:
    result = await CHAIN.execute("<search>{query: a}</search>")

    assert "invalid arguments for search" in result.text
    assert "{query: a}" in result.text


async def test_instructions_for_a_model_that_calls_by_text() -> None:
    told = CHAIN.describe(MarkdownFormat())

    assert '# search\n{"argument": "value"}' in told
    assert "- fail: Fail." in told
    assert '"query": {"type": "string"}' in told


async def test_definitions_for_the_api() -> None:
    assert CHAIN.definitions()[0] == {
        "name": "search",
        "description": "Search for things.",
        "input_schema": search.input_schema,
    }


# What goes wrong --------------------------------------------------------------------------------------------------


async def test_an_unknown_tool_is_an_error_that_names_the_known_ones() -> None:
    result = await CHAIN.execute([use("serach"), use("two\nlines")])

    assert XML.parse(result.text) == {
        "serach": ["unknown tool 'serach'; available tools: search, picture, fail"],
        "unknown_tool": ["unknown tool 'two\\nlines'; available tools: search, picture, fail"],
    }


async def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(OptionsError, match="two tools are named 'search'"):
        ToolChain([search, search])


async def test_the_time_limit_of_the_chain() -> None:
    @tool
    async def slow() -> None:
        await anyio.sleep_forever()

    result = await ToolChain([slow], text_format=XML, timeout=0.01).execute([use("slow")])

    assert "did not finish within 0.01 s" in result.text


# At once ----------------------------------------------------------------------------------------------------------


async def test_calls_run_at_once_and_results_keep_the_order_of_the_calls() -> None:
    second_is_done = Event()

    @tool
    async def work(index: int, context: ToolContext) -> str:
        if index == 1:
            second_is_done.set()
        await second_is_done.wait()
        return f"{index} {context.tool_use_id}"

    with anyio.fail_after(5):
        result = await ToolChain([work], text_format=XML).execute(
            [use("work", {"index": index}, f"id{index}") for index in range(3)]
        )

    assert XML.parse(result.text) == {"work": ["0 id0", "1 id1", "2 id2"]}


# For the model ----------------------------------------------------------------------------------------------------


async def test_one_user_message_answers_all_calls_in_order() -> None:
    result = await CHAIN.execute([use("picture", call_id="a"), use("fail", call_id="b"), use("search", {}, "c")])

    message = dump(result.tool_result_message().message)

    assert message["role"] == "user"
    assert [block["tool_use_id"] for block in message["content"]] == ["a", "b", "c"]
    assert [block.get("is_error") for block in message["content"]] == [None, True, True]
    assert [part["type"] for part in message["content"][0]["content"]] == ["text", "image"]
    assert message["content"][1]["content"] == [{"type": "text", "text": "no <luck>"}]


async def test_the_content_of_a_user_message() -> None:
    result = await CHAIN.execute([use("picture")])

    blocks = [dump(block) for block in result.as_content_blocks()]

    assert blocks[0] == {"type": "text", "text": "<observation>\n<picture>drawn</picture>\n</observation>"}
    assert blocks[1]["type"] == "image"


async def test_media_are_transformed_or_dropped() -> None:
    def smaller(media: Media) -> Media:
        return Image(b"small", "image/jpeg")

    async def none(media: Media) -> None:
        return None

    small = await ToolChain([picture], text_format=XML, media_transform=smaller).execute([use("picture")])
    dropped = await ToolChain([picture], text_format=XML, media_transform=none).execute([use("picture")])

    assert small.media == (Image(b"small", "image/jpeg"),)
    assert dropped.media == ()
    assert len(dropped.tool_result_blocks()[0].content or "") == 1


async def test_a_transform_that_fails_fails_the_call() -> None:
    def broken(media: Media) -> Media:
        raise ValueError("cannot resize")

    result = await ToolChain([picture], text_format=XML, media_transform=broken).execute([use("picture")])

    assert "picture failed: ValueError: cannot resize" in result.text
    assert result.media == ()


async def test_encoders_of_tools_are_used_where_the_chain_has_none() -> None:
    @tool(encoder=JSONEncoder(indent=2))
    def data() -> dict[str, int]:
        return {"a": 1}

    assert (await ToolChain([data]).execute([use("data")], MarkdownFormat())).text == '# data\n{\n  "a": 1\n}'
