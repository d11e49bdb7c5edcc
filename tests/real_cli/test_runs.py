"""Runs against the real CLI: results, text, structured output, several at once, interrupts, errors."""

import pickle
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from one_session import OneSession
from peers import read_into
from pydantic import BaseModel, field_validator

import claude_agent_py
from claude_agent_py import (
    AgentDefinition,
    AuthenticationError,
    BudgetExceededError,
    Client,
    ConnectionClosedError,
    HookContext,
    InterruptedRunError,
    MaxTurnsError,
    MCPStdioServer,
    OptionsError,
    RateLimitedError,
    ResultMessage,
    RunError,
    RunTimeoutError,
    StructuredOutputError,
    TextBlock,
    Timeouts,
    UserMessage,
    query,
    run,
    run_sync,
)
from claude_agent_py.errors import (
    BillingError,
    HookStoppedError,
    InvalidRequestError,
    ModelNotFoundError,
    OverloadedError,
    PromptCancelledError,
    ServerError,
)
from claude_agent_py.hooks import PostToolUseInput, PostToolUseOutput, StopInput
from claude_agent_py.messages import ModelUsage, UserContent
from claude_agent_py.testing import CutStream, Failure, Gate, Reply, ScriptedModel, Usage, text, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


async def a_prompt_that_could_not_be_sent_can_be_sent_again(one: OneSession) -> None:
    prompt = {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": str(uuid4())}
    with pytest.raises(ConnectionClosedError):
        Client(one.client.options).query(prompt)
    assert (await one.ask("answer", prompt=prompt)).text == "answer"


async def a_run_is_iterated_awaited_and_left(one: OneSession) -> None:
    one.answers("hello", "and", "one", "two", "ok")
    client = one.client
    run = client.query("iterated, then awaited")
    seen = [message async for message in run]
    result = await run
    assert result.text == "hello"
    assert isinstance(seen[-1], ResultMessage)
    assert seen == list(result.messages)

    run = client.query("awaited, then iterated")
    result = await run
    assert [message async for message in run] == list(result.messages)

    async for _ in client.query("left"):
        break
    assert (await client.query("after it")).text == "two"

    await client.query([TextBlock(text="part one"), TextBlock(text="part two")])
    sent = str(one.requests_of()[-1].messages[-1])
    assert "part one" in sent
    assert "part two" in sent


async def a_prompt_may_be_blocks_of_the_api(one: OneSession) -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "Read this."},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "It is raining."},
            "title": "Weather",
        },
    ]
    assert (await one.ask("Wet.", prompt=blocks)).text == "Wet."
    messages = one.requests_of()[0].messages
    sent = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    assert all(any(given.items() <= block.items() for block in sent) for given in blocks)


async def a_prompt_that_arrives_in_pieces_is_one_run_with_every_answer(one: OneSession) -> None:
    async def prompts() -> AsyncIterator[str]:
        yield "first"
        yield "the second piece"

    result = await one.ask("one", "two", prompt=prompts(), until="result")
    assert result.text in {"one", "two"}
    assert "the second piece" in str(one.requests_of()[-1].messages)


async def a_message_that_is_only_added_is_read_with_the_next_prompt(one: OneSession) -> None:
    added = UserMessage(message=UserContent(role="user", content="The code word is plum."), should_query=False)
    nothing = await one.ask(prompt=added)
    assert (nothing.text, one.requests_of()) == ("", [])
    result = await one.ask("plum", prompt="What is the code word?")
    assert result.text == "plum"
    assert "The code word is plum." in one.requests_of()[0].last_user_text


async def a_prompt_says_how_it_is_queued(one: OneSession) -> None:
    for priority, texts in (("next", ["both", "both"]), ("later", ["both", "alone"])):
        gate = Gate()
        one.answers(Reply(tool_use("Bash", {"command": "true"}), after=gate), "both", "alone")
        first = one.client.query("first")
        await gate.wait_reached()
        prompt = {"type": "user", "message": {"role": "user", "content": "x"}, "priority": priority}
        second = one.client.query(prompt)
        await one.client.usage.cost()  # what was sent before has arrived
        gate.open()
        assert [(await first).text, (await second).text] == texts, priority


