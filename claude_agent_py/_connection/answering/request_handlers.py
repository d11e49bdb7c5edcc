"""`RequestHandlers`: answers the requests of the CLI: hooks, permissions, elicitations, dialogs and MCP messages.

Features load when the options need them or on their first request. Without a handler the safe answer is sent.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

import anyio
from msgspec import Struct

from claude_agent_py._base.callbacks import is_not_the_functions
from claude_agent_py._base.cancellation import Cancellation
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.event_loop import contain_cancellation, run_until_wait
from claude_agent_py._connection import answering
from claude_agent_py._connection.answering.preloading import needs_hooks, needs_permissions, needs_servers
from claude_agent_py._connection.session import ChildLink, Session
from claude_agent_py._journal.engine import UNSUPPORTED
from claude_agent_py._journal.events import RequestUnreadable
from claude_agent_py._journal.requests import PROGRESS, QUESTIONS, HookRun
from claude_agent_py.options import ClientOptions
from claude_agent_py.options.delegation import CUSTOM_TOOLS_SERVER
from claude_agent_py.options.readers import check_server_names
from claude_agent_py.tasks import Task
from claude_agent_py.tasks.handler_context import HandlerContext, extend
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.asks import ElicitationRequest, HookCallbackRequest, MCPMessageRequest
from claude_agent_py.wire.control.frames import (
    ControlCancelRequest,
    ControlFailure,
    ControlRequest,
    ControlResponse,
    ControlSuccess,
    RequestFromCLI,
    UnknownControlRequest,
)

_Room: TypeAlias = "answering.HookDispatcher | answering.PermissionDispatcher | answering.MCPHost"
"""Answers requests (`answer`), and refuses those whose handler failed (`fail`)."""


class _Answering(Struct):
    """The work on the answer to a request."""

    cancellation: Cancellation
    scope: anyio.CancelScope

    def cancel(self) -> None:
        self.cancellation.set()
        self.scope.cancel()


class RequestHandlers:
    """The handlers of one session, and the requests that they are answering.

    Args:
        session: The session.
        link: What links a child agent to its parent; otherwise None.
        earlier: The handlers of the client's last process, whose inbox these go on with.

    Raises:
        OptionsError: A handler, hook or server is wrong.
    """

    def __init__(
        self, session: Session, link: ChildLink | None = None, earlier: "RequestHandlers | None" = None
    ) -> None:
        self._session = session
        self._ask_parent = None if link is None else link.answer
        options = session.options
        self._pending: dict[str, _Answering] = {}
        self._permissions: answering.PermissionDispatcher | None = None
        self._own_inbox: answering.PendingInteractions | None = None if earlier is None else earlier._own_inbox
        """The inbox that the option `interactions=True` makes; None without it, and before it is needed."""
        self._mcp: answering.MCPHost | None = None
        self._is_last = False
        """Whether the client is closed, so that no other process follows."""
        self._questions = 0
        """How many questions this process has asked itself."""
        if needs_hooks(options):  # load them now, and raise their errors early
            _ = self.hooks
        if needs_permissions(options):
            _ = self.permissions
        if needs_servers(options):
            _ = self.mcp

    # Requests ----------------------------------------------------------------------------------------------------

    def take(self, frame: ControlRequest) -> None:
        """Answer a request in a separate worker."""
        pending = self._begin(frame, anyio.CancelScope())
        if pending is not None:
            self._session.workers.start(self._answer, frame, pending.cancellation, scope=pending.scope)

    async def answer_here(
        self, frame: ControlRequest, scope: anyio.CancelScope, start_pump: Callable[[], None]
    ) -> bool:
        """Answer a request in the pump, which has read it, and which is cancelled by `scope`.

        Many handlers finish without waiting. Once one has to wait, another pump is started; return whether one was.
        """
        pending = self._begin(frame, scope)
        if pending is None:
            return False
        return await run_until_wait(self._answer(frame, pending.cancellation), start_pump)

    def _begin(self, frame: ControlRequest, scope: anyio.CancelScope) -> _Answering | None:
        """Note a request, or refuse it if it is not supported."""
        if frame.subtype in self._ROOMS:
            pending = self._pending[frame.request_id] = _Answering(Cancellation(), scope)
            return pending
        problem = f"Unsupported control request subtype: {frame.subtype}"
        self._session.engine.answer_error(frame.request_id, problem, UNSUPPORTED)
        self._session.write()
        return None

    def withdraw(self, frame: ControlCancelRequest) -> None:
        """Cancel the handler of a request that the CLI has cancelled."""
        pending = self._pending.pop(frame.request_id, None)
        if pending is not None:
            pending.cancel()

    async def _answer(self, frame: ControlRequest, cancellation: Cancellation) -> None:
        """Call the handler of a request, and send its answer."""
        request, request_id = frame.request, self._name(frame.request_id)
        reply: ControlSuccess | ControlFailure | None = None
        self._tell(ControlRequest(request_id=request_id, request=request) if self._session.agent_id else frame)
        worker, awaited = anyio.get_current_task().id, self._session.workers.awaited
        if self._find_agent(request) is None and self._session.router.open_runs:
            awaited.add(worker)
        try:
            payload = await contain_cancellation(self._call_room(request_id, request, cancellation))
            if self._session.engine.answer(frame.request_id, payload):
                self._session.changes.note_answer(payload)
            reply = ControlSuccess(request_id=request_id, response=payload)
        except BaseException as error:
            if is_not_the_functions(error):
                raise
            reply = ControlFailure(request_id=request_id, error="")
            reason = f"its answer cannot be sent: {type(error).__name__}"
            self._refuse(frame.request_id, {"subtype": frame.subtype, **request.raw}, reason, error)
        finally:
            awaited.discard(worker)
            self._pending.pop(frame.request_id, None)
            self._session.write()
            self._tell_end(request_id, reply)

    def _name(self, request_id: str) -> str:
        """Return the id of a request of the CLI for handlers and facts. That of a child agent names the agent, too."""
        agent_id = self._session.agent_id
        return f"{agent_id}/{request_id}" if agent_id else request_id

    async def ask(self, request: "answering.WireRequest", context: HandlerContext) -> JSONObject:
        """Return the reply to a question that this process asks in a call of its tool. The CLI learns nothing of it."""
        self._questions += 1
        request_id, agent_id = f"{context.request_id}/{self._questions}", context.agent_id or ""
        reply: ControlSuccess | None = None
        agent = "" if agent_id == self._session.agent_id else agent_id
        self._tell(ControlRequest(request_id=request_id, request=request), agent=agent)
        try:
            payload = await self._call_room(request_id, request, context.cancellation, context)
            reply = ControlSuccess(request_id=request_id, response=payload)
            return payload
        finally:
            self._tell_end(request_id, reply)

    def _tell(self, happening: Any, *, sent: bool = False, agent: str = "") -> None:
        """Tell this session and its ancestors what happens to a request. Tasks and facts follow from it.

        `agent` asks, by default the child agent that this session is for its ancestors.
        """
        own = self._session
        is_hook = type(happening) is ControlRequest and type(happening.request) is HookCallbackRequest
        for session in own.lineage:
            asking = agent or ("" if session is own else own.agent_id)
            # Hooks are about the tasks of their own CLI.
            session.tell(happening, sent=sent, agent=asking, is_about_tasks=session is own or not is_hook)

    def _tell_end(self, request_id: str, reply: ControlSuccess | ControlFailure | None) -> None:
        """Tell the sessions the reply to a request; None if it was withdrawn."""
        if reply is None:
            self._tell(ControlCancelRequest(request_id=request_id))
        else:
            self._tell(ControlResponse(response=reply), sent=True)

    def _on_hook_run(self, run: HookRun) -> None:
        self._tell(run)
        if self._session.options.include_hook_events:  # the CLI reports only the command hooks of settings files
            self._session.readers.put(run)

    def answer_unreadable(self, event: RequestUnreadable) -> None:
        """Answer a request that cannot be decoded as if its handler had failed."""
        self._refuse(event.request_id, event.request, f"its request cannot be read: {event.problem}")

    def _refuse(
        self, request_id: str, fields: Mapping[str, object], reason: str, cause: BaseException | None = None
    ) -> None:
        """Answer a request as if its handler had failed, so that what it guards is refused."""
        find_room = self._ROOMS.get(fields.get("subtype"))
        payload = None if find_room is None else find_room(self).fail(fields, reason, cause)
        if payload is None:
            self._session.engine.answer_error(request_id, reason)
        else:
            self._session.engine.answer(request_id, payload)

    async def _ask_for_server(self, request: "answering.ServerRequest", context: HandlerContext) -> JSONObject:
        """Ask a person or a model for a server in this process."""
        if not isinstance(request, ElicitationRequest):
            return await answering.sample(self._session.options.on_sampling, request, context, self._session.report)
        return await self.ask(request, context)

    _ROOMS: ClassVar[Mapping[object, Callable[["RequestHandlers"], _Room]]] = {
        HookCallbackRequest.subtype: lambda self: self.hooks,
        MCPMessageRequest.subtype: lambda self: self.mcp,
        **dict.fromkeys((kind.subtype for kind in QUESTIONS), lambda self: self.permissions),
    }
    """What answers requests, by their subtype. Others are refused."""

    async def _call_room(
        self,
        request_id: str,
        request: RequestFromCLI | UnknownControlRequest,
        cancellation: Cancellation,
        asking: HandlerContext | None = None,
    ) -> JSONObject:
        """Return what the handler of a request answers."""
        room: Any = self._ROOMS[request.subtype](self)
        payload: JSONObject = await room.answer(request, self._make_context(request_id, request, cancellation, asking))
        return payload

    def _find_agent(self, request: object) -> object:
        """Return the id of the subagent that a request of the CLI names; None for the main agent."""
        if isinstance(request, HookCallbackRequest):
            return request.input.get("agent_id")
        if isinstance(request, MCPMessageRequest):
            call = self._session.intake.ledger.calls.get(request.tool_use_id)
            return None if call is None else call.agent_id
        return getattr(request, "agent_id", None)

    def _make_context(
        self, request_id: str, request: object, cancellation: Cancellation, asking: HandlerContext | None
    ) -> HandlerContext:
        """Return the context of a request; `asking` is that of the tool which asks, if it is not the CLI."""
        agent_id = self._find_agent(request) if asking is None else asking.agent_id
        if not isinstance(agent_id, str):
            agent_id = self._session.agent_id or None
        context = HandlerContext(
            request_id=request_id,
            agent_id=agent_id,
            task=self._find_task(agent_id) if agent_id else None,
            session_id=self._session.reported.session_id,
            cancellation=cancellation,
        )
        if not isinstance(request, QUESTIONS):
            return context
        return extend(
            context,
            answering.PermissionContext,
            tool_use_id=getattr(asking or request, "tool_use_id", None),
            cwd=self._session.cwd,
            _request=request,
            _tell=self._tell,
            _announce=self._session.readers.announce_interaction,
        )

    def _find_task(self, agent_id: str) -> Task | None:
        """Return the task of an agent, as the root of its tree tracks it, otherwise as this session does."""
        found = (session.tasks.get(agent_id) for session in reversed(self._session.lineage))
        return next((task for task in found if task is not None), None)

    @property
    def hooks(self) -> "answering.HookDispatcher":
        """Answers hook callbacks."""
        session = self._session
        if session.hooks is not None:
            return session.hooks
        delegation = answering.DelegationHooks(session.options, session.reported.find_agents)
        session.hooks = answering.HookDispatcher(
            session.options.hooks,
            report=session.report,
            on_run=self._on_hook_run,
            builtin=[*delegation.matchers(), *answering.output_hooks(session.options)],
            final_filter=delegation.last_word,
        )
        return session.hooks

    @property
    def permissions(self) -> "answering.PermissionDispatcher":
        """Answers permission prompts, questions, elicitations and dialogs with the handlers of this session."""
        if self._permissions is not None:
            return self._permissions
        options, inbox = self._session.options, self._session.options.interactions
        if inbox is True:
            inbox = self._own_inbox = self._own_inbox or answering.PendingInteractions()
        self._permissions = answering.PermissionDispatcher(
            {name: getattr(options, name) for name in answering.HANDLERS.values()},
            report=self._session.report,
            interactions=None if inbox is False else inbox,
            ask_parent=self._ask_parent,
        )
        return self._permissions

    @property
    def mcp(self) -> "answering.MCPHost":
        """Answers for the MCP servers in this process."""
        if self._mcp is not None:
            return self._mcp

        def send(server_name: str, message: JSONObject) -> None:
            self._session.post("mcp_message", server_name=server_name, message=message)
            if message.get("method") == PROGRESS:
                request = MCPMessageRequest(server_name=server_name, message=message)
                self._tell(ControlRequest(request_id="", request=request), sent=True)

        self._mcp = answering.MCPHost(
            collect_hosted_servers(self._session.options),
            send,
            report=self._session.report,
            find_cwd=lambda: self._session.cwd,
            start=self._session.workers.start,
            ask=self._ask_for_server,
            samples=self._session.options.on_sampling is not None,
        )
        return self._mcp

    # Lifecycle --------------------------------------------------------------------------------------------------------

    def initialize_fields(self) -> JSONObject:
        """Return the fields of `initialize` that come from hooks and from the servers in this process."""
        fields: JSONObject = {}
        if self._session.hooks:
            fields["hooks"] = self._session.hooks.initialize_field()
        if self._mcp is not None:
            fields |= self._mcp.initialize_fields()
        return fields

    def prepare(self) -> None:
        """Build the models of hooks, which the first hook would otherwise wait for."""
        if self._session.hooks is not None:
            self._session.hooks.prepare()

    def end(self) -> None:
        """Cancel the handlers and tools, because the CLI reads no more answers."""
        for request_id, pending in self._pending.items():
            pending.cancel()
            self._tell_end(self._name(request_id), None)  # the handler ends later than the journal
        if self._mcp is not None:
            self._mcp.close()
        if self._own_inbox is not None:
            if self._session.is_lost and not self._is_last:
                self._own_inbox.end_arrivals()  # the next process goes on with it, and until then child agents ask
            else:
                self._own_inbox.close()

    def close_inbox(self) -> None:
        """Close the inbox that they made, now or when the process ends, because its client is closed."""
        self._is_last = True
        session = self._session
        if self._own_inbox is not None and (session.launched is None or session.stream_over.is_set()):
            self._own_inbox.close()


def collect_hosted_servers(options: ClientOptions) -> dict[str, Any]:
    """Return the servers in this process by name, including the one for `custom_tools`.

    Raises:
        OptionsError: A server has the name that `custom_tools` need, or one that begins with it.
    """
    hosted = options.hosted_mcp_servers
    given = options.mcp_servers if isinstance(options.mcp_servers, Mapping) else ()
    if options.custom_tools:
        try:
            check_server_names([CUSTOM_TOOLS_SERVER, *given])
        except ValueError as error:
            problem = f"the name {CUSTOM_TOOLS_SERVER!r} is taken by custom_tools; choose another one: {error}"
            raise OptionsError(problem, option="mcp_servers") from None
        hosted[CUSTOM_TOOLS_SERVER] = answering.ToolServer(CUSTOM_TOOLS_SERVER, tools=list(options.custom_tools))
    return hosted
