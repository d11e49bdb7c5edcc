"""`client.settings`: the settings that apply to a session, and what the CLI reads from disk.

The settings that a user changes often (`set_model`, `set_permission_mode`) are on `Client`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from claude_agent_py import control  # its models load on first use, which keeps the import of the client quick
from claude_agent_py.runtime.controls_base import Controls, given

EditableSettings: TypeAlias = Literal["localSettings", "userSettings"]


class SettingsControls(Controls):
    """The settings of a running session. The methods raise what those of `Client` raise."""

    async def get(self) -> control.GetSettingsReply:
        """Return the settings that apply, those of each source, and what became of them."""
        return await self._ask(control.GetSettingsRequest, control.GetSettingsReply)

    async def apply(self, settings: Mapping[str, Any]) -> None:
        """Change settings for this session only; they win over those of files.

        Args:
            settings: By their names in `settings.json`. Each replaces the one of that name as a whole; None takes back
                what was applied before.

        Raises:
            ControlRejectedError: One of them is invalid; none was applied.
        """
        await self._tell(control.ApplyFlagSettingsRequest, settings=dict(settings))

    async def update(self, source: EditableSettings, settings: Mapping[str, Any]) -> None:
        """Write settings into a settings FILE, where they outlive the session.

        The CLI allows `outputStyle` in `localSettings` and `effortLevel` in `userSettings`.

        Raises:
            ControlRejectedError: The CLI does not allow one of the names.
        """
        await self._tell(control.UpdateSettingsRequest, source=source, settings=dict(settings))

    async def permission_rules(self) -> control.ListPermissionRulesReply:
        """Return all permission rules that are in force, with where each comes from."""
        return await self._ask(control.ListPermissionRulesRequest, control.ListPermissionRulesReply)

    async def hooks(self) -> control.GetHooksListingReply:
        """Return the hooks of the settings and all events that hooks can have. Hooks of the options are not listed."""
        return await self._ask(control.GetHooksListingRequest, control.GetHooksListingReply)

    async def reload_plugins(
        self,
        *,
        add_plugins: Sequence[Mapping[str, Any]] | None = None,
        hold_on_cache_impact: bool = False,
        refuse_if_busy: bool = False,
        timeout: float | None = None,
    ) -> control.ReloadPluginsReply:
        """Read the plugins again, and give the commands, agents, plugins and MCP servers that are there now.

        Args:
            add_plugins: More plugins, as the CLI takes them: `{"type": "local", "path": "..."}`.
            hold_on_cache_impact: Do nothing where it would cost the prompt cache; `held` and `cache_impact` say so.
            refuse_if_busy: Refuse while a turn runs.
            timeout: Seconds to wait; None means `Timeouts.control`.

        Raises:
            ControlRejectedError: `error_code` is `reload_plugins_busy` where a turn runs and `refuse_if_busy` is true.
        """
        return await self._ask(
            control.ReloadPluginsRequest,
            control.ReloadPluginsReply,
            timeout=timeout,
            **given(
                add_plugins=None if add_plugins is None else [dict(plugin) for plugin in add_plugins],
                hold_on_cache_impact=hold_on_cache_impact,
                refuse_if_busy=refuse_if_busy,
            ),
        )

    async def reload_skills(self) -> control.ReloadSkillsReply:
        """Read the skills again, and give them."""
        return await self._ask(control.ReloadSkillsRequest, control.ReloadSkillsReply)

    async def reload_output_styles(self) -> control.ReloadOutputStylesReply:
        """Read the output styles again, and give their names."""
        return await self._ask(control.ReloadOutputStylesRequest, control.ReloadOutputStylesReply)