async def a_prompt_with_the_uuid_of_an_earlier_one_is_an_error(one: OneSession) -> None:
    once = UserMessage(message=UserContent(role="user", content="hi"), uuid=str(uuid4()))
    result = await one.ask("hello", prompt=once)
    assert list(result.prompts) == [once.uuid]
    with pytest.raises(OptionsError, match=f"prompt: an earlier prompt had the uuid {once.uuid}"):
        one.client.query(once)


async def wrong_prompts_and_arguments_are_errors_before_anything_is_sent(one: OneSession) -> None:
    async def nothing() -> AsyncIterator[str]:
        prompts: tuple[str, ...] = ()
        for prompt in prompts:
            yield prompt

    bad: list[Any] = ["", "  \n", [], [{"text": "no type"}], {"type": "user"}, 5, b"x", [TextBlock(text="")]]
    wrongs: list[dict[str, Any]] = [{"until": "Result"}, *({"timeout": bad} for bad in ("5", 0, float("nan"), True))]
    one.answers("fine")
    for ask in (one.client.query, lambda prompt, **more: query(prompt, one.client.options, **more)):
        for prompt in bad:
            with pytest.raises(OptionsError, match="prompt"):
                ask(prompt)
        for wrong in wrongs:
            with pytest.raises(OptionsError, match=next(iter(wrong))):
                ask("x", **wrong)
    with pytest.raises(OptionsError, match="prompt"):
        await one.client.query(nothing())
    assert one.requests_of() == []
    assert (await one.client.query("y")).text == "fine"


async def several_runs_at_once_each_get_their_answer(one: OneSession) -> None:
    gate = Gate()
    one.answers(Reply("one", after=gate), "two and three")
    runs = [one.client.query("first")]
    await gate.wait_reached()
    runs += [one.client.query(prompt) for prompt in ("second", "third")]
    await one.client.usage.cost()  # what was sent before has arrived
    gate.open()
    assert [(await run).text for run in runs] == ["one", "two and three", "two and three"]


async def runs_of_one_client_from_several_workers(one: OneSession) -> None:
    answers: dict[str, str] = {}

    async def ask(name: str) -> None:
        answers[name] = (await one.client.query(name)).text

    one.answers("a", "b")
    async with anyio.create_task_group() as group:
        for name in ("x", "y", "z"):
            group.start_soon(ask, name)
    assert set(answers) == {"x", "y", "z"}
    assert all(answers.values())


async def text_arrives_once(one: OneSession) -> None:
    one.answers(Reply([text("Hello, "), text("world"), tool_use("Bash", {"command": "true"})], chunk_chars=3), "!")
    pieces = [piece async for piece in one.client.query("hi").text_stream()]
    assert "".join(pieces) == "Hello, world!"
    if one.client.options.include_partial_messages:
        assert len(pieces) > 5


async def text_arrives_once_when_the_stream_breaks(one: OneSession) -> None:
    answer = "The answer is forty-two, as everybody knows."
    seen, text_so_far = Gate(), ""
    one.answers(CutStream(Reply(answer, chunk_chars=5), after_chars=20, when=seen), Reply(answer, chunk_chars=7))
    async for piece in one.client.query("hi").text_stream():
        text_so_far += piece
        if text_so_far == answer[:20]:
            seen.open()
    assert text_so_far == answer
    assert len(one.requests_of()) == 2


async def a_failing_prompt_iterator_fails_the_run(one: OneSession) -> None:
    async def prompts() -> AsyncIterator[str]:
        yield "first"
        raise LookupError("no more")

    one.answers("one")
    with pytest.raises(LookupError):
        await one.client.query(prompts())


# Interrupts and limits -------------------------------------------------------------------------------------------


async def an_interrupt_ends_the_run_with_a_receipt(one: OneSession) -> None:
    gate = Gate()
    one.answers(Reply("late", after=gate), "next")
    run = one.client.query("slow")
    await gate.wait_reached()
    receipt = await run.interrupt()
    with pytest.raises(InterruptedRunError):
        await run
    gate.open()
    assert (await one.client.query("again")).text == "next"
    late = await run.interrupt()
    assert receipt.outcome == "interrupted"
    assert late.outcome == "too_late"


