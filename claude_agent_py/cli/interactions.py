"""The commands `interactions` and `answer`: list the pending interactions in an inbox file, and answer one.

Control characters are stripped from everything shown. `permissions.typed_answers` parses the answers.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from claude_agent_py._errors import OptionsError
from claude_agent_py.permissions.inbox_sqlite import SQLiteInbox
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.permissions.prompts import Kind
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.permissions.typed_answers import HELP, read_typed

VARIABLE: Final = "CLAUDE_AGENT_INBOX"
"""The environment variable that names the inbox if `--inbox` does not."""

SHOWN_CHARS: Final = 2000
"""Values longer than this are cut without `--full`."""
_CONTINUED: Final = "      | "
"""Prefix of a value's continuation lines, so that none looks like a field."""


def list_interactions(inbox: str | None, *, full: bool = False) -> int:
    """Print the pending interactions, oldest first, and return the exit code. `full` disables cutting long values."""
    waiting = list(_opened(inbox))
    for interaction in waiting:
        print("\n".join(_lines(interaction, full)))
    if not waiting:
        print("nothing is waiting")
    return 0


def answer_interaction(inbox: str | None, which: str, words: Sequence[str], *, by: str = "") -> int:
    """Answer one interaction and return the exit code: 1 if it was already answered or withdrawn.

    Args:
        inbox: The file.
        which: The id of the interaction, or of the task that asks.
        words: The answer.
        by: Who answers, for records; empty means the user.

    Raises:
        OptionsError: The id is unknown or the task asks several things, or the answer is invalid.
    """
    interaction = _chosen(_opened(inbox), which)
    try:
        was_first = interaction.resolve(read_typed(interaction, words), by=by)
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


def _opened(inbox: str | None) -> SQLiteInbox:
    if inbox is None:
        raise OptionsError(f"pass --inbox or set {VARIABLE}")
    if not Path(inbox).expanduser().is_file():
        raise OptionsError(f"inbox not found: {inbox}")
    return SQLiteInbox(inbox)


def _lines(interaction: Interaction, full: bool) -> Iterator[str]:
    who = "the main agent" if interaction.agent_id is None else f"agent {interaction.agent_id}"
    if interaction.task_description:
        who += f" ({displayable(interaction.task_description, 60)})"
    if interaction.session_id:
        who += f" of session {displayable(interaction.session_id, 60)}"
    waits = f"{time.time() - interaction.created_at:.0f} s"
    yield f"{interaction.id}  {interaction.kind} from {who}, waiting for {waits}"
    for line in details_of(interaction, full=full):
        yield f"    {line}"
    yield f"    answer with: {HELP[interaction.kind]}"


def details_of(interaction: Interaction, *, full: bool = False) -> Iterator[str]:
    """Yield what is asked, in lines that are safe to print in a terminal. `full` disables cutting long values."""
    for line in _DETAILS[interaction.kind](interaction.subject):
        first, *rest = (displayable(line, len(line)) if full else _cut(line)).splitlines() or [""]
        yield first
        yield from (f"{_CONTINUED}{part}" for part in rest)


def _cut(line: str) -> str:
    """Cut a long text and append how to see all of it."""
    return displayable(line, SHOWN_CHARS) + ("\n(cut: --full shows all of it)" if len(line) > SHOWN_CHARS else "")


def _permission(request: Any) -> Iterator[str]:
    yield request.tool_name
    for name, value in request.raw_input.items():
        yield f"  {name}: {value}"
    if request.decision_reason:
        yield f"because: {request.decision_reason}"


def _questions(questions: Any) -> Iterator[str]:
    for question in questions:
        yield question.question + (" (several)" if question.multi_select else "")
        for number, option in enumerate(question.options, 1):
            yield f"  {number}. {option.label}: {option.description}"


def _elicitation(request: Any) -> Iterator[str]:
    yield f"{request.server_name}: {request.message}"
    if request.url:
        yield f"  {request.url}"
    for field in request.form.fields.values():
        choices = f" ({', '.join(field.choices)})" if field.choices else ""
        yield f"  {field.name}: {field.type}{choices}{', required' if field.required else ''}"


_DETAILS: Final[Mapping[Kind, Callable[[Any], Iterator[str]]]] = {
    "permission": _permission,
    "question": _questions,
    "plan": lambda plan: iter([plan.text or "(the plan was not written down)"]),
    "elicitation": _elicitation,
    "dialog": lambda request: iter([request.dialog_kind, str(request.payload)]),
}
