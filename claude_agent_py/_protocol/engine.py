"""`Engine`: the protocol without I/O.

The driver (`_runtime/session/session.py`) passes input to `receive_data`, `receive_eof` and `tick` and acts on the
events that they return. To send, it calls `request`, `answer`, `send_prompt`, ... and writes what `data_to_send`
returns. Nothing here waits, and invalid input never raises.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from claude_agent_py._protocol.events import (
    Event,
    MessageReceived,
    ReplyReceived,
    RequestCancelled,
    RequestReceived,
    RequestTimedOut,
    StrayReply,
    StreamEnded,
)
from claude_agent_py._protocol.fragments import readable_strings
from claude_agent_py._protocol.lines import LineBuffer, OversizeLine
from claude_agent_py._protocol.open_runs import RunId, RunLimits, Until
from claude_agent_py._protocol.ports import TaskSink
from claude_agent_py._protocol.requests import IncomingRequests, OutgoingRequests, PendingRequest
from claude_agent_py._protocol.state import CAN_SEND, CLI_READS, State, Step, advance
from claude_agent_py._protocol.turns import TurnRouter
from claude_agent_py.wire.codec import decode, encode, encode_answer, encode_json
from claude_agent_py.wire.control.frames import (
    ControlCancelRequest,
    ControlFailure,
    ControlRequest,
    ControlResponse,
    ControlSuccess,
    KeepAlive,
)
from claude_agent_py.wire.messages.conversation import UserMessage
from claude_agent_py.wire.unknown import MalformedFrame

UNSUPPORTED: Final = "unsupported_request"
"""The `error_code` of an answer to a request that this side does not know; what the CLI itself uses."""


class Engine:
    """The sans-IO half of a session. Not safe to use from several threads at once."""

    def __init__(self, tasks: TaskSink, *, max_line_bytes: int) -> None:
        self._tasks = tasks
        self._lines = LineBuffer(max_line_bytes)
        self._outgoing = OutgoingRequests()
        self._incoming = IncomingRequests()
        self._turns = TurnRouter(tasks)
        self._state = State.NEW
        self._to_send: list[bytes] = []
        self._sent: set[str] = set()
        """The uuids of all prompts so far."""
        self._settled_since_tick = False
        """Whether a request of the CLI was settled since the last tick."""

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._state

    @property
    def can_send(self) -> bool:
        """Whether prompts and requests can be sent."""
        return self._state in CAN_SEND

    def advance(self, step: Step) -> None:
        """Move to the next state.

        Raises:
            LocalProtocolError: The step is not allowed in the current state.
        """
        self._state = advance(self._state, step)

    @property
    def turns(self) -> TurnRouter:
        """The router, to look at; change it only through the engine."""
        return self._turns

    # Receiving ---------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> list[Event]:
        """Process bytes from the CLI, in chunks of any size, and return their events."""
        events: list[Event] = []
        self._receive(self._lines.feed(data), events, now)
        return events

    def receive_eof(self, now: float) -> list[Event]:
        """Process the end of the CLI's output: report an incomplete line, then end every run."""
        events: list[Event] = []
        rest = self._lines.end()
        if rest is not None:
            self._receive([rest], events, now)
        self.advance(Step.END_OF_STREAM)
        events += self._turns.close()
        events.append(StreamEnded())
        return events

    def _receive(self, lines: Iterable[bytes | OversizeLine], events: list[Event], now: float) -> None:
        handlers = self._HANDLERS
        for line in lines:
            if isinstance(line, OversizeLine):
                self._on_oversize(line, events, now)
                continue
            if not line or line.isspace():
                continue
            frame = decode(line)
            handler = handlers.get(type(frame))
            if handler is None:
                self._on_message(frame, line, events, now)
            else:
                handler(self, frame, events, now)

    def _on_message(self, message: Any, line: bytes, events: list[Event], now: float) -> None:
        self._tasks.track(message, line)  # first, so that the router sees which tasks are live now
        runs, ended = self._turns.route(message, now)
        events.append(MessageReceived(message, runs, line))
        if ended:
            events += ended

    def _on_malformed(self, frame: MalformedFrame, events: list[Event], now: float) -> None:
        """Report the frame. A question is refused; a reply fails its request, a result its run."""
        self._on_message(frame, frame.line, events, now)
        match frame.raw:
            case {"type": "control_request", "request_id": str(request_id)}:
                self._refuse(request_id, f"malformed request: {frame.error}")
            case {"type": "control_response", "response": {"request_id": str(request_id)}}:
                self._fail_request(request_id, f"malformed reply: {frame.error}", events)
            case {"type": "result"}:
                events += self._turns.spoil(frame, now)
            case None:  # invalid JSON, or nested too deeply
                self._on_undecodable(frame, frame.error, events, now)

    def _on_oversize(self, line: OversizeLine, events: list[Event], now: float) -> None:
        """Report a line that was dropped. A question is refused; a reply fails its request, a result its run."""
        problem = f"the line is {line.length} bytes long, more than limits.max_line_bytes; it was dropped"
        frame = MalformedFrame(line=line.head, error=problem)
        self._on_message(frame, b"", events, now)
        self._on_undecodable(frame, problem, events, now)

    def _on_undecodable(self, frame: MalformedFrame, problem: str, events: list[Event], now: float) -> None:
        """Answer a line by what can be read of it, so that neither side waits forever."""
        match readable_strings(frame.line):
            case {"type": "control_request", "request_id": request_id}:
                self._refuse(request_id, problem)
            case {"type": "control_response", "response.request_id": request_id}:
                self._fail_request(request_id, problem, events)
            case {"type": "result"}:
                events += self._turns.spoil(frame, now)

    def _refuse(self, request_id: str, problem: str) -> None:
        if self._incoming.accept(request_id):
            self.answer_error(request_id, problem)

    def _fail_request(self, request_id: str, problem: str, events: list[Event]) -> None:
        request = self._outgoing.resolve(request_id)
        if isinstance(request, PendingRequest):
            events.append(ReplyReceived(request_id, request.subtype, {}, problem))

    def _on_request(self, frame: ControlRequest, events: list[Event], now: float) -> None:
        if self._incoming.accept(frame.request_id):
            events.append(RequestReceived(frame.request_id, frame.request))

    def _on_cancel(self, frame: ControlCancelRequest, events: list[Event], now: float) -> None:
        if self._settle_request(frame.request_id):
            events.append(RequestCancelled(frame.request_id))

    def _on_response(self, frame: ControlResponse, events: list[Event], now: float) -> None:
        response = frame.response
        request = self._outgoing.resolve(response.request_id)
        if not isinstance(request, PendingRequest):
            events.append(StrayReply(response.request_id, request))
            return
        events.append(_reply(request, response))
        for pending in (
            *(response.pending_permission_requests or ()),
            *(response.pending_user_dialog_requests or ()),
            *(response.pending_elicitation_requests or ()),
        ):
            self._on_request(pending, events, now)  # asked before this side was there, and still open

    def inject(self, message: Any, now: float) -> list[Event]:
        """Take a message that this side made up (about a child agent) as if the CLI had sent it."""
        events: list[Event] = []
        self._on_message(message, encode(message).removesuffix(b"\n"), events, now)
        return events

    # Control requests --------------------------------------------------------------------------------------------

    def request(self, subtype: str, fields: Mapping[str, Any], *, now: float, timeout: float | None) -> PendingRequest:
        """Send a control request; its reply, or the lack of one, comes as an event with the id given here.

        Raises:
            LocalProtocolError: Nothing can be sent any more.
            ValueError, TypeError: The fields are not JSON; nothing was sent.
        """
        self.advance(Step.SEND)
        request = self._outgoing.open(subtype, now=now, timeout=timeout)
        frame = {"type": "control_request", "request_id": request.request_id, "request": {"subtype": subtype, **fields}}
        try:
            self._to_send.append(encode_json(frame))
        except (ValueError, TypeError):
            self._outgoing.forget(request.request_id)
            raise
        return request

    def forget_request(self, request_id: str) -> None:
        """Drop a request. Its reply will count as late."""
        self._outgoing.forget(request_id)

    def answer(self, request_id: str, payload: dict[str, Any]) -> bool:
        """Answer a request of the CLI. Return False if it is no longer pending.

        Raises:
            ValueError, TypeError: The payload is not JSON; the request is still pending.
        """
        return self._respond({"subtype": "success", "request_id": request_id, "response": payload})

    def answer_error(self, request_id: str, error: str, error_code: str | None = None) -> bool:
        """Refuse a request of the CLI. Return False if it is no longer pending."""
        code = {"error_code": error_code} if error_code else {}
        return self._respond({"subtype": "error", "request_id": request_id, "error": error, **code})

    def _respond(self, response: dict[str, Any]) -> bool:
        line = encode_answer({"type": "control_response", "response": response})
        if not self._settle_request(response["request_id"]) or self._state not in CLI_READS:
            return False
        self._to_send.append(line)
        return True

    def _settle_request(self, request_id: str) -> bool:
        self._settled_since_tick = True
        return self._incoming.settle(request_id)

    # Runs --------------------------------------------------------------------------------------------------------

    def open_run(self, run_id: RunId, until: Until, limits: RunLimits, now: float) -> None:
        """Begin a run; `send_prompt` and `seal_run` follow."""
        self.advance(Step.SEND)
        self._turns.open_run(run_id, until, limits, now)

    def expect_resumed_turn(self, run_id: RunId) -> None:
        """Have an open run adopt the prompts of the turn that an earlier process left; `TurnResumed` tells them."""
        self._turns.expect_resumed_turn(run_id)

    def expect_no_resumed_turn(self) -> Sequence[Event]:
        """Note that the CLI has no turn of an earlier process to take up."""
        return self._turns.expect_no_resumed_turn()

    def expect_prompt(self, run_id: RunId, prompt_uuid: str, now: float) -> None:
        """Add a prompt to a run that an earlier process of the session was sent."""
        self._sent.add(prompt_uuid)
        self._turns.add_prompt(run_id, prompt_uuid, now)

    def send_again(self, prompt: UserMessage) -> None:
        """Send a prompt that was expected (`expect_prompt`), and that the session does not know after all."""
        self.advance(Step.SEND)
        self._to_send.append(encode(prompt))

    def send_prompt(self, run_id: RunId, prompt: UserMessage, now: float) -> bool:
        """Send a prompt of a run. Return False, and send nothing, if the run is already over.

        Raises:
            LocalProtocolError: Nothing can be sent any more.
            ValueError, TypeError: The prompt is not JSON; nothing was sent.
        """
        self.advance(Step.SEND)
        line = encode(prompt)
        if not prompt.uuid or not self._turns.add_prompt(run_id, prompt.uuid, now):
            return False
        self._sent.add(prompt.uuid)
        self._to_send.append(line)
        return True

    def has_sent(self, prompt_uuid: str) -> bool:
        """Return whether a prompt with this uuid was sent before."""
        return prompt_uuid in self._sent

    def seal_run(self, run_id: RunId, now: float) -> Sequence[Event]:
        """Say that the run has all its prompts."""
        return self._turns.seal_run(run_id, now)

    def drop_run(self, run_id: RunId) -> tuple[str, ...]:
        """Drop a run and return its unanswered prompts."""
        return self._turns.drop_run(run_id)

    def settle(self, now: float) -> Sequence[Event]:
        """Look for runs that are over because tasks ended without a message."""
        return self._turns.settle(now)

    # Sending -----------------------------------------------------------------------------------------------------

    @property
    def has_data_to_send(self) -> bool:
        """Whether `data_to_send` has something to give."""
        return bool(self._to_send)

    def data_to_send(self) -> bytes:
        """Return the data to write now, in whole lines; `b""` if there is none."""
        data, self._to_send = self._to_send, []
        return b"".join(data)

    # Time --------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `tick` next has something to do, or None."""
        request, run = self._outgoing.next_deadline(), self._turns.next_deadline()
        return run if request is None else request if run is None else min(request, run)

    def tick(self, now: float) -> list[Event]:
        """Return the events caused by the passing of time."""
        if self._settled_since_tick or len(self._incoming):
            self._settled_since_tick = False
            self._turns.restart_silence(now)  # the CLI is, or was, waiting for an answer of this side
        events: list[Event] = [
            RequestTimedOut(r.request_id, r.subtype, r.timeout or 0.0) for r in self._outgoing.expire(now)
        ]
        events += self._turns.tick(now)
        return events

    _HANDLERS: ClassVar[Mapping[type, Callable[[Any, Any, list[Event], float], None]]] = {
        ControlRequest: _on_request,
        ControlResponse: _on_response,
        ControlCancelRequest: _on_cancel,
        KeepAlive: lambda self, frame, events, now: None,
        MalformedFrame: _on_malformed,
    }
    """What to call for the frames that are not messages."""


def _reply(request: PendingRequest, response: ControlSuccess | ControlFailure) -> ReplyReceived:
    if isinstance(response, ControlSuccess):
        return ReplyReceived(request.request_id, request.subtype, response.response or {})
    return ReplyReceived(request.request_id, request.subtype, {}, response.error, response.error_code)
