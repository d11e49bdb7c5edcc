"""`SessionControls`: the control requests that `Client` inherits, and the groups (`client.mcp`, ...) of the others.

Left out on purpose, but possible with `Client.control`: requests that a local CLI refuses (`claim_session`,
`start_shell_task`, `list_directory`), and logins and dialogs of other user interfaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeAlias

from claude_agent_py import (  # load on first use, to keep the import of the client fast
    _connection,
    control,
    permissions,
)
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.json_object import JSONObject
from claude_agent_py._connection.controls.base import Controls, omit_unset

if TYPE_CHECKING:
    from claude_agent_py._connection import ConversationControls, FileControls, InterruptReceipt, SettingsControls

ThinkingDisplay: TypeAlias = Literal["summarized", "omitted", "highlights"]


class SessionControls(Controls):
    """Control requests to a running session, between turns or during one.

    Each method sends one control request and returns when the CLI has replied, usually within milliseconds. Fields of
    a reply that its model does not have are in `raw`; fields that do not match the model are left out (`control`
    returns the payload as received).

    All methods may be called concurrently. Cancelling stops the waiting; the request itself is
    not withdrawn. In addition to the errors listed at a method, each raises:

    Raises:
        OptionsError: An argument has the wrong type; nothing was sent.
        ControlRejectedError: The CLI refused the request; `error` is its message. `error_code` is
            `unsupported_request` if this version of the CLI does not know the request.
        ControlTimeoutError: The CLI did not reply within `Timeouts.control`, or the method's `timeout`, in seconds.
        RemoteProtocolError: The reply is invalid; it is in `raw`.
        ConnectionClosedError: The session is not open, or was closed before the reply.
        CLIExitError: The CLI has exited.
    """

    @property
    def settings(self) -> SettingsControls:
        """The settings, plugins, skills and output styles of the session."""
        return _connection.SettingsControls(self._port)

    @property
    def files(self) -> FileControls:
        """Files and directories as the CLI sees them, and restoring files (`rewind`)."""
        return _connection.FileControls(self._port)

    @property
    def conversation(self) -> ConversationControls:
        """The title, transcript and plan of the conversation, and the queued prompts."""
        return _connection.ConversationControls(self._port)

    async def interrupt(self, *, cancel_queued: bool = False) -> InterruptReceipt:
        """Interrupt the running turn, if any. Its result follows and reports the interruption.

        The `outcome` is `too_late` if the CLI reports that nothing was running, which not every version does. Queued
        prompts run next and are listed in `still_queued` (those sent with a uuid), unless `cancel_queued` drops them.
        `Run.interrupt` interrupts a single run.
        """
        reply = await self._ask(
            control.InterruptRequest, control.InterruptReply, **omit_unset(cancel_queued=cancel_queued)
        )
        return _connection.InterruptReceipt(
            outcome="too_late" if reply.turn == "idle" else "interrupted",
            still_queued=tuple(reply.still_queued),
            cancelled=tuple(reply.cancelled or ()),
        )

    async def side_question(
        self, question: str, *, history: Iterable[tuple[str, str]] = (), timeout: float | None = None
    ) -> control.SideQuestionReply:
        """Ask the model a question that does not become part of the conversation. Also works during a turn.

        The model sees the conversation so far and is told not to use tools. This is an API call, with its cost.

        Args:
            question: The text of the question.
            history: Earlier side questions and their answers, which the model does not remember.
            timeout: Seconds to wait for the answer; None means `Timeouts.control`.

        Raises:
            OptionsError: An argument has the wrong type.
        """
        try:
            earlier = [{"question": asked, "response": answer} for asked, answer in history]
        except (TypeError, ValueError):
            raise OptionsError("must be pairs of a question and its answer", option="history") from None
        return await self._ask(
            control.SideQuestionRequest,
            control.SideQuestionReply,
            timeout=timeout,
            question=question,
            **omit_unset(history=earlier or None),
        )

    async def request_exit(self) -> None:
        """Ask the CLI to exit (`end_session`). A running turn is interrupted first.

        When the process exits, `messages()` ends and open runs fail. `close()` is still needed: it waits for the
        process, kills it if necessary, and releases the resources of the session.
        """
        await self._tell(control.EndSessionRequest)

    async def set_model(self, model: str | None = None) -> control.SetModelReply:
        """Switch to another model, from the next API call on; None means the session's default.

        The CLI accepts any name. An unknown name fails at the next turn (`ModelNotFoundError`). `list_models` returns
        the names; the reply has the model that the name resolves to.
        """
        return await self._ask(control.SetModelRequest, control.SetModelReply, model=model)

    async def list_models(self) -> control.ListModelsReply:
        """Return the models that are currently available."""
        return await self._ask(control.ListModelsRequest, control.ListModelsReply)

    async def set_permission_mode(self, mode: permissions.PermissionMode) -> control.SetPermissionModeReply:
        """Change the permission mode. A `status` message follows. `manual` is an alias of `default`.

        Raises:
            ControlRejectedError: The mode is unknown, or it is `bypassPermissions` and the session was started without
                the option that allows it.
        """
        return await self._ask(control.SetPermissionModeRequest, control.SetPermissionModeReply, mode=mode)

    async def set_max_thinking_tokens(
        self,
        max_thinking_tokens: int | None,
        thinking_display: ThinkingDisplay | Literal["unchanged"] | None = "unchanged",
    ) -> None:
        """Change the thinking budget and how thinking is shown.

        Models with adaptive thinking ignore the budget: set `effortLevel` for them (`client.settings.apply`).

        Args:
            max_thinking_tokens: The budget; 0 disables thinking; None restores the default.
            thinking_display: What the API returns of it; None restores the default.
        """
        display: JSONObject = {} if thinking_display == "unchanged" else {"thinking_display": thinking_display}
        await self._tell(control.SetMaxThinkingTokensRequest, max_thinking_tokens=max_thinking_tokens, **display)

    async def version(self) -> control.GetBinaryVersionReply:
        """Return the version and the build time of the CLI."""
        return await self._ask(control.GetBinaryVersionRequest, control.GetBinaryVersionReply)

    async def status(self) -> control.GetStatusReply:
        """Return the output of `/status`, as rows for display: version, account, model, servers, settings."""
        return await self._ask(control.GetStatusRequest, control.GetStatusReply)
