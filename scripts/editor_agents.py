"""Ask the same of `claude-agent-py acp` and of the vendor's agent for editors, and compare with the table in the docs.

    python scripts/editor_agents.py            # fails if a row of docs/in-an-editor.md is no longer so
    python scripts/editor_agents.py --write    # writes the table

Both run the same CLI, against a scripted model. The vendor's agent is installed with npm, into a temporary folder or
into --folder; it needs Node.js.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import doc_tables

from claude_agent_py.options import find_cli
from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

VENDOR = "@agentclientprotocol/claude-agent-acp@0.101.0"
SECONDS = 60
PATIENCE = 10.0
"""How long to wait for something that an agent may never send."""
NONE = "-"


class Editor:
    """An editor that writes JSON lines, notes what comes, and allows whatever it is asked."""

    def __init__(self, process: asyncio.subprocess.Process, model: ScriptedModel) -> None:
        self.process = process
        self.model = model
        self.updates: list[dict[str, Any]] = []
        self.refused: list[int] = []
        self.form: dict[str, Any] = {}
        self.gate = Gate()
        self._answers: dict[Any, asyncio.Future[Any]] = {}
        self._count = 0
        self._news = asyncio.Event()

    def write(self, line: bytes) -> None:
        """Write a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")

    def send(self, **message: Any) -> None:
        """Write a message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def ask(self, method: str, **params: Any) -> asyncio.Future[Any]:
        """Send a request, whose answer is a result or an error."""
        self._count += 1
        self.send(id=self._count, method=method, params=params)
        return self._answers.setdefault(self._count, asyncio.get_running_loop().create_future())

    @property
    def last_request(self) -> int:
        """The id of the last request."""
        return self._count

    async def read(self) -> None:
        """Read messages until the agent ends."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            if message.get("method") == "session/update":
                self.updates.append(message["params"]["update"])
            elif message.get("method") == "session/request_permission":
                options = message["params"]["options"]
                chosen = next(each["optionId"] for each in options if each["kind"].startswith("allow"))
                self.send(id=message["id"], result={"outcome": {"outcome": "selected", "optionId": chosen}})
            elif message.get("method") == "elicitation/create":
                self.form = message["params"]
                self.send(id=message["id"], result={"action": "decline"})
            elif message.get("id") is None:
                self.refused.append(message.get("error", {}).get("code", 0))
            elif message["id"] in self._answers:
                self._answers[message["id"]].set_result(message.get("result", message.get("error")))
            self._news.set()

    async def wait_for(self, found: Callable[[], Any]) -> Any:
        """Return what is found once something is, or None after a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while not (there := found()):
                    self._news.clear()
                    await self._news.wait()
                return there
        return None

    def find(self, kind: str) -> list[dict[str, Any]]:
        """Return the updates of a kind."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    async def begin(self) -> str:
        """Return the id of a new session."""
        return str((await self.ask("session/new", cwd=str(self.model.sandbox.cwd), mcpServers=[]))["sessionId"])

    def prompt(self, session: str, *blocks: dict[str, Any], text: str = "Go") -> asyncio.Future[Any]:
        """Send a prompt, whose text comes last."""
        return self.ask("session/prompt", sessionId=session, prompt=[*blocks, {"type": "text", "text": text}])


