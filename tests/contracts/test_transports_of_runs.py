"""`query`, `run` and `run_sync` over a transport of the user's, which stands in for the process."""

import anyio
import pytest
from asking_cli import AskingCLI

from claude_agent_py import (
    Client,
    ClientOptions,
    CLIExitError,
    CLIStartError,
    ConnectionClosedError,
    OptionsError,
    query,
    run,
    run_sync,
)
from claude_agent_py.testing import FakeCLI, frames, steps


class LastWords(AskingCLI):
    """A CLI that ends with its first answer: whoever reads that reads the end before anything else happens."""

    async def receive(self) -> bytes:
        if self.received and not self._said.statistics().current_buffer_used:
            self._is_closed = True
            return b""
        return await super().receive()

    @property
    def exit_code(self) -> int | None:
        return 3 if self._is_closed else None


OPTIONS = ClientOptions(cli_path="/there/is/none")


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_run_over_a_transport() -> None:
    fake = FakeCLI(steps.turn("hello"))
    with anyio.fail_after(60):
        assert (await run("hi", OPTIONS, transport=fake.transport())).text == "hello"
        one = query("hi", OPTIONS, transport=fake.transport())
        assert [piece async for piece in one.text_stream()] == ["hello"]
        await one


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_result_that_names_no_prompt_is_that_of_the_run() -> None:
    named = frames.result("hello")
    result = {name: value for name, value in named.items() if name not in frames.PROMPT_FIELDS}
    with anyio.fail_after(60):
        found = await run("hi", OPTIONS, transport=FakeCLI(steps.wait_for_prompt(), result).transport())
    assert found.text == "hello"


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_an_error_of_the_transport_is_the_error_of_the_run() -> None:
    fake = FakeCLI(steps.wait_for_prompt(), steps.exit(3))
    with anyio.fail_after(60), pytest.raises(CLIExitError):
        await run("hi", OPTIONS, transport=fake.transport())


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_start_that_was_cancelled_has_used_the_transport_up() -> None:
    one = query("hi", OPTIONS, transport=FakeCLI(answers={"initialize": None}).transport())
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(one.result)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        for _ in range(2):
            with pytest.raises(ConnectionClosedError, match="used up the transport"):
                await one


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_run_whose_program_ends_before_the_prompt_is_sent_leaves_nothing() -> None:
    transport = LastWords()
    with anyio.fail_after(60), pytest.raises(CLIStartError) as caught:
        await query("hi", transport=transport)
    assert (caught.value.exit_code, transport.exit_code) == (3, 3)
    assert [frame["type"] for frame in transport.received] == ["control_request"]


def test_an_invalid_transport_is_refused() -> None:
    with pytest.raises(OptionsError, match="transport: a Transport is expected, not 'no'"):
        Client(OPTIONS, transport="no")  # type: ignore[arg-type]


def test_the_same_without_async() -> None:
    assert run_sync("hi", OPTIONS, transport=FakeCLI(steps.turn("hello")).transport()).text == "hello"


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_two_that_await_a_run_at_once_start_one_session() -> None:
    fake = FakeCLI(steps.turn("ok"))
    run = query("hi", ClientOptions(), transport=fake.transport())
    texts: list[str] = []

    async def wait() -> None:
        texts.append((await run).text)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            group.start_soon(wait)
    assert texts == ["ok", "ok"]
