"""What a pending interaction asks, for people to read, and the answers that a person gives to it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from claude_agent_py.cli._chat.diffs import diff_of
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.permissions.decisions import Allow, Deny
from claude_agent_py.permissions.elicitation import ElicitationRequest
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.permissions.plans import Plan
from claude_agent_py.permissions.requests import PermissionRequest, displayable
from claude_agent_py.permissions.typed_answers import HELP, parse_choice, read_typed
from claude_agent_py.wire.base import dump
from claude_agent_py.wire.control.permissions import PermissionUpdate, SetMode
from claude_agent_py.wire.tools.questions import Question

VALUE_CHARS: Final = 20_000
TITLE_CHARS: Final = 1000
CONTINUED: Final = "\n    | "
"""Begins the further lines of a value, so that none looks like another one."""
DIFFED: Final = frozenset({"old_string", "new_string", "edits", "content", "new_source"})
"""Parts of an input that its diff shows."""
EDIT_FREELY: Final = SetMode(mode="acceptEdits", destination="session")


class Step(NamedTuple):
    """Something to answer with words."""

    help: str
    """How to answer."""
    text: str = ""
    """A question of the model."""
    lines: Sequence[str] = ()
    """The options of that question."""


@dataclass(frozen=True)
class Asked:
    """What an interaction asks. No text has control characters."""

    title: str
    lines: list[str] = field(default_factory=list)
    diff: list[str] = field(default_factory=list)
    markdown: str = ""
    """A plan."""
    always: str = ""
    """What "allow always" changes; empty if it is not offered."""
    steps: Sequence[Step] = ()
    """What is answered with words, one after the other."""

    @property
    def is_decision(self) -> bool:
        """Whether it is answered with yes or no."""
        return not self.steps


def asked(interaction: Interaction) -> Asked:
    """Return what an interaction asks."""
    subject: Any = interaction.subject
    who = interaction.task_description or interaction.agent_id
    by = f" (asked by {who})" if who else ""
    if isinstance(subject, PermissionRequest):
        lines = [_clean(line) for line in _call(subject)]
        always = "; ".join(map(_in_words, _lasting(subject)))
        diff = diff_of(subject.tool_name, subject.raw_input)
        return Asked(_title(f"Allow {subject.tool_name}?{by}"), lines, diff, always=_title(always))
    if isinstance(subject, Plan):
        text = subject.text or "(the plan was not written down)"
        always = _in_words(EDIT_FREELY)
        return Asked(_title(f"Go on with this plan?{by}"), markdown=_clean(text, len(text)), always=always)
    if isinstance(subject, ElicitationRequest):
        return Asked(_title(f"{subject.server_name} asks{by}"), list(_form(subject)), steps=[Step(HELP["elicitation"])])
    steps = [_step(question) for question in subject] if interaction.kind == "question" else []
    return Asked(_title(interaction.summary + by), steps=steps or [Step(HELP[interaction.kind])])


def _step(question: Question) -> Step:
    options = [
        f"{number}. {option.label}" + (f": {option.description}" if option.description else "")
        for number, option in enumerate(question.options, 1)
    ]
    told = "numbers, as 1,3, or your own words" if question.multi_select else "a number, or your own words"
    return Step(told, displayable(question.question), [one_line(line, VALUE_CHARS) for line in options])


def allow(interaction: Interaction, *, always: bool = False) -> bool:
    """Allow the call, or approve the plan. Return whether nobody had answered yet.

    `always` also makes the changes that `Asked.always` names.
    """
    subject = interaction.subject
    if not always:
        return interaction.resolve(Allow(decision_classification="user_temporary"))
    lasting = _lasting(subject) if isinstance(subject, PermissionRequest) else [EDIT_FREELY]
    return interaction.resolve(Allow(updated_permissions=lasting, decision_classification="user_permanent"))


def deny(interaction: Interaction, reason: str = "") -> bool:
    """Deny a call or a plan with a reason; leave other questions unanswered. Return whether nobody had answered yet."""
    if interaction.kind in ("permission", "plan"):
        return interaction.resolve(Deny(reason, decision_classification="user_reject"))
    return interaction.refuse(reason)


def answer(interaction: Interaction, texts: Sequence[str]) -> bool:
    """Answer with words: one text for each question of the model, otherwise one. Return whether nobody had answered.

    Raises:
        ValueError: The words do not answer it.
    """
    if interaction.kind == "question" and interaction.subject:
        asks = cast("tuple[Question, ...]", interaction.subject)
        return interaction.resolve([parse_choice(question, text) for question, text in zip(asks, texts, strict=True)])
    return interaction.resolve(read_typed(interaction, shlex.split(texts[0])))


def _lasting(request: PermissionRequest) -> list[PermissionUpdate]:
    """Return the changes after which the CLI does not ask again, unless they would allow more than this."""
    if request.suppress_always_allow_rule:
        return []
    return [update for update in request.suggestions if update.problem is None]


def _in_words(update: PermissionUpdate) -> str:
    told: dict[str, Any] = dump(update)
    where = {
        "session": "for this session",
        "localSettings": "for you in this project",
        "projectSettings": "for everyone in this project",
        "userSettings": "for you everywhere",
    }.get(told.get("destination", ""), "")
    if told.get("type") == "setMode":
        return f"switch to the mode {told.get('mode')} {where}"
    if "directories" in told:
        return f"{_verb(told)} {', '.join(map(str, told['directories']))} {where}"
    rules = ", ".join(_rule(rule) for rule in told.get("rules", ()))
    return f"{_verb(told)} {told.get('behavior', '')} {rules} {where}".replace("add allow", "allow")


def _verb(told: dict[str, Any]) -> str:
    kind = str(told.get("type", ""))
    return next((verb for verb in ("add", "replace", "remove") if kind.startswith(verb)), kind)


def _rule(rule: dict[str, Any]) -> str:
    content = rule.get("ruleContent")
    return f"{rule.get('toolName')}({content})" if content else str(rule.get("toolName"))


def _call(request: PermissionRequest) -> Iterator[str]:
    has_diff = bool(diff_of(request.tool_name, request.raw_input))
    for name, value in request.raw_input.items():
        if not (has_diff and name in DIFFED):
            yield f"{name}: {value}".replace("\n", CONTINUED)
    if request.decision_reason:
        yield f"because: {request.decision_reason}"


def _form(request: ElicitationRequest) -> Iterator[str]:
    yield _clean(request.message)
    if request.url:
        yield _clean(request.url)
    for one in request.form.fields.values():
        choices = f" ({', '.join(one.choices)})" if one.choices else ""
        yield _clean(f"{one.name}: {one.type}{choices}{', required' if one.required else ''}")


def _title(text: str) -> str:
    return one_line(text, TITLE_CHARS)


def _clean(text: str, limit: int = VALUE_CHARS) -> str:
    return displayable(text, limit)
