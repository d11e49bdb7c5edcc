"""`client.conversation`: the title, transcript and plan of the conversation, and the queued prompts."""

from __future__ import annotations

from typing import Literal

from claude_agent_py import control  # loads its models on first use, to keep the import of the client fast
from claude_agent_py._connection.controls.base import Controls, omit_unset


class ConversationControls(Controls):
    """The conversation of a running session. The methods raise the same errors as `Client`."""

    async def generate_title(
        self, description: str, *, persist: bool = False, timeout: float | None = None
    ) -> control.GenerateSessionTitleReply:
        """Generate a title with a small model.

        `title` is None if the CLI did not call the model, as with `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC`.

        Args:
            description: The topic of the session, for example the first prompt.
            persist: Use it as the session's title.
            timeout: Seconds to wait; None means `Timeouts.control`.
        """
        return await self._ask(
            control.GenerateSessionTitleRequest,
            control.GenerateSessionTitleReply,
            timeout=timeout,
            description=description,
            persist=persist,
        )

    async def rename(
        self, title: str, *, source: Literal["host", "remote"] | None = None, session_id: str | None = None
    ) -> None:
        """Set the title of the session. A `session_title_changed` message follows.

        Args:
            title: The new title.
            source: Who chose it: `host` for a user of your application, `remote` for claude.ai (the CLI's default).
            session_id: The session to rename: refused if the CLI is at another one by now, after `/clear` for example.

        Raises:
            ControlRejectedError: The CLI is at another session than `session_id`.
        """
        await self._tell(control.RenameSessionRequest, title=title, **omit_unset(source=source, session_id=session_id))

    async def export(self) -> control.ExportConversationReply:
        """Return the conversation as text, as `/export` writes it, and a suggested file name."""
        return await self._ask(control.ExportConversationRequest, control.ExportConversationReply)

    async def cancel_prompt(self, message_uuid: str) -> control.CancelAsyncMessageReply:
        """Remove a prompt from the CLI's queue, by its uuid. `cancelled` is False if it is too late."""
        return await self._ask(
            control.CancelAsyncMessageRequest, control.CancelAsyncMessageReply, message_uuid=message_uuid
        )

    async def plan(self) -> control.GetPlanReply:
        """Return the plan that the agent wrote in plan mode; `exists` is False if it has not written one."""
        return await self._ask(control.GetPlanRequest, control.GetPlanReply)