async def interrupting_a_queued_run_takes_its_prompt_out_of_the_queue(one: OneSession) -> None:
    gate = Gate()
    one.answers(Reply("one", after=gate), "two")
    first = one.client.query("first")
    await gate.wait_reached()
    second = one.client.query("second")
    receipt = await second.interrupt()
    with pytest.raises(PromptCancelledError):
        await second
    gate.open()
    assert (await first).text == "one"
    assert receipt.outcome == "dequeued"


async def a_run_that_takes_too_long_is_interrupted(one: OneSession) -> None:
    gate = Gate()
    one.answers(Reply("late", after=gate))
    with pytest.raises(RunTimeoutError) as caught:
        await one.client.query("slow", timeout=0.5)
    gate.open()
    assert (await one.ask("next", prompt="again")).text == "next"
    assert caught.value.kind == "run"
    assert caught.value.result is not None


async def interrupting_a_run_that_waits_for_its_tasks_ends_it_and_spares_them(one: OneSession) -> None:
    shell = tool_use("Bash", {"command": "sleep 600", "description": "Wait", "run_in_background": True})
    one.answers(Reply(shell), "started")
    run = one.client.query("go", until="idle")
    async for message in run:
        if isinstance(message, ResultMessage):
            break
    receipt = await run.interrupt()
    with pytest.raises(InterruptedRunError) as caught:
        await run
    (task,) = one.client.tasks
    assert not task.done
    late = await run.interrupt(stop_tasks=True)
    await task.wait(timeout=60)
    assert receipt.outcome == "interrupted"
    assert late.outcome == "too_late"
    assert caught.value.result.text == "started"


async def interrupting_the_turn_of_a_run_ends_it_although_its_tasks_live(one: OneSession) -> None:
    shell = tool_use("Bash", {"command": "sleep 600", "description": "Wait", "run_in_background": True})
    for interrupt_session in (False, True):
        gate = Gate()
        one.answers(Reply(shell), Reply("late", after=gate))
        run = one.client.query("go", until="idle")
        await gate.wait_reached()
        await (one.client.interrupt() if interrupt_session else run.interrupt())
        with pytest.raises(InterruptedRunError) as caught:
            await run
        gate.open()
        [task] = caught.value.result.unfinished_tasks
        await task.stop()


async def interrupting_a_run_ends_its_iterable_of_prompts(one: OneSession) -> None:
    is_closed = anyio.Event()

    async def prompts() -> AsyncIterator[str]:
        try:
            yield "first"
            await anyio.sleep_forever()
        finally:
            is_closed.set()

    gate = Gate()
    one.answers(Reply("late", after=gate))
    run = one.client.query(prompts())
    await gate.wait_reached()
    await run.interrupt()
    with pytest.raises(InterruptedRunError):
        await run
    gate.open()
    await is_closed.wait()


async def the_turn_that_a_task_causes_is_not_taken_for_the_answer_to_a_prompt(one: OneSession) -> None:
    """What the peers get wrong, with the next prompt sent after that turn and while it runs."""
    client, folder = one.client, Path(str(one.client.options.cwd))

    def until_there(name: str) -> Reply:
        command = f"while [ ! -e {name} ]; do sleep 0.05; done"
        return Reply(tool_use("Bash", {"command": command, "description": "Wait", "run_in_background": True}))

    one.answers(until_there("one"), "first answer", "the task is done", "second answer")
    first = await client.query("first")
    messages = client.messages()
    (folder / "one").touch()
    await client.tasks.wait_all(timeout=60)
    async for message in messages:
        if isinstance(message, ResultMessage) and message.is_injected:
            break
    second = await client.query("second")
    assert first.text == "first answer"
    assert second.text == "second answer"
    assert second.messages
    assert not [m for m in second.messages if isinstance(m, ResultMessage) and m.is_injected]

    gate = Gate()
    late = Reply("the task is done", after=gate)
    one.answers(until_there("two"), "first answer", late, "second answer")
    await client.query("first")
    (folder / "two").touch()
    await gate.wait_reached()
    run = client.query("second")
    await client.settings.get()  # the CLI has the prompt
    gate.open()
    assert (await run).text == "second answer"


