"""Control requests that only look: what the CLI has on offer, what was used, how full the context is.

Owns one method for each request, and the four properties that are answered from what the CLI said at the start
(`info`); how requests are sent is in `controls_base`. Settings are in `controls_settings`, files in
`controls_workspace`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from claude_agent_py import control  # its models load on first use, which keeps the import of the client quick
from claude_agent_py.runtime.controls_base import ControlsBase, given

if TYPE_CHECKING:
    from claude_agent_py.wire.catalog import AccountInfo, AgentInfo, ModelInfo, SlashCommand


class FactControls(ControlsBase):
    """What can be asked without changing anything."""

    # Said at the start -------------------------------------------------------------------------------------------

    @property
    def supported_commands(self) -> Sequence[SlashCommand]:
        """The slash commands and skills, as of the start of the session.

        Raises:
            ConnectionClosedError: The client was not connected yet; so the other three.
        """
        return self.info.commands

    @property
    def supported_models(self) -> Sequence[ModelInfo]:
        """The models that can be chosen, as of the start; `list_models` asks again."""
        return self.info.models

    @property
    def supported_agents(self) -> Sequence[AgentInfo]:
        """The agents that the model can start, those of the options included."""
        return self.info.agents

    @property
    def account_info(self) -> AccountInfo | None:
        """The account or key that the API is called with; None where the CLI does not tell."""
        return self.info.account

    # Asked -------------------------------------------------------------------------------------------------------

    async def get_context_usage(
        self, detail: Literal["summary", "full"] | None = None, *, timeout: float | None = None
    ) -> control.ContextUsageReply:
        """Say how full the context window is, and what fills it.

        Args:
            detail: `full` counts every tool, file and skill with the API's token counter (dozens of calls, which cost
                time but no tokens); `summary` estimates. None leaves it to the CLI, which counts.
            timeout: Seconds to wait; None means `Timeouts.control`.
        """
        return await self._ask(
            control.GetContextUsageRequest, control.ContextUsageReply, timeout=timeout, **given(detail=detail)
        )

    async def get_usage(self, *, skip_behaviors: bool = False) -> control.GetUsageReply:
        """Say what the session has cost and where a subscription stands with its limits.

        Args:
            skip_behaviors: Leave out what the tokens of the last day and week went to: it takes a while to find out.
        """
        return await self._ask(control.GetUsageRequest, control.GetUsageReply, **given(skip_behaviors=skip_behaviors))

    async def get_session_cost(self) -> control.GetSessionCostReply:
        """Give what `/cost` shows, as text for people. `get_usage` has the numbers."""
        return await self._ask(control.GetSessionCostRequest, control.GetSessionCostReply)

    async def get_status(self) -> control.GetStatusReply:
        """Give what `/status` shows, as rows for people: version, account, model, servers, settings."""
        return await self._ask(control.GetStatusRequest, control.GetStatusReply)

    async def get_binary_version(self) -> control.GetBinaryVersionReply:
        """Say which version of the CLI this is, and when it was built."""
        return await self._ask(control.GetBinaryVersionRequest, control.GetBinaryVersionReply)

    async def get_plan(self) -> control.GetPlanReply:
        """Give the plan that the agent wrote in plan mode; `exists` is False while there is none."""
        return await self._ask(control.GetPlanRequest, control.GetPlanReply)
