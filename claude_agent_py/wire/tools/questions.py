"""The tool AskUserQuestion: multiple-choice questions to a person.

The answers go in the input: the host is asked for permission, and allows the call with `answers` filled in.
"""

from typing import Any, Literal

from msgspec import field

from claude_agent_py.wire.base import CamelModel, FrameModel, Number, Open, WireModel


class QuestionOption(WireModel):
    """One choice. A person may also answer in free text; the CLI adds that choice by itself."""

    label: str
    description: str = ""
    preview: str | None = None
    """Something to show beside it: Markdown, or HTML where the session asks for that."""


class Question(CamelModel):
    """One question."""

    question: str
    header: str = ""
    """A short label, at most twelve characters."""
    options: list[QuestionOption] = field(default_factory=list)
    multi_select: bool = False


class QuestionAnnotation(WireModel):
    """What a person said beside the answer."""

    preview: str | None = None
    notes: str | None = None
    unanswered: Open[Literal["skipped", "replied_in_chat", "dismissed"]] | None = None


class AskUserQuestionInput(FrameModel):
    """The questions, and, once they were answered, the answers by the text of their question."""

    questions: list[Question]
    answers: dict[str, str] | None = None
    annotations: dict[str, QuestionAnnotation] | None = None
    metadata: dict[str, Any] | None = None


class AskUserQuestionOutput(FrameModel):
    """The questions with their answers. Several labels for one question are joined by commas."""

    questions: list[Question]
    answers: dict[str, str] = field(default_factory=dict)
    response: str | None = None
    """Free text in place of answers."""
    annotations: dict[str, QuestionAnnotation] | None = None
    afk_timeout_ms: Number | None = field(default=None, name="afkTimeoutMs")
