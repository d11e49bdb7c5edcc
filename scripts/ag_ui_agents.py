"""Ask the same of `make_agui_app` and of `ag-ui-claude-sdk`, and compare with the table in the docs.

    python scripts/ag_ui_agents.py            # fails if a row of docs/ag-ui.md is no longer so
    python scripts/ag_ui_agents.py --write    # writes the table

Both serve over HTTP and run the same CLI, against a scripted model. The other package is installed with pip into a
temporary environment, or into the one in --folder.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import doc_tables

from claude_agent_py.options import find_cli
from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

OTHER = "ag-ui-claude-sdk==0.2.3"
SECONDS = 45
NONE = "-"
WORKER = {"description": "Works", "prompt": "You work."}
DELEGATE = {"description": "Look", "prompt": "look", "subagent_type": "worker"}

OURS = """
import json, sys
import uvicorn
from claude_agent_py import AgentDefinition, ClientOptions
from claude_agent_py.serve import Server, Sessions, make_agui_app

given = json.loads(sys.argv[1])
worker = AgentDefinition(**given["worker"])
options = ClientOptions(cwd=given["cwd"], agents={"worker": worker}, permission_mode=given["mode"])
sessions = Sessions(options, frontend_tools=True)
config = uvicorn.Config(make_agui_app(sessions, token="t"), "127.0.0.1", 0, log_level="error")
sock = config.bind_socket()
sock.listen()
print(sock.getsockname()[1], flush=True)
Server(config, sessions).run([sock])
"""
THEIRS = """
import json, sys
import uvicorn
from ag_ui_claude_sdk import ClaudeAgentAdapter, add_claude_fastapi_endpoint
from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions
from fastapi import FastAPI

given = json.loads(sys.argv[1])
worker = AgentDefinition(**given["worker"])
options = ClaudeAgentOptions(
    cwd=given["cwd"], agents={"worker": worker}, permission_mode=given["mode"], cli_path=given["cli"]
)
defer = ("Bash",) if given["mode"] == "default" else ()
app = FastAPI()
adapter = ClaudeAgentAdapter(name="agent", options=options, defer_tools=defer, query_timeout_seconds=30)
add_claude_fastapi_endpoint(app=app, adapter=adapter, path="/")
config = uvicorn.Config(app, "127.0.0.1", 0, log_level="error")
sock = config.bind_socket()
sock.listen()
print(sock.getsockname()[1], flush=True)
uvicorn.Server(config).run([sock])
"""


class Page:
    """A client with one thread."""

    def __init__(self, command: list[str], model: ScriptedModel, mode: str) -> None:
        self.model = model
        self.messages: list[dict[str, Any]] = []
        cli = str(find_cli())
        given = {"worker": WORKER, "cwd": str(model.sandbox.cwd), "mode": mode, "cli": cli}
        self._command = [*command, json.dumps(given)]
        self._environment = model.environment(CLAUDE_AGENT_CLI=cli, PATH=os.environ["PATH"])
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    async def start(self) -> None:
        """Start the server, or start it again."""
        await self.stop()
        self._process = await anyio.to_thread.run_sync(
            lambda: subprocess.Popen(self._command, env=self._environment, stdout=subprocess.PIPE)
        )
        out = self._process.stdout
        assert out is not None
        self._port = int(await anyio.to_thread.run_sync(out.readline))

    async def stop(self) -> None:
        """Stop the server."""
        if self._process is not None:
            self._process.terminate()
            await anyio.to_thread.run_sync(self._process.wait)

    async def ask(self, method: str, path: str = "/", body: Any = None) -> AsyncIterator[dict[str, Any]]:
        """Send a request, and yield the events of the answer, or one `HTTP` with the status."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**26)
        try:
            data = b"" if body is None else json.dumps(body).encode()
            head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer t\r\nConnection: close\r\n"
            head += (
                f"Accept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
            )
            writer.write(head.encode() + data)
            status = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            if status != "200":
                yield {"type": "HTTP", "status": status}
                return
            while line := await reader.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))
        finally:
            writer.close()

    def say(self, text: str) -> None:
        """Add a message of the user."""
        self.messages.append({"id": f"u{len(self.messages)}", "role": "user", "content": text})

    async def run(self, text: str = "", **more: Any) -> list[dict[str, Any]]:
        """Run the agent, and return the events."""
        if text:
            self.say(text)
        given: dict[str, Any] = {
            "threadId": "a-thread",
            "runId": f"r{len(self.messages)}",
            "protocolVersion": "1.0",
            "state": {},
        }
        given |= {"messages": self.messages, "tools": [], "context": [], "forwardedProps": {}}
        return [event async for event in self.ask("POST", body={**given, **more})]