async def a_run_that_a_hook_ends_is_no_success(one: OneSession) -> None:
    def halt(data: PostToolUseInput, context: HookContext) -> PostToolUseOutput:
        return PostToolUseOutput(continue_=False)

    added = await one.client.hooks.add("PostToolUse", halt)
    with pytest.raises(HookStoppedError):
        await one.ask(Reply(tool_use("Bash", {"command": "true"})), "never")
    await one.client.hooks.remove(added)


async def a_refused_key_is_an_error_within_seconds(one: OneSession) -> None:
    with pytest.raises(AuthenticationError, match="key") as caught:
        await one.ask(*[Failure(status=401)] * 20)
    assert caught.value.result.messages


async def the_cli_ends_in_order_also_where_nobody_waited_for_its_word(one: OneSession) -> None:
    messages = one.client.messages()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await one.client.request_exit()
    async for _ in messages:
        pass


@pytest.mark.parametrize("partial", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_the_runs_of_one_session(partial: bool) -> None:
    checks = [
        a_prompt_that_could_not_be_sent_can_be_sent_again,
        a_run_is_iterated_awaited_and_left,
        a_prompt_may_be_blocks_of_the_api,
        a_prompt_that_arrives_in_pieces_is_one_run_with_every_answer,
        a_message_that_is_only_added_is_read_with_the_next_prompt,
        a_prompt_says_how_it_is_queued,
        a_prompt_with_the_uuid_of_an_earlier_one_is_an_error,
        wrong_prompts_and_arguments_are_errors_before_anything_is_sent,
        several_runs_at_once_each_get_their_answer,
        text_arrives_once,
        an_interrupt_ends_the_run_with_a_receipt,
        interrupting_a_queued_run_takes_its_prompt_out_of_the_queue,
        a_run_that_takes_too_long_is_interrupted,
        interrupting_a_run_that_waits_for_its_tasks_ends_it_and_spares_them,
        interrupting_the_turn_of_a_run_ends_it_although_its_tasks_live,
        interrupting_a_run_ends_its_iterable_of_prompts,
        the_turn_that_a_task_causes_is_not_taken_for_the_answer_to_a_prompt,
        a_run_that_a_hook_ends_is_no_success,
        a_refused_key_is_an_error_within_seconds,
        runs_of_one_client_from_several_workers,  # the CLI's exit code tells how the last one ended
        the_cli_ends_in_order_also_where_nobody_waited_for_its_word,
    ]
    if partial:
        checks = [text_arrives_once, text_arrives_once_when_the_stream_breaks, a_failing_prompt_iterator_fails_the_run]
    one = OneSession()
    async with one.open(include_partial_messages=partial):
        for check in checks:
            with anyio.fail_after(180):
                await check(one)


@pytest.mark.long
async def test_a_prompt_that_a_resumed_conversation_has_already_is_dropped_and_says_so() -> None:
    prompt = {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": str(uuid4())}
    with ScriptedModel(lambda request: text("answer")) as model, anyio.fail_after(240):
        async with Client(model.options()) as client:
            await client.query(prompt)
            session_id = client.session_id
        async with Client(model.options(resume=session_id)) as client:
            with pytest.raises(PromptCancelledError):
                await client.query(prompt)
            assert (await client.query("more")).text == "answer"


# Limits and errors ------------------------------------------------------------------------------------------------


class Verdict(BaseModel):
    ok: bool
    reasons: list[str]


def counts(usage: ModelUsage) -> tuple[float, float, float]:
    return usage.input_tokens, usage.output_tokens, usage.cost_usd


async def usage_of_a_run_is_its_own(one: OneSession) -> None:
    """By model and by agent, and what is left of the budget, from the first run of a session on."""
    look = tool_use("Agent", {"description": "look", "prompt": "Look", "subagent_type": "scout"})
    first = await one.ask("hello", prompt="hi", until="result")
    middle = await one.client.usage.budget_left_usd()
    second = await one.ask(look, "looked", "done", prompt="look")
    await one.client.tasks.wait_all()

    assert middle == pytest.approx(first.budget_left_usd)
    assert list(first.usage_by_agent) == [""]
    assert first.usage_by_agent[""].cost_usd == pytest.approx(first.cost_usd)
    assert not first.usage_by_agent[""].cost_is_derived
    assert first.usage_by_agent[""].total_tokens == first.usage.total_tokens if first.usage else False

    assert len(second.usage_by_model) == 2
    for name, total in second.model_usage.items():
        parts = [result.usage_by_model[name] for result in (first, second) if name in result.usage_by_model]
        assert [sum(part) for part in zip(*map(counts, parts), strict=True)] == pytest.approx(counts(total))
    assert sum(usage.cost_usd for usage in second.usage_by_model.values()) == pytest.approx(second.cost_usd)

    main, other = second.usage_by_agent[""], second.usage_by_agent["scout"]
    assert (main.tool_uses, main.cost_is_derived, other.cost_is_derived) == (1, True, True)
    assert main.cost_usd is not None
    assert other.cost_usd is not None
    assert 0 < other.cost_usd < main.cost_usd
    assert main.cost_usd + other.cost_usd == pytest.approx(second.cost_usd)
    assert second.budget_left_usd == pytest.approx(1.0 - first.cost_usd - second.cost_usd)


async def test_usage_and_limits_of_turns_and_of_the_budget() -> None:
    endless = Reply([text("Working."), tool_use("Bash", {"command": "true"})])
    pieces: list[str] = []
    scout = AgentDefinition(description="Looks", prompt="You look.", model="haiku")
    one = OneSession(agents={"Look": "seen"})
    async with one.open(agents={"scout": scout}, max_turns=2, max_budget_usd=1.0) as client:
        await usage_of_a_run_is_its_own(one)
        one.answers(*[endless] * 5)
        with anyio.fail_after(240), pytest.raises(MaxTurnsError):
            await read_into(pieces, client.query("go").text_stream())
        assert "".join(pieces) == "Working.Working."  # text() gives what was said before the error
        with pytest.raises(BudgetExceededError):
            await one.ask(Reply(endless.blocks, usage=Usage(input_tokens=1_000_000)))


@pytest.mark.long
async def test_the_model_s_silence_is_noticed_although_the_cli_talks() -> None:
    gate = Gate()
    with ScriptedModel([Reply("late", after=gate)]) as model:
        options = model.options()
        async with Client(options.replace(timeouts=options.timeouts.replace(first_message=0.5))) as client:
            with anyio.fail_after(240), pytest.raises(RunTimeoutError) as caught:
                await client.query("slow")
            gate.open()
    assert caught.value.kind == "first_message"


FAILURES: list[tuple[Failure, type[RunError]]] = [
    (Failure(status=400), InvalidRequestError),
    (Failure(400, message="Your credit balance is too low to access the Anthropic API."), BillingError),
    (Failure(status=401), AuthenticationError),
    (Failure(status=403), AuthenticationError),
    (Failure(status=404), ModelNotFoundError),
    (Failure(status=429), RateLimitedError),
    (Failure(status=500), ServerError),
    (Failure(status=529), OverloadedError),
]


class Adult(BaseModel):
    age: int
    place: tuple[int, str] = (0, "")  # its schema has keywords that the CLI does not know

    @field_validator("age")
    @classmethod
    def check_age(cls, age: int) -> int:
        if age < 18:
            raise ValueError("must be an adult")
        return age


@pytest.mark.long
async def test_a_refused_output_goes_back_to_the_model_a_limited_number_of_times() -> None:
    one = OneSession()
    async with one.open(output_type=Adult):
        result = await one.ask(*[Reply(tool_use("StructuredOutput", {"age": age})) for age in (3, 30)])
        assert result.output == Adult(age=30)
        assert "age: Value error, must be an adult" in one.result_of()
        assert result.permission_denials == []

        with pytest.raises(StructuredOutputError, match="must be an adult"):
            await one.ask(*[Reply(tool_use("StructuredOutput", {"age": 3})) for _ in range(20)])
        assert len(one.requests_of()) == 5

        result = await one.ask(*[Reply(tool_use("StructuredOutput", {"age": age})) for age in (3, 30)])
        assert result.output == Adult(age=30)


@pytest.mark.long
async def test_a_plain_schema_of_a_later_draft_is_used_and_its_output_is_not_silently_absent() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}},
        "x-source": "design",
    }
    one = OneSession()
    async with one.open(output_format=schema):
        result = await one.ask(Reply(tool_use("StructuredOutput", {"pair": ["a", 1]})))
        assert result.output == {"pair": ["a", 1]}
        with pytest.raises(StructuredOutputError, match="no structured output"):
            await one.ask("no", *["still no"] * 20)


