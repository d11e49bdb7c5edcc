"""Questions of the model to a person (the tool AskUserQuestion) and their answers.

The model asks up to four questions with two to four options each. A person chooses one option, or several if the
question allows it, or writes free text. In the reply, an answer is one string with labels joined by commas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from claude_agent_py.permissions.decisions import Allow, Deny, describe, reply_of
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.asks import CanUseToolRequest
from claude_agent_py.wire.fitting import Misfit, fit
from claude_agent_py.wire.tools.questions import AskUserQuestionInput, Question, QuestionOption

ASK_USER_QUESTION = "AskUserQuestion"
UNANSWERED = "The user did not answer the questions."

__all__ = ["Answers", "Option", "Question", "questions_of", "read_answers"]

Option = QuestionOption
Chosen: TypeAlias = str | Sequence[str]
"""A label or free text, or several labels if the question allows it."""


@dataclass(frozen=True)
class Answers:
    """The answers to the questions of one call, with optional notes."""

    answers: Mapping[str, Chosen] | Sequence[Chosen | None]
    """Answers by the text or header of the question, or in the order of the questions. A missing answer, or None in a
    list, is left unanswered."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Notes by the text or header of the question."""


AnswerToQuestions: TypeAlias = Answers | Mapping[str, Chosen] | Sequence[Chosen | None] | Deny | None
"""What `on_question` may return. A string answers a single question; None leaves all unanswered."""


def questions_of(request: CanUseToolRequest) -> tuple[Question, ...]:
    """Return the questions of a call; empty if its input is invalid."""
    try:
        return tuple(fit(AskUserQuestionInput, request.input)[0].questions)
    except Misfit:
        return ()


def read_answers(request: CanUseToolRequest, value: Any) -> JSONObject:
    """Return the reply for the result of `on_question`.

    Raises ValueError if an answer matches no question, or not what the question allows.
    """
    if value is None:
        return reply_of(Deny(UNANSWERED))
    if isinstance(value, Deny):
        return reply_of(value)
    questions = questions_of(request)
    if isinstance(value, str) and len(questions) != 1:
        raise ValueError(f"a string cannot answer {len(questions)} questions")
    given = value if isinstance(value, Answers) else Answers([value] if isinstance(value, str) else value)
    answers = {question.question: _text(question, chosen) for question, chosen in _paired(questions, given.answers)}
    updated: dict[str, Any] = {**request.input, "answers": answers}
    if given.notes:
        updated["annotations"] = {_find(questions, key).question: {"notes": text} for key, text in given.notes.items()}
    return reply_of(Allow(updated_input=updated))


def _paired(questions: Sequence[Question], answers: Any) -> list[tuple[Question, Chosen]]:
    if isinstance(answers, Mapping):
        return [(_find(questions, key), chosen) for key, chosen in answers.items()]
    if not isinstance(answers, Sequence) or isinstance(answers, bytes):
        raise ValueError(f"expected answers, not {describe(answers)}")
    if len(answers) > len(questions):
        raise ValueError(f"{len(answers)} answers for {len(questions)} questions")
    return [(question, chosen) for question, chosen in zip(questions, answers, strict=False) if chosen is not None]


def _find(questions: Sequence[Question], key: Any) -> Question:
    text = key.question if isinstance(key, Question) else key
    found = [question for question in questions if question.question == text]
    found = found or [question for question in questions if question.header == text]
    if len(found) != 1:
        asked = ", ".join(repr(question.question) for question in questions)
        raise ValueError(f"{text!r} is not the text or header of one question; the questions are {asked}")
    return found[0]


def _text(question: Question, chosen: Any) -> str:
    parts = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise ValueError(
            f"the answer to {question.question!r} must be a string or a list of strings, not {describe(chosen)}"
        )
    if len(parts) > 1 and not question.multi_select:
        raise ValueError(f"{question.question!r} takes one answer, not {len(parts)}")
    return ", ".join(parts)
