"""Running calls without a CLI, and writing the results."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import Event
from wire_values import as_json, read_frame

from claude_agent_py import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolChain,
    ToolChainResult,
    ToolContext,
    ToolResult,
    ToolUseBlock,
    UserMessage,
    tool,
)
from claude_agent_py.errors import OptionsError, ToolError, ToolInputError, UnknownToolError
from claude_agent_py.formatting import (
    Image,
    JSONEncoder,
    JSONFormat,
    MarkdownFormat,
    Media,
    TextFormat,
    XMLFormat,
    YAMLEncoder,
    YAMLFormat,
)
from claude_agent_py.messages import UserContent
from claude_agent_py.tools import ToolCall

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


def outputs(result: ToolChainResult) -> list[Any]:
    return [call.output for call in result.raw]


async def test_results_are_formatted_in_the_order_of_the_calls() -> None:
    result = await CHAIN.execute([use("search", {"query": "a"}), use("fail"), use("picture")])

    assert result.text == (
        '<observation>\n<search>[{"title": "a 0"}]</search>\n<fail>Error: ToolError: no &lt;luck&gt;</fail>\n'
        "<picture>drawn</picture>\n</observation>"
    )
    assert result.media == (Image(PNG),)


async def test_raw_has_each_call_with_its_output_or_error() -> None:
    result = await CHAIN.execute([use("search", {"query": "a"}), use("fail"), use("search", {"limit": 1}, "last")])

    assert [(call.name, call.tool_use_id) for call in result.raw] == [
        ("search", "toolu_1"),
        ("fail", "toolu_1"),
        ("search", "last"),
    ]
    assert outputs(result) == [[Hit("a 0")], None, None]
    assert [type(call.error) for call in result.raw] == [type(None), ToolError, ToolInputError]
    assert result.raw[2].input == {"limit": 1}


async def test_a_call_takes_time() -> None:
    @tool
    async def slow() -> None:
        await anyio.sleep(0.05)

    result = await ToolChain([slow]).execute([use("slow")])

    assert 0.04 < result.raw[0].duration < 5


async def test_the_output_is_the_typed_value_where_a_tool_returns_media_or_marks_an_error() -> None:
    @tool
    def drawn() -> ToolResult:
        return ToolResult(text=Hit("a"), media=[Image(PNG)])

    @tool
    def half() -> ToolResult:
        return ToolResult(text=Hit("b"), media=[Image(PNG)], is_error=True)

    result = await ToolChain([drawn, half], text_format=XML).execute([use("drawn"), use("half")])

    assert outputs(result) == [Hit("a"), Hit("b")]
    assert [type(call.error) for call in result.raw] == [type(None), ToolError]
    assert XML.parse(result.text) == {"drawn": ['{"title": "a"}'], "half": ['Error: ToolError: {"title": "b"}']}
    assert result.media == (Image(PNG),)


async def test_nothing_called_is_an_empty_text() -> None:
    result = await CHAIN.execute([])

    assert (result.text, result.media, result.raw) == ("", (), ())
    assert result.as_content_blocks() == []


@pytest.mark.parametrize("text_format", [XML, XMLFormat(), MarkdownFormat()])
async def test_the_text_reads_back(text_format: TextFormat) -> None:
    result = await CHAIN.execute([use("fail"), use("picture"), use("fail")], text_format)

    assert text_format.parse(result.text) == {"fail": ["Error: ToolError: no <luck>"] * 2, "picture": ["drawn"]}


async def test_the_format_of_a_call_wins_over_the_chains() -> None:
    result = await CHAIN.execute([use("picture")], MarkdownFormat())

    assert result.text == "# picture\ndrawn"


@pytest.mark.parametrize(("calls", "text_format"), [("# search", None), ([], "markdown")])
async def test_a_missing_format_is_a_type_error(calls: Any, text_format: Any) -> None:
    with pytest.raises(TypeError, match="a text format is required"):
        await ToolChain([search]).execute(calls, text_format)


async def test_a_chain_shows_its_tools() -> None:
    assert repr(CHAIN) == f"<ToolChain {', '.join(tool.name for tool in CHAIN.tools)}>"
    assert CHAIN.tools[0].name in repr(CHAIN)


async def test_blocks_need_no_format() -> None:
    result = await ToolChain([search]).execute([use("search", {"query": "a"})])

    assert result.text == '# search\n[{"title": "a 0"}]'


async def test_the_encoder_writes_the_data() -> None:
    chain = ToolChain([search], encoder=YAMLEncoder())

    result = await chain.execute([use("search", {"query": "a"})], MarkdownFormat())

    assert result.text == "# search\n- title: a 0"


# Calls of all forms -----------------------------------------------------------------------------------------------

CALL: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "search", "input": {"query": "a"}}
SAID: dict[str, Any] = {"type": "text", "text": "I search. <picture></picture>"}
FUNCTION: dict[str, Any] = {
    "id": "a",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "a"}'},
}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "hm", "signature": "x"}


@dataclass
class Response:
    """An answer of an API client."""

    content: Any
    role: str = "assistant"
    stop_reason: str = "tool_use"


def answered(*blocks: dict[str, Any], **fields: Any) -> AssistantMessage:
    message = {"id": "m", "role": "assistant", "model": "x", "content": list(blocks), **fields}
    read: AssistantMessage = read_frame({"type": "assistant", "message": message})
    return read


FORMS: dict[str, Callable[[], Any]] = {
    "list": lambda: [CALL],
    "dict": lambda: CALL,
    "block": lambda: use("search", {"query": "a"}, "a"),
    "value": lambda: ToolCall(id="a", name="search", input={"query": "a"}),
    "values": lambda: [ToolCall(id="a", name="search", input={"query": "a"})],
    "iterator": lambda: iter([CALL]),
    "content": lambda: [THOUGHT, SAID, CALL],
    "blocks": lambda: [ThinkingBlock(thinking="x"), TextBlock(text="y"), use("search", {"query": "a"}, "a")],
    "objects": lambda: [SimpleNamespace(**SAID), SimpleNamespace(**CALL)],
    "text and call": lambda: ["I search.", CALL],
    "message": lambda: {"role": "assistant", "content": [SAID, CALL]},
    "response as dict": lambda: {"type": "message", "role": "assistant", "content": [SAID, CALL]},
    "response": lambda: Response([SimpleNamespace(**SAID), SimpleNamespace(**CALL)]),
    "AssistantMessage": lambda: answered(SAID, CALL),
    "JSON": lambda: json.dumps([CALL]),
    "JSON of one": lambda: json.dumps(CALL, indent=2),
    "fenced JSON": lambda: f"```json\n{json.dumps([CALL])}\n```",
    "JSON as text of an answer": lambda: [{"type": "text", "text": json.dumps([CALL])}],
    "YAML": lambda: "- id: a\n  name: search\n  input: {query: a}",
    "JSON with tool and args": lambda: '[{"id": "a", "tool": "search", "args": {"query": "a"}}]',
    "one of them": lambda: '{"id": "a", "tool": "search", "args": {"query": "a"}}',
    "with parameters": lambda: '[{"id": "a", "name": "search", "parameters": {"query": "a"}}]',
    "with tool_input": lambda: '[{"id": "a", "tool_name": "search", "tool_input": {"query": "a"}}]',
    "with action": lambda: '[{"id": "a", "action": "search", "action_input": {"query": "a"}}]',
    "function": lambda: json.dumps([FUNCTION]),
    "function, in an answer": lambda: json.dumps({"role": "assistant", "content": None, "tool_calls": [FUNCTION]}),
    "function as name": lambda: '{"id": "a", "function": "search", "arguments": {"query": "a"}}',
    "function_call": lambda: '{"id": "a", "function_call": {"name": "search", "arguments": "{\\"query\\": \\"a\\"}"}}',
    "function as block": lambda: [FUNCTION],
    "YAML with tool and args": lambda: "- tool: search\n  args: {query: a}\n  id: a",
    "YAML, inline": lambda: "- {id: a, name: search, arguments: {query: a}}",
}


@pytest.mark.parametrize("form", FORMS)
async def test_calls_of_all_forms(form: str) -> None:
    result = await ToolChain([search, picture]).execute(FORMS[form]())

    assert [(call.name, call.tool_use_id, call.input) for call in result.raw] == [("search", "a", {"query": "a"})]
    assert outputs(result) == [[Hit("a 0")]]


async def test_a_dict_needs_only_a_name() -> None:
    result = await CHAIN.execute([{"name": "picture"}])

    assert [(call.tool_use_id, call.input, call.error) for call in result.raw] == [(None, {}, None)]


@pytest.mark.parametrize(
    "content", [[SAID], Response([SimpleNamespace(**SAID)]), answered(SAID), {"role": "assistant", "content": "a"}]
)
async def test_the_text_of_an_answer_may_go_without_a_format(content: Any) -> None:
    assert (await ToolChain([picture]).execute(content)).raw == ()


async def test_calls_in_the_text_of_an_answer() -> None:
    result = await CHAIN.execute(Response([SAID, {"type": "text", "text": '<search>{"query": "b"}</search>'}]))

    assert [(call.name, call.tool_use_id) for call in result.raw] == [("picture", None), ("search", None)]


@pytest.mark.parametrize("stop_reason", ["max_tokens", "refusal"])
@pytest.mark.parametrize("make", [Response, lambda blocks, **more: answered(*blocks, **more)])
async def test_a_call_that_was_cut_off_does_not_run(make: Any, stop_reason: str) -> None:
    result = await CHAIN.execute(make([CALL, {**CALL, "id": "b"}], stop_reason=stop_reason))

    assert outputs(result) == [[Hit("a 0")], None]
    assert f"cut off ({stop_reason})" in str(result.raw[1].error)
    assert [block.is_error for block in result.tool_result_blocks()] == [False, True]


@tool
def clean_up(folder: str = "/") -> str:
    """Delete a folder."""
    return f"deleted {folder}"


@pytest.mark.parametrize(
    ("text", "encoder"),
    [
        ("I clean up: <clean_up>", JSONEncoder()),
        ('<clean_up>{"folder": "/tmp"}', JSONEncoder()),
        ('<clean_up>{"folder": "/tmp"}</clean_', JSONEncoder()),
        ("<clean_up>folder: /home/me/proj", YAMLEncoder()),
        ("- name: clean_up\n  input:\n    folder: /home/me/proj", JSONEncoder()),
    ],
)
@pytest.mark.parametrize("before", ["", '<search>{"query": "a"}</search>\n'])
async def test_a_call_in_text_that_was_cut_off_does_not_run(text: str, encoder: Any, before: str) -> None:
    if before and text.startswith("-"):
        before, text = "", f'- name: search\n  input: {{"query": "a"}}\n{text}'
    chain = ToolChain([clean_up, search], encoder=encoder, text_format=XML)
    answer = {"role": "assistant", "content": [{"type": "text", "text": before + text}], "stop_reason": "max_tokens"}

    result = await chain.execute(answer)

    assert "cut off (max_tokens)" in str(result.raw[-1].error)
    assert [call.error for call in result.raw[:-1]] == [None] * (len(result.raw) - 1)
    assert "search" not in before + text or outputs(result)[0] == [Hit("a 0")]


async def test_headers_do_not_show_where_the_last_call_of_a_cut_off_answer_ends() -> None:
    text = '# search\n{"query": "a"}\n\n# clean_up\n{"folder": "/tmp"}'
    chain = ToolChain([clean_up, search], text_format=MarkdownFormat())
    answer = {"role": "assistant", "content": [{"type": "text", "text": text}], "stop_reason": "max_tokens"}

    result = await chain.execute(answer)

    assert [bool(call.error) for call in result.raw] == [False, True]


@pytest.mark.parametrize(
    ("text", "stop_reason"),
    [
        ("<clean_up></clean_up> Done, as I", "max_tokens"),
        ('[{"name": "clean_up", "input": {}}]', "max_tokens"),
        ('```json\n[{"name": "clean_up", "input": {}}]', None),
        ('<clean_up>{"folder": "/tmp"}', "stop_sequence"),
    ],
)
async def test_a_call_that_is_complete_runs_wherever_the_answer_ends(text: str, stop_reason: str | None) -> None:
    content = [{"type": "text", "text": text}]
    answer = {"role": "assistant", "content": content, "stop_reason": stop_reason, "stop_sequence": "</clean_up>"}

    result = await ToolChain([clean_up], text_format=XML).execute(answer)

    assert [call.error for call in result.raw] == [None]


@tool(read_only=True)
def look_up(folder: str = "/") -> str:
    """List a folder."""
    return f"found {folder}"


@pytest.mark.parametrize("stop_reason", [None, "end_turn", "stop_sequence"])
@pytest.mark.parametrize(
    ("text", "text_format"),
    [
        ("<clean_up>", XML),
        ('<clean_up>{"folder": "/tmp"}', XML),
        ('<clean_up>{"folder": "/tmp"}</clean_up', XML),
        ('<clean_up>{"folder": "/tmp"}\n<picture></picture>', XML),
        ('<observation>\n<clean_up>{"folder": "/tmp"}</clean_up>', XML),
        ('# clean_up\n```json\n{"folder": "/tmp"}', MarkdownFormat()),
        ('```markdown\n# clean_up\n{"folder": "/tmp"}', MarkdownFormat()),
        ('{"clean_up": {"folder": "/tmp"}', JSONFormat()),
        ('{"clean_up": "{', JSONFormat()),
        ('clean_up: {"folder": "/tmp"', YAMLFormat()),
        ('```yaml\nclean_up: {"folder": "/tmp"}', YAMLFormat()),
        ("```yaml\n- name: clean_up\n  input: {folder: /tmp}", XML),
    ],
)
async def test_a_call_without_its_end_does_not_run(text: str, text_format: TextFormat, stop_reason: str | None) -> None:
    content = [{"type": "text", "text": text}]

    result = await ToolChain([clean_up, picture], text_format=text_format).execute(
        {"role": "assistant", "content": content, "stop_reason": stop_reason}
    )

    assert "the call has no end, so it was not run" in str(result.raw[0].error)
    assert [call.error for call in result.raw[1:]] == [None] * (len(result.raw) - 1)


async def test_a_call_without_its_end_runs_if_it_only_reads_and_its_arguments_are_complete() -> None:
    chain = ToolChain([look_up, clean_up], text_format=XML)

    read = await chain.execute('<look_up>{"folder": "/tmp"}')
    half = await chain.execute('<look_up>{"folder": "/t')

    assert outputs(read) == ["found /tmp"]
    assert "the call has no end" in half.text


BOMB = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))])


@pytest.mark.parametrize(
    "text",
    [
        f"<search>{'[' * 100_000}</search>",
        "<search>" + '{"a":' * 100_000 + "</search>",
        f"<search>{BOMB}\nquery: *a9</search>",
        "<search>query: !!int ''</search>",
        "<search>query: !!bool maybe</search>",
        "<search>query: !!timestamp soon</search>",
    ],
)
@pytest.mark.parametrize("encoder", [JSONEncoder(), YAMLEncoder()])
@pytest.mark.one_backend
async def test_hostile_arguments_in_text_are_an_error_to_mend(text: str, encoder: Any) -> None:
    result = await ToolChain([search], encoder=encoder).execute(text, XML)

    assert [type(call.error) for call in result.raw] == [ToolInputError]


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "- name: " + "[" * 2_000, "- name: other\n  input: {query: !!int ''}", "- name: &a [*a]"]
)
@pytest.mark.one_backend
async def test_a_hostile_list_without_a_tool_is_text(text: str) -> None:
    assert (await CHAIN.execute(text)).raw == ()


@pytest.mark.parametrize("levels", [2_000, 50_000])
@pytest.mark.parametrize("kind", [dict, list])
async def test_arguments_may_be_nested_deep(kind: type, levels: int) -> None:
    deep: Any = kind()
    for _ in range(levels):
        deep = {"a": deep} if kind is dict else [deep]

    calls = [ToolUseBlock(id="1", name="search", input={"query": deep}), ToolCall(id="2", name="search", input=deep)]
    result = await CHAIN.execute(calls)

    assert [type(call.error) for call in result.raw] == [ToolInputError, ToolInputError]
    with pytest.raises(TypeError, match="a call must be a ToolUseBlock") as caught:  # since 3.13 such a repr succeeds
        await CHAIN.execute([{"name": 5, "input": deep}] if kind is dict else [deep])
    assert len(str(caught.value)) < 300


async def test_no_calls_have_no_message() -> None:
    result = await CHAIN.execute("Nothing to call.")
    with pytest.raises(ValueError, match="there were no calls"):
        result.to_api_message()


@pytest.mark.parametrize(
    "text",
    [
        '[{"name": "search", "input": {"query": "a"}}, {"name": "sea',
        '{"name": "search", "input": {"query": "a",}}',
        "- name: search\n  input: {query: !!int ''}",
    ],
)
async def test_a_list_of_calls_that_cannot_be_read_is_an_error_and_nothing_runs(text: str) -> None:
    result = await CHAIN.execute(text, XML)

    assert [(call.name, type(call.error), call.output) for call in result.raw] == [("search", ToolError, None)]
    assert "the list of calls cannot be read, so nothing was run" in result.text


@pytest.mark.parametrize(
    "call", [5, {"input": {}}, {"name": 5}, None, object(), UserMessage(message=UserContent(role="user", content="x"))]
)
async def test_a_value_that_is_no_call_is_a_type_error(call: Any) -> None:
    with pytest.raises(TypeError, match="a call must be a ToolUseBlock"):
        await CHAIN.execute([call])
    with pytest.raises(TypeError, match="a call must be a ToolUseBlock"):
        await CHAIN.execute(call)


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

    assert outputs(result)[0] == [Hit("a 0")]
    assert [(call.name, call.error) for call in result.raw] == [("search", None), ("picture", None)]


async def test_names_in_text_are_matched_without_case() -> None:
    result = await CHAIN.execute('<Search>{"query": "a"}</Search>')

    assert [(call.name, call.output) for call in result.raw] == [("search", [Hit("a 0")])]


async def test_arguments_in_text_are_in_the_notation_of_the_encoder() -> None:
    chain = ToolChain([search], encoder=YAMLEncoder())

    result = await chain.execute("# search\nquery: a\nlimit: 2", MarkdownFormat())

    assert outputs(result) == [[Hit("a 0"), Hit("a 1")]]


async def test_arguments_in_text_that_cannot_be_read_are_an_error_to_mend() -> None:
    result = await CHAIN.execute("<search>{query: a}</search>")

    assert "Error: ToolInputError: invalid arguments for search" in result.text
    assert "{query: a}" in result.text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('<serach>{"query": "a"}</serach>', "serach"),
        ("<searches></searches>", "searches"),
        ('<lookup>{"query": "a"}</lookup>', "lookup"),
        ("<lookup>{query: a}</lookup>", "lookup"),
    ],
)
async def test_a_section_that_looks_like_a_call_of_no_tool_is_reported(text: str, name: str) -> None:
    result = await CHAIN.execute(f"I look.\n{text}\n<picture></picture>")

    assert [type(call.error) for call in result.raw] == [UnknownToolError, type(None)]
    assert f"<{name}>Error: UnknownToolError: unknown tool '{name}';" in result.text


@pytest.mark.parametrize(
    "text",
    [
        "<b>bold</b> <notes>Search for it.</notes> <searches>I have searched.</searches>",
        '<answer>{"title": "a"}</answer>',
        '[{"name": "Ada", "age": 36}]',
        '[{"name": "parse", "parameters": ["text", "names"]}]',
        '{"action": "approve", "parameters": {"reason": "small"}}',
        '{"answer": 5}',
        "[not json",
        "- a list\n- of words",
    ],
)
async def test_text_that_is_no_call_has_no_results(text: str) -> None:
    text_format = XMLFormat()
    text_format.register_section("answer")

    assert (await CHAIN.execute(text, text_format)).raw == ()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (XMLFormat, '<answer>I look.</answer><picture></picture><serach>{"query": "a"}</serach>'),
        (XMLFormat, '<calls>\n<picture></picture>\n<serach>{"query": "a"}</serach>\n</calls>'),
        (MarkdownFormat, '# answer\nI look.\n\n# picture\n\n# serach\n{"query": "a"}'),
    ],
)
async def test_calls_next_to_the_sections_that_the_format_expects(make: Callable[[], TextFormat], text: str) -> None:
    text_format = make()
    text_format.register_section("answer")
    text_format.register_section("summary")

    result = await CHAIN.execute(text, text_format)

    assert [(call.name, type(call.error)) for call in result.raw] == [
        ("picture", type(None)),
        ("serach", UnknownToolError),
    ]


@pytest.mark.parametrize(
    "text",
    [
        '[{"tool": "search", "query": "a"}]',
        '{"name": "search", "why": "to find a"}',
        '[{"tool": "search", "args": {"query": "a"}',
        'I search.\n```json\n[{"tool": "search", "args": {"query": "a"}}]\n```',
        'I search: {"args": {"query": "a"}, "function": "search"}',
        '<tool_call>[{"name": "search", "arguments": {"query": "a"}}]</tool_call>',
        '<function=search>{"query": "a"}</function>',
        '<invoke name="search"><parameter name="query">a</parameter></invoke>',
    ],
)
async def test_a_call_in_a_form_that_is_not_read_is_an_error_and_not_the_answer(text: str) -> None:
    result = await CHAIN.execute(text)

    assert [(call.name, type(call.error)) for call in result.raw] == [("search", ToolError)]
    assert "write" in str(result.raw[0].error)


async def test_a_call_in_a_section_for_other_content_is_text() -> None:
    text_format = XMLFormat()
    text_format.register_section("answer")

    result = await CHAIN.execute('<answer>Write {"tool": "search", "args": {}}.</answer>', text_format)

    assert result.raw == ()


async def test_an_item_in_a_list_of_calls_that_is_not_a_call_is_reported() -> None:
    result = await CHAIN.execute(json.dumps([CALL, {"query": "b"}]))

    assert outputs(result) == [[Hit("a 0")], None]
    assert "an item of the list is not a call: {'query': 'b'}" in result.text


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


async def test_an_unknown_tool_is_an_error_that_names_the_nearest_ones() -> None:
    result = await CHAIN.execute([use("serach"), use("mcp__tools__picture"), use("two\nlines")])

    assert XML.parse(result.text) == {
        "serach": [
            "Error: UnknownToolError: unknown tool 'serach'; did you mean 'search'? "
            "available tools: search, picture, fail"
        ],
        "mcp__tools__picture": [
            "Error: UnknownToolError: unknown tool 'mcp__tools__picture'; did you mean 'picture'? "
            "available tools: search, picture, fail"
        ],
        "unknown_tool": ["Error: UnknownToolError: unknown tool 'two\\nlines'; available tools: search, picture, fail"],
    }
    assert isinstance(result.raw[0].error, UnknownToolError)
    assert result.raw[0].error.near == ["search"]


async def test_an_exception_is_marked_with_its_kind_and_without_a_traceback() -> None:
    @tool
    def broken() -> None:
        raise ConnectionError("no route; token=abcdefgh")

    result = await ToolChain([broken], text_format=XMLFormat()).execute([use("broken")])

    assert result.text == "<broken>Error: ConnectionError: no route; token=***</broken>"


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@tool
def fall_silent(kind: str) -> ToolResult:
    """Fail without a word."""
    if kind == "exception":
        raise SilentError
    if kind == "tool error":
        raise ToolError(" \n")
    return ToolResult(" ", is_error=kind == "result")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("exception", ["fall_silent failed: SilentError"]),
        ("tool error", ["fall_silent failed"]),
        ("result", ["fall_silent failed"]),
        ("blank", []),
    ],
)
async def test_a_result_for_the_api_has_no_blank_text(kind: str, said: list[str]) -> None:
    result = await ToolChain([fall_silent]).execute([use("fall_silent", {"kind": kind})])

    [block] = result.to_api_message()["content"]
    assert [part["text"] for part in block["content"]] == said
    assert block.get("is_error", False) is bool(said)


@tool
def explain() -> None:
    """Fail with many words."""
    raise ToolError("word " * 100_000)


@pytest.mark.parametrize("name", ["explain", "search" * 100_000])
async def test_an_error_is_not_longer_than_a_result_may_be(name: str) -> None:
    result = await ToolChain([explain]).execute([use(name)])

    [block] = result.to_api_message()["content"]
    assert len(block["content"][0]["text"]) <= 50_000
    assert len(result.raw[0].as_text()) <= 50_000


async def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(OptionsError, match="two tools are named 'search'"):
        ToolChain([search, search])


async def test_the_time_limit_of_the_chain() -> None:
    @tool
    async def slow() -> None:
        await anyio.sleep_forever()

    result = await ToolChain([slow], text_format=XML, timeout=0.01).execute([use("slow")])

    assert "Error: ToolTimeoutError: slow did not finish within 0.01 s" in result.text


# Order ------------------------------------------------------------------------------------------------------------


class Trace:
    """Two tools that record when they begin and end, and how many run at once."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.running = self.most = 0
        self.tools: list[Tool[..., Any]] = [
            tool(name="read", read_only=True)(self._traced),
            tool(name="write")(self._traced),
        ]

    async def _traced(self, name: str) -> str:
        self.log.append(f"+{name}")
        self.running += 1
        self.most = max(self.most, self.running)
        await anyio.wait_all_tasks_blocked()
        self.running -= 1
        self.log.append(f"-{name}")
        return name