async def test_an_output_is_of_its_type_or_an_error_and_an_api_failure_is_a_typed_error() -> None:
    one = OneSession()
    async with one.open(output_type=Verdict, env={"CLAUDE_CODE_MAX_RETRIES": "0"}) as client:
        result = await one.ask(Reply(tool_use("StructuredOutput", {"ok": True, "reasons": ["tests pass"]})))
        assert result.output == Verdict(ok=True, reasons=["tests pass"])
        with pytest.raises(StructuredOutputError) as no_output:
            await one.ask("no", *["still no"] * 20)
        assert no_output.value.result.text

        for failure, error in FAILURES:
            one.answers(*[failure] * 20)
            with anyio.fail_after(240):
                run = client.query("hi")
                seen = [message async for message in run]  # iterating never raises for it
                with pytest.raises(error) as caught:
                    await run
            assert seen
            assert type(caught.value) is error
            assert caught.value.result.is_error

        pieces: list[str] = []
        one.answers(*[Failure(529)] * 20)
        run = client.query("hi")
        with anyio.fail_after(240):
            with pytest.raises(OverloadedError) as read:  # text() raises it, and gives no failure as an answer
                await read_into(pieces, run.text_stream())
            with pytest.raises(OverloadedError) as awaited:
                await run
        assert pieces == []
        assert str(read.value) == str(awaited.value)


