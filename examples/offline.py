"""Run the examples without a model and without a network.

    with offline(SCRIPT):
        anyio.run(main)

The real Claude Code CLI runs as in production, but a scripted model answers it from `SCRIPT`. With `--live` on the
command line the real model answers instead. Your own programs do not need the `with` line. Every example runs in an
empty temporary directory, so it touches none of your files.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from claude_agent_py import ClaudeAgentError
from claude_agent_py.options import find_cli
from claude_agent_py.testing import ScriptedModel


@contextlib.contextmanager
def offline(script: Any = (), **more: Any) -> Iterator[None]:
    """Use a scripted model for every CLI started inside the block, unless `--live` is given.

    The arguments are those of `ScriptedModel`: the answers of the main agent in order, `agents=` for the answers of
    subagents by their first prompt, and so on.
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
    """Replace the environment of this process, so that the CLI uses the scripted model and no user configuration."""
    try:
        cli: Path = find_cli()  # before the environment is replaced
    except ClaudeAgentError as error:
        sys.exit(str(error))
    before = dict(os.environ)
    inside = model.environment(CLAUDE_AGENT_CLI=str(cli))
    os.environ.clear()
    os.environ.update(inside)
    try:
        with contextlib.chdir(model.sandbox.cwd):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)
