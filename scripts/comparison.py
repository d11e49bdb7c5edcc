"""Run what the README's comparison with the official SDK says, with both SDKs, on the real CLI and a scripted model.

    python scripts/comparison.py            # fails if something is no longer as the table says

Each row of the table is in `MEASURED`, with what was seen with the release that the README names, or in `STATED`, with
the reason why it is not run here.
"""

import importlib.metadata
import re
import sys
import tempfile
import typing
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, types

import claude_agent_py
from claude_agent_py import Client, ClientOptions, HookMatcher, sessions, testing
from claude_agent_py.hooks import HOOK_EVENTS
from claude_agent_py.messages import MalformedFrame, UnknownMessage
from claude_agent_py.options import find_cli
from claude_agent_py.testing import Failure, FakeCLI, Reply, ScriptedModel, frames, tool_use
from claude_agent_py.testing.steps import emit_raw, wait_for_prompt

README = Path(__file__).parent.parent / "README.md"
SECONDS = 60.0
PATIENCE = 8.0
"""How long to wait for something that may never happen."""

Probe = Callable[[], Awaitable[str]]
MEASURED: dict[str, dict[str, tuple[Probe, Probe, str, str]]] = {}
STATED = {
    "observability": "both pass the trace context on; the spans and the page are only here",
    "many sessions": "the official SDK has no pool and no fleet",
    "maturity": "",
    "sessions on disk": "`benchmarks stored` measures memory and time",
}
"""The rows that no program here measures, and why."""


def check(row: str, what: str, official: Probe, ours: Probe, *seen: str) -> None:
    """Add something to see of a row: with the official SDK, and with this package."""
    MEASURED.setdefault(row, {})[what] = (official, ours, *seen)  # type: ignore[assignment]


def official_options(model: ScriptedModel, **more: Any) -> ClaudeAgentOptions:
    """Return options of the official SDK for a scripted model."""
    given = {"cli_path": str(find_cli()), "env": dict(model.environment()), "cwd": str(model.sandbox.cwd), **more}
    return ClaudeAgentOptions(permission_mode="bypassPermissions", **given)


# Background tasks, and the end of a run -------------------------------------------------------------------------------

SHELL = tool_use("Bash", {"command": "sleep 1; echo built", "run_in_background": True, "description": "Build"})
BUILDING = [Reply(SHELL), Reply("Started."), *[Reply("It is built.")] * 2]


async def official_task() -> str:
    async with ScriptedModel(BUILDING) as model, ClaudeSDKClient(official_options(model)) as client:
        has_tasks = hasattr(client, "tasks")
    return "an attribute `tasks`" if has_tasks else "messages"


async def our_task() -> str:
    async with ScriptedModel(BUILDING) as model, Client(model.options(permission_mode="bypassPermissions")) as client:
        await client.query("Build")
        (task,) = client.tasks
        outcome = await task.wait()
        return f"{outcome.status}: {(await task.read_output()).strip()}"


async def official_end() -> str:
    async with ScriptedModel(BUILDING) as model, ClaudeSDKClient(official_options(model)) as client:
        await client.query("Build")
        ended = [message async for message in client.receive_response()][-1]
    return str(getattr(ended, "result", ended))


async def our_end() -> str:
    async with ScriptedModel(BUILDING) as model, Client(model.options(permission_mode="bypassPermissions")) as client:
        return (await client.query("Build", until="idle")).text


check("background tasks", "what a program gets", official_task, our_task, "messages", "completed: built")
check("the end of a run", "with a task in the background", official_end, our_end, "Started.", "It is built.")


# Errors ---------------------------------------------------------------------------------------------------------------

REFUSED = (400, 403)
"""The HTTP status of the API's answer."""


async def official_error() -> str:
    seen = []
    for status in REFUSED:
        async with ScriptedModel([Failure(status)] * 20) as model:
            try:
                async for _ in claude_agent_sdk.query(prompt="Hi", options=official_options(model)):
                    pass
                seen.append("nothing")
            except Exception as error:
                seen.append(type(error).__name__)
    return ", ".join(dict.fromkeys(seen))


async def our_error() -> str:
    seen = []
    for status in REFUSED:
        async with ScriptedModel([Failure(status)] * 20) as model:
            try:
                await claude_agent_py.run("Hi", model.options())
                seen.append("nothing")
            except Exception as error:
                seen.append(type(error).__name__)
    return ", ".join(seen)


check("an error result", "raised for 400 and 403", official_error, our_error,
      "ResultError", "InvalidRequestError, AuthenticationError")  # fmt: skip


# A slow reader --------------------------------------------------------------------------------------------------------

LONG = [Reply(["word " * 300, tool_use("Bash", {"command": "true"})], chunk_chars=5), Reply("Done.")]


async def official_slow_reader() -> str:
    called = anyio.Event()

    async def hook(*_: Any) -> Any:
        called.set()
        return {}

    hooks = {"PreToolUse": [claude_agent_sdk.HookMatcher(hooks=[hook])]}
    async with ScriptedModel(LONG) as model:
        options = official_options(model, hooks=hooks, include_partial_messages=True)
        async with ClaudeSDKClient(options) as client:
            await client.query("Go")
            await wait(called)
    return describe(called)


