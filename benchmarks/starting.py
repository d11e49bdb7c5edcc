"""Connect once with each SDK. Imports nothing that the SDKs do not, so that a cold start can be measured.

    python -m benchmarks.starting <sdk> <its arguments as JSON>

Prints, as JSON, when `connect()` began and returned, by the monotonic clock.
"""

import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import anyio


class Span(NamedTuple):
    """The begin and end of an operation, in seconds of the monotonic clock."""

    begin: float
    end: float


async def connect_ours(cli: str, env: dict[str, str], cwd: str) -> Span:
    from claude_agent_py import Client, ClientOptions

    options = ClientOptions(cli_path=cli, env=env, cwd=cwd, inherit_env=False, permission_mode="bypassPermissions")
    begin = time.monotonic()
    client = Client(options)
    await client.connect()
    end = time.monotonic()
    await client.close()
    return Span(begin, end)


async def connect_official(cli: str, env: dict[str, str], cwd: str) -> Span:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

    options = ClaudeAgentOptions(cli_path=cli, env=env, cwd=cwd, permission_mode="bypassPermissions")
    begin = time.monotonic()
    client = ClaudeSDKClient(options)
    await client.connect()
    end = time.monotonic()
    await client.disconnect()
    return Span(begin, end)


CONNECT: Final[dict[str, Callable[[str, dict[str, str], str], Awaitable[Span]]]] = {
    "claude_agent_py": connect_ours,
    "claude_agent_sdk": connect_official,
}


if __name__ == "__main__":
    print(json.dumps(anyio.run(CONNECT[sys.argv[1]], *json.loads(sys.argv[2]))))
