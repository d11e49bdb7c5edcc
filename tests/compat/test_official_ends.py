"""Results whose reader is cancelled, and processes that have exited, as programs of the official SDK meet them."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from claude_agent_py.compat import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    InMemorySessionStore,
    ProcessError,
    query,
)
from claude_agent_py.testing import FakeCLI, steps

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.each_backend,
    pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script"),
]


class SlowStore(InMemorySessionStore):
    """A store that writes once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_writing, self.may_write = anyio.Event(), anyio.Event()

    async def append(self, key: Any, entries: Any) -> None:
        self.is_writing.set()
        await self.may_write.wait()
        await super().append(key, entries)


async def kinds(messages: AsyncIterator[Any]) -> list[str]:
    with anyio.fail_after(30):
        return [type(message).__name__ async for message in messages]


async def test_a_result_whose_reader_is_cancelled_is_read_by_the_next_one(tmp_path: Path) -> None:
    store = SlowStore()
    fake = FakeCLI(steps.turn("hello"), steps.turn("again")).install(tmp_path)
    async with ClaudeSDKClient(ClaudeAgentOptions(cli_path=fake, cwd=tmp_path, session_store=store)) as client:
        await client.query("hi")
        async with anyio.create_task_group() as group:
            group.start_soon(kinds, client.receive_response())
            with anyio.fail_after(30):
                await store.is_writing.wait()
            group.cancel_scope.cancel()
        store.may_write.set()
        assert await kinds(client.receive_response()) == ["ResultMessage"]
        await client.query("more")
        assert await kinds(client.receive_response()) == ["SystemMessage", "AssistantMessage", "ResultMessage"]


async def test_a_run_whose_prompts_end_while_its_result_is_stored_has_the_result(tmp_path: Path) -> None:
    store = SlowStore()

    async def prompts() -> AsyncIterator[Any]:
        yield {"type": "user", "message": {"role": "user", "content": "hi"}}
        await store.is_writing.wait()
        store.may_write.set()

    fake = FakeCLI(steps.turn("hello")).install(tmp_path)
    options = ClaudeAgentOptions(cli_path=fake, cwd=tmp_path, session_store=store)
    seen = await kinds(query(prompt=prompts(), options=options))
    assert seen == ["SystemMessage", "AssistantMessage", "ResultMessage"]


async def test_a_process_that_exited_takes_nothing_more_and_says_so_once(tmp_path: Path) -> None:
    fake = FakeCLI(steps.turn("hello"), steps.exit(3)).install(tmp_path)
    async with ClaudeSDKClient(ClaudeAgentOptions(cli_path=fake, cwd=tmp_path)) as client:
        await client.query("hi")
        assert (await kinds(client.receive_response()))[-1] == "ResultMessage"
        with pytest.raises(ProcessError) as raised:
            await kinds(client.receive_response())
        assert raised.value.exit_code == 3
        assert await kinds(client.receive_response()) == []
        for call in (client.query("more"), client.interrupt()):
            with pytest.raises(CLIConnectionError, match=r"terminated process \(exit code: 3\)"):
                await call


async def test_a_process_that_exits_before_it_replies_is_an_error_of_the_process(tmp_path: Path) -> None:
    fake = FakeCLI(steps.wait_for_request("set_model"), steps.exit(3), answers={"set_model": None}).install(tmp_path)
    async with ClaudeSDKClient(ClaudeAgentOptions(cli_path=fake, cwd=tmp_path)) as client:
        with anyio.fail_after(30), pytest.raises(ProcessError) as raised:
            await client.set_model("opus")
        assert raised.value.exit_code == 3
