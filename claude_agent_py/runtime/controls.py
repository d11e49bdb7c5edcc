"""`SessionControls`: the control requests that `Client` inherits, and the groups of the rarer ones.

The groups are `client.mcp`, `client.settings`, `client.files`, `client.conversation` and `client.usage`, a
`controls_*` module each. Whoever inherits provides `control` (a `ControlPort`).

Not here, on purpose: `initialize`, which the session sends once; requests that a CLI on this machine refuses
(`claim_session`, `start_shell_task`, `list_directory`); logins and dialogs of other user interfaces. `control` sends
them all the same. Requests about tasks are in `client.tasks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from claude_agent_py import control  # its models load on first use, which keeps the import of the client quick
from claude_agent_py.runtime.controls_base import ask, given, tell
from claude_agent_py.runtime.controls_conversation import ConversationControls
from claude_agent_py.runtime.controls_files import FileControls
from claude_agent_py.runtime.controls_mcp import MCPControls
from claude_agent_py.runtime.controls_settings import SettingsControls
from claude_agent_py.runtime.controls_usage import UsageControls

if TYPE_CHECKING:
    from claude_agent_py.protocol.ports import ControlPort
    from claude_agent_py.runtime.run import InterruptReceipt
    from claude_agent_py.tools.host import MCPHost
    from claude_agent_py.wire.permissions import PermissionMode

ThinkingDisplay: TypeAlias = Literal["summarized", "omitted", "highlights"]


class SessionControls:
    """Everything that can be asked of a running session, idle or in the middle of a turn.

    Each method sends one control request and returns when the CLI has answered it, which it does within milliseconds
    unless the request says otherwise. What a reply holds beyond its model is in its `raw`; what does not fit
    the model is left out of it (`control` gives a reply as it came).

    All methods may be called from any number of workers at once. Cancelling one stops the waiting; what was asked is
    not taken back. Besides what is said at a method, each raises:

    Raises:
        OptionsError: An argument is of a wrong type; nothing was sent.
        ControlRejectedError: The CLI refuses; `error` is what it says. `error_code` is `unsupported_request` where
            this version of the CLI does not know the request.
        ControlTimeoutError: It did not answer within `Timeouts.control`, or the method's `timeout`, in seconds.
        RemoteProtocolError: The reply makes no sense; `raw` has it.
        ConnectionClosedError: The session is not open, or was closed before the reply.
        CLIExitError: The CLI has ended.
    """

    @property
    def _port(self) -> ControlPort:
        """What sends the requests. The groups keep it, so it must not be the client, which would keep itself alive."""
        raise NotImplementedError

    @property
    def _mcp_host(self) -> MCPHost | None:
        """What answers for the MCP servers in this process; None where there can be none."""
        return None

    @cached_property
    def mcp(self) -> MCPControls:
        """The MCP servers of the session, and waiting until they are up."""
        return MCPControls(self._port, self._mcp_host)

    @cached_property
    def settings(self) -> SettingsControls:
        """The settings that apply, and what the CLI reads from disk: plugins, skills, output styles."""
        return SettingsControls(self._port)

    @cached_property
    def files(self) -> FileControls:
        """Files and folders, as the CLI sees them; also putting files back (`rewind`)."""
        return FileControls(self._port)

    @cached_property
    def conversation(self) -> ConversationControls:
        """The title, the text and the plan of the conversation, and prompts that wait in the CLI's queue."""
        return ConversationControls(self._port)

    @cached_property
    def usage(self) -> UsageControls:
        """How full the context is, and what the session has cost."""
        return UsageControls(self._port)

    async def interrupt(self, *, cancel_queued: bool = False) -> InterruptReceipt:
        """Stop the running turn; its result follows and says that it was stopped. Nothing happens when none runs.

        The `outcome` is `too_late` where the CLI says that nothing ran, which not every version does.

        Prompts that wait in the CLI's queue run next and are named in `still_queued` (those sent with a uuid), unless
        `cancel_queued` drops them. `Run.interrupt` stops one run and leaves the others alone.
        """
        from claude_agent_py.runtime.run import InterruptReceipt

        reply = await ask(
            self._port, control.InterruptRequest, control.InterruptReply, **given(cancel_queued=cancel_queued)
        )
        return InterruptReceipt(
            outcome="too_late" if reply.turn == "idle" else "interrupted",
            still_queued=tuple(reply.still_queued),
            cancelled=tuple(reply.cancelled or ()),
        )

    async def side_question(
        self, question: str, *, history: Iterable[tuple[str, str]] = (), timeout: float | None = None
    ) -> control.SideQuestionReply:
        """Ask the model something that does not become part of the conversation, also while a turn runs.

        The model knows the conversation so far and is told to use no tools. It is a call of the API, with its cost.

        Args:
            question: The text.
            history: Side questions before this one, each with its answer; the model does not remember them.
            timeout: Seconds to wait for the answer; None means `Timeouts.control`.
        """
        earlier = [{"question": asked, "response": answer} for asked, answer in history]
        return await ask(
            self._port,
            control.SideQuestionRequest,
            control.SideQuestionReply,
            timeout=timeout,
            question=question,
            **given(history=earlier or None),
        )

    async def request_exit(self) -> None:
        """Ask the CLI to end by itself (`end_session`); a running turn is interrupted first.

        The end of the process follows: `messages()` ends, and open runs fail. This is not `close()`, which is still
        needed: it also waits for the process, ends it by force where that is needed, and frees what belongs to it on
        this side.
        """
        await tell(self._port, control.EndSessionRequest)

    async def set_model(self, model: str | None = None) -> control.SetModelReply:
        """Use another model from the next call of the API on; None for the session's default.

        The CLI takes any name. One that does not exist fails at the next turn (`ModelNotFoundError`). `list_models`
        tells the names; the reply has the model that the name stands for.
        """
        return await ask(self._port, control.SetModelRequest, control.SetModelReply, model=model)

    async def list_models(self) -> control.ListModelsReply:
        """Return the models that can be chosen, as of now."""
        return await ask(self._port, control.ListModelsRequest, control.ListModelsReply)

    async def set_permission_mode(self, mode: PermissionMode) -> control.SetPermissionModeReply:
        """Change the permission mode. A `status` message follows. `manual` is another word for `default`.

        Raises:
            ControlRejectedError: There is no such mode; or it is `bypassPermissions` and the session was not started
                with the option that allows it.
        """
        return await ask(self._port, control.SetPermissionModeRequest, control.SetPermissionModeReply, mode=mode)

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
        await tell(self._port, control.SetMaxThinkingTokensRequest, max_thinking_tokens=max_thinking_tokens, **display)

    async def version(self) -> control.GetBinaryVersionReply:
        """Say which version of the CLI this is, and when it was built."""
        return await ask(self._port, control.GetBinaryVersionRequest, control.GetBinaryVersionReply)

    async def status(self) -> control.GetStatusReply:
        """Return what `/status` shows, as rows for people: version, account, model, servers, settings."""
        return await ask(self._port, control.GetStatusRequest, control.GetStatusReply)
