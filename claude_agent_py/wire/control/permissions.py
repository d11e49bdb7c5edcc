"""Permission rules and updates.

The CLI silently drops an update that it does not understand and still allows the call. `PermissionUpdate.problem`
reports such updates.
"""

import re
from collections.abc import Mapping
from typing import ClassVar, Literal, Self, TypeAlias, get_args

from claude_agent_py.wire.base import CamelModel, FrameModel, Open, UnknownModel
from claude_agent_py.wire.fitting import read
from claude_agent_py.wire.messages.modes import (
    KnownPermissionMode as KnownPermissionMode,
    PermissionMode as PermissionMode,
)

PermissionBehavior: TypeAlias = Literal["allow", "deny", "ask"]
KnownUpdateDestination: TypeAlias = Literal["userSettings", "projectSettings", "localSettings", "session", "cliArg"]
PermissionUpdateDestination: TypeAlias = Open[KnownUpdateDestination]
"""Where an update is stored: in a settings file, or until the end of the session (`session`, `cliArg`)."""

PermissionDecisionClassification: TypeAlias = Open[Literal["user_temporary", "user_permanent", "user_reject"]]

_KNOWN_WORDS: Mapping[str, tuple[str, ...]] = {
    "destination": get_args(KnownUpdateDestination),
    "behavior": get_args(PermissionBehavior),
    "mode": (*get_args(KnownPermissionMode), "manual"),
}
"""The words that the CLI understands, by the field of an update."""

_RULE = re.compile(r"(?P<tool>[^()]+)(?:\((?P<content>.*)\))?", re.DOTALL)
_SPECIAL = re.compile(r"[\\()]")
_ESCAPED = re.compile(r"\\([\\()])")


class PermissionRuleValue(CamelModel):
    """A permission rule: a tool name and optionally a pattern for its calls, as in `Bash(npm test:*)`.

    `str()` is the notation of settings, which escapes parentheses and backslashes in the pattern.
    """

    tool_name: str
    rule_content: str | None = None

    @classmethod
    def parse(cls, text: str) -> "PermissionRuleValue":
        r"""Parse a rule in the notation of settings: `Read`, `Bash(npm test:*)`, `Bash(echo \(a\))`.

        Raises:
            ValueError: `text` is not a permission rule.
        """
        match = _RULE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"invalid permission rule {text!r}; it must be Tool or Tool(content)")
        content = match["content"]
        return cls(tool_name=match["tool"], rule_content=content and _ESCAPED.sub(r"\1", content))

    def __str__(self) -> str:
        if self.rule_content is None:
            return self.tool_name
        return f"{self.tool_name}({_SPECIAL.sub(_escape, self.rule_content)})"


def _escape(match: re.Match[str]) -> str:
    return f"\\{match[0]}"


class _Update(FrameModel):
    destination: PermissionUpdateDestination

    @property
    def problem(self) -> str | None:
        """Why the CLI would drop the update, or None if no problem is known."""
        for field, known in _KNOWN_WORDS.items():
            word = getattr(self, field, None)
            if word is not None and word not in known:
                return f"{field} {word!r} is not one of {', '.join(known)}"
        return None


class _RulesUpdate(_Update):
    rules: list[PermissionRuleValue]
    behavior: Open[PermissionBehavior]


class _DirectoriesUpdate(_Update):
    directories: list[str]


class AddRules(_RulesUpdate):
    """Add permission rules."""

    type: ClassVar[Literal["addRules"]] = "addRules"


class ReplaceRules(_RulesUpdate):
    """Replace all rules of a behavior at a destination."""

    type: ClassVar[Literal["replaceRules"]] = "replaceRules"


class RemoveRules(_RulesUpdate):
    """Remove permission rules."""

    type: ClassVar[Literal["removeRules"]] = "removeRules"


class SetMode(_Update):
    """Change the permission mode. `bypassPermissions` is ignored unless the session was launched with it enabled."""

    type: ClassVar[Literal["setMode"]] = "setMode"
    mode: PermissionMode


class AddDirectories(_DirectoriesUpdate):
    """Add working directories to the session."""

    type: ClassVar[Literal["addDirectories"]] = "addDirectories"


class RemoveDirectories(_DirectoriesUpdate):
    """Remove working directories from the session."""

    type: ClassVar[Literal["removeDirectories"]] = "removeDirectories"


class UnknownPermissionUpdate(UnknownModel, tag_field="type"):
    """An update of an unknown type, or of a known type with invalid fields."""

    @classmethod
    def _validate(cls, value: object) -> Self:
        return cls(raw=dict(value)) if isinstance(value, Mapping) else super()._validate(value)

    @property
    def destination(self) -> str:
        """The destination that it names, as all updates do; empty if it names none."""
        return str(self.raw.get("destination", ""))

    @property
    def problem(self) -> str | None:
        """Why the CLI would drop the update."""
        return f"unknown type {self.type!r}, or a missing or invalid field"


PermissionUpdate: TypeAlias = (
    AddRules | ReplaceRules | RemoveRules | SetMode | AddDirectories | RemoveDirectories | UnknownPermissionUpdate
)
"""A change of the permissions of a session or of its settings."""


def read_update(data: Mapping[str, object]) -> PermissionUpdate:
    """Convert an update to its model, or to `UnknownPermissionUpdate` if no model matches it."""
    update: PermissionUpdate | None = read(PermissionUpdate, data)
    return UnknownPermissionUpdate(raw=dict(data)) if update is None else update
