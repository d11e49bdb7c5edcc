"""The commands `interactions` and `answer`: what waits for a person in an inbox file, and answering it.

Shows the text of others only after control characters were taken out. Which words answer what is in
`permissions.typed_answers`.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from claude_agent_py.errors import OptionsError
from claude_agent_py.permissions.inbox_sqlite import SQLiteInbox
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.permissions.prompts import Kind
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.permissions.typed_answers import HELP, read_typed

VARIABLE: Final = "CLAUDE_AGENT_INBOX"
"""The environment variable that names the inbox where `--inbox` does not."""


SHOWN_CHARS: Final = 2000
"""How many characters of a value are shown without `--full`."""
_CONTINUED: Final = "      | "
"""Begins a further line of a value, so that none looks like a field of its own."""


def list_interactions(inbox: str | None, *, full: bool = False) -> int:
    """Print what waits, the oldest first; `full` cuts nothing."""
    waiting = list(_opened(inbox))
    for interaction in waiting:
        print("\n".join(_lines(interaction, full)))
    if not waiting:
        print("nothing waits")
    return 0


def answer_interaction(inbox: str | None, interaction_id: str, words: Sequence[str]) -> int:
    """Answer one question; the exit code is 1 where it was too late or the words mean nothing."""
    interaction = _opened(inbox).get(interaction_id)
    if interaction is None:
        raise OptionsError(
            f"nothing waits under the id {interaction_id!r}; `claude-agent-py interactions` lists what does"
        )
    try:
        was_first = interaction.resolve(read_typed(interaction, words))
    except ValueError as error:
        raise OptionsError(str(error)) from None
    print("answered" if was_first else "too late: it was answered or withdrawn meanwhile")
    return 0 if was_first else 1


def _opened(inbox: str | None) -> SQLiteInbox:
    if inbox is None:
        raise OptionsError(f"name the inbox with --inbox, or in the variable {VARIABLE}")
    if not Path(inbox).expanduser().is_file():
        raise OptionsError(f"there is no inbox {inbox}")
    return SQLiteInbox(inbox)


def _lines(interaction: Interaction, full: bool) -> Iterator[str]:
    who = "the main agent" if interaction.agent_id is None else f"agent {interaction.agent_id}"
    if interaction.task_description:
        who += f" ({displayable(interaction.task_description, 60)})"
    waits = f"{time.time() - interaction.created_at:.0f} s"
    yield f"{interaction.id}  {interaction.kind} of {who}, waits for {waits}"
    for line in _DETAILS[interaction.kind](interaction.subject):
        first, *rest = (displayable(line, len(line)) if full else _cut(line)).splitlines() or [""]
        yield f"    {first}"
        yield from (f"    {_CONTINUED}{part}" for part in rest)
    yield f"    answer with: {HELP[interaction.kind]}"


def _cut(line: str) -> str:
    """Cut a long text, and say how to see all of it."""
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
