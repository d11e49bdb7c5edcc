"""The `offline` command: run an unchanged program against a scripted model.

Only the environment changes, so that the CLI talks to the scripted model. The program keeps its directory and home, and
its tools have their real effects.
"""

import argparse
import inspect
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.testing import RecordedRequest, Reply, ScriptedModel

SIGNALLED: Final = 128
"""Plus the number of the signal: the exit code of a killed program, as in shells."""
KEPT: Final = frozenset({"HOME", "USERPROFILE", "CLAUDE_CODE_TMPDIR", "TMPDIR", "TEMP", "TMP"})
"""Variables of the sandbox that do not replace the program's own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `offline`."""
    parser.add_argument(
        "--script",
        metavar="FILE",
        help="a Python file that defines `script`, and optionally `agents` and the other arguments of ScriptedModel "
        "(default: echo the prompt)",
    )
    parser.add_argument("program", help="a .py file, or any command")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")


def execute(arguments: argparse.Namespace) -> int:
    """Run a program against a scripted model and return its exit code."""
    command = [arguments.program, *arguments.arguments]
    if arguments.program.endswith(".py"):
        command.insert(0, sys.executable)
    with _create_model(arguments.script) as model:
        code = _run(command, _build_environment(model))
        requests = len(model.requests)
    print(f"claude-agent-py: offline: requests to the scripted model: {requests}", file=sys.stderr)
    return code


def echo(request: RecordedRequest) -> Reply:
    """Repeat the user's last message."""
    return Reply(f"You said: {request.last_user_text}")


def _create_model(script: str | None) -> ScriptedModel:
    if script is None:
        return ScriptedModel(echo)
    try:
        names = runpy.run_path(os.path.abspath(script))
        if "script" in names:
            return ScriptedModel(names["script"], **_select_arguments(script, names))
    except Exception as error:  # your script may raise anything
        what = "" if isinstance(error, OSError | SyntaxError | TypeError) else f"{type(error).__name__}: "
        raise OptionsError(f"{script}: {what}{error}", option="--script") from error
    raise OptionsError(f"{script} defines no `script`", option="--script")


def _select_arguments(script: str, names: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments of `ScriptedModel` that a script defines. Print a warning for misspelled ones."""
    known = list(inspect.signature(ScriptedModel).parameters)[1:]
    missing = [name for name in known if name not in names]
    for name in names:
        if meant := get_close_matches(name.lower(), missing, n=1, cutoff=0.8):
            warning = f"{name!r} has no effect; did you mean {meant[0]!r}?"
            print(f"claude-agent-py: offline: {script}: {warning}", file=sys.stderr)
    return {name: names[name] for name in known if name in names}


def _build_environment(model: ScriptedModel) -> dict[str, str]:
    """Return the program's environment, without variables that select another account, cloud or model."""
    sandboxed = {name: value for name, value in model.environment().items() if name not in KEPT}
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "CLAUDE_CODE_"))
    }
    # A proxy could not reach the scripted model, which listens on this machine.
    no_proxy = ",".join(filter(None, [inherited.get("NO_PROXY") or inherited.get("no_proxy"), "127.0.0.1"]))
    return {**inherited, **sandboxed, "NO_PROXY": no_proxy, "no_proxy": no_proxy}


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command, wait for it, and forward SIGTERM to it. Return its exit code."""
    process: subprocess.Popen[bytes] | None = None
    is_ended = False

    def end(*_: object) -> None:
        nonlocal is_ended
        is_ended = True
        if process is not None:
            process.terminate()

    before = signal.signal(signal.SIGTERM, end)  # before the program can be seen to run
    try:
        process = _start(command, environment)
        if is_ended:
            process.terminate()
        code = _wait(process)
    finally:
        signal.signal(signal.SIGTERM, before)
    return SIGNALLED - code if code < 0 else code


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, env=environment)
    except OSError as error:
        raise OptionsError(f"cannot start {command[0]}: {error.strerror or error}") from None


def _wait(process: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal sends SIGINT to the program as well. The program decides when to exit.
            continue
