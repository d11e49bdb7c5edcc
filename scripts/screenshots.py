"""Take the pictures of the command line for the docs: real commands in tmux, with the real CLI and a scripted model.

    python scripts/screenshots.py [folder]

Needs tmux and rich. What a pane shows, colours included, becomes an SVG file that loads nothing.
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
from contextlib import contextmanager
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from claude_agent_py.testing import Gate, RecordedRequest, Reply, ScriptedModel, ToolCall, tool_use
from claude_agent_py.transport.locate import CLI_VARIABLE, find_cli

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


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