def said(events: list[dict[str, Any]]) -> str:
    """Return the text of a run."""
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def end(events: list[dict[str, Any]]) -> str:
    """Return how a run has ended."""
    last = events[-1]
    return str((last.get("outcome") or {}).get("type") or last["type"])


def has(events: list[dict[str, Any]], kind: str) -> str:
    """Return whether events of a kind are there."""
    found = sorted({event["type"] for event in events if event["type"].startswith(kind)})
    return ", ".join(f"`{each}`" for each in found) or NONE


Script = Callable[[Gate, str], list[Reply]]
Probe = Callable[[Page, Gate], Awaitable[str]]
PROBES: dict[str, tuple[Script, Probe, str]] = {}


def row(title: str, script: Script, *, mode: str = "bypassPermissions") -> Callable[[Probe], Probe]:
    """Add a row with the script of the model, which gets a gate and the prefix of the client's tools."""

    def add(probe: Probe) -> Probe:
        PROBES[title] = (script, probe, mode)
        return probe

    return add


def shell(*names: str) -> Reply:
    return Reply([tool_use("Bash", {"command": f"touch {name}", "description": "Make it"}) for name in names])


@row("the version in `RUN_STARTED`, and usage in `RUN_FINISHED`", lambda gate, _: [Reply("Hello.")])
async def _(page: Page, gate: Gate) -> str:
    events = await page.run("Go")
    return f"{events[0].get('protocolVersion', NONE)}, {'yes' if events[-1].get('usage') else 'no'}"


def follow_up(gate: Gate, _: str) -> list[Reply]:
    call = tool_use("Agent", {**DELEGATE, "run_in_background": True})
    return [Reply([call]), Reply("Begun."), Reply("The follow-up."), Reply("The answer.")]


async def let_it_follow(page: Page, gate: Gate) -> None:
    await page.run("Go")
    gate.open()
    with suppress(TimeoutError):
        await page.model.wait_for_requests(3, agent="main", timeout=10)


@row("the answer to the prompt after a follow-up turn", follow_up)
async def _(page: Page, gate: Gate) -> str:
    await let_it_follow(page, gate)
    await asyncio.sleep(1)  # the turn ends, which a client of the other package does not see
    return f"*{said(await page.run('And?'))}*"


@row("where a page sees the follow-up turn", follow_up)
async def _(page: Page, gate: Gate) -> str:
    await let_it_follow(page, gate)
    with suppress(TimeoutError):
        async with asyncio.timeout(10):
            async for event in page.ask("GET", "/?threadId=a-thread"):
                if event["type"] == "HTTP":
                    break
                if "The follow-up." in json.dumps(event):
                    return "on a stream that follows the thread"
    found = "The follow-up." in json.dumps(await page.run("And?"))
    return "in the run of the next prompt" if found else NONE


@row("background work while a turn runs", follow_up)
async def _(page: Page, gate: Gate) -> str:
    return has(await page.run("Go"), "ACTIVITY")


def look(gate: Gate, _: str) -> list[Reply]:
    gate.open()
    return [Reply([tool_use("Agent", {**DELEGATE, "run_in_background": False})]), Reply("Done.")]


@row("a subagent that the turn waits for", look)
async def _(page: Page, gate: Gate) -> str:
    return has(await page.run("Go"), "SUBAGENT")


