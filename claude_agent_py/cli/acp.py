"""The `acp` command: an agent for an editor, over stdin and stdout."""

import argparse
import os
import signal
import sys
from contextlib import redirect_stdout
from functools import partial
from typing import Any, Final

import anyio

from claude_agent_py import acp
from claude_agent_py._base.errors import OptionsError
from claude_agent_py.cli.targets import load_object
from claude_agent_py.options import ClientOptions

MISSING: Final = "acp needs the extra `acp`: pip install agent-client-protocol"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `acp`."""
    parser.add_argument(
        "target",
        nargs="?",
        metavar="module:options",
        help="your ClientOptions, or a function from a working directory to them; the defaults if omitted",
    )
    parser.add_argument(
        "--editor-tools",
        action="store_true",
        help="offer the model the editor's open files and terminals, under the restrictions of Read, Write and Bash",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Serve the editor until it disconnects."""
    # The editor reads stdout: what else is printed there, also by your module, goes to stderr.
    sys.stdout.flush()
    protocol = os.dup(1)
    os.dup2(2, 1)
    options = load_target(arguments.target) if arguments.target else None
    try:
        serve = acp.serve
    except ImportError:
        raise OptionsError(MISSING) from None
    # End as after Ctrl-C: the programs of the sessions end first.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    with redirect_stdout(os.fdopen(protocol, "w", encoding="utf-8")):
        anyio.run(partial(serve, options, editor_tools=arguments.editor_tools))
    return 0


def load_target(target: str) -> Any:
    """Import the options. The module may be in the working directory.

    Raises:
        OptionsError: They cannot be imported, or are no options.
    """
    found = load_object(target)
    if not isinstance(found, ClientOptions) and not callable(found):
        raise OptionsError(f"must be ClientOptions or a function, not {type(found).__name__}: {target}")
    return found
