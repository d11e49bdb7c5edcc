"""`OpenQuestion`: a pending interaction as a person reads and answers it."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from claude_agent_py._base.display import displayable, one_line
from claude_agent_py.permissions.decisions import Allow, Deny
from claude_agent_py.permissions.diffs import build_diff
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.permissions.prompts import Plan
from claude_agent_py.permissions.requests import PermissionRequest
from claude_agent_py.permissions.typed_answers import HELP, read_choice, read_typed
from claude_agent_py.wire.control.asks import ElicitationRequest, UserDialogRequest
from claude_agent_py.wire.control.permissions import AddDirectories, PermissionUpdate, RemoveDirectories, SetMode
from claude_agent_py.wire.tools.questions import Question

VALUE_CHARS: Final = 100_000
TITLE_CHARS: Final = 1000
NO_PLAN: Final = "(the plan was not written down)"
DECISIONS: Final = frozenset({"permission", "plan"})
"""The kinds of questions whose answer is to allow or deny."""
_CONTINUED: Final = "\n    | "
"""Prefix of a value's continuation lines, so that none of them looks like another value."""
_DIFFED: Final = frozenset({"old_string", "new_string", "content", "new_source"})
"""Fields of a tool input that the diff already shows."""
_SCOPES: Final = {
    "session": "for this session",
    "localSettings": "for you in this project",
    "projectSettings": "for everyone in this project",
    "userSettings": "for you everywhere",
}
_ACCEPT_EDITS: Final = SetMode(mode="acceptEdits", destination="session")


class AnswerStep(NamedTuple):
    """One answer that the person types."""

    help: str
    """The expected form of the answer."""
    text: str = ""
    """The question, if the model asks one."""
    lines: Sequence[str] = ()
    """The options of the question."""


