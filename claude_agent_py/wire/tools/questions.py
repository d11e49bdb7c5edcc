"""The tool AskUserQuestion, which asks the user multiple-choice questions.

The host answers by allowing the call with `answers` filled in.
"""

from typing import Literal

from msgspec import field

from claude_agent_py.wire.base import CamelModel, FrameModel, JSONObject, Number, Open, WireModel


class QuestionOption(WireModel):
    """A choice. The CLI adds a choice for free text on its own."""

    label: str
    description: str = ""
    preview: str | None = None
    """A preview to show beside the choice: Markdown, or HTML if the session requests it."""


class Question(CamelModel):
    """A multiple-choice question."""

    question: str
    header: str = ""
    """A short label, at most twelve characters."""
    options: list[QuestionOption] = field(default_factory=list)
    multi_select: bool = False


class QuestionAnnotation(WireModel):
    """The user's notes on an answer."""

    preview: str | None = None
    notes: str | None = None
    unanswered: Open[Literal["skipped", "replied_in_chat", "dismissed"]] | None = None


class AskUserQuestionInput(FrameModel):
    """The questions and, once answered, the answers by the text of the question."""

    questions: list[Question]
    answers: dict[str, str] | None = None
    annotations: dict[str, QuestionAnnotation] | None = None
    metadata: JSONObject | None = None


class AskUserQuestionOutput(FrameModel):
    """The output of `AskUserQuestion`: the questions and their answers, where commas join several labels."""

    questions: list[Question]
    answers: dict[str, str] = field(default_factory=dict)
    response: str | None = None
    """Free text instead of answers."""
    annotations: dict[str, QuestionAnnotation] | None = None
    afk_timeout_ms: Number | None = field(default=None, name="afkTimeoutMs")