def calls_of(names: str) -> list[ToolUseBlock]:
    """Return calls of the tools of a `Trace`: `r1 w2` reads and then writes."""
    return [use({"r": "read", "w": "write"}[name[0]], {"name": name}, name) for name in names.split()]


async def test_only_neighbours_that_are_read_only_run_together() -> None:
    trace = Trace()

    result = await ToolChain(trace.tools).execute(calls_of("r1 r2 w3 w4 r5 w6"))

    together = trace.log[:4]
    assert sorted(together[:2]) == ["+r1", "+r2"]
    assert trace.log[4:] == ["+w3", "-w3", "+w4", "-w4", "+r5", "-r5", "+w6", "-w6"]
    assert outputs(result) == ["r1", "r2", "w3", "w4", "r5", "w6"]


@pytest.mark.parametrize(("limit", "most"), [(2, 2), (1, 1), (None, 12)])
async def test_the_limit_on_calls_at_once(limit: int | None, most: int) -> None:
    trace = Trace()

    await ToolChain(trace.tools, max_concurrency=limit).execute(calls_of(" ".join(f"r{n}" for n in range(12))))

    assert trace.most == most


async def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(OptionsError, match="max_concurrency must be at least 1, not 0"):
        ToolChain([], max_concurrency=0)


async def test_results_keep_the_order_of_the_calls() -> None:
    second_is_done = Event()

    @tool(read_only=True)
    async def work(index: int, context: ToolContext) -> str:
        if index == 1:
            second_is_done.set()
        await second_is_done.wait()
        return f"{index} {context.tool_use_id}"

    with anyio.fail_after(30):
        result = await ToolChain([work], text_format=XML).execute(
            [use("work", {"index": index}, f"id{index}") for index in range(3)]
        )

    assert XML.parse(result.text) == {"work": ["0 id0", "1 id1", "2 id2"]}