class OpenQuestion:
    """A pending interaction: its texts, without control characters, and its answers.

    Args:
        interaction: The interaction.
        limit: Longer values are cut; None cuts none.
        is_compared: Whether to compare the new content of a file with the file.

    Attributes:
        interaction: The interaction.
        title: The question in one line.
        lines: The values that it is about.
        diff: The changes of a file that a tool call makes.
        markdown: The text of a plan, all of it.
        always: The permission changes of "allow always"; empty if it is not offered.
        steps: The answers to type, in order. Empty for a decision, which is to allow or deny.
        syntax: The answers that `read_typed` reads.
    """

    def __init__(self, interaction: Interaction, *, limit: int | None = VALUE_CHARS, is_compared: bool = True) -> None:
        self.interaction = interaction
        self.diff: list[str] = []
        self.steps: Sequence[AnswerStep] = ()
        self.syntax: str = HELP[interaction.kind]
        self._updates: Sequence[PermissionUpdate] = ()
        self._texts: list[str] = []
        """The answers so far."""
        title = interaction.summary
        plan = ""
        values: list[str] = []
        subject: Any = interaction.subject
        if isinstance(subject, PermissionRequest):
            title = f"Allow {subject.tool_name}?"
            if is_compared:
                self.diff = build_diff(subject.tool_name, subject.raw_input)
            shown = subject.raw_input.keys() - (_DIFFED if self.diff else ())
            values = [f"{name}: {value}" for name, value in subject.raw_input.items() if name in shown]
            values += [f"because: {subject.decision_reason}"] if subject.decision_reason else []
            self._updates = _list_allowed_updates(subject)
        elif isinstance(subject, Plan):
            title = "Proceed with this plan?"
            plan = subject.text or NO_PLAN
            self._updates = [_ACCEPT_EDITS]
        elif isinstance(subject, ElicitationRequest):
            title = f"{subject.server_name} asks"
            values = [subject.message, *_list_form(subject)]
        elif isinstance(subject, UserDialogRequest):
            values = [str(subject.payload)]
        else:
            self.steps = [_build_step(question, limit) for question in subject]
        self.markdown: str = displayable(plan, len(plan))
        values = [value.replace("\n", _CONTINUED) for value in values]
        self.lines: list[str] = [displayable(value, limit or len(value)) for value in values]
        if not self.steps and interaction.kind not in DECISIONS:
            self.steps = [AnswerStep(self.syntax)]
        agent = interaction.task_description or interaction.agent_id
        self.title: str = one_line(f"{title} (asked by {agent})" if agent else title, TITLE_CHARS)
        self.always: str = one_line("; ".join(map(_describe_update, self._updates)), TITLE_CHARS)

    @property
    def step(self) -> AnswerStep | None:
        """The next answer to type; None for a decision."""
        return self.steps[len(self._texts)] if self.steps else None

    def allow(self, *, always: bool = False, by: str = "") -> bool:
        """Allow the call, or approve the plan. Return whether this was the first answer.

        `always` also applies the permission changes that the attribute names. `by` is as for `Interaction.resolve`.
        """
        if always:
            decision = Allow(updated_permissions=self._updates, decision_classification="user_permanent")
        else:
            decision = Allow(decision_classification="user_temporary")
        return self.interaction.resolve(decision, by=by)

    def deny(self, reason: str = "", *, by: str = "") -> bool:
        """Deny a call or a plan, or refuse another question. Return whether this was the first answer."""
        if self.step is None:
            return self.interaction.resolve(Deny(reason, decision_classification="user_reject"), by=by)
        return self.interaction.refuse(reason, by=by)

    def type(self, text: str) -> bool:
        """Answer with a typed text. Return whether that was the last one that the question needs.

        Raises:
            ValueError: The text is not a valid answer. Several answers begin again.
        """
        if self.step is None:
            self._decide(text)
            return True
        if not text:
            raise ValueError("an answer must not be empty")
        self._texts.append(text)
        if len(self._texts) < len(self.steps):
            return False
        texts, self._texts = self._texts, []
        subject: Any = self.interaction.subject
        if self.interaction.kind == "question" and subject:
            self.interaction.resolve([read_choice(*pair) for pair in zip(subject, texts, strict=True)])
        else:
            self.interaction.resolve(read_typed(self.interaction, shlex.split(text)))
        return True

    def _decide(self, text: str) -> None:
        if self.always and text.lower() in ("a", "always"):
            self.allow(always=True)
            return
        try:
            decision = read_typed(self.interaction, text.split(maxsplit=1))
        except ValueError:
            raise ValueError(f"answer with y, n [why]{' or a' if self.always else ''}") from None
        if isinstance(decision, Deny):
            self.deny(decision.message)
        else:
            self.allow()


def _build_step(question: Question, limit: int | None) -> AnswerStep:
    options = []
    for number, option in enumerate(question.options, 1):
        description = f": {option.description}" if option.description else ""
        options.append(one_line(f"{number}. {option.label}{description}", VALUE_CHARS))
    help_text = "numbers such as 1,3, or your own words" if question.multi_select else "a number, or your own words"
    return AnswerStep(help_text, displayable(question.question, limit or len(question.question)), options)


def _list_allowed_updates(request: PermissionRequest) -> list[PermissionUpdate]:
    """Return the permission changes of "allow always", or none if they would allow more than this call."""
    if request.suppress_always_allow_rule:
        return []
    return [update for update in request.suggestions if update.problem is None]


def _describe_update(update: Any) -> str:
    """Describe a change that `_list_allowed_updates` returned."""
    scope = _SCOPES.get(update.destination, "")
    if isinstance(update, SetMode):
        return f"switch to the mode {update.mode} {scope}"
    verb = update.type.removesuffix("Rules").removesuffix("Directories")
    if isinstance(update, AddDirectories | RemoveDirectories):
        return f"{verb} {', '.join(update.directories)} {scope}"
    rules = ", ".join(map(str, update.rules))
    return f"{verb} {update.behavior} {rules} {scope}".replace("add allow", "allow")


def _list_form(request: ElicitationRequest) -> Iterator[str]:
    """Yield the address and the fields of an elicitation. May contain control characters."""
    if request.url:
        yield request.url
    for field in request.form.fields.values():
        choices = f" ({', '.join(field.choices)})" if field.choices else ""
        yield f"{field.name}: {field.type}{choices}{', required' if field.required else ''}"
