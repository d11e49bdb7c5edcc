"""The `interactions` command: list the pending interactions in an inbox file.

Control characters are stripped from the output.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.permissions.inbox_sqlite import SQLiteInbox
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.permissions.prompts import Kind
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.permissions.typed_answers import HELP
from claude_agent_py.wire.control.asks import ElicitationRequest

VARIABLE: Final = "CLAUDE_AGENT_INBOX"
"""The environment variable that names the inbox if `--inbox` does not."""

SHOWN_CHARS: Final = 2000
"""Longer values are cut unless `--full` is given."""
NO_PLAN: Final = "(the plan was not written down)"
_CONTINUED: Final = "      | "
"""Prefix of a value's continuation lines, so that none of them looks like a field."""


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
        print(json.dumps([interaction.to_dict() for interaction in pending], ensure_ascii=False))
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
    who = "the main agent" if interaction.agent_id is None else f"agent {interaction.agent_id}"
    if interaction.task_description:
        who += f" ({displayable(interaction.task_description, 60)})"
    if interaction.session_id:
        who += f" of session {displayable(interaction.session_id, 60)}"
    seconds = time.time() - interaction.created_at
    yield f"{interaction.id}  {interaction.kind} from {who}, waiting for {seconds:.0f} s"
    for line in list_details(interaction, full=full):
        yield f"    {line}"
    yield f"    answer with: {HELP[interaction.kind]}"


def list_details(interaction: Interaction, *, full: bool = False) -> Iterator[str]:
    """Yield the lines of a question, safe to print in a terminal. `full` disables cutting long values."""
    for line in _DETAILS[interaction.kind](interaction.subject):
        first, *rest = (displayable(line, len(line)) if full else _cut(line)).splitlines() or [""]
        yield first
        yield from (f"{_CONTINUED}{part}" for part in rest)


def _cut(line: str) -> str:
    """Cut a long text and append a hint how to see the rest."""
    hint = "\n(cut: --full shows all of it)" if len(line) > SHOWN_CHARS else ""
    return displayable(line, SHOWN_CHARS) + hint


def _list_permission(request: Any) -> Iterator[str]:
    yield request.tool_name
    for name, value in request.raw_input.items():
        yield f"  {name}: {value}"
    if request.decision_reason:
        yield f"because: {request.decision_reason}"


def _list_questions(questions: Any) -> Iterator[str]:
    for question in questions:
        yield question.question + (" (several)" if question.multi_select else "")
        for number, option in enumerate(question.options, 1):
            yield f"  {number}. {option.label}: {option.description}"


def _list_elicitation(request: Any) -> Iterator[str]:
    yield f"{request.server_name}: {request.message}"
    yield from (f"  {line}" for line in list_form(request))


def list_form(request: ElicitationRequest) -> Iterator[str]:
    """Yield the address and the fields of an elicitation, without its message. May contain control characters."""
    if request.url:
        yield request.url
    for field in request.form.fields.values():
        choices = f" ({', '.join(field.choices)})" if field.choices else ""
        yield f"{field.name}: {field.type}{choices}{', required' if field.required else ''}"


_DETAILS: Final[Mapping[Kind, Callable[[Any], Iterator[str]]]] = {
    "permission": _list_permission,
    "question": _list_questions,
    "plan": lambda plan: iter([plan.text or NO_PLAN]),
    "elicitation": _list_elicitation,
    "dialog": lambda request: iter([request.dialog_kind, str(request.payload)]),
}
