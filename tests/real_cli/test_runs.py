"""Runs against the real CLI: results, text, structured output, several at once, interrupts, errors."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from pydantic import BaseModel

import claude_agent_py
from claude_agent_py import (
    AuthenticationError,
    BudgetExceededError,
    Client,
    ConnectionClosedError,
    HookContext,
    InterruptedRunError,
    MaxTurnsError,
    OptionsError,
    PostToolUseInput,
    RateLimitedError,
    ResultMessage,
    RunError,
    RunTimeoutError,
    StructuredOutputError,
    TextBlock,
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
from claude_agent_py.hooks import PostToolUseOutput, StopInput, UserPromptSubmitInput, UserPromptSubmitOutput
from claude_agent_py.messages import UserContent
from claude_agent_py.testing import CutStream, Failure, Gate, RecordedRequest, Reply, ScriptedModel, text, tool_use
from claude_agent_py.testing.script import LooseAnswer

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


async def test_iterating_awaiting_and_leaving_runs_of_one_session() -> None:
    with ScriptedModel([text(word) for word in ("hello", "and", "one", "two", "ok")]) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                one = client.query("iterated, then awaited")
                seen = [message async for message in one]
                result = await one
                assert result.text == "hello"
                assert isinstance(seen[-1], ResultMessage)
                assert seen == list(result.messages)

                one = client.query("awaited, then iterated")
                result = await one
                assert [message async for message in one] == list(result.messages)

                async for _ in client.query("left"):
                    break
                assert (await client.query("after it")).text == "two"

                await client.query([TextBlock(text="part one"), TextBlock(text="part two")])
        sent = str(model.requests[-1].messages[-1])
    assert "part one" in sent
    assert "part two" in sent


async def test_a_prompt_that_arrives_in_pieces_is_one_run_with_every_answer() -> None:
    async def prompts() -> AsyncIterator[str]:
        yield "first"
        yield "second"

    with ScriptedModel([text("one"), text("two")]) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                result = await client.query(prompts())
    assert result.text in {"one", "two"}
    assert "second" in str(model.requests[-1].messages)


async def test_a_failing_prompt_iterator_fails_the_run() -> None:
    async def prompts() -> AsyncIterator[str]:
        yield "first"
        raise LookupError("no more")

    with ScriptedModel([text("one")]) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60), pytest.raises(LookupError):
                await client.query(prompts())


async def test_a_message_that_is_only_added_is_read_with_the_next_prompt() -> None:
    added = UserMessage(message=UserContent(role="user", content="The code word is plum."), should_query=False)
    with ScriptedModel([text("plum")]) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                nothing = await client.query(added)
                assert (nothing.text, model.requests) == ("", [])
                result = await client.query("What is the code word?")
    assert result.text == "plum"
    assert "The code word is plum." in model.requests[0].last_user_text


@pytest.mark.parametrize(("priority", "texts"), [("next", ["both", "both"]), ("later", ["both", "alone"])])
async def test_a_prompt_says_how_it_is_queued(priority: str, texts: list[str]) -> None:
    gate = Gate()
    script: list[Reply | str] = [Reply(tool_use("Bash", {"command": "true"}), after=gate), "both", "alone"]
    with ScriptedModel(script) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                first = client.query("first")
                await gate.wait_reached()
                second = client.query(
                    {"type": "user", "message": {"role": "user", "content": "x"}, "priority": priority}
                )
                await client.usage.cost()  # what was sent before has arrived
                gate.open()
                assert [(await first).text, (await second).text] == texts


async def test_a_prompt_with_the_uuid_of_an_earlier_one_is_an_error() -> None:
    once = UserMessage(message=UserContent(role="user", content="hi"), uuid=str(uuid4()))
    with ScriptedModel([text("hello")]) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                result = await client.query(once)
                assert list(result.prompts) == [once.uuid]
                with pytest.raises(OptionsError, match=f"prompt: an earlier prompt had the uuid {once.uuid}"):
                    client.query(once)


async def test_a_prompt_that_a_resumed_conversation_has_already_is_dropped_and_says_so() -> None:
    prompt = {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": str(uuid4())}
    with ScriptedModel(lambda request: text("answer")) as model, anyio.fail_after(60):
        async with Client(model.options()) as client:
            await client.query(prompt)
            session_id = client.session_id
        async with Client(model.options(resume=session_id)) as client:
            with pytest.raises(PromptCancelledError):
                await client.query(prompt)
            assert (await client.query("more")).text == "answer"


async def test_a_prompt_that_could_not_be_sent_can_be_sent_again() -> None:
    prompt = {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": str(uuid4())}
    with ScriptedModel(["answer"]) as model, anyio.fail_after(60):
        client = Client(model.options())
        with pytest.raises(ConnectionClosedError):
            client.query(prompt)
        async with client:
            assert (await client.query(prompt)).text == "answer"


async def test_the_cli_ends_in_order_also_where_nobody_waited_for_its_word() -> None:
    with ScriptedModel([]) as model, anyio.fail_after(60):
        async with Client(model.options()) as client:
            messages = client.messages()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await client.request_exit()
            async for _ in messages:
                pass


async def test_a_bad_prompt_is_an_error_before_anything_is_sent() -> None:
    bad: list[Any] = ["", "  \n", [], [{"text": "no type"}], {"type": "user"}, 5, b"x", [TextBlock(text="")]]
    with ScriptedModel([text("ok")]) as model:
        async with Client(model.options()) as client:
            for prompt in bad:
                with pytest.raises(OptionsError, match="prompt"):
                    client.query(prompt)
        for prompt in bad:
            with pytest.raises(OptionsError, match="prompt"):
                query(prompt, model.options())
        assert model.requests == []


# Text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partial", [False, True])
async def test_text_arrives_once(partial: bool) -> None:
    script: list[LooseAnswer] = [
        Reply([text("Hello, "), text("world"), tool_use("Bash", {"command": "true"})], chunk_chars=3),
        text("!"),
    ]
    with ScriptedModel(script) as model:
        async with Client(model.options(include_partial_messages=partial)) as client:
            with anyio.fail_after(60):
                pieces = [piece async for piece in client.query("hi").text()]
    assert "".join(pieces) == "Hello, world!"
    if partial:
        assert len(pieces) > 5


async def test_text_arrives_once_when_the_stream_breaks() -> None:
    answer = "The answer is forty-two, as everybody knows."
    seen, text_so_far = Gate(), ""
    cut = CutStream(Reply(answer, chunk_chars=5), after_chars=20, when=seen)
    with ScriptedModel([cut, Reply(answer, chunk_chars=7)], on_exhausted="fail") as model:
        async with Client(model.options(include_partial_messages=True)) as client:
            with anyio.fail_after(60):
                async for piece in client.query("hi").text():
                    text_so_far += piece
                    if text_so_far == answer[:20]:
                        seen.open()
    assert text_so_far == answer


# Structured output -----------------------------------------------------------------------------------------------


class Verdict(BaseModel):
    ok: bool
    reasons: list[str]


async def test_structured_output_is_an_instance_of_the_output_type() -> None:
    script = [Reply(tool_use("StructuredOutput", {"ok": True, "reasons": ["tests pass"]}))]
    with ScriptedModel(script) as model:
        with anyio.fail_after(60):
            result = await run("judge", model.options(output_type=Verdict))
    assert result.output == Verdict(ok=True, reasons=["tests pass"])


async def test_a_missing_structured_output_is_an_error() -> None:
    with ScriptedModel([text("no")], on_exhausted=text("still no")) as model:
        with anyio.fail_after(60), pytest.raises(StructuredOutputError) as caught:
            await run("judge", model.options(output_type=Verdict))
    assert caught.value.result.text


# Several runs ----------------------------------------------------------------------------------------------------


async def test_several_runs_at_once_each_get_their_answer() -> None:
    gate = Gate()
    with ScriptedModel([Reply("one", after=gate), text("two and three")]) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                runs = [client.query(p) for p in ("first", "second", "third")]
                await model.wait_for_requests(1, timeout=60)
                gate.open()
                first, second, third = [await r for r in runs]
    assert first.text == "one"
    assert second.text == third.text == "two and three"


async def test_runs_of_one_client_from_several_workers() -> None:
    answers: dict[str, str] = {}
    with ScriptedModel([text("a"), text("b")], on_exhausted=text("c")) as model:
        async with Client(model.options()) as client:

            async def ask(name: str) -> None:
                answers[name] = (await client.query(name)).text

            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    for name in ("x", "y", "z"):
                        group.start_soon(ask, name)
    assert set(answers) == {"x", "y", "z"}
    assert all(answers.values())


# Interrupts and limits -------------------------------------------------------------------------------------------


async def test_an_interrupt_ends_the_run_with_a_receipt() -> None:
    gate = Gate()
    with ScriptedModel([Reply("late", after=gate), text("next")]) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                one = client.query("slow")
                await model.wait_for_requests(1, timeout=60)
                receipt = await one.interrupt()
                with pytest.raises(InterruptedRunError):
                    await one
                gate.open()
                assert (await client.query("again")).text == "next"
                late = await one.interrupt()
    assert receipt.outcome == "interrupted"
    assert late.outcome == "too_late"


async def test_interrupting_a_queued_run_takes_its_prompt_out_of_the_queue() -> None:
    gate = Gate()
    with ScriptedModel([Reply("one", after=gate), text("two")]) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                first = client.query("first")
                await model.wait_for_requests(1, timeout=60)
                second = client.query("second")
                receipt = await second.interrupt()
                with pytest.raises(PromptCancelledError):
                    await second
                gate.open()
                assert (await first).text == "one"
    assert receipt.outcome == "dequeued"


async def test_a_run_that_takes_too_long_is_interrupted() -> None:
    gate = Gate()

    def answer(request: RecordedRequest) -> Reply:  # by what is asked: the first prompt may never get here in time
        return Reply("next") if "again" in request.last_user_text else Reply("late", after=gate)

    with ScriptedModel(answer) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                with pytest.raises(RunTimeoutError) as caught:
                    await client.query("slow", timeout=0.5)
                gate.open()
                assert (await client.query("again")).text == "next"
    assert caught.value.kind == "run"
    assert caught.value.result is not None


# Errors ----------------------------------------------------------------------------------------------------------

FAILURES: list[tuple[Failure, type[RunError]]] = [
    (Failure(status=400), InvalidRequestError),
    (Failure(status=401), AuthenticationError),
    (Failure(status=403), AuthenticationError),
    (Failure(status=404), ModelNotFoundError),
    (Failure(status=429), RateLimitedError),
    (Failure(status=500), ServerError),
    (Failure(status=529), OverloadedError),
]


async def test_an_api_failure_is_a_typed_error() -> None:
    failing: Failure

    def answer(request: RecordedRequest) -> Failure:
        return failing

    with ScriptedModel(answer) as model:
        options = model.options(env={**model.options().env, "CLAUDE_CODE_MAX_RETRIES": "0"})
        async with Client(options) as client:
            for failure, error in FAILURES:
                failing = failure
                with anyio.fail_after(60):
                    one = client.query("hi")
                    seen = [message async for message in one]  # iterating never raises for it
                    with pytest.raises(error) as caught:
                        await one
                assert seen
                assert type(caught.value) is error
                assert caught.value.result.is_error


async def test_max_turns() -> None:
    endless = Reply(tool_use("Bash", {"command": "true"}))
    with ScriptedModel([], on_exhausted=endless) as model, anyio.fail_after(60), pytest.raises(MaxTurnsError):
        await run("go", model.options(max_turns=2))


async def test_max_budget() -> None:
    endless = Reply(tool_use("Bash", {"command": "true"}))
    with ScriptedModel([], on_exhausted=endless) as model, anyio.fail_after(60), pytest.raises(BudgetExceededError):
        await run("go", model.options(max_budget_usd=0.001))


# One-shot --------------------------------------------------------------------------------------------------------


async def test_run_waits_for_background_tasks_and_their_follow_up_turn(tmp_path: Path) -> None:
    def end_the_shell(data: StopInput, context: HookContext) -> None:
        (tmp_path / "end").touch()

    command = f"while [ ! -e '{tmp_path}/end' ]; do sleep 0.05; done; echo out"
    shell = tool_use("Bash", {"command": command, "description": "Wait", "run_in_background": True})
    with ScriptedModel([Reply(shell), text("started"), text("the command said: out")]) as model:
        with anyio.fail_after(60):
            result = await run("go", model.options(hooks={"Stop": [end_the_shell]}))
    assert result.text == "the command said: out"
    assert [r.result for r in result.results] == ["started", "the command said: out"]


async def test_query_gives_messages_without_a_client() -> None:
    with ScriptedModel([text("hello")]) as model:
        with anyio.fail_after(60):
            kinds = [type(m).__name__ async for m in query("hi", model.options())]
    assert kinds[-1] in {"ResultMessage", "SessionStateChangedMessage", "CommandLifecycleMessage"}
    assert "AssistantMessage" in kinds


def test_run_sync() -> None:
    with ScriptedModel([text("hello")]) as model:
        assert run_sync("hi", model.options()).text == "hello"


async def test_run_sync_inside_a_running_loop() -> None:
    with ScriptedModel([text("hello")]) as model:
        assert run_sync("hi", model.options()).text == "hello"


def test_the_module_says_its_version() -> None:
    assert claude_agent_py.__version__


async def test_settings_that_the_cli_would_drop_are_an_error() -> None:
    with ScriptedModel([text("hello")]) as model:
        with pytest.raises(OptionsError, match=r"settings.*permissions\.deny"):
            await Client(model.options(settings={"permissions": {"deny": "no list"}})).connect()
        async with Client(model.options(settings={"permissions": {"deny": ["Bash"]}})) as client:
            assert client.is_open


async def test_wrong_arguments_touch_nothing() -> None:
    wrongs: list[dict[str, Any]] = [{"until": "Result"}, *({"timeout": bad} for bad in ("5", 0, float("nan"), True))]
    with ScriptedModel([text("fine")]) as model:
        async with Client(model.options()) as client:
            for wrong in wrongs:
                with pytest.raises(OptionsError, match=next(iter(wrong))):
                    client.query("x", **wrong)
                with pytest.raises(OptionsError, match=next(iter(wrong))):
                    query("x", model.options(), **wrong)
            with anyio.fail_after(60):
                assert (await client.query("y")).text == "fine"
        assert [request.last_user_text for request in model.requests_of("main")] == ["y"]


async def test_a_prompt_iterator_that_gives_nothing_is_an_error() -> None:
    async def nothing() -> AsyncIterator[str]:
        prompts: tuple[str, ...] = ()
        for prompt in prompts:
            yield prompt

    with ScriptedModel([text("fine")]) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60), pytest.raises(OptionsError, match="prompt"):
                await client.query(nothing())


async def test_interrupting_a_run_that_waits_for_its_tasks_ends_it_and_spares_them() -> None:
    shell = tool_use("Bash", {"command": "sleep 600", "description": "Wait", "run_in_background": True})
    with ScriptedModel([Reply(shell), text("started")]) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                one = client.query("go", until="idle")
                async for message in one:
                    if isinstance(message, ResultMessage):
                        break
                receipt = await one.interrupt()
                with pytest.raises(InterruptedRunError) as caught:
                    await one
                (task,) = client.tasks
                assert not task.done
                late = await one.interrupt(stop_tasks=True)
                await task.wait(timeout=60)
    assert receipt.outcome == "interrupted"
    assert late.outcome == "too_late"
    assert caught.value.result.text == "started"


async def test_an_empty_account_is_a_billing_error() -> None:
    words = "Your credit balance is too low to access the Anthropic API."
    with ScriptedModel([], on_exhausted=Failure(400, message=words)) as model:
        with anyio.fail_after(60), pytest.raises(BillingError):
            await run("hi", model.options())


async def test_the_model_s_silence_is_noticed_although_the_cli_talks() -> None:
    gate = Gate()
    with ScriptedModel([Reply("late", after=gate)]) as model:
        options = model.options()
        async with Client(options.replace(timeouts=options.timeouts.replace(first_message=0.5))) as client:
            with anyio.fail_after(60), pytest.raises(RunTimeoutError) as caught:
                await client.query("slow")
            gate.open()
    assert caught.value.kind == "first_message"


async def test_a_refused_key_is_an_error_within_seconds() -> None:
    with ScriptedModel([], on_exhausted=Failure(status=401)) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60), pytest.raises(AuthenticationError, match="key") as caught:
                await client.query("hi")
    assert caught.value.result.messages


async def test_a_prompt_that_a_hook_blocks_is_no_success() -> None:
    def block(data: UserPromptSubmitInput, context: HookContext) -> UserPromptSubmitOutput:
        return UserPromptSubmitOutput(decision="block", reason="not today")

    with ScriptedModel([text("hello")]) as model:
        with anyio.fail_after(60), pytest.raises(HookStoppedError, match="not today"):
            await run("hi", model.options(hooks={"UserPromptSubmit": [block]}))
        assert model.requests == []


async def test_a_run_that_a_hook_ends_is_no_success() -> None:
    def halt(data: PostToolUseInput, context: HookContext) -> PostToolUseOutput:
        return PostToolUseOutput(continue_=False)

    with ScriptedModel([Reply(tool_use("Bash", {"command": "true"})), text("never")]) as model:
        with anyio.fail_after(60), pytest.raises(HookStoppedError):
            await run("hi", model.options(hooks={"PostToolUse": [halt]}))
