"""`query`, `run` and `run_sync` over a transport of the user's, which stands in for the process."""

import anyio
import pytest

from claude_agent_py import ClientOptions, CLIExitError, query, run, run_sync
from claude_agent_py.testing import FakeCLI, steps

OPTIONS = ClientOptions(cli_path="/there/is/none")


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_run_over_a_transport() -> None:
    fake = FakeCLI(steps.turn("hello"))
    with anyio.fail_after(10):
        assert (await run("hi", OPTIONS, transport=fake.transport())).text == "hello"
        one = query("hi", OPTIONS, transport=fake.transport())
        assert [piece async for piece in one.text()] == ["hello"]
        await one


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_what_goes_wrong_over_it_is_the_run_s_error() -> None:
    fake = FakeCLI(steps.wait_for_prompt(), steps.exit(3))
    with anyio.fail_after(10), pytest.raises(CLIExitError):
        await run("hi", OPTIONS, transport=fake.transport())


def test_the_same_without_async() -> None:
    assert run_sync("hi", OPTIONS, transport=FakeCLI(steps.turn("hello")).transport()).text == "hello"
