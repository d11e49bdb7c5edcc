"""`ToolChain.loop` around a Messages API, called through the `anthropic` package, and around plain functions."""

import json
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from api_rules import refusals

from claude_agent_py import MarkdownFormat, ToolChain, ToolError, XMLFormat, tool
from claude_agent_py.errors import OptionsError
from claude_agent_py.testing import RawBlock, Reply, ScriptedModel, text, thinking, tool_use
from claude_agent_py.tools import LoopStep, ToolCall

if TYPE_CHECKING:
    import anthropic

pytestmark = pytest.mark.anyio

RESIDENTS = {"Cologne": 1_087_353, "Bonn": 335_789}


@tool(read_only=True)
async def population(city: str) -> int:
    """Return the population of a city."""
    if city not in RESIDENTS:
        raise ToolError(f"I know no city {city!r}.")
    return RESIDENTS[city]


CHAIN = ToolChain([population])
QUESTION = "Which is larger?"
CALLS = Reply(
    [
        thinking("hm"),
        text("I look."),
        tool_use("population", {"city": "Cologne"}, id="toolu_a"),
        tool_use("population", {"city": "Atlantis"}, id="toolu_b"),
    ]
)
CONVERSATION = [
    {"role": "user", "content": QUESTION},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2lnbmF0dXJl"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_a", "name": "population", "input": {"city": "Cologne"}},
            {"type": "tool_use", "id": "toolu_b", "name": "population", "input": {"city": "Atlantis"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_a", "content": [{"type": "text", "text": "1087353"}]},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_b",
                "content": [{"type": "text", "text": "I know no city 'Atlantis'."}],
                "is_error": True,
            },
        ],
    },
]
ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "Cologne."}]}
REQUEST: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 1000, "tools": CHAIN.definitions()}


def async_client(model: ScriptedModel) -> "anthropic.AsyncAnthropic":
    import anthropic

    return anthropic.AsyncAnthropic(base_url=model.url, api_key="none", max_retries=0)


def client(model: ScriptedModel) -> "anthropic.Anthropic":
    import anthropic

    return anthropic.Anthropic(base_url=model.url, api_key="none", max_retries=0)


# The real package -------------------------------------------------------------------------------------------------


async def test_the_messages_that_the_api_gets() -> None:
    told: list[LoopStep] = []

    async with ScriptedModel([CALLS, "Cologne."]) as model, async_client(model) as api:

        async def call_model(messages: list[Any]) -> Any:
            return await api.messages.create(messages=messages, **REQUEST)

        result = await CHAIN.loop(call_model, QUESTION, on_step=told.append)

    assert [request.messages for request in model.requests] == [CONVERSATION[:1], CONVERSATION]
    assert model.requests[0].tools == CHAIN.definitions()
    assert (result.ended, result.text, result.response.stop_reason) == ("answered", "Cologne.", "end_turn")
    assert result.messages == [*CONVERSATION, ANSWER]
    assert told == list(result.steps)
    assert [step.number for step in told] == [1, 2]
    assert told[0].result is not None
    assert [call.output for call in told[0].result.raw] == [1_087_353, None]
    assert [list(step.messages) for step in told] == [CONVERSATION[1:], [ANSWER]]


async def test_a_stream_does_as_well() -> None:
    """The package adds fields of its own to the message of a stream, which the API refuses."""
    async with ScriptedModel([CALLS, "Cologne."]) as model, async_client(model) as api:

        async def call_model(messages: list[Any]) -> Any:
            async with api.messages.stream(messages=messages, **REQUEST) as stream:
                return await stream.get_final_message()

        result = await CHAIN.loop(call_model, QUESTION)

    assert model.requests[1].messages == CONVERSATION
    assert result.messages == [*CONVERSATION, ANSWER]


def test_from_plain_code() -> None:
    with ScriptedModel([CALLS, "Cologne."]) as model, client(model) as api:
        result = CHAIN.loop_sync(lambda messages: api.messages.create(messages=messages, **REQUEST), QUESTION)

    assert model.requests[1].messages == CONVERSATION
    assert result.text == "Cologne."


async def test_from_plain_code_inside_an_event_loop() -> None:
    assert CHAIN.loop_sync(lambda messages: "Hi.", QUESTION).text == "Hi."


