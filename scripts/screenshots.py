"""Take the pictures of the command line for the docs: real commands in tmux, with the real CLI and a scripted model.

    python scripts/screenshots.py [folder]

Needs tmux, rich, textual and DBOS. What a pane shows, colours included, becomes an SVG file that loads nothing.
"""

import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from claude_agent_py._launch.locate import CLI_VARIABLE, find_cli
from claude_agent_py.testing import Gate, RecordedRequest, Reply, ScriptedModel, ToolCall, tool_use

FOLDER = Path(__file__).parent.parent / "docs" / "images"
WIDTH, HEIGHT = 100, 24
TIMEOUT = 120.0
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)

PROMPT = "Review auth and billing, and run the tests"
FOUND = """\
One secret is **logged**:

| file | line | problem |
|---|---|---|
| `auth.py` | 2 | the password is in the log |

Billing and the docs are being reviewed.
"""


servers = itertools.count()
server = ""


def tmux(*arguments: str) -> str:
    """Run a command of tmux on the server of the pane."""
    return subprocess.run(["tmux", "-L", server, *arguments], capture_output=True, text=True, check=True).stdout


@contextmanager
def pane(command: str, environment: Mapping[str, str], *, height: int = HEIGHT) -> Iterator[None]:
    """Run a command in a pane, on a server of its own."""
    global server
    server = f"screenshots-{os.getpid()}-{next(servers)}"
    variables = [f"{name}={value}" for name, value in environment.items()]
    shell = f"{command}; printf '\\nexit code %s' $?; sleep {TIMEOUT}"
    run = shlex.join(["env", "-i", *variables, "TERM=screen-256color", "bash", "-c", shell])
    tmux("-f", "/dev/null", "new-session", "-d", "-x", str(WIDTH), "-y", str(height), run)
    try:
        yield
    finally:
        tmux("kill-server")


def shows(*texts: str, without: str | None = None) -> Text:
    """Wait until the pane shows all texts, and one no longer, and return what it shows."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        shown = Text.from_ansi(tmux("capture-pane", "-e", "-p", "-N").rstrip())
        if all(text in shown.plain for text in texts) and (without is None or without not in shown.plain):
            return shown
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {texts}, or {without}, in\n{shown.plain}")
        time.sleep(0.2)


def save(shown: Text, name: str, title: str, folder: Path) -> None:
    """Write what a pane shows to a file."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(shown)
    console.save_svg(str(folder / f"{name}.svg"), title=title, code_format=FORMAT, unique_id=name)
    print(f"{name}:\n{shown.plain}\n")


def launch(name: str) -> ToolCall:
    """Return a call that starts a reviewer."""
    return tool_use(
        "Agent", {"description": f"Review {name}", "prompt": f"Look at {name}", "subagent_type": "general-purpose"}
    )


def main(folder: Path) -> None:
    """Take all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    gate = Gate()
    tests = {"command": "sleep 2; echo 12 passed", "description": "Run the tests", "run_in_background": True}
    agents = {
        "Look at auth": [tool_use("Bash", {"command": "wc -l auth.py"}), Reply("One secret is logged.", after=gate)],
        "Look at billing": "Amounts should be decimals.",
    }
    first = Reply([launch("auth"), launch("billing"), tool_use("Bash", tests)])
    summary = "Auth logs a secret, billing should use decimals, and all 12 tests pass."
    program = shlex.quote(str(Path(sys.executable).with_name("claude-agent-py")))

    def answer(request: RecordedRequest) -> Reply:
        done = sum(map(request.contains, ('<summary>Agent "Review auth', "Amounts should", "(exit code 0)")))
        if request.tool_results and not done:
            return Reply("All three are under way.")
        return first if not done else Reply(summary if done == 3 else f"{done} of 3 are done.")

    with ScriptedModel(answer, agents=agents) as model:
        environment = model.environment(**{CLI_VARIABLE: str(find_cli())})
        command = f"cd {model.sandbox.cwd} && {program} run {shlex.quote(PROMPT)} --allowed-tools Bash"
        with pane(command, environment):
            shown = shows("✓ Review billing", "✓ Run the tests", "● Review auth")
            save(shown, "run-live", f'claude-agent-py run "{PROMPT}"', folder)
            gate.open()
            shows("exit code 0")
        with pane(
            f"{program} sessions list && {program} sessions show $(ls ~/.claude/projects/*/*.jsonl | "
            "xargs -n1 basename | cut -c1-8) | head -n 16",
            environment,
        ):
            save(shows("exit code 0"), "sessions", "claude-agent-py sessions", folder)
    take_watch(folder, program)


REVIEWS = """
import anyio
from claude_agent_py import ClientOptions
from claude_agent_py.permissions import SQLiteInbox
from claude_agent_py.pool import Pool

