"""Parse answers that a person types: `allow`, `deny because ...`, `2`, `name=Ada age=36`.

`HELP` lists the syntax for each kind of question.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

from claude_agent_py.permissions.decisions import Allow, Deny
from claude_agent_py.permissions.elicitation import Accept, Cancel, Decline
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.permissions.prompts import Completed, Dismissed, Kind
from claude_agent_py.permissions.questions import Chosen
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.asks import ElicitationRequest
from claude_agent_py.wire.control.forms import FieldValue, Form, FormError, FormField
from claude_agent_py.wire.tools.questions import Question

HELP: Final[Mapping[Kind, str]] = {
    "permission": "allow | deny [why]",
    "plan": "allow | deny [why]",
    "question": "one answer for each question: a number, several as 1,3, or your own words | deny [why]",
    "elicitation": "accept [field=value ...] | decline | cancel",
    "dialog": "complete [JSON] | dismiss",
}

_ALLOW: Final = frozenset({"allow", "approve", "yes", "y"})
_DENY: Final = frozenset({"deny", "reject", "no", "n"})
_YES: Final = frozenset({"yes", "y", "true", "1", "on"})
_NO: Final = frozenset({"no", "n", "false", "0", "off"})


def read_typed(interaction: Interaction, words: Sequence[str]) -> object:
    """Parse typed words to an answer, for `Interaction.answer`.

    Raises:
        ValueError: The words are not an answer; the message lists the syntax.
    """
    if not words:
        raise ValueError(f"answer with: {HELP[interaction.kind]}")
    return _READERS[interaction.kind](interaction, words)


def _read_decision(interaction: Interaction, words: Sequence[str]) -> Allow | Deny:
    if words[0].lower() in _ALLOW and len(words) == 1:
        return Allow()
    if words[0].lower() in _DENY:
        return Deny(" ".join(words[1:]))
    raise ValueError(f"answer with: {HELP[interaction.kind]}")


def _read_answers(interaction: Interaction, words: Sequence[str]) -> list[Chosen] | Deny:
    if words[0].lower() == "deny":
        return Deny(" ".join(words[1:]))
    questions = cast("tuple[Question, ...]", interaction.subject)
    if len(questions) == 1:
        words = [" ".join(words)]
    if len(words) != len(questions):
        raise ValueError(
            f"there must be {len(questions)} answers, not {len(words)}; put an answer of several words in quotes"
        )
    return [read_choice(question, word) for question, word in zip(questions, words, strict=True)]


def read_choice(question: Question, text: str) -> Chosen:
    """Parse the answer to a question: numbers of options, or free text."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= len(question.options) for part in parts):
        return text
    labels = [question.options[int(part) - 1].label for part in parts]
    return labels[0] if len(labels) == 1 else labels


def _read_elicitation(interaction: Interaction, words: Sequence[str]) -> Accept | Decline | Cancel:
    word = words[0].lower()
    if word == "accept":
        pairs = [pair.partition("=") for pair in words[1:]]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError(f"answer with: {HELP['elicitation']}")
        form = cast(ElicitationRequest, interaction.subject).form
        return Accept(read_form(form, {name: value for name, _, value in pairs}))
    if word in ("decline", "cancel") and len(words) == 1:
        return Decline() if word == "decline" else Cancel()
    raise ValueError(f"answer with: {HELP['elicitation']}")


def read_form(form: Form, texts: Mapping[str, str]) -> JSONObject:
    """Parse a typed answer to a form, by field name. Empty texts are omitted.

    Raises:
        FormError: A text cannot be parsed, or the answer does not match the form.
    """
    content: JSONObject = {}
    problems: dict[str, str] = {}
    for name, text in texts.items():
        try:
            if text.strip():
                content[name] = _read_field(form.fields[name], text.strip()) if name in form.fields else text
        except ValueError as error:
            problems[name] = str(error)
    if problems:
        raise FormError(problems)
    return form.check(content)


def _read_field(field: FormField, text: str) -> FieldValue:
    match field.type:
        case "integer" | "number":
            return _read_number(text)
        case "boolean":
            if text.lower() not in _YES | _NO:
                raise ValueError("must be yes or no")
            return text.lower() in _YES
        case "array":
            return [part.strip() for part in text.split(",") if part.strip()]
        case _:
            return text


def _read_number(text: str) -> int | float:
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    raise ValueError("must be a number")


def _read_dialog(interaction: Interaction, words: Sequence[str]) -> Completed | Dismissed:
    if words[0].lower() == "dismiss" and len(words) == 1:
        return Dismissed()
    if words[0].lower() != "complete":
        raise ValueError(f"answer with: {HELP['dialog']}")
    try:
        return Completed(json.loads(" ".join(words[1:]) or "null"))
    except ValueError as error:
        raise ValueError(f"the result of a dialog must be JSON: {error}") from None


_READERS: Final[Mapping[Kind, Callable[[Interaction, Sequence[str]], object]]] = {
    "permission": _read_decision,
    "plan": _read_decision,
    "question": _read_answers,
    "elicitation": _read_elicitation,
    "dialog": _read_dialog,
}
