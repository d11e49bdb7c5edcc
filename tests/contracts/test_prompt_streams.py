"""Prompts from an async iterable: its worker ends with the run, whatever ends the run."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from bounds import set_bound
from peers import MakeClient

from claude_agent_py import CLIExitError, ConnectionClosedError, InterruptedRunError, OptionsError, RunTimeoutError
from claude_agent_py.errors import UnreadableResultError
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


class Endless:
    """Gives prompts for ever, and notes when it is closed."""

    def __init__(self) -> None:
        self.given = 0
        self.closed = anyio.Event()

    async def prompts(self) -> AsyncIterator[str]:
        try:
            while True:
                self.given += 1
                yield f"prompt {self.given}"
                await anyio.sleep(0.01)
        finally:
            self.closed.set()


async def test_a_prompt_stream_is_closed_when_the_run_times_out(start: MakeClient) -> None:
    endless = Endless()
    with anyio.fail_after(60):
        async with start(FakeCLI()) as client:
            with pytest.raises(RunTimeoutError):
                await client.query(endless.prompts(), timeout=0.1)
            await endless.closed.wait()


async def test_a_run_is_interrupted_before_its_first_prompt(start: MakeClient) -> None:
    async def prompts() -> AsyncIterator[str]:
        await anyio.sleep_forever()
        yield "never"

    with anyio.fail_after(60):
        async with start(FakeCLI()) as client:
            run = client.query(prompts())
            assert (await run.interrupt()).outcome == "interrupted"
            with pytest.raises(InterruptedRunError, match="the run was interrupted"):
                await run


async def test_a_prompt_stream_is_closed_when_the_program_ends(start: MakeClient) -> None:
    endless = Endless()
    with anyio.fail_after(60):
        async with start(FakeCLI(steps.wait_for_prompt(), steps.exit(1))) as client:
            with pytest.raises(CLIExitError):
                await client.query(endless.prompts())
            await endless.closed.wait()


async def test_a_prompt_stream_is_closed_with_the_client(start: MakeClient) -> None:
    endless = Endless()
    with anyio.fail_after(60):
        async with start(FakeCLI()) as client:
            run = client.query(endless.prompts())
            while not endless.given:
                await anyio.sleep(0.01)
        with pytest.raises(ConnectionClosedError):
            await run
        await endless.closed.wait()


async def test_a_bad_prompt_in_it_fails_the_run(start: MakeClient) -> None:
    async def prompts() -> AsyncIterator[Any]:
        yield "fine"
        yield ""

    with anyio.fail_after(60):
        async with start(FakeCLI(steps.wait_for_prompt(), steps.turn("next"))) as client:
            with pytest.raises(OptionsError, match="prompt"):
                await client.query(prompts())
            assert (await client.query("next")).text == "next"


async def test_the_work_on_one_that_fails_is_stopped(start: MakeClient) -> None:
    begins = frames.init(user_message_uuids=[frames.prompt_field("uuid")])
    fake = FakeCLI(steps.wait_for_prompt(), begins, steps.wait_for_prompt())

    async def prompts() -> AsyncIterator[str]:
        yield "begun"
        yield "queued"
        await begun.wait()
        raise LookupError("no more")

    begun = anyio.Event()
    with anyio.fail_after(60):
        async with start(fake) as client:
            run = client.query(prompts())
            await anext(run)
            begun.set()
            with pytest.raises(LookupError, match="no more"):
                await run
            await fake.wait_received({"request": {"subtype": "interrupt"}})
    sent = [frame["uuid"] for frame in fake.received_like({"type": "user"})]
    assert [request["message_uuid"] for request in fake.requests("cancel_async_message")] == sent


async def test_one_that_does_not_close_is_left(
    start: MakeClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_bound(monkeypatch, "GENERATOR_GRACE", 0.05)

    async def prompts() -> AsyncIterator[Any]:
        yield "fine"
        try:
            yield ""
        finally:
            await anyio.sleep_forever()

    with anyio.fail_after(60):
        async with start(FakeCLI(steps.wait_for_prompt(), steps.turn("next"))) as client:
            with pytest.raises(OptionsError, match="prompt"):
                await client.query(prompts())
            assert (await client.query("next")).text == "next"
    assert "closing the prompts failed" not in caplog.text


async def test_one_that_gives_nothing_is_an_error(start: MakeClient) -> None:
    async def prompts() -> AsyncIterator[str]:
        nothing: list[str] = []
        for prompt in nothing:
            yield prompt

    with anyio.fail_after(60):
        async with start(FakeCLI(steps.turn("next"))) as client:
            with pytest.raises(OptionsError, match="prompt"):
                await client.query(prompts())
            assert (await client.query("next")).text == "next"


async def test_one_that_is_slower_than_the_answers(start: MakeClient) -> None:
    """The run goes on until the iterable has ended and all is answered."""

    async def prompts() -> AsyncIterator[str]:
        for number in range(5):
            await anyio.sleep(0.02)
            yield f"prompt {number}"

    fake = FakeCLI(*[steps.turn(f"answer {number}") for number in range(5)])
    with anyio.fail_after(60):
        async with start(fake) as client:
            result = await client.query(prompts())
    assert [one.result for one in result.results] == [f"answer {number}" for number in range(5)]


async def test_two_streams_and_a_text_at_once(start: MakeClient) -> None:
    async def prompts(name: str) -> AsyncIterator[str]:
        for number in range(3):
            yield f"{name} {number}"

    said = [steps.turn(f"re: {name} {number}", prompt=f"{name} {number}") for name in "ab" for number in range(3)]
    answers: dict[str, list[Any]] = {}
    with anyio.fail_after(60):
        async with start(FakeCLI(*said, steps.turn("re: c", prompt="c"))) as client:
            runs = {"a": client.query(prompts("a")), "b": client.query(prompts("b")), "c": client.query("c")}
            for name, one in runs.items():
                answers[name] = [result.result for result in (await one).results]
    expected = {name: [f"re: {name} {number}" for number in range(3)] for name in "ab"}
    assert answers == {**expected, "c": ["re: c"]}


async def test_a_result_that_is_malformed_does_not_hang_the_run(start: MakeClient) -> None:
    """It is over with an error that carries the frame, and the next one is none the worse."""
    broken = {**frames.result("hi"), "is_error": "perhaps"}
    fake = FakeCLI(
        steps.wait_for_prompt(),
        frames.lifecycle("started"),
        frames.init(),
        broken,
        frames.lifecycle("completed"),
        frames.session_state("idle"),
        steps.turn("next"),
    )
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(UnreadableResultError, match="is_error") as caught:
                await client.query("hi")
            assert caught.value.raw["is_error"] == "perhaps"
            assert caught.value.result.messages
            assert (await client.query("next")).text == "next"


async def test_a_prompt_that_is_not_json_fails_alone(start: MakeClient) -> None:
    not_json = [{"type": "image", "source": {"type": "odd", "x": float("nan")}}]

    async def prompts() -> AsyncIterator[Any]:
        yield not_json

    with anyio.fail_after(60):
        async with start(FakeCLI(*steps.turn("done"))) as client:
            with pytest.raises(OptionsError, match="must be JSON"):
                client.query(not_json)
            with pytest.raises(OptionsError, match="must be JSON"):
                await client.query(prompts())
            assert (await client.query("Go on.")).text == "done"


async def test_a_stream_that_fails_when_it_is_closed_is_logged(
    start: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def prompts() -> AsyncIterator[str]:
        try:
            yield 5  # type: ignore[misc]
        finally:
            raise RuntimeError("cannot be closed")

    with anyio.fail_after(60):
        async with start(FakeCLI()) as client:
            with pytest.raises(OptionsError, match="prompt"):
                await client.query(prompts())
    assert "cannot be closed" in caplog.text


async def test_a_prompt_that_comes_after_the_end_of_the_run_is_not_sent(start: MakeClient) -> None:
    async def prompts() -> AsyncIterator[str]:
        yield "in time"
        try:
            await anyio.sleep_forever()
        finally:
            yield "too late"

    fake = FakeCLI()
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(RunTimeoutError):
                await client.query(prompts(), timeout=0.05)
    assert [frame["message"]["content"] for frame in fake.received_like({"type": "user"})] == ["in time"]


async def test_an_iterable_that_is_no_generator_gives_prompts(start: MakeClient) -> None:
    class Two:
        def __init__(self) -> None:
            self.left = ["one", "two"]

        def __aiter__(self) -> "Two":
            return self

        async def __anext__(self) -> str:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop(0)

    fake = FakeCLI(steps.turn("first", prompt="one"), steps.turn("second", prompt="two"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            assert (await client.query(Two())).text == "second"
