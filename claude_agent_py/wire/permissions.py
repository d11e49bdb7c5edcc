"""Permissions on the wire: modes, rules, updates of rules, and the replies to what the CLI asks a person.

Owns the shapes only; who decides what is `claude_agent_py.permissions`. The CLI drops an update that it does not
understand without a word and allows the call all the same, so `PermissionUpdate.problem` says what it would drop.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import msgspec

from claude_agent_py.wire.base import CamelModel, FrameModel, Open, UnknownModel, WireModel, keep_source
from claude_agent_py.wire.fitting import Misfit, fit
from claude_agent_py.wire.modes import KnownPermissionMode as KnownPermissionMode, PermissionMode as PermissionMode

PermissionBehavior: TypeAlias = Literal["allow", "deny", "ask"]
KnownUpdateDestination: TypeAlias = Literal["userSettings", "projectSettings", "localSettings", "session", "cliArg"]
PermissionUpdateDestination: TypeAlias = Open[KnownUpdateDestination]
"""Where an update is kept: `session` lasts as long as the session; the settings are files."""

PermissionDecisionClassification: TypeAlias = Open[Literal["user_temporary", "user_permanent", "user_reject"]]

PERMISSION_MODES: tuple[str, ...] = get_args(KnownPermissionMode)
UPDATE_DESTINATIONS: tuple[str, ...] = get_args(KnownUpdateDestination)
BEHAVIORS: tuple[str, ...] = get_args(PermissionBehavior)

_RULE = re.compile(r"(?P<tool>[^()]+)(?:\((?P<content>.*)\))?", re.DOTALL)


class PermissionRuleValue(CamelModel):
    """A rule: a tool, and for some tools which of its calls, as in `Bash(npm test:*)`."""

    tool_name: str
    rule_content: str | None = None

    @classmethod
    def parse(cls, text: str) -> "PermissionRuleValue":
        """Read a rule as it is written in settings: `Read`, `Bash(npm test:*)`.

        Raises:
            ValueError: The text is not a rule.
        """
        match = _RULE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no permission rule; write a tool's name, or Tool(content)")
        content = match["content"]
        return cls(tool_name=match["tool"]) if content is None else cls(tool_name=match["tool"], rule_content=content)

    def __str__(self) -> str:
        return self.tool_name if self.rule_content is None else f"{self.tool_name}({self.rule_content})"


class _Update(FrameModel):
    destination: PermissionUpdateDestination

    @property
    def problem(self) -> str | None:
        """What is wrong with it, so that the CLI would drop it; None where nothing is known to be wrong."""
        return _unknown("destination", self.destination, UPDATE_DESTINATIONS)


class _RulesUpdate(_Update):
    rules: list[PermissionRuleValue]
    behavior: Open[PermissionBehavior]

    @property
    def problem(self) -> str | None:
        """What is wrong with it, so that the CLI would drop it; None where nothing is known to be wrong."""
        return super().problem or _unknown("behavior", self.behavior, BEHAVIORS)


class _DirectoriesUpdate(_Update):
    directories: list[str]


class AddRules(_RulesUpdate):
    """Add rules to those that are there."""

    type: ClassVar[Literal["addRules"]] = "addRules"


class ReplaceRules(_RulesUpdate):
    """Put these rules in place of those of this behaviour at this destination."""

    type: ClassVar[Literal["replaceRules"]] = "replaceRules"


class RemoveRules(_RulesUpdate):
    """Take rules away."""

    type: ClassVar[Literal["removeRules"]] = "removeRules"


class SetMode(_Update):
    """Change the permission mode. `bypassPermissions` is ignored in a session that was not launched for it."""

    type: ClassVar[Literal["setMode"]] = "setMode"
    mode: PermissionMode

    @property
    def problem(self) -> str | None:
        """What is wrong with it, so that the CLI would drop it; None where nothing is known to be wrong."""
        return super().problem or _unknown("mode", self.mode, (*PERMISSION_MODES, "manual"))


class AddDirectories(_DirectoriesUpdate):
    """Let the session work in more directories."""

    type: ClassVar[Literal["addDirectories"]] = "addDirectories"


class RemoveDirectories(_DirectoriesUpdate):
    """Take directories away again."""

    type: ClassVar[Literal["removeDirectories"]] = "removeDirectories"


class UnknownPermissionUpdate(UnknownModel, tag_field="type"):
    """An update of a kind, or of a shape, that this version does not know."""

    @property
    def type(self) -> str:
        """The kind of the update; empty where it has none."""
        return str(self.raw.get("type", ""))

    @classmethod
    def _validate(cls, value: Any) -> Self:
        return cls(raw=dict(value)) if isinstance(value, Mapping) else super()._validate(value)

    @property
    def problem(self) -> str | None:
        """Why the CLI would drop it."""
        return f"its type {self.type!r} is not known, or a field is missing"


PermissionUpdate: TypeAlias = (
    AddRules | ReplaceRules | RemoveRules | SetMode | AddDirectories | RemoveDirectories | UnknownPermissionUpdate
)


def read_update(data: Mapping[str, Any]) -> PermissionUpdate:
    """Return an update of the wire as its model. One of another kind or shape is an `UnknownPermissionUpdate`."""
    update: PermissionUpdate
    try:
        update, _ = fit(PermissionUpdate, data)
    except (Misfit, RecursionError):
        return UnknownPermissionUpdate(raw=dict(data))
    if isinstance(update, FrameModel):
        keep_source(update, "_source", data)
    return update


def _unknown(field: str, value: str, known: tuple[str, ...]) -> str | None:
    return None if value in known else f"{field} {value!r} is none of {', '.join(known)}"


# What is answered ------------------------------------------------------------------------------------------------


class PermissionAllowReply(CamelModel, WireModel):
    """Allow the call. Without `updated_input` it runs with the input it had; null there would be invalid."""

    behavior: ClassVar[Literal["allow"]] = "allow"
    updated_input: dict[str, Any] | None = None
    updated_permissions: list[PermissionUpdate] | None = None
    decision_classification: PermissionDecisionClassification | None = None


class PermissionDenyReply(CamelModel, WireModel):
    """Deny the call. The CLI refuses a denial without a message (and denies all the same)."""

    behavior: ClassVar[Literal["deny"]] = "deny"
    message: str
    interrupt: bool | None = None
    """Also end the turn; in a subagent, end that subagent. The model does not see the message then."""
    decision_classification: PermissionDecisionClassification | None = None


PermissionReply: TypeAlias = PermissionAllowReply | PermissionDenyReply


class ElicitationReply(CamelModel):
    """The answer to an MCP server's question. The CLI does not check `content` against the server's schema."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class UserDialogReply(CamelModel):
    """The answer to a dialog. After `cancelled` the CLI does what the dialog does by default."""

    behavior: Literal["completed", "cancelled"]
    result: Any = msgspec.UNSET
    """None is a result; without one the field stays away."""