async def test_cancelling_cancels_the_running_calls_and_starts_no_other() -> None:
    heard: list[str] = []
    in_thread, is_told = threading.Event(), threading.Event()

    @tool(read_only=True)
    async def waits() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            heard.append("cancelled")

    @tool(read_only=True)
    def blocks(context: ToolContext) -> None:
        in_thread.set()
        if context.cancellation.wait(60):
            is_told.set()

    @tool
    def after() -> None:
        heard.append("after")

    chain = ToolChain([waits, blocks, after])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(chain.execute, [use("waits"), use("blocks"), use("after")])
            await anyio.to_thread.run_sync(in_thread.wait, 5)
            workers.cancel_scope.cancel()
        await anyio.to_thread.run_sync(is_told.wait, 4)

    assert is_told.is_set()
    assert heard == ["cancelled"]


# For the model ----------------------------------------------------------------------------------------------------


async def test_one_user_message_answers_all_calls_in_order() -> None:
    result = await CHAIN.execute([use("picture", call_id="a"), use("fail", call_id="b"), use("search", {}, "c")])

    message = result.to_api_message()

    assert message == as_json(result.tool_result_message().message)
    assert message["role"] == "user"
    assert [block["tool_use_id"] for block in message["content"]] == ["a", "b", "c"]
    assert [block.get("is_error", "left out") for block in message["content"]] == ["left out", True, True]
    assert [part["type"] for part in message["content"][0]["content"]] == ["text", "image"]
    assert message["content"][1]["content"] == [{"type": "text", "text": "no <luck>"}]


