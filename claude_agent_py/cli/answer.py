"""The `answer` command: answer an interaction in an inbox file."""

import argparse

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.cli.interactions import add_inbox_argument, open_inbox
from claude_agent_py.permissions import Interaction, SQLiteInbox
from claude_agent_py.permissions.typed_answers import read_typed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `answer`."""
    add_inbox_argument(parser)
    parser.add_argument("id", help="the id from `interactions`, or the id of the asking task")
    parser.add_argument(
        "--by", default="", metavar="NAME", help="the name of the answerer, for records (default: the user)"
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the answer: allow, deny [why], a number, ...")


def execute(arguments: argparse.Namespace) -> int:
    """Answer one interaction and return the exit code: 1 if it was already answered or withdrawn.

    Raises:
        OptionsError: The id is unknown, the task has several pending interactions, or the answer is invalid.
    """
    interaction = _select(open_inbox(arguments.inbox), arguments.id)
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
        raise OptionsError(f"no pending interaction {wanted!r}; `claude-agent-py interactions` lists them")
    if len(matching) > 1:
        listed = "; ".join(f"{interaction.id} ({interaction.summary})" for interaction in matching)
        raise OptionsError(f"task {wanted!r} has several pending interactions; pass the id of one: {listed}")
    return matching[0]
