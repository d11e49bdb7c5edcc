"""`client.usage`: how full the context is, and what the session has cost."""

from __future__ import annotations

from typing import Literal

from claude_agent_py import control  # its models load on first use, which keeps the import of the client quick
from claude_agent_py.runtime.controls_base import Controls, given


class UsageControls(Controls):
    """What a running session has used. The methods raise what those of `Client` raise."""

    async def context(
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

    async def session(self, *, skip_behaviors: bool = False) -> control.GetUsageReply:
        """Say what the session has cost and where a subscription stands with its limits.

        Args:
            skip_behaviors: Leave out what the tokens of the last day and week went to: it takes a while to find out.
        """
        return await self._ask(control.GetUsageRequest, control.GetUsageReply, **given(skip_behaviors=skip_behaviors))

    async def cost(self) -> control.GetSessionCostReply:
        """Return what `/cost` shows, as text for people. `get_usage` has the numbers."""
        return await self._ask(control.GetSessionCostRequest, control.GetSessionCostReply)
