"""Descriptions of pending interactions for the user, and the user's answers."""

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from claude_agent_py._base.bounded_reading import read_bytes
from claude_agent_py.cli.interactions import NO_PLAN, list_form
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.permissions.decisions import Allow, Deny
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.permissions.prompts import Plan
from claude_agent_py.permissions.requests import PermissionRequest, displayable
from claude_agent_py.permissions.typed_answers import HELP, parse_choice, read_typed
from claude_agent_py.wire.control.asks import ElicitationRequest
from claude_agent_py.wire.control.permissions import AddDirectories, PermissionUpdate, RemoveDirectories, SetMode
from claude_agent_py.wire.tools.questions import Question

FILE_BYTES: Final = 1_000_000
"""Larger files are not compared. All lines of the new content are shown."""
COMPARED_LINES: Final = 4000
"""Longer texts are shown as removed and added, because comparing takes quadratic time."""
LINE_CHARS: Final = 400
SHOWN_LINES: Final = 400


def build_diff(tool_name: str, tool_input: Mapping[str, object]) -> list[str]:
    """Return the changes of an Edit, Write or NotebookEdit call; empty for other tools.

    Lines begin with `-`, `+`, a blank or `@@`, and contain no control characters. Reads the file on disk.
    """
    make = _DIFFS.get(tool_name)
    if make is None:
        return []
    lines = [displayable(line, LINE_CHARS).replace("\t", "    ").replace("\n", " ") for line in make(tool_input)]
    return shorten(lines, SHOWN_LINES)


def shorten(lines: Sequence[str], limit: int) -> list[str]:
    """Return the first `limit` lines, and a line with the number of omitted ones."""
    if len(lines) <= limit:
        return list(lines)
    return [*lines[:limit], f"@@ {len(lines) - limit} more lines @@"]


def _diff_edit(tool_input: Mapping[str, object]) -> Iterator[str]:
    """Yield the diff of an edit to a file. If it does not match the file, compare only the texts of the edit."""
    old = _get_text(tool_input, "old_string")
    new = _get_text(tool_input, "new_string")
    before = _read_text(_get_text(tool_input, "file_path"))
    if old and old in before:
        yield from _compare(before, before.replace(old, new, -1 if tool_input.get("replace_all") else 1))
    else:
        yield "@@ not at these lines @@"
        yield from _compare(old, new)


def _diff_write(tool_input: Mapping[str, object]) -> Iterator[str]:
    yield from _compare(_read_text(_get_text(tool_input, "file_path")), _get_text(tool_input, "content"))


def _diff_notebook(tool_input: Mapping[str, object]) -> Iterator[str]:
    yield f"@@ {tool_input.get('edit_mode') or 'replace'} cell {tool_input.get('cell_id') or ''} @@"
    yield from _compare("", _get_text(tool_input, "new_source"))


_DIFFS: Final = {
    "Edit": _diff_edit,
    "Write": _diff_write,
    "NotebookEdit": _diff_notebook,
}


def _get_text(tool_input: Mapping[str, object], name: str) -> str:
    value = tool_input.get(name)
    return value if isinstance(value, str) else ""


def _read_text(path: str) -> str:
    """Return the content of a text file; empty if it cannot be read."""
    try:
        return read_bytes(path, most_bytes=FILE_BYTES)[0].decode("utf-8", errors="replace")
    except OSError:
        return ""


def _compare(old: str, new: str) -> Iterator[str]:
    before = old.splitlines()
    after = new.splitlines()
    if len(before) + len(after) > COMPARED_LINES:
        yield from (f"-{line}" for line in before)
        yield from (f"+{line}" for line in after)
        return
    # The first two lines are the names of the files.
    yield from islice(difflib.unified_diff(before, after, lineterm="", n=2), 2, None)


VALUE_CHARS: Final = 20_000
TITLE_CHARS: Final = 1000
CONTINUED: Final = "\n    | "
"""Prefix of a value's continuation lines, so that none of them looks like another value."""
DIFFED: Final = frozenset({"old_string", "new_string", "content", "new_source"})
"""Fields of a tool input that the diff already shows."""
_SCOPES: Final = {
    "session": "for this session",
    "localSettings": "for you in this project",
    "projectSettings": "for everyone in this project",
    "userSettings": "for you everywhere",
}
ACCEPT_EDITS: Final = SetMode(mode="acceptEdits", destination="session")


