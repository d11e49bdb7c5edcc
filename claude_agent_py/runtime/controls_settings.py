"""Control requests about how the session works: model, permissions, settings, and what the CLI reads from disk.

Owns one method for each request; how they are sent is in `controls_base`. The permission mode of a single MCP server is
in `controls_mcp`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from claude_agent_py import control  # its models load on first use, which keeps the import of the client quick
from claude_agent_py.runtime.controls_base import ControlsBase, given

if TYPE_CHECKING:
    from claude_agent_py.wire.permissions import PermissionMode

ThinkingDisplay: TypeAlias = Literal["summarized", "omitted", "highlights"]
EditableSettings: TypeAlias = Literal["localSettings", "userSettings"]


class SettingsControls(ControlsBase):
    """What can be changed while a session runs."""

    async def set_model(self, model: str | None = None) -> control.SetModelReply:
        """Use another model from the next call of the API on; None for the session's default.

        The CLI takes any name. One that does not exist fails at the next turn (`ModelNotFoundError`). `list_models`
        tells the names; the reply has the model that the name stands for.
        """
        return await self._ask(control.SetModelRequest, control.SetModelReply, model=model)

    async def list_models(self) -> control.ListModelsReply:
        """Give the models that can be chosen, as of now."""
        return await self._ask(control.ListModelsRequest, control.ListModelsReply)

    async def set_permission_mode(self, mode: PermissionMode) -> control.SetPermissionModeReply:
        """Change the permission mode. A `status` message follows. `manual` is another word for `default`.

        Raises:
            ControlRejectedError: There is no such mode; or it is `bypassPermissions` and the session was not started
                with the option that allows it.
        """
        return await self._ask(control.SetPermissionModeRequest, control.SetPermissionModeReply, mode=mode)

    async def set_max_thinking_tokens(
        self,
        max_thinking_tokens: int | None,
        thinking_display: ThinkingDisplay | Literal["unchanged"] | None = "unchanged",
    ) -> None:
        """Change how much the model may think, and what is shown of it.

        Only models that take a budget heed the number; those that decide by themselves how much to think (adaptive
        thinking) do not: use the setting `effortLevel` there (`apply_flag_settings`).

        Args:
            max_thinking_tokens: The budget; 0 switches thinking off; None goes back to the default.
            thinking_display: What the API gives of it; None goes back to the default.
        """
        display: dict[str, Any] = {} if thinking_display == "unchanged" else {"thinking_display": thinking_display}
        await self._tell(control.SetMaxThinkingTokensRequest, max_thinking_tokens=max_thinking_tokens, **display)

    # Settings ----------------------------------------------------------------------------------------------------

    async def get_settings(self) -> control.GetSettingsReply:
        """Give the settings that apply, those of each source, and what became of them."""
        return await self._ask(control.GetSettingsRequest, control.GetSettingsReply)

    async def apply_flag_settings(self, settings: Mapping[str, Any]) -> None:
        """Change settings for this session only; they win over those of files.

        Args:
            settings: By their names in `settings.json`. Each replaces the one of that name as a whole; None takes back
                what was applied before.

        Raises:
            ControlRejectedError: One of them is invalid; none was applied.
        """
        await self._tell(control.ApplyFlagSettingsRequest, settings=dict(settings))

    async def update_settings(self, source: EditableSettings, settings: Mapping[str, Any]) -> None:
        """Write settings into a settings FILE, where they outlive the session.

        The CLI allows `outputStyle` in `localSettings` and `effortLevel` in `userSettings`.

        Raises:
            ControlRejectedError: The CLI does not allow one of the names.
        """
        await self._tell(control.UpdateSettingsRequest, source=source, settings=dict(settings))

    async def list_permission_rules(self) -> control.ListPermissionRulesReply:
        """Give all permission rules that are in force, with where each comes from."""
        return await self._ask(control.ListPermissionRulesRequest, control.ListPermissionRulesReply)

    async def get_hooks_listing(self) -> control.GetHooksListingReply:
        """Give the hooks of the settings and all events that hooks can have. Hooks of the options are not listed."""
        return await self._ask(control.GetHooksListingRequest, control.GetHooksListingReply)

    # What is read from disk --------------------------------------------------------------------------------------

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
