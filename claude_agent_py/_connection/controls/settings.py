"""`client.settings`: the settings, plugins, skills and output styles of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from claude_agent_py import control  # loads its models on first use, to keep the import of the client fast
from claude_agent_py._connection.controls.base import Controls, omit_unset
from claude_agent_py.wire.settings.rule_lists import check_rules_kept

EditableSettings: TypeAlias = Literal["localSettings", "userSettings"]


class SettingsControls(Controls):
    """The settings of a running session. The methods raise the same errors as `Client`."""

    async def get(self) -> control.GetSettingsReply:
        """Return the effective settings and the settings of each source."""
        return await self._ask(control.GetSettingsRequest, control.GetSettingsReply)

    async def apply(self, settings: Mapping[str, object]) -> None:
        """Change settings for this session only. They override those in files.

        Args:
            settings: By their names in `settings.json`. Each replaces the setting of that name as a whole; None removes
                what was applied before.

        Raises:
            ControlRejectedError: A setting is invalid; none was applied.
            OptionsError: The CLI cannot read a rule to deny or ask, and ignores it; all else was applied.
        """
        await self._tell(control.ApplyFlagSettingsRequest, settings=settings)
        if settings.get("permissions"):
            check_rules_kept(settings, await self._port.control("get_settings"), "settings")

    async def update(self, source: EditableSettings, settings: Mapping[str, object]) -> None:
        """Write settings into a settings *file*, permanently.

        The CLI allows `outputStyle` in `localSettings` and `effortLevel` in `userSettings`.

        Raises:
            ControlRejectedError: The CLI does not allow one of the settings.
        """
        await self._tell(control.UpdateSettingsRequest, source=source, settings=settings)

    async def permission_rules(self) -> control.ListPermissionRulesReply:
        """Return all permission rules in force, each with its source."""
        return await self._ask(control.ListPermissionRulesRequest, control.ListPermissionRulesReply)

    async def hooks(self) -> control.GetHooksListingReply:
        """Return the hooks of the settings and all hook events. Hooks of the options are not listed."""
        return await self._ask(control.GetHooksListingRequest, control.GetHooksListingReply)

    async def reload_plugins(
        self,
        *,
        add_plugins: Sequence[Mapping[str, object]] | None = None,
        hold_on_cache_impact: bool = False,
        refuse_if_busy: bool = False,
        timeout: float | None = None,
    ) -> control.ReloadPluginsReply:
        """Reload the plugins, and return the commands, agents, plugins and MCP servers.

        Args:
            add_plugins: Additional plugins, in the CLI's format: `{"type": "local", "path": "..."}`.
            hold_on_cache_impact: Do nothing if it would invalidate the prompt cache; see `held` and `cache_impact`.
            refuse_if_busy: Fail if a turn is running.
            timeout: Seconds to wait; None means `Timeouts.control`.

        Raises:
            ControlRejectedError: A turn is running and `refuse_if_busy` is true (`error_code` is
                `reload_plugins_busy`).
        """
        return await self._ask(
            control.ReloadPluginsRequest,
            control.ReloadPluginsReply,
            timeout=timeout,
            **omit_unset(
                add_plugins=add_plugins,
                hold_on_cache_impact=hold_on_cache_impact,
                refuse_if_busy=refuse_if_busy,
            ),
        )

    async def reload_skills(self) -> control.ReloadSkillsReply:
        """Reload the skills and return them."""
        return await self._ask(control.ReloadSkillsRequest, control.ReloadSkillsReply)

    async def reload_output_styles(self) -> control.ReloadOutputStylesReply:
        """Reload the output styles and return their names."""
        return await self._ask(control.ReloadOutputStylesRequest, control.ReloadOutputStylesReply)
