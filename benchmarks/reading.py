"""The readers: a program that runs one prompt with one SDK and reads all of it, through the public API only.

    python -m benchmarks.reading <reader> <program to run as the CLI>

Prints what it cost this process, as JSON: CPU and wall time from the prompt to the result, and resident memory after
the import, after connecting and at the end.
"""

import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio

Read: TypeAlias = Callable[[], Awaitable[int]]
"""Sends the prompt and reads to the result; gives the number of messages."""

PROMPT: Final = "Go on."


@asynccontextmanager
async def our_run(cli: str) -> AsyncIterator[Read]:
    """Iterate the run of the prompt: `async for message in client.query(...)`."""
    from claude_agent_py import Client, ClientOptions

    async with Client(ClientOptions(cli_path=cli)) as client:

        async def read() -> int:
            return len([None async for _ in client.query(PROMPT)])

        yield read


@asynccontextmanager
async def our_session(cli: str) -> AsyncIterator[Read]:
    """Iterate everything that the session brings: `client.messages()`. Nobody iterates the run."""
    from claude_agent_py import Client, ClientOptions, ResultMessage

    async with Client(ClientOptions(cli_path=cli)) as client:

        async def read() -> int:
            count, messages = 0, client.messages()
            client.query(PROMPT)
            async for message in messages:
                count += 1
                if isinstance(message, ResultMessage):
                    break
            return count

        yield read


@asynccontextmanager
async def official_response(cli: str) -> AsyncIterator[Read]:
    """Iterate the answer to the prompt: `async for message in client.receive_response()`."""
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

    async with ClaudeSDKClient(ClaudeAgentOptions(cli_path=cli)) as client:

        async def read() -> int:
            await client.query(PROMPT)
            return len([None async for _ in client.receive_response()])

        yield read


READERS: Final[dict[str, Callable[[str], AbstractAsyncContextManager[Read]]]] = {
    "claude_agent_py: client.query()": our_run,
    "claude_agent_py: client.messages()": our_session,
    "claude_agent_sdk: receive_response()": official_response,
}


def resident_mib() -> float:
    """Give the resident memory of this process, in MiB; 0 where there is no /proc."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 / (1 << 20) if statm.exists() else 0.0


async def measure(reader: str, cli: str) -> dict[str, Any]:
    async with READERS[reader](cli) as read:
        connected = resident_mib()
        wall, cpu = time.perf_counter(), time.process_time()
        messages = await read()
        return {
            "cpu": time.process_time() - cpu,
            "wall": time.perf_counter() - wall,
            "messages": messages,
            "connected_mib": connected,
            "end_mib": resident_mib(),
        }


if __name__ == "__main__":
    print(json.dumps(anyio.run(measure, sys.argv[1], sys.argv[2])))