class Step(NamedTuple):
    """One answer that the user types."""

    help: str
    """The expected form of the answer."""
    text: str = ""
    """The question, if the model asks one."""
    lines: Sequence[str] = ()
    """The options of the question."""


@dataclass(frozen=True)
class QuestionText:
    """The texts of an interaction, without control characters."""

    title: str
    lines: list[str] = field(default_factory=list)
    diff: list[str] = field(default_factory=list)
    markdown: str = ""
    """The text of a plan."""
    always: str = ""
    """The permission changes of "allow always"; empty if it is not offered."""
    steps: Sequence[Step] = ()
    """The answers to type, in order."""

    @property
    def is_decision(self) -> bool:
        """Whether the answer is yes or no."""
        return not self.steps


def describe_question(interaction: Interaction) -> QuestionText:
    """Return the texts of an interaction."""
    subject: Any = interaction.subject
    agent = interaction.task_description or interaction.agent_id
    by = f" (asked by {agent})" if agent else ""
    if isinstance(subject, PermissionRequest):
        lines = [_clean(line) for line in _list_input(subject)]
        always = "; ".join(map(_describe_update, _list_allowed_updates(subject)))
        diff = build_diff(subject.tool_name, subject.raw_input)
        return QuestionText(_clean_title(f"Allow {subject.tool_name}?{by}"), lines, diff, always=_clean_title(always))
    if isinstance(subject, Plan):
        text = subject.text or NO_PLAN
        always = _describe_update(ACCEPT_EDITS)
        return QuestionText(
            _clean_title(f"Proceed with this plan?{by}"), markdown=_clean(text, len(text)), always=always
        )
    if isinstance(subject, ElicitationRequest):
        title = _clean_title(f"{subject.server_name} asks{by}")
        lines = [_clean(line) for line in (subject.message, *list_form(subject))]
        return QuestionText(title, lines, steps=[Step(HELP["elicitation"])])
    steps = [_build_step(question) for question in subject] if interaction.kind == "question" else []
    return QuestionText(_clean_title(interaction.summary + by), steps=steps or [Step(HELP[interaction.kind])])


def _build_step(question: Question) -> Step:
    options = []
    for number, option in enumerate(question.options, 1):
        description = f": {option.description}" if option.description else ""
        options.append(one_line(f"{number}. {option.label}{description}", VALUE_CHARS))
    help_text = "numbers such as 1,3, or your own words" if question.multi_select else "a number, or your own words"
    return Step(help_text, displayable(question.question), options)


def allow(interaction: Interaction, *, always: bool = False) -> bool:
    """Allow the call, or approve the plan. Return whether this was the first answer.

    `always` also applies the permission changes named in `QuestionText.always`.
    """
    subject = interaction.subject
    if not always:
        return interaction.resolve(Allow(decision_classification="user_temporary"))
    updates = _list_allowed_updates(subject) if isinstance(subject, PermissionRequest) else [ACCEPT_EDITS]
    return interaction.resolve(Allow(updated_permissions=updates, decision_classification="user_permanent"))


def deny(interaction: Interaction, reason: str = "") -> bool:
    """Deny a call or a plan with a reason, or refuse another question. Return whether this was the first answer."""
    if interaction.kind in ("permission", "plan"):
        return interaction.resolve(Deny(reason, decision_classification="user_reject"))
    return interaction.refuse(reason)


def answer(interaction: Interaction, texts: Sequence[str]) -> bool:
    """Answer with typed texts, one per `Step`. Return whether this was the first answer.

    Raises:
        ValueError: A text is not a valid answer.
    """
    if interaction.kind == "question" and interaction.subject:
        questions = cast("tuple[Question, ...]", interaction.subject)
        return interaction.resolve(
            [parse_choice(question, text) for question, text in zip(questions, texts, strict=True)]
        )
    return interaction.resolve(read_typed(interaction, shlex.split(texts[0])))


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


def _list_input(request: PermissionRequest) -> Iterator[str]:
    has_diff = bool(build_diff(request.tool_name, request.raw_input))
    for name, value in request.raw_input.items():
        if not (has_diff and name in DIFFED):
            yield f"{name}: {value}".replace("\n", CONTINUED)
    if request.decision_reason:
        yield f"because: {request.decision_reason}"


def _clean_title(text: str) -> str:
    return one_line(text, TITLE_CHARS)


def _clean(text: str, limit: int = VALUE_CHARS) -> str:
    return displayable(text, limit)