async def main():
    async with Pool(ClientOptions(permission_mode="default", interactions=SQLiteInbox("inbox.db")), size=1) as pool:
        async with anyio.create_task_group() as group:
            for prompt in ("Review auth and billing", "Run the tests of the shop"):
                group.start_soon(review, pool, prompt)

async def review(pool, prompt):
    async with pool.client() as client:
        await client.query(prompt, until="idle")
        await anyio.sleep_forever()

anyio.run(main)
"""
AGENTS = """
from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet
from claude_agent_py.sessions import SQLiteStore

fleet = Fleet("sqlite:///fleet.db", store=SQLiteStore("sessions.db"), poll=0.1)
fleet.agent("fixer", ClientOptions(permission_mode="default"), patience=0.2)
"""
QUESTION = {
    "question": "Where do amounts get rounded?",
    "header": "Rounding",
    "multiSelect": False,
    "options": [
        {"label": "At the end", "description": "one rounding, on the invoice"},
        {"label": "For each item", "description": "what the customer sees adds up"},
    ],
}


def take_watch(folder: Path, program: str) -> None:
    """Take the pictures of `watch`: a pool with a subagent at work and a question, and a fleet that waits."""
    gate = Gate()
    asks = {
        "Review auth and billing": Reply([launch("auth")]),
        "Run the tests of the shop": Reply(tool_use("Bash", {"command": "make test > out", "description": "test"})),
        "Fix the rounding": Reply(tool_use("AskUserQuestion", {"questions": [QUESTION]})),
    }

    def answer(request: RecordedRequest) -> Reply:
        asked = next((reply for prompt, reply in asks.items() if request.contains(prompt)), None)
        return Reply("It is under way.") if asked is None or request.tool_results else asked

    agents = {"Look at auth": [tool_use("Bash", {"command": "wc -l auth.py"}), Reply("It is sound.", after=gate)]}
    with ScriptedModel(answer, agents=agents) as model, ExitStack() as stack:
        environment = model.environment(**{CLI_VARIABLE: str(find_cli())})
        work = model.sandbox.cwd
        (work / "reviews.py").write_text(REVIEWS)
        (work / "agents.py").write_text(AGENTS)

        def call(*command: str) -> None:
            subprocess.run(command, env=environment, cwd=work, check=True, capture_output=True)

        def start(*command: str) -> IO[bytes]:
            process = subprocess.Popen(command, env=environment, cwd=work, stdout=subprocess.PIPE)
            assert process.stdout is not None
            stack.callback(process.communicate, timeout=TIMEOUT)
            stack.callback(process.terminate)
            return process.stdout

        call(program, "run", "What does a session cost?", "--quiet")  # what the CLI says of it implies the prices
        worker = start(program, "fleet", "worker", "agents:fleet")
        stack.callback(gate.open)
        worker.readline()  # it runs: its agents are known
        call(program, "fleet", "start", "fixer", "Fix the rounding", "--id", "pr-17", "--url", "sqlite:///fleet.db")
        start(sys.executable, "reviews.py")
        wait_for(work / "inbox.db")
        watch = f"cd {work} && {program} watch --inbox inbox.db --fleet sqlite:///fleet.db"
        with pane(watch, environment):
            shows("Where do amounts", "make test", "● Review auth (general-purpose)", "without a prompt yet", "~0.0")
            tmux("send-keys", "Down")
            shown = shows("pr-17 (fixer) [waiting]", "make test", "● Review auth", "without a prompt yet", "Quit")
            save(shown, "watch", "claude-agent-py watch", folder)
            tmux("send-keys", "a")
            save(shows("At the end", "Answer"), "watch-answer", "claude-agent-py watch: a", folder)
            tmux("send-keys", "Down", "Space", "Tab", "Tab", "Enter")
            shows("Quit", without="Where do amounts")
            tmux("send-keys", "q")
            shows("exit code 0")


def wait_for(path: Path) -> None:
    """Wait until a file is there."""
    deadline = time.monotonic() + TIMEOUT
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {path}")
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
