"""What lets every example run without a model and without a network.

    with offline(SCRIPT):
        anyio.run(main)

Offline, the real Claude Code CLI runs as in production, but a scripted model answers it, saying what `SCRIPT` says.
With `--live` on the command line the real model answers instead. A program of your own has no such `with` line. Either
way the example works in an empty temporary directory, so that it touches no file of yours.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from claude_agent_py import ClaudeAgentError
from claude_agent_py.launch.locate import CLI_VARIABLE, find_cli
from claude_agent_py.testing import ScriptedModel


@contextlib.contextmanager
def offline(script: Any = (), **more: Any) -> Iterator[None]:
    """Let a scripted model answer every CLI that is started inside, unless `--live` is given.

    `script` and `more` are those of `ScriptedModel`: the answers of the main agent in order, `agents=` for those of
    subagents by the prompt that opens their conversation, and so on.
    """
    if "--live" in sys.argv[1:]:
        with _live():
            yield
    else:
        with ScriptedModel(script, **more) as model, _told_where(model):
            yield


@contextlib.contextmanager
def _live() -> Iterator[None]:
    if not os.environ.get("ANTHROPIC_API_KEY"):
        sys.exit("Set ANTHROPIC_API_KEY to run this on the real model, or leave out --live.")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, contextlib.chdir(directory):
        yield


@contextlib.contextmanager
def _told_where(model: ScriptedModel) -> Iterator[None]:
    """Make this process's environment one in which the CLI finds the scripted model, and nothing of its user."""
    try:
        cli: Path = find_cli()  # while the environment still says where it is
    except ClaudeAgentError as error:
        sys.exit(str(error))
    before = dict(os.environ)
    inside = model.environment(**{CLI_VARIABLE: str(cli)})
    os.environ.clear()
    os.environ.update(inside)
    try:
        with contextlib.chdir(model.sandbox.cwd):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)
