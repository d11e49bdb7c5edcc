"""The command `answer`: answer an interaction in an inbox file. `permissions.typed_answers` parses the answers."""

import argparse

from claude_agent_py._errors import OptionsError
from claude_agent_py.cli.interactions import add_inbox_argument, open_inbox
from claude_agent_py.permissions.inbox_sqlite import SQLiteInbox
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.permissions.typed_answers import read_typed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `answer`."""
    add_inbox_argument(parser)
    parser.add_argument("id", help="the id that `interactions` shows, or the id of the task that asks")
    parser.add_argument("--by", default="", metavar="NAME", help="who answers, for records (default: the user)")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the answer: allow, deny [why], a number, ...")


def execute(arguments: argparse.Namespace) -> int:
    """Answer one interaction and return the exit code: 1 if it was already answered or withdrawn.

    Raises:
        OptionsError: The id is unknown or the task asks several things, or the answer is invalid.
    """
    interaction = _chosen(open_inbox(arguments.inbox), arguments.id)
    try:
        was_first = interaction.resolve(read_typed(interaction, arguments.words), by=arguments.by)
    except ValueError as error:
        raise OptionsError(str(error)) from None
    print("answered" if was_first else "too late: already answered or withdrawn")
    return 0 if was_first else 1


def _chosen(inbox: SQLiteInbox, which: str) -> Interaction:
    waiting = list(inbox)
    fitting = [one for one in waiting if one.id == which] or [one for one in waiting if one.agent_id == which]
    if not fitting:
        raise OptionsError(f"no interaction {which!r} is waiting; `claude-agent-py interactions` lists those that are")
    if len(fitting) > 1:
        asked = "; ".join(f"{one.id} ({one.summary})" for one in fitting)
        raise OptionsError(f"task {which!r} asks several things, so pass the id of one: {asked}")
    return fitting[0]