async def test_a_failed_call_has_only_text_as_the_api_demands() -> None:
    @tool
    def half() -> ToolResult:
        return ToolResult(media=[Image(PNG)], is_error=True)

    message = (await ToolChain([half]).execute([use("half", call_id="a")])).to_api_message()

    text = {"type": "text", "text": "half failed"}
    assert message["content"] == [{"type": "tool_result", "tool_use_id": "a", "content": [text], "is_error": True}]


async def test_calls_in_text_are_answered_in_text() -> None:
    result = await CHAIN.execute("<picture></picture>")

    message = result.to_api_message()

    assert [block["type"] for block in message["content"]] == ["text", "image"]
    assert message["content"][0]["text"] == result.text


async def test_the_content_of_a_user_message() -> None:
    result = await CHAIN.execute([use("picture")])

    blocks = [as_json(block) for block in result.as_content_blocks()]

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

    assert "<picture>Error: ValueError: cannot resize</picture>" in result.text
    assert (result.media, result.raw[0].output) == ((), "drawn")


async def test_cancelling_while_media_are_transformed_is_no_failure_of_the_call() -> None:
    started, heard = anyio.Event(), list[str]()

    async def slow(media: Media) -> Media:
        started.set()
        await anyio.sleep_forever()
        return media

    async def call() -> None:
        await ToolChain([picture], text_format=XML, media_transform=slow).execute([use("picture")])
        heard.append("a result")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(call)
            await started.wait()
            workers.cancel_scope.cancel()

    assert heard == []


async def test_encoders_of_tools_are_used_where_the_chain_has_none() -> None:
    @tool(encoder=JSONEncoder(indent=2))
    def data() -> dict[str, int]:
        return {"a": 1}

    assert (await ToolChain([data]).execute([use("data")], MarkdownFormat())).text == '# data\n{\n  "a": 1\n}'


async def test_instructions_need_a_format() -> None:
    with pytest.raises(TypeError, match="a text format is required"):
        ToolChain(CHAIN.tools).describe()