@asynccontextmanager
async def started(command: list[str], model: ScriptedModel) -> AsyncIterator[tuple[Editor, dict[str, Any]]]:
    cli = str(find_cli())
    variables = model.environment(CLAUDE_CODE_EXECUTABLE=cli, CLAUDE_AGENT_CLI=cli, PATH=os.environ["PATH"])
    process = await asyncio.create_subprocess_exec(
        *command, env=variables, cwd=model.sandbox.cwd, limit=2**26,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    editor = Editor(process, model)
    reading = asyncio.create_task(editor.read())
    try:
        form: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
        yield editor, await editor.ask("initialize", protocolVersion=1, clientCapabilities=form)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        reading.cancel()


Probe = Callable[[Editor, dict[str, Any]], Awaitable[str]]
PROBES: dict[str, tuple[Callable[[Gate], list[Reply]], Probe]] = {}


def row(title: str, script: Callable[[Gate], list[Reply]] = lambda gate: []) -> Callable[[Probe], Probe]:
    """Add a row, with the script of the model, in which a reply may wait for a gate."""

    def add(probe: Probe) -> Probe:
        PROBES[title] = (script, probe)
        return probe

    return add


def show(answer: Any) -> str:
    """Return how a request ended: its reason, or its error."""
    if not isinstance(answer, dict):
        return NONE
    return str(answer.get("stopReason") or answer.get("code") or "done")


@row("requests about sessions, besides `new`, `load` and `prompt`")
async def _(editor: Editor, info: dict[str, Any]) -> str:
    return ", ".join(sorted(f"`{name}`" for name in info["agentCapabilities"].get("sessionCapabilities", {})))


@row("options")
async def _(editor: Editor, info: dict[str, Any]) -> str:
    session = await editor.ask("session/new", cwd=str(editor.model.sandbox.cwd), mcpServers=[])
    return ", ".join(f"`{option['id']}`" for option in session.get("configOptions") or [])


@row("the code of the error for a session that does not exist")
async def _(editor: Editor, info: dict[str, Any]) -> str:
    return show(await editor.prompt("11111111-1111-4111-8111-111111111111"))


@row("the code of the error for a batch, and for a line that is not JSON")
async def _(editor: Editor, info: dict[str, Any]) -> str:
    found = []
    for line in (b"[]", b"{"):
        editor.refused.clear()
        editor.write(line)
        found.append(str((await editor.wait_for(lambda: editor.refused) or [NONE])[0]))
    goes_on = await editor.wait_for(editor.ask("session/list").done)
    return ", ".join(found) + ("" if goes_on else "; ends")


@row("a prompt whose request is cancelled, and the prompt before it", lambda gate: [Reply("One.", after=gate)])
async def _(editor: Editor, info: dict[str, Any]) -> str:
    session = await editor.begin()
    before = editor.prompt(session)
    await editor.gate.wait_reached()
    behind = editor.prompt(session, text="Behind")
    editor.send(method="$/cancel_request", params={"requestId": editor.last_request})
    await editor.wait_for(lambda: behind.done() or before.done())
    editor.gate.open()
    await editor.wait_for(lambda: behind.done() and before.done())
    return ", ".join(show(each.result() if each.done() else None) for each in (behind, before))


@row("the prompt of an open session that is loaded again", lambda gate: [Reply("One."), Reply("Two.", after=gate)])
async def _(editor: Editor, info: dict[str, Any]) -> str:
    session = await editor.begin()
    await editor.prompt(session)
    running = editor.prompt(session)
    await editor.gate.wait_reached()
    await editor.ask("session/load", sessionId=session, cwd=str(editor.model.sandbox.cwd), mcpServers=[])
    editor.gate.open()
    await editor.wait_for(running.done)
    return show(running.result() if running.done() else None)


SHELL = {"command": "sleep 1; echo built", "run_in_background": True, "description": "Build it"}


@row(
    "the end of a shell in the background, after its prompt",
    lambda _: [Reply(tool_use("Bash", SHELL)), *[Reply("On.")] * 3],
)
async def _(editor: Editor, info: dict[str, Any]) -> str:
    await editor.prompt(await editor.begin())
    (call,) = {update["toolCallId"] for update in editor.find("tool_call") if update["toolCallId"].startswith("toolu")}

    def ended() -> list[dict[str, Any]]:
        updates = editor.find("tool_call_update")
        return [each for each in updates if each["toolCallId"] != call and each.get("status") == "completed"]

    return "shown as a call of its own" if await editor.wait_for(ended) else "not shown"


TODO = {"subject": "Build", "description": "All"}


@row("the to-do list", lambda _: [Reply(tool_use("TaskCreate", TODO)), Reply("Done.")])
async def _(editor: Editor, info: dict[str, Any]) -> str:
    await editor.prompt(await editor.begin())
    return "the plan" if await editor.wait_for(lambda: editor.find("plan")) else "not shown"


@row("a PDF file in a prompt", lambda _: [Reply("Read.")])
async def _(editor: Editor, info: dict[str, Any]) -> str:
    resource = {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "JVBERi0xLjQK"}
    answer = await editor.prompt(await editor.begin(), {"type": "resource", "resource": resource})
    bodies = str([request.body for request in editor.model.requests])
    return "sent" if "application/pdf" in bodies else f"not sent ({show(answer)})"


QUESTION = {"question": "Which?", "header": "Which", "multiSelect": False}
CHOICES = [{"label": each, "description": each} for each in ("red", "blue")]
ASKED = {"questions": [{**QUESTION, "options": CHOICES}]}


@row(
    "a question of the model, if the editor has forms",
    lambda _: [Reply(tool_use("AskUserQuestion", ASKED)), Reply("Good.")],
)
async def _(editor: Editor, info: dict[str, Any]) -> str:
    await editor.prompt(await editor.begin())
    fields = editor.form.get("requestedSchema", {}).get("properties", {})
    return f"a form with {len(fields)} fields" if fields else "not asked"


@row("the next two prompts after the CLI was killed", lambda _: [Reply("On.")] * 4)
async def _(editor: Editor, info: dict[str, Any]) -> str:
    session = await editor.begin()
    await editor.prompt(session)
    subprocess.run(["pkill", "-9", "-P", str(editor.process.pid)], check=False)  # noqa: ASYNC221
    ends = []
    for _ in range(2):
        answer = editor.prompt(session)
        await editor.wait_for(answer.done)
        ends.append(show(answer.result()) if answer.done() else "no answer")
    return ", ".join(ends)


@row("ids of messages, and the title of the session", lambda _: [Reply("Hello.")])
async def _(editor: Editor, info: dict[str, Any]) -> str:
    await editor.prompt(await editor.begin(), text="Say hello")
    has_ids = all(update.get("messageId") for update in editor.find("agent_message_chunk"))
    has_title = await editor.wait_for(lambda: editor.find("session_info_update"))
    return f"{'yes' if has_ids else 'no'}, {'yes' if has_title else 'no'}"


async def ask_all(command: list[str]) -> dict[str, str]:
    found = {}
    for title, (script, probe) in PROBES.items():
        gate = Gate()
        async with ScriptedModel(script(gate)) as model, started(command, model) as (editor, info):
            editor.gate = gate
            try:
                async with asyncio.timeout(SECONDS):
                    found[title] = await probe(editor, info)
            except TimeoutError:
                found[title] = "no answer"
            gate.open()
    return found


def install_vendor(folder: Path) -> list[str]:
    npm = shutil.which("npm") or sys.exit("npm is needed, for the vendor's agent")
    subprocess.run([npm, "install", "--silent", "--no-fund", "--prefix", str(folder), VENDOR], check=True)
    return [str(folder / "node_modules" / ".bin" / "claude-agent-acp")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the vendor's agent is installed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        theirs = asyncio.run(ask_all(install_vendor(arguments.folder or Path(temporary))))
    ours = asyncio.run(ask_all([sys.executable, "-m", "claude_agent_py", "acp"]))
    columns = ("", "`claude-agent-py acp`", f"`{VENDOR.rpartition('/')[2]}`")
    rows = {title: (ours[title], theirs[title]) for title in PROBES}
    return doc_tables.keep("in-an-editor.md", "editor_agents.py", columns, rows, write=arguments.write)


if __name__ == "__main__":
    sys.exit(main())