async def test_settings_that_the_cli_would_drop_are_an_error() -> None:
    with ScriptedModel() as model:
        with pytest.raises(OptionsError, match=r"settings.*permissions\.deny"):
            await Client(model.options(settings={"permissions": {"deny": "no list"}})).connect()


# One-shot --------------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_run_waits_for_background_tasks_and_their_follow_up_turn(tmp_path: Path) -> None:
    def end_the_shell(data: StopInput, context: HookContext) -> None:
        (tmp_path / "end").touch()

    command = f"while [ ! -e '{tmp_path}/end' ]; do sleep 0.05; done; echo out"
    shell = tool_use("Bash", {"command": command, "description": "Wait", "run_in_background": True})
    with ScriptedModel([Reply(shell), text("started"), text("the command said: out")]) as model:
        with anyio.fail_after(240):
            result = await run("go", model.options(hooks={"Stop": [end_the_shell]}))
    assert result.text == "the command said: out"
    assert [r.result for r in result.results] == ["started", "the command said: out"]


async def test_run_sync_inside_a_running_loop() -> None:
    with ScriptedModel([text("hello")]) as model:
        assert run_sync("hi", model.options()).text == "hello"


def test_the_module_says_its_version() -> None:
    assert claude_agent_py.__version__


async def exceed(limit: str, seconds: float, *longer: float, script: list[Any], **options: Any) -> RunTimeoutError:
    """Exceed a time limit, and a longer one if the CLI was too busy in the first to wait for anything."""
    async with ScriptedModel(script, on_exhausted="late") as model:
        with anyio.fail_after(240), pytest.raises(RunTimeoutError) as caught:
            await run("hi", model.options(timeouts=Timeouts(**{limit: seconds}), **options))
    if caught.value.waiting_for or not longer:
        return caught.value
    return await exceed(limit, *longer, script=script, **options)


@pytest.mark.long
async def test_a_time_limit_names_what_the_cli_waited_for(tmp_path: Path) -> None:
    """A server that does not connect holds the first message, and a tool that hangs the rest."""
    arguments = [str(Path(__file__).with_name("stdio_mcp_server.py")), "--wait-for", str(tmp_path / "never")]
    server = MCPStdioServer(command=sys.executable, args=arguments)
    for kind in ("first_message", "run", "silence"):
        error = await exceed(kind, 1.0, 20.0, script=["late"], mcp_servers={"slow": server})
        assert "the CLI was waiting for the MCP server 'slow'" in str(error)
        assert error.kind == kind
    command = {"command": "for i in $(seq 600); do sleep 1; done", "description": "hang", "timeout": 600_000}
    error = await exceed("silence", 3.0, 30.0, script=[tool_use("Bash", command)])
    assert (error.kind, error.waiting_for) == ("silence", ("the tool Bash",))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