async def test_a_refused_request_ends_the_loop() -> None:
    from anthropic import APIStatusError

    async with ScriptedModel(on_exhausted="fail") as model, async_client(model) as api:

        async def call_model(messages: list[Any]) -> Any:
            return await api.messages.create(messages=messages, **REQUEST)

        with pytest.raises(APIStatusError):
            await CHAIN.loop(call_model, QUESTION)


# Any function -----------------------------------------------------------------------------------------------------


def call(city: str = "Bonn", call_id: str = "a", **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": call_id, "name": "population", "input": {"city": city}}
    return {"role": "assistant", "content": [block], **fields}


class Script:
    """A plain function that stands for a model."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.heard: list[list[Any]] = []

    def __call__(self, messages: list[Any]) -> Any:
        self.heard.append(list(messages))
        messages.clear()  # the list is the function's own
        return self.answers.pop(0)


@pytest.mark.parametrize("answer", [call(), call()["content"]])
async def test_a_plain_function_runs_in_a_thread(answer: Any) -> None:
    threads: list[int] = []
    script = Script(answer, "335789.")

    def call_model(messages: list[Any]) -> Any:
        threads.append(threading.get_ident())
        return script(messages)

    result = await CHAIN.loop(call_model, QUESTION)

    assert threading.get_ident() not in threads
    assert [len(messages) for messages in script.heard] == [1, 3]
    assert result.messages[-1] == {"role": "assistant", "content": [{"type": "text", "text": "335789."}]}


async def test_a_single_message_begins_a_conversation() -> None:
    script = Script("Yes.")

    assert (await CHAIN.loop(script, {"role": "user", "content": "Hi."})).text == "Yes."
    assert script.heard == [[{"role": "user", "content": "Hi."}]]


async def test_a_conversation_continues_and_is_not_changed() -> None:
    before = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
    script = Script("Yes.")

    result = await CHAIN.loop(script, [*before, {"role": "user", "content": "Well?"}])

    assert script.heard[0][:2] == before
    assert len(before) == 2
    assert len(result.messages) == 4


async def test_marks_for_the_cache_do_not_stay_in_the_conversation() -> None:
    before = [{"role": "user", "content": [{"type": "text", "text": "Hi."}]}]
    script, marks = Script(*(call(call_id=f"c{number}") for number in range(5)), "Yes."), list[int]()

    def call_model(messages: list[Any]) -> Any:
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        marks.append(str(messages).count("cache_control"))
        return script(messages)

    result = await CHAIN.loop(call_model, before)

    assert marks == [1] * 6  # the API takes four
    assert "cache_control" not in str([before, result.messages])


@pytest.mark.parametrize(
    "blocks",
    [
        [ToolCall(name="population", input={"city": "Bonn"})],
        [{"name": "population", "input": {"city": "Bonn"}}],
        [{"name": "population", "arguments": {"city": "Bonn"}}, call(call_id="b")["content"][0]],
    ],
)
async def test_calls_without_ids_get_some_that_the_api_takes(blocks: list[Any]) -> None:
    result = await CHAIN.loop(Script(blocks, "335789."), [{"role": "user", "content": [{"type": "text", "text": "?"}]}])

    assert refusals(list(result.messages)) == []
    assert [block["type"] for block in result.messages[2]["content"]] == ["tool_result"] * len(blocks)


@pytest.mark.parametrize("text_format", [XMLFormat(wrapper="observation"), MarkdownFormat()])
async def test_a_model_that_calls_in_text(text_format: Any) -> None:
    said = text_format.format_section("population", '{"city": "Bonn"}')
    script = Script(f"I look.\n{said}", "335789.")

    result = await CHAIN.loop(script, QUESTION, text_format=text_format)

    observed = text_format.format_sections([("population", "335789")])
    assert script.heard[1][2] == {"role": "user", "content": [{"type": "text", "text": observed}]}
    assert (result.ended, result.text) == ("answered", "335789.")


async def test_ids_of_calls_in_text_are_not_sent_to_the_api() -> None:
    written = {"id": "call_1", "type": "function", "function": {"name": "population", "arguments": '{"city": "Bonn"}'}}
    script = Script(json.dumps([written]), "335789.")

    await CHAIN.loop(script, QUESTION)

    assert [block["type"] for block in script.heard[1][2]["content"]] == ["text"]


async def test_a_stop_sequence_ends_a_call_in_text() -> None:
    said = {"content": '<population>{"city": "Bonn"}', "stop_reason": "stop_sequence", "stop_sequence": "</population>"}

    result = await CHAIN.loop(Script(said, "335789."), QUESTION, text_format=XMLFormat())

    assert [step.result.raw[0].output for step in result.steps if step.result] == [335_789]


async def test_the_limit_on_steps_leaves_a_conversation_that_can_continue() -> None:
    result = await CHAIN.loop(Script(call(), call(call_id="b")), QUESTION, max_steps=2)

    assert (result.ended, len(result.steps)) == ("max_steps", 2)
    assert [message["role"] for message in result.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert result.messages[-1]["content"][0]["tool_use_id"] == "b"
    assert (await CHAIN.loop(Script("Bonn."), result.messages)).text == "Bonn."


async def test_stopping_when_the_caller_says() -> None:
    asked: list[int] = []

    async def stop_when(step: LoopStep) -> bool:
        asked.append(step.number)
        return step.number == 2

    result = await CHAIN.loop(Script(call(), call()), QUESTION, stop_when=stop_when)

    assert (result.ended, asked) == ("stopped", [1, 2])


async def test_less_than_one_step_is_refused() -> None:
    with pytest.raises(OptionsError, match="max_steps: must be at least 1, not 0"):
        await CHAIN.loop(Script(), QUESTION, max_steps=0)


async def test_a_paused_turn_continues() -> None:
    paused = {"role": "assistant", "content": [{"type": "text", "text": "So far"}], "stop_reason": "pause_turn"}

    result = await CHAIN.loop(Script(paused, "so good."), QUESTION)

    assert (result.ended, len(result.steps), result.text) == ("answered", 2, "so good.")


async def test_a_call_that_was_cut_off_is_answered_but_does_not_run() -> None:
    script = Script(call(stop_reason="max_tokens"), "I see.")

    await CHAIN.loop(script, QUESTION)

    [block] = script.heard[1][-1]["content"]
    assert (block["tool_use_id"], block["is_error"]) == ("a", True)
    assert "cut off (max_tokens)" in block["content"][0]["text"]


async def test_empty_texts_are_not_sent_back() -> None:
    empty = {"type": "text", "text": " "}
    script = Script([empty, *call()["content"]], [empty])

    result = await CHAIN.loop(script, QUESTION)

    assert [block["type"] for block in script.heard[1][1]["content"]] == ["tool_use"]
    assert result.messages[-1]["role"] == "user"


async def test_blocks_of_other_types_are_sent_back_as_they_came() -> None:
    search = RawBlock({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "a"}})
    async with ScriptedModel([Reply([search, tool_use("population", {"city": "Bonn"})]), "Yes."]) as model:
        async with async_client(model) as api:

            async def call_model(messages: list[Any]) -> Any:
                return await api.messages.create(messages=messages, **REQUEST)

            await CHAIN.loop(call_model, QUESTION)

    assert model.requests[1].messages[1]["content"][0] == dict(search.json)


@pytest.mark.parametrize("where", ["call_model", "on_step", "stop_when"])
async def test_an_exception_of_a_function_ends_the_loop(where: str) -> None:
    def broken(_: Any) -> Any:
        raise LookupError(where)

    functions: dict[str, Any] = {"call_model": Script(call()), where: broken}
    with pytest.raises(LookupError, match=where):
        await CHAIN.loop(functions.pop("call_model"), QUESTION, **functions)


async def test_cancelling_cancels_the_tool_that_runs() -> None:
    runs, is_cancelled = anyio.Event(), False

    @tool
    async def wait() -> None:
        nonlocal is_cancelled
        runs.set()
        try:
            await anyio.sleep_forever()
        finally:
            is_cancelled = True

    calls = [{"type": "tool_use", "id": "a", "name": "wait", "input": {}}]
    steps: list[LoopStep] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:

            async def looping() -> None:
                await ToolChain([wait]).loop(Script(calls), QUESTION, on_step=steps.append)

            workers.start_soon(looping)
            await runs.wait()
            workers.cancel_scope.cancel()

    assert is_cancelled
    assert steps == []
