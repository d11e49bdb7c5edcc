"""Round trips of control requests: a hook, a permission and an in-process tool, one after another.

    python -m benchmarks.callbacks <host> <hook | permission | tool> <program to run as the CLI>

The program (`asking_cli.py`) sends the requests, checks the responses and takes the times. As a worker, this module is
the host, with async handlers that return at once, and prints the times as JSON.
"""

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

import anyio

from benchmarks import asking_cli
from benchmarks.bare import bare_session
from benchmarks.measuring import FLOOR, OFFICIAL, OURS, host_worker, in_turns, percentile, ratio, show, stand_in

PROMPT: Final = "Go on."
KINDS: Final = ("hook", "permission", "tool")

Host: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Answers the requests of one kind from a program; returns the text of the result."""


async def ours(kind: str, cli: str) -> str:
    from claude_agent_py import (
        Allow,
        Client,
        ClientOptions,
        HookContext,
        Hooks,
        PermissionContext,
        PermissionRequest,
        tool,
    )
    from claude_agent_py.hooks import PreToolUseInput, PreToolUseOutput

    hooks = Hooks()

    @hooks.pre_tool_use("Bash")
    async def hook(input: PreToolUseInput, context: HookContext) -> PreToolUseOutput:  # noqa: A002
        reason = input.tool_input["command"]
        return PreToolUseOutput(permission_decision="allow", permission_decision_reason=reason)

    async def permit(request: PermissionRequest, context: PermissionContext) -> Allow:
        assert request.raw_input["command"].startswith("echo ")
        return Allow()

    @tool
    async def check(number: int) -> str:
        """Check a number."""
        return f"{number} is fine"

    given: dict[str, Any] = {"hook": {"hooks": hooks}, "permission": {"can_use_tool": permit}}
    options = ClientOptions(cli_path=cli, **given.get(kind, {"custom_tools": [check]}))
    async with Client(options) as client:
        result = await client.query(PROMPT)
    return result.text


async def official(kind: str, cli: str) -> str:
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        ClaudeSDKClient,
        HookMatcher,
        PermissionResultAllow,
        ResultMessage,
        create_sdk_mcp_server,
        tool,
    )

    async def hook(data: Any, tool_use_id: str | None, context: Any) -> Any:
        answer = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
        return {"hookSpecificOutput": answer | {"permissionDecisionReason": data["tool_input"]["command"]}}

    async def permit(name: str, data: dict[str, Any], context: Any) -> PermissionResultAllow:
        assert data["command"].startswith("echo ")
        return PermissionResultAllow()

    @tool(asking_cli.TOOL, "Check a number.", {"number": int})  # type: ignore[untyped-decorator, unused-ignore]
    async def check(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"{arguments['number']} is fine"}]}

    options = ClaudeAgentOptions(cli_path=cli)
    if kind == "hook":
        options.hooks = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[hook])]}
    elif kind == "permission":
        options.can_use_tool = permit
    else:
        options.mcp_servers = {asking_cli.SERVER: create_sdk_mcp_server(asking_cli.SERVER, tools=[check])}
    texts: list[str | None] = []
    async with ClaudeSDKClient(options) as client:
        await client.query(PROMPT)
        texts = [one.result async for one in client.receive_response() if isinstance(one, ResultMessage)]
    return texts[0] or ""


async def bare(kind: str, cli: str) -> str:
    async def hook(request: dict[str, Any]) -> dict[str, Any]:
        answer = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
        return {"hookSpecificOutput": answer | {"permissionDecisionReason": request["input"]["tool_input"]["command"]}}

    async def permit(request: dict[str, Any]) -> dict[str, Any]:
        assert request["input"]["command"].startswith("echo ")
        return {"behavior": "allow"}

    async def call(request: dict[str, Any]) -> dict[str, Any]:
        text = f"{request['message']['params']['arguments']['number']} is fine"
        result = {"content": [{"type": "text", "text": text}]}
        return {"mcp_response": {"jsonrpc": "2.0", "id": request["message"]["id"], "result": result}}

    answer = {"hook": hook, "permission": permit, "tool": call}[kind]
    hooks = {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["hook_0"]}]}
    result: dict[str, Any] = {}
    async with bare_session(cli, answer, hooks=hooks, sdkMcpServerManifests={asking_cli.SERVER: {}}) as session:
        session.send_prompt(PROMPT)
        (*_, result) = [frame async for frame in session.receive_response()]
    return str(result["result"])


HOSTS: Final[dict[str, Host]] = {OURS: ours, OFFICIAL: official, FLOOR: bare}


def run(hosts: Sequence[str], kinds: Sequence[str], asks: int, rounds: int, *, is_fresh: bool) -> None:
    """Measure and print."""
    rows: list[tuple[object, ...]] = []
    with stand_in(Path(asking_cli.__file__)) as folder:
        for kind in kinds:
            ask = partial(host_worker, "callbacks", env={"ASK": kind, "ASKS": str(asks)}, is_fresh=is_fresh)
            measurements = {host: partial(ask, host, kind, str(folder / "cli")) for host in hosts}
            found = in_turns(measurements, rounds, warms_up=False)
            assert all(len(times) == asks for samples in found.values() for times in samples)
            rows += _rows(kind, found)
    columns = ("asked", "host", "us median", "us p99", "ms first", "ratio of median", "of p99", "of first")
    show(f"{asks} questions one after another ({rounds} rounds), from question to answer", columns, rows)


def _rows(kind: str, found: dict[str, list[list[float]]]) -> list[tuple[object, ...]]:
    costs = {
        host: (
            median(median(times[1:]) for times in samples) * 1e6,
            median(percentile(times[1:], 99) for times in samples) * 1e6,
            median(times[0] for times in samples) * 1e3,
        )
        for host, samples in found.items()
    }
    to = costs.get(OFFICIAL, (None, None, None))
    return [(kind, host, *cost, *map(ratio, cost, to)) for host, cost in costs.items()]


def work(host: str, kind: str, cli: str) -> list[float]:
    times: list[float] = json.loads(anyio.run(HOSTS[host], kind, cli))
    return times


if __name__ == "__main__":
    print(json.dumps(work(*sys.argv[1:])))
