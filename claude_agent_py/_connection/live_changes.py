"""`LiveChanges`: the changes made to a running session, to repeat them in its next process and in child agents."""

import contextlib
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from claude_agent_py._base.errors import ClaudeAgentError, OptionsError, OptionsWarning
from claude_agent_py._base.log import logger
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.output_shape import Output
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.permissions import PermissionRuleValue

SETTINGS: Final = "apply_flag_settings"
MODEL: Final = "set_model"
THINKING: Final = "set_max_thinking_tokens"
MCP_MODE: Final = "set_mcp_permission_mode_override"
MCP_TOGGLE: Final = "mcp_toggle"
RESTRICTING: Final = frozenset({SETTINGS, MCP_MODE})
"""Requests without which the session may be allowed more than before."""
OF_THE_MODEL: Final = frozenset({(MODEL, ""), (SETTINGS, "model"), (SETTINGS, "effortLevel")})
"""Those that restrict nothing, and that a child agent takes from its definition or options."""
LASTING: Final = frozenset({"userSettings", "projectSettings", "localSettings"})
"""The destinations of permission updates that are files."""


class LiveChanges:
    """The model, thinking budget, settings, restrictions of MCP servers and rules of answers that a session has got.

    Args:
        earlier: The changes that the session begins with, of its last process or of the parent.
    """

    def __init__(self, earlier: "LiveChanges | None" = None) -> None:
        self._noted: dict[tuple[str, str], JSONObject] = {} if earlier is None else dict(earlier._noted)
        """The fields of the latest request about each setting, each server and the rest, in the order of these."""
        self._to_repeat = dict(self._noted)
        self._rules: dict[tuple[str, str], None] = {} if earlier is None else dict(earlier._rules)
        """The rules that answers to permission prompts have set for the session, as `("deny", rule)` or ask."""

    def note(self, subtype: str, fields: Mapping[str, object]) -> None:
        """Note a request that the CLI accepted."""
        if subtype == SETTINGS:
            settings = fields.get("settings")
            for name, value in settings.items() if isinstance(settings, Mapping) else ():
                self._put(subtype, name, {"settings": {name: value}})
        elif subtype == MODEL:
            self._put(subtype, "", fields)
        elif subtype == THINKING:  # a missing field leaves what it was
            self._put(subtype, "", {**self._noted.get((subtype, ""), {}), **fields})
        elif subtype == MCP_TOGGLE and fields.get("enabled"):  # repeated, it would wait for the server
            self._noted.pop((subtype, str(fields.get("serverName"))), None)
        elif subtype in (MCP_MODE, MCP_TOGGLE):
            self._put(subtype, str(fields.get("serverName")), fields)

    def _put(self, subtype: str, name: str, fields: Mapping[str, object]) -> None:
        self._noted.pop((subtype, name), None)  # what is changed again moves to the end
        self._noted[subtype, name] = dict(fields)

    def note_answer(self, payload: Mapping[str, object]) -> None:
        """Note the rules of an answer to a permission prompt, or of a `PermissionRequest` hook, that restrict."""
        for update in _find_updates(payload):
            match update:
                case {"type": kind, "behavior": "deny" | "ask" as behavior, "destination": place, "rules": [*rules]}:
                    if place not in LASTING:
                        self._note_rules(kind, behavior, _format_rules(rules))

    def _note_rules(self, kind: object, behavior: str, rules: list[str]) -> None:
        if kind == "replaceRules":
            self._rules = {noted: None for noted in self._rules if noted[0] != behavior}
        for rule in rules:
            if kind == "removeRules":
                self._rules.pop((behavior, rule), None)
            else:
                self._rules[behavior, rule] = None

    def apply_to(self, options: ClientOptions[Output], permission_mode: str | None) -> ClientOptions[Output]:
        """Return the options with the model, the permission mode and the rules of answers that are now in effect."""
        model = self._model_or(options.model)
        changes: list[JSONObject] = []
        if model != options.model:
            others = [name for name in options.fallback_model or () if name != model]
            changes.append({"model": model, "fallback_model": others or None})
        if permission_mode not in (None, options.permission_mode):
            changes.append({"permission_mode": permission_mode})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptionsWarning)
            if self._rules:
                options = options.replace(managed_settings=self._add_rules(options.managed_settings or {}))
            for change in changes:
                with contextlib.suppress(OptionsError):  # a mode of a newer CLI
                    options = options.replace(**change)
        return options

    def _add_rules(self, managed: Any) -> JSONObject:
        """Return managed settings with the rules. They can only restrict, and changed settings do not replace them."""
        permissions = dict(managed.get("permissions") or {})
        for behavior, rule in self._rules:
            permissions[behavior] = [*permissions.get(behavior, ()), rule]
        return {**managed, "permissions": permissions}

    def _model_or(self, model: str | None) -> str | None:
        """Return the model that was set last, None for the default one; or the given model if none was set."""
        for (subtype, name), fields in reversed(self._noted.items()):
            if subtype == MODEL:
                return fields.get("model")
            if (subtype, name) == (SETTINGS, "model"):
                value: str | None = fields["settings"]["model"]
                return value
        return model

    def for_child(self) -> "LiveChanges":
        """Return those that a child agent begins with. Its model and effort are options, or those of its definition."""
        changes = LiveChanges()
        changes._noted = {key: fields for key, fields in self._noted.items() if key not in OF_THE_MODEL}
        return changes

    async def repeat(self, control: Callable[..., Awaitable[object]]) -> None:
        """Send the requests that the session begins with, except about what was changed since, by a handler.

        Raises:
            ClaudeAgentError: A request that may restrict the session failed.
        """
        for (subtype, name), fields in self._to_repeat.items():
            if self._noted.get((subtype, name)) is not fields:
                continue
            try:
                await control(subtype, **fields)
            except ClaudeAgentError as error:  # if the CLI ended again, the runs say so
                if subtype in RESTRICTING and (subtype, name) not in OF_THE_MODEL:
                    raise
                log = logger.debug if subtype == MCP_TOGGLE else logger.warning  # it may not have the server
                log("the session does not accept %s again: %s", subtype, error)


def _find_updates(payload: Mapping[str, object]) -> Sequence[object]:
    """Return the permission updates of an answer."""
    match payload:
        case {"updatedPermissions": [*updates]}:
            return updates
        case {"hookSpecificOutput": {"decision": {"updatedPermissions": [*updates]}}}:
            return updates
    return ()


def _format_rules(rules: Sequence[object]) -> list[str]:
    """Return rules as settings have them."""
    found: list[str] = []
    for given in rules:
        match given:
            case {"toolName": str(tool), **rest}:
                content = rest.get("ruleContent") or None  # an empty one is none; settings with `Bash()` are ignored
                rule = PermissionRuleValue(tool_name=tool, rule_content=content if isinstance(content, str) else None)
                found.append(str(rule))
    return found
