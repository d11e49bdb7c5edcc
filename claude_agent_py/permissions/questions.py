"""Questions of the model to a person (the tool AskUserQuestion) and their answers.

The model asks up to four questions with two to four options each. A person chooses one option, or several if the
question allows it, or writes free text. In the reply, an answer is one string with labels joined by commas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from claude_agent_py.permissions.decisions import Allow, Deny, build_reply, describe
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.asks import CanUseToolRequest
from claude_agent_py.wire.fitting import read
from claude_agent_py.wire.tools.questions import AskUserQuestionInput, Question, QuestionOption

ASK_USER_QUESTION = "AskUserQuestion"
UNANSWERED = "The user did not answer the questions."

__all__ = ["Answers", "Option", "Question", "read_questions", "read_answers"]

Option = QuestionOption
"""The short name of `QuestionOption`."""
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
"""The return type of `on_question`. A string answers a single question; None leaves all unanswered."""


def read_questions(request: CanUseToolRequest) -> tuple[Question, ...]:
    """Return the questions of a call; empty if its input is invalid."""
    asked = read(AskUserQuestionInput, request.input)
    return () if asked is None else tuple(asked.questions)


def read_answers(request: CanUseToolRequest, value: Any) -> JSONObject:
    """Return the reply for the result of `on_question`.

    Raises ValueError if an answer matches no question, or the question does not allow it.
    """
    if value is None:
        value = Deny(UNANSWERED)
    if isinstance(value, Deny):
        return build_reply(value)
    questions = read_questions(request)
    if isinstance(value, str):
        if len(questions) != 1:
            raise ValueError(f"a string cannot answer {len(questions)} questions")
        value = [value]
    given = value if isinstance(value, Answers) else Answers(value)
    pairs = _pair_answers(questions, given.answers)
    answers = {question.question: _join_labels(question, chosen) for question, chosen in pairs}
    updated: JSONObject = {**request.input, "answers": answers}
    notes: Any = given.notes
    if notes:
        if not isinstance(notes, Mapping) or not all(isinstance(text, str) for text in notes.values()):
            raise ValueError("notes must be a dict of texts")
        remarks = ((_find_question(questions, key), text) for key, text in notes.items())
        updated["annotations"] = {question.question: {"notes": text} for question, text in remarks}
    return build_reply(Allow(updated_input=updated))


def _pair_answers(questions: Sequence[Question], answers: object) -> list[tuple[Question, Chosen]]:
    if isinstance(answers, Mapping):
        return [(_find_question(questions, key), chosen) for key, chosen in answers.items()]
    if not isinstance(answers, Sequence) or isinstance(answers, bytes):
        raise ValueError(f"answers must be a dict or a list, not {describe(answers)}")
    if len(answers) > len(questions):
        raise ValueError(f"there must be at most {len(questions)} answers, not {len(answers)}")
    return [(question, chosen) for question, chosen in zip(questions, answers, strict=False) if chosen is not None]


def _find_question(questions: Sequence[Question], text: object) -> Question:
    found = [question for question in questions if question.question == text]
    found = found or [question for question in questions if question.header == text]
    if len(found) != 1:
        asked = ", ".join(repr(question.question) for question in questions)
        raise ValueError(f"{text!r} is not the text or header of one question; the questions are {asked}")
    return found[0]


def _join_labels(question: Question, chosen: object) -> str:
    parts = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise ValueError(
            f"the answer to {question.question!r} must be a string or a list of strings, not {describe(chosen)}"
        )
    if len(parts) > 1 and not question.multi_select:
        raise ValueError(f"{question.question!r} takes one answer, not {len(parts)}")
    return ", ".join(parts)