async def our_slow_reader() -> str:
    called = anyio.Event()

    async def hook(*_: Any) -> None:
        called.set()

    hooks = {"PreToolUse": [HookMatcher(None, hook)]}
    async with ScriptedModel(LONG) as model:
        options = model.options(hooks=hooks, include_partial_messages=True, permission_mode="bypassPermissions")
        async with Client(options) as client, client.query("Go"):
            await wait(called)
    return describe(called)


async def wait(called: anyio.Event) -> None:
    with anyio.move_on_after(PATIENCE):
        await called.wait()


def describe(called: anyio.Event) -> str:
    return "the hook is called" if called.is_set() else "the hook waits"


check("a slow reader", "a hook while nobody reads", official_slow_reader, our_slow_reader,
      "the hook waits", "the hook is called")  # fmt: skip


# What the CLI may send ------------------------------------------------------------------------------------------------

ODD = {
    "an unknown message": b'{"type":"novelty","uuid":"1","session_id":"s"}\n',
    "a line of 2 MB": b'{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"'
    + b"x" * 2_000_000
    + b'"}],"model":"m","id":"i"},"parent_tool_use_id":null,"uuid":"2","session_id":"s"}\n',
    "garbage": b"this is no JSON\n",
}


def odd_cli(folder: str, line: bytes) -> str:
    """Write a program that sends a line before its answer."""
    return str(FakeCLI(wait_for_prompt(), emit_raw(line), frames.result("done")).install(folder))


def official_reader(line: bytes) -> Probe:
    async def read() -> str:
        with tempfile.TemporaryDirectory() as folder:
            try:
                async with ClaudeSDKClient(ClaudeAgentOptions(cli_path=odd_cli(folder, line))) as client:
                    await client.query("Go")
                    found = [message async for message in client.receive_response()]
            except Exception as error:
                return f"ends the session: {type(error).__name__}"
            return "skipped" if len(found) == 1 else "delivered"

    return read


def our_reader(line: bytes) -> Probe:
    async def read() -> str:
        with tempfile.TemporaryDirectory() as folder:
            async with Client(ClientOptions(cli_path=odd_cli(folder, line))) as client:
                found = [message async for message in client.query("Go")]
            odd = next((each for each in found if isinstance(each, UnknownMessage | MalformedFrame)), None)
            return type(odd).__name__ if odd is not None else "delivered" if len(found) > 1 else "skipped"

    return read


for title, theirs, ours in (
    ("an unknown message", "skipped", "UnknownMessage"),
    ("a line of 2 MB", "ends the session: CLIJSONDecodeError", "delivered"),
    ("garbage", "skipped", "MalformedFrame"),
):
    read_theirs, read_ours = official_reader(ODD[title]), our_reader(ODD[title])
    check("unknown messages, huge lines, garbage", title, read_theirs, read_ours, theirs, ours)


# What is there --------------------------------------------------------------------------------------------------------


def found(value: object) -> Probe:
    async def look() -> str:
        return str(value)

    return look


def find_names(module: Any, pattern: str) -> str:
    return ", ".join(name for name in sorted(set(dir(module))) if re.fullmatch(pattern, name)) or "none"


def has_program(distribution: str) -> str:
    files = importlib.metadata.files(distribution) or []
    return "in the wheel" if any(file.name == "claude" for file in files) else "not in the wheel"


check("hooks", "events", found(len(typing.get_args(types.HookEvent))), found(len(HOOK_EVENTS)),
      "10", "34")  # fmt: skip
check("testing without a model", "test doubles", found(find_names(claude_agent_sdk, r".*(Model|Fake|Mock)")),
      found(find_names(testing, r"ScriptedModel|FakeCLI|Cassette")),
      "none", "Cassette, FakeCLI, ScriptedModel")  # fmt: skip
check("the CLI itself", "the program", found(has_program("claude-agent-sdk")), found(has_program("claude-agent-py")),
      "in the wheel", "not in the wheel")  # fmt: skip
check("session stores", "stores", found(find_names(claude_agent_sdk, r"\w+SessionStore")),
      found(find_names(sessions, r"(SQLite|Directory|Postgres|Redis|S3|Memory)Store")),
      "InMemorySessionStore",
      "DirectoryStore, MemoryStore, PostgresStore, RedisStore, S3Store, SQLiteStore")  # fmt: skip


def read_rows() -> tuple[str, list[str]]:
    """Return the release that the README compares with, and the titles of the rows."""
    text = README.read_text(encoding="utf-8").partition("## Comparison with the official SDK")[2]
    release = re.search(r"`claude-agent-sdk` \((.*?)\)", text)
    table = text.partition("|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines()]
    return release[1] if release else "", [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", row) for row in rows]


async def main() -> int:
    release, rows = read_rows()
    problems = [f"the README has a row that is not looked at: {row}" for row in rows if row not in {*MEASURED, *STATED}]
    installed = importlib.metadata.version("claude-agent-sdk")
    if installed != release:
        problems.append(f"the README compares with {release}, and {installed} is installed")
    for row, checks in MEASURED.items():
        for what, (official, ours, *expected) in checks.items():
            seen = []
            for probe in (official, ours):
                with anyio.fail_after(SECONDS):
                    seen.append(await probe())
            print(f"{row}, {what}: {seen[0]} | {seen[1]}", flush=True)
            if seen != expected:
                problems.append(f"{row}, {what}: expected {' | '.join(expected)}")
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(anyio.run(main))
