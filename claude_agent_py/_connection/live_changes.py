"""`LiveChanges`: the changes made to a running session, to repeat them in its next process and in child agents."""

import contextlib
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from claude_agent_py._base.errors import ClaudeAgentError, OptionsError, OptionsWarning
from claude_agent_py._base.log import logger
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.output_shape import Output
from claude_agent_py.wire.base import JSONObject

SETTINGS: Final = "apply_flag_settings"
MODEL: Final = "set_model"
THINKING: Final = "set_max_thinking_tokens"
MCP_MODE: Final = "set_mcp_permission_mode_override"
MCP_TOGGLE: Final = "mcp_toggle"
RESTRICTING: Final = frozenset({SETTINGS, MCP_MODE})
"""Requests without which the session may be allowed more than before."""


class LiveChanges:
    """The model, thinking budget, settings and restrictions of MCP servers that control requests have set.

    Args:
        earlier: The changes that the session begins with, of its last process or of the parent.
    """

    def __init__(self, earlier: "LiveChanges | None" = None) -> None:
        self._noted: dict[tuple[str, str], JSONObject] = {} if earlier is None else dict(earlier._noted)
        """The fields of the latest request about each setting, each server and the rest, in the order of these."""
        self._to_repeat = dict(self._noted)

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

    def apply_to(self, options: ClientOptions[Output], permission_mode: str | None) -> ClientOptions[Output]:
        """Return the options with the model and the permission mode that are now in effect."""
        model = self._model_or(options.model)
        changes: list[JSONObject] = []
        if model != options.model:
            others = [name for name in options.fallback_model or () if name != model]
            changes.append({"model": model, "fallback_model": others or None})
        if permission_mode not in (None, options.permission_mode):
            changes.append({"permission_mode": permission_mode})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptionsWarning)
            for change in changes:
                with contextlib.suppress(OptionsError):  # a mode of a newer CLI
                    options = options.replace(**change)
        return options

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
        left_out = {(MODEL, ""), (SETTINGS, "model"), (SETTINGS, "effortLevel")}
        changes = LiveChanges()
        changes._noted = {key: fields for key, fields in self._noted.items() if key not in left_out}
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
                if subtype in RESTRICTING:
                    raise
                log = logger.debug if subtype == MCP_TOGGLE else logger.warning  # it may not have the server
                log("the session does not accept %s again: %s", subtype, error)