async def approve(page: Page, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    asked = (events[-1].get("outcome") or {}).get("interrupts") or []
    payload = {"approved": True, "behavior": "allow"}
    entries = [{"interruptId": each["id"], "status": "resolved", "payload": payload} for each in asked]
    return await page.run(resume=entries)


@row(
    "a call that asks, and the run after it was approved",
    lambda gate, _: [shell("a"), Reply("Made."), Reply(" And an answer that nobody asked for.")],
    mode="default",
)
async def _(page: Page, gate: Gate) -> str:
    events = await page.run("Go")
    then = await approve(page, events) if end(events) == "interrupt" else events
    return f"`{end(events)}`, *{said(then) or then[-1].get('message', '')}*"


@row("the schema of that answer", lambda gate, _: [shell("a"), Reply("Made.")], mode="default")
async def _(page: Page, gate: Gate) -> str:
    events = await page.run("Go")
    asked = (events[-1].get("outcome") or {}).get("interrupts") or [{}]
    return ", ".join(f"`{name}`" for name in asked[0].get("responseSchema", {}).get("properties", {})) or NONE


@row("two calls of one message that ask", lambda gate, _: [shell("a", "b"), Reply("Made.")], mode="default")
async def _(page: Page, gate: Gate) -> str:
    events = await page.run("Go")
    for _ in range(3):
        if end(events) == "interrupt":
            events = await approve(page, events)
    return f"`{end(events)}`" + (f", *{said(events)}*" if said(events) else "")


def pick(count: int) -> Script:
    def script(gate: Gate, prefix: str) -> list[Reply]:
        return [Reply([tool_use(f"{prefix}pickColor", {"n": n}) for n in range(count)]), Reply("Blue."), Reply("More.")]

    return script


async def answer_calls(page: Page, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    calls = [event for event in events if event["type"] == "TOOL_CALL_START"]
    for call in calls:
        name, number = call["toolCallId"], len(page.messages)
        function = {"name": call["toolCallName"], "arguments": "{}"}
        made = {"id": name, "type": "function", "function": function}
        page.messages.append({"id": f"a{number}", "role": "assistant", "toolCalls": [made]})
    for call in calls:
        name = call["toolCallId"]
        page.messages.append({"id": f"result-{name}", "role": "tool", "toolCallId": name, "content": "blue"})
    return await page.run(tools=TOOLS)


TOOLS = [{"name": "pickColor", "description": "Pick.", "parameters": {"type": "object", "properties": {}}}]


async def call_tools(page: Page) -> str:
    events = await page.run("Go", tools=TOOLS)
    pending = len((events[-1].get("outcome") or {}).get("pendingToolCallIds") or [])
    then = await answer_calls(page, events) if events[-1]["type"] == "RUN_FINISHED" else events
    told = f"*{said(then)}*" if said(then) else f"`{end(then)}`"
    return f"{pending} pending, {told}"


@row("a tool of the client, and the run with its result", pick(1))
async def _(page: Page, gate: Gate) -> str:
    return await call_tools(page)


@row("two calls of such tools in one message", pick(2))
async def _(page: Page, gate: Gate) -> str:
    return await call_tools(page)


@row("a new page on a thread, after the server has started again", lambda gate, _: [Reply("One."), Reply("Two.")])
async def _(page: Page, gate: Gate) -> str:
    await page.run("First")
    await page.start()
    page.messages.clear()
    events = await page.run("Second")
    texts = [message.get("content") for event in events for message in event.get("messages", ())]
    knows = "First" in json.dumps(page.model.requests[-1].body["messages"])
    return (
        f"{'has' if 'One.' in texts else 'lacks'} the messages, the agent {'knows' if knows else 'has forgotten'} them"
    )


@row("a page that reloads in the middle of an answer", lambda gate, _: [Reply("A long text", after=gate)])
async def _(page: Page, gate: Gate) -> str:
    running = asyncio.create_task(page.run("Go"))
    await gate.wait_reached()
    running.cancel()
    with suppress(TimeoutError):
        async with asyncio.timeout(15):
            async for event in page.ask("GET", "/?threadId=a-thread"):
                gate.open()
                if event["type"] == "TEXT_MESSAGE_CONTENT":
                    return "gets the rest"
    return "lacks the rest"


async def ask_all(command: list[str], prefix: str) -> dict[str, str]:
    found = {}
    for title, (script, probe, mode) in PROBES.items():
        gate = Gate()
        replies = {"look": [Reply("I looked.", after=gate)]}
        async with ScriptedModel(script(gate, prefix), agents=replies) as model:
            page = Page(command, model, mode)
            await page.start()
            try:
                async with asyncio.timeout(SECONDS):
                    found[title] = await probe(page, gate)
            except TimeoutError:
                found[title] = "no end"
            finally:
                gate.open()
                await page.stop()
        print(f"{title}: {found[title]}", file=sys.stderr)
    return found


def install_other(folder: Path) -> str:
    """Return the Python of an environment with the other package."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", OTHER], check=True)
    return str(python)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--folder", type=Path, help="the environment of the other package")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        python = install_other(arguments.folder or Path(temporary))
        theirs = asyncio.run(ask_all([python, "-c", THEIRS], "mcp__ag_ui__"))
    ours = asyncio.run(ask_all([sys.executable, "-c", OURS], "mcp__frontend__"))
    columns = ("", "`make_agui_app`", f"`{OTHER.replace('==', ' ')}`")
    rows = {title: (ours[title], theirs[title]) for title in PROBES}
    return doc_tables.keep("ag-ui.md", "ag_ui_agents.py", columns, rows, write=arguments.write)


if __name__ == "__main__":
    sys.exit(main())
