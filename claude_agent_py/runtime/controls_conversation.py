"""`client.conversation`: its title, its text, its plan, and prompts that wait in the CLI's queue."""

from __future__ import annotations

from claude_agent_py import control  # its models load on first use, which keeps the import of the client quick
from claude_agent_py.runtime.controls_base import Controls


class ConversationControls(Controls):
    """The conversation of a running session. The methods raise what those of `Client` raise."""

    async def generate_title(
        self, description: str, *, persist: bool = False, timeout: float | None = None
    ) -> control.GenerateSessionTitleReply:
        """Let a small model find a title for what `description` says.

        `title` is None when the CLI did not ask the model, as with `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC`.

        Args:
            description: What the session is about, for example the first prompt.
            persist: Make it the session's title.
            timeout: Seconds to wait; None means `Timeouts.control`.
        """
        return await self._ask(
            control.GenerateSessionTitleRequest,
            control.GenerateSessionTitleReply,
            timeout=timeout,
            description=description,
            persist=persist,
        )

    async def rename(self, title: str) -> None:
        """Give the session a title. A `session_title_changed` message follows."""
        await self._tell(control.RenameSessionRequest, title=title)

    async def set_color(self, color: str) -> None:
        """Give the session a colour. The CLI refuses it (`unsupported_request`) when it runs without a terminal."""
        await self._tell(control.SetColorRequest, color=color)

    async def export(self) -> control.ExportConversationReply:
        """Return the conversation as the text that `/export` writes, and a name for the file."""
        return await self._ask(control.ExportConversationRequest, control.ExportConversationReply)

    async def cancel_prompt(self, message_uuid: str) -> control.CancelAsyncMessageReply:
        """Take a prompt out of the CLI's queue, by the uuid it was sent with; `cancelled` is False when too late."""
        return await self._ask(
            control.CancelAsyncMessageRequest, control.CancelAsyncMessageReply, message_uuid=message_uuid
        )

    async def set_has_subscribers(self, has_subscribers: bool | None) -> None:
        """Say whether anybody looks at the stream; None means unknown.

        Matters only to a CLI that holds events back (`CLAUDE_CODE_STREAM_EVENT_HOLD_MS`).
        """
        await self._tell(control.SetHasSubscribersRequest, has_subscribers=has_subscribers)

    async def plan(self) -> control.GetPlanReply:
        """Return the plan that the agent wrote in plan mode; `exists` is False while there is none."""
        return await self._ask(control.GetPlanRequest, control.GetPlanReply)
