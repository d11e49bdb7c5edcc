"""`LiveChanges`: the changes made to a running session, to repeat them in its next process."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from claude_agent_py._base.errors import ClaudeAgentError, OptionsError
from claude_agent_py._base.log import logger
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.output_shape import Output
from claude_agent_py.wire.base import JSONObject

SETTINGS: Final = "apply_flag_settings"
MODEL: Final = "set_model"
NOTED: Final = frozenset({MODEL, "set_max_thinking_tokens", SETTINGS})


class LiveChanges:
    """The model, the thinking budget and the settings that control requests have set."""

    def __init__(self) -> None:
        self._requests: dict[str, JSONObject] = {}
        """The fields of the latest request of each kind; settings are merged."""

    def note(self, subtype: str, fields: JSONObject) -> None:
        """Note a request that the CLI accepted."""
        if subtype not in NOTED:
            return
        if subtype == SETTINGS:
            before = self._requests.get(SETTINGS, {"settings": {}})["settings"]
            fields = {**fields, "settings": {**before, **fields["settings"]}}
        elif subtype != MODEL:
            fields = {**self._requests.get(subtype, {}), **fields}
        self._requests[subtype] = dict(fields)

    def apply_to(self, options: ClientOptions[Output], permission_mode: str | None) -> ClientOptions[Output]:
        """Return the options with the model and the permission mode that are now in effect."""
        model = self._requests.get(MODEL, {}).get("model")
        if model is not None:
            options = options.replace(model=model)
        if permission_mode is not None and permission_mode != options.permission_mode:
            with contextlib.suppress(OptionsError):  # a mode of a newer CLI
                options = options.replace(permission_mode=permission_mode)
        return options

    async def repeat(self, control: Callable[..., Awaitable[object]]) -> None:
        """Send the requests again."""
        for subtype, fields in [*self._requests.items()]:
            try:
                await control(subtype, **fields)
            except ClaudeAgentError as error:  # if the CLI ended again, the runs say so
                logger.warning("the reopened session does not accept %s again: %s", subtype, error)
