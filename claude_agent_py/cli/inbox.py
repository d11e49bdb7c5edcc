"""The `inbox` command: list and answer the open questions in the file of an `SQLiteInbox`.

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
from claude_agent_py._base.shared_sqlite import lacks_tables
from claude_agent_py.permissions import Interaction, OpenQuestion, SQLiteInbox, read_typed

VARIABLE: Final = "CLAUDE_AGENT_INBOX"
"""The environment variable that names the inbox if `--inbox` does not."""
SHOWN_CHARS: Final = 2000
"""Longer values are cut, unless `--full` shows all of them."""
CONTINUED: Final = "\n    | "
"""Prefix of a value's continuation lines, so that none of them looks like another value."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `inbox`."""
    parser.add_argument(
        "--inbox",
        metavar="FILE",
        default=os.environ.get(VARIABLE),
        help=f"the SQLiteInbox file (default: the variable {VARIABLE})",
    )
    actions = parser.add_subparsers(required=True, metavar="action")
    listed = actions.add_parser("list", help="List the open questions, oldest first.")
    listed.add_argument("--full", action="store_true", help="do not cut long values")
    listed.add_argument("--json", action="store_true", help="print JSON")
    listed.set_defaults(perform=_list)
    answer = actions.add_parser("answer", help="Answer a question.")
    answer.add_argument("id", help="the id from `list`, or the id of the asking task")
    answer.add_argument(
        "--by", default="", metavar="NAME", help="the name of the answerer, for records (default: the user)"
    )
    answer.add_argument("words", nargs=argparse.REMAINDER, help="the answer: allow, deny [why], a number, ...")
    answer.set_defaults(perform=_answer)


def execute(arguments: argparse.Namespace) -> int:
    """Perform the action and return the exit code."""
    code: int = arguments.perform(open_inbox(arguments.inbox), arguments)
    return code


def open_inbox(inbox: str | None) -> SQLiteInbox:
    """Open an existing inbox.

    Raises:
        OptionsError: No inbox was given, its file does not exist, or it is another file.
    """
    if inbox is None:
        raise OptionsError(f"pass --inbox or set {VARIABLE}")
    path = Path(inbox).expanduser()
    if not path.is_file():
        raise OptionsError(f"inbox not found: {inbox}")
    if lacks_tables(path, "interactions"):
        raise OptionsError(f"{inbox} is not an inbox")
    return SQLiteInbox(inbox)


def _list(inbox: SQLiteInbox, arguments: argparse.Namespace) -> int:
    pending = list(inbox)
    if arguments.json:
        print(displayable_json([interaction.to_dict() for interaction in pending]))
        return 0
    for interaction in pending:
        print("\n".join(_describe(interaction, arguments.full)))
    if not pending:
        print("nothing is waiting")
    return 0


def _describe(interaction: Interaction, full: bool) -> Iterator[str]:
    who = "the main agent" if interaction.agent_id is None else f"agent {displayable(interaction.agent_id, 60)}"
    if interaction.task_description:
        who += f" ({displayable(interaction.task_description, 60)})"
    if interaction.session_id:
        who += f" of session {displayable(interaction.session_id, 60)}"
    seconds = time.time() - interaction.created_at
    yield f"{displayable(interaction.id, 60)}  {interaction.kind} from {who}, waiting for {seconds:.0f} s"
    details = _list_details(interaction, None if full else SHOWN_CHARS)
    yield from (f"    {line}" for line in details)
    if not full and details != _list_details(interaction, None):
        yield "    (cut: --full shows all of it)"
    yield f"    answer with: {OpenQuestion(interaction).syntax}"


def _list_details(interaction: Interaction, limit: int | None) -> list[str]:
    question = OpenQuestion(interaction, limit=limit, is_compared=False)
    plan = displayable(question.markdown, limit).replace("\n", CONTINUED)
    asked = [step for step in question.steps if step.text]
    texts = [] if asked else [question.title, *(f"  {text}" for text in (*question.lines, plan) if text)]
    for step in asked:
        texts.append(f"{step.text} ({step.help})".replace("\n", CONTINUED))
        texts += [f"  {line}" for line in step.lines]
    return [line for text in texts for line in text.splitlines()]


def _answer(inbox: SQLiteInbox, arguments: argparse.Namespace) -> int:
    """Answer one interaction and return the exit code: 1 if it was already answered or withdrawn.

    Raises:
        OptionsError: The id is unknown, the task has several pending interactions, or the answer is invalid.
    """
    interaction = _select(inbox, arguments.id)
    try:
        was_first = interaction.resolve(read_typed(interaction, arguments.words), by=arguments.by)
    except ValueError as error:
        raise OptionsError(str(error)) from None
    print("answered" if was_first else "too late: already answered or withdrawn")
    return 0 if was_first else 1


def _select(inbox: SQLiteInbox, wanted: str) -> Interaction:
    """Return the pending interaction with this id, or the only one of the task with this id."""
    pending = list(inbox)
    matching = [interaction for interaction in pending if interaction.id == wanted]
    if not matching:
        matching = [interaction for interaction in pending if interaction.agent_id == wanted]
    if not matching:
        raise OptionsError(f"no pending interaction {wanted!r}; `claude-agent-py inbox list` lists them")
    if len(matching) > 1:
        listed = "; ".join(f"{interaction.id} ({interaction.summary})" for interaction in matching)
        raise OptionsError(f"task {wanted!r} has several pending interactions; pass the id of one: {listed}")
    return matching[0]
