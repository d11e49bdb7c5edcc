"""The `interactions` command: list the pending interactions in an inbox file.

Control characters are stripped from the output.
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from claude_agent_py._base.display import displayable, displayable_json
from claude_agent_py._base.errors import OptionsError
from claude_agent_py.permissions import Interaction, SQLiteInbox
from claude_agent_py.permissions.open_questions import list_details
from claude_agent_py.permissions.typed_answers import HELP

VARIABLE: Final = "CLAUDE_AGENT_INBOX"
"""The environment variable that names the inbox if `--inbox` does not."""


def add_inbox_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the inbox."""
    parser.add_argument(
        "--inbox",
        metavar="FILE",
        default=os.environ.get(VARIABLE),
        help=f"the SQLiteInbox file (default: the variable {VARIABLE})",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `interactions`."""
    add_inbox_argument(parser)
    parser.add_argument("--full", action="store_true", help="do not cut long values")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace) -> int:
    """Print the pending interactions, oldest first, and return the exit code."""
    pending = list(open_inbox(arguments.inbox))
    if arguments.json:
        print(displayable_json([interaction.to_dict() for interaction in pending]))
        return 0
    for interaction in pending:
        print("\n".join(_describe(interaction, arguments.full)))
    if not pending:
        print("nothing is waiting")
    return 0


def open_inbox(inbox: str | None) -> SQLiteInbox:
    """Open an existing inbox.

    Raises:
        OptionsError: No inbox was given, or its file does not exist.
    """
    if inbox is None:
        raise OptionsError(f"pass --inbox or set {VARIABLE}")
    if not Path(inbox).expanduser().is_file():
        raise OptionsError(f"inbox not found: {inbox}")
    return SQLiteInbox(inbox)


def _describe(interaction: Interaction, full: bool) -> Iterator[str]:
    who = "the main agent" if interaction.agent_id is None else f"agent {displayable(interaction.agent_id, 60)}"
    if interaction.task_description:
        who += f" ({displayable(interaction.task_description, 60)})"
    if interaction.session_id:
        who += f" of session {displayable(interaction.session_id, 60)}"
    seconds = time.time() - interaction.created_at
    yield f"{displayable(interaction.id, 60)}  {interaction.kind} from {who}, waiting for {seconds:.0f} s"
    details = list_details(interaction, full=full)
    yield from (f"    {line}" for line in details)
    if not full and details != list_details(interaction, full=True):
        yield "    (cut: --full shows all of it)"
    yield f"    answer with: {HELP[interaction.kind]}"
