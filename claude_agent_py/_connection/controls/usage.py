"""`client.usage`: the context window and the cost of the session."""

from __future__ import annotations

from typing import Literal

from claude_agent_py import control  # loads its models on first use, to keep the import of the client fast
from claude_agent_py._connection.connection import CurrentConnection
from claude_agent_py._connection.controls.base import Controls, omit_unset


class UsageControls(Controls):
    """The usage of a running session. The methods raise the same errors as `Client`."""

    def __init__(self, port: CurrentConnection) -> None:
        super().__init__(port)
        self._current = port

    async def budget_left_usd(self) -> float | None:
        """Return the remainder of `max_budget_usd` in US dollars, also during a run; None without that option."""
        session = self._current.connection.session
        budget = session.options.max_budget_usd
        if budget is None:
            return None
        spent = (await self.session(skip_behaviors=True)).session.total_cost_usd
        return max(0.0, budget - session.reported.spent_before_usd - spent)

    async def context(
        self, detail: Literal["summary", "full"] | None = None, *, timeout: float | None = None
    ) -> control.ContextUsageReply:
        """Return how full the context window is, by category.

        Args:
            detail: `full` counts every tool, file and skill with the API's token counter (dozens of calls, which cost
                time but no tokens); `summary` estimates. None means the CLI's default, `full`.
            timeout: Seconds to wait; None means `Timeouts.control`.
        """
        return await self._ask(
            control.GetContextUsageRequest, control.ContextUsageReply, timeout=timeout, **omit_unset(detail=detail)
        )

    async def session(self, *, skip_behaviors: bool = False) -> control.GetUsageReply:
        """Return the cost of the session and the state of a subscription's limits.

        Args:
            skip_behaviors: Leave out the breakdown of the last day and week, which takes a while.
        """
        reply = await self._ask(
            control.GetUsageRequest, control.GetUsageReply, **omit_unset(skip_behaviors=skip_behaviors)
        )
        session = self._current.connection.session
        if session.store_sync is not None:
            session.store_sync.note_spent(session.reported.session_id, reply.session)
        return reply

    async def cost(self) -> control.GetSessionCostReply:
        """Return the output of `/cost`, as text for display. `session` has the numbers."""
        return await self._ask(control.GetSessionCostRequest, control.GetSessionCostReply)
