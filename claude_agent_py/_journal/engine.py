"""`Engine`: the protocol without I/O: bytes in, events out; requests, answers and prompts in, bytes out.

The session passes input to `receive_data`, `receive_eof` and `tick` and acts on the events that they return. To send,
it calls `request`, `answer` or `send_prompt` and writes `data_to_send()`. Nothing here waits or calls back, and invalid
input never raises.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

from claude_agent_py._base.bounded_dict import BoundedDict
from claude_agent_py._base.lines import LineBuffer, OversizeLine
from claude_agent_py._base.log import logger
from claude_agent_py._journal.events import (
    Event,
    PendingRequest,
    ReplyReceived,
    RequestTimedOut,
    RequestUnreadable,
    StreamEnded,
)
from claude_agent_py._journal.skimming import LineOutline, Skimmer, read_outlined, skim
from claude_agent_py._journal.state import CAN_SEND, CLI_READS, State, Step, advance
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.codec import decode, encode, encode_answer, encode_json
from claude_agent_py.wire.control.frames import (
    ControlCancelRequest,
    ControlRequest,
    ControlResponse,
    ControlSuccess,
    KeepAlive,
)
from claude_agent_py.wire.messages.conversation import UserMessage
from claude_agent_py.wire.unknown import MalformedFrame

END_SESSION: Final = "end_session"
"""The control request that makes the CLI exit."""

UNSUPPORTED: Final = "unsupported_request"
"""The `error_code` that refuses an unknown request, as the CLI itself does."""

REMEMBERED: Final = 4096
"""How many settled requests of the CLI are remembered, which must not run twice, and how many forgotten requests."""


class Engine:
    """The sans-IO half of a session. Not thread-safe."""

    def __init__(self, *, max_line_bytes: int) -> None:
        self._lines = LineBuffer(max_line_bytes, Skimmer)
        self._numbers = itertools.count(1)
        self._pending: dict[str, PendingRequest] = {}
        self._forgotten: BoundedDict[str, PendingRequest] = BoundedDict(REMEMBERED)
        """The last ones without a reply that nobody waits for any more."""
        self._asked: set[str] = set()
        """The requests of the CLI that have not been answered."""
        self._settled: BoundedDict[str, None] = BoundedDict(REMEMBERED)
        """The last ones that were answered or withdrawn, oldest first."""
        self._state = State.NEW
        self._to_send: list[bytes] = []
        self._was_answered = False
        """Whether a request of the CLI was answered or withdrawn since `take_cli_waited`, perhaps one asked since."""

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

    # Receiving ---------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> list[Event]:
        """Process bytes from the CLI, in chunks of any size, and return their events."""
        return self._receive(self._lines.feed(data))

    def receive_eof(self) -> list[Event]:
        """Process the end of the CLI's output, which may leave an incomplete line."""
        events = self._receive(self._lines.end())
        self.advance(Step.END_OF_STREAM)
        return [*events, StreamEnded()]

    def _receive(self, lines: Iterable[bytes | OversizeLine]) -> list[Event]:
        events: list[Event] = []
        handlers = self._HANDLERS
        for line in lines:
            if isinstance(line, OversizeLine):
                self._on_oversize(line, events)
                continue
            if not line or line.isspace():
                continue
            frame: Any = decode(line)
            handler = handlers.get(type(frame))
            if handler is None:
                events.append(frame)
            else:
                handler(self, frame, events)
        return events

    def _on_malformed(self, frame: MalformedFrame, events: list[Event]) -> None:
        """Report the frame, and react to its readable parts, so that neither side waits forever."""
        if frame.raw is not None:
            self._report(frame, LineOutline(frame.raw, frozenset()), events)
        else:  # invalid JSON, or nested too deeply
            self._report_undecodable(frame, skim(frame.line), events)

    def _on_oversize(self, line: OversizeLine, events: list[Event]) -> None:
        problem = f"the line is {line.length} bytes long, more than limits.max_line_bytes; it was dropped"
        self._report_undecodable(MalformedFrame(line=line.head, error=problem, is_whole=False), line.outline, events)

    def _report_undecodable(self, frame: MalformedFrame, outline: LineOutline, events: list[Event]) -> None:
        """Report a frame, or the result that remains without its large informational fields, such as denied calls."""
        message = read_outlined(frame, outline)
        if isinstance(message, MalformedFrame):
            self._report(message, outline, events)
        else:
            logger.warning("dropped parts of %s of a result: %s", ", ".join(sorted(outline.incomplete)), frame.error)
            events.append(message)

    def _report(self, frame: MalformedFrame, outline: LineOutline, events: list[Event]) -> None:
        """Report a frame. A request of the CLI needs an answer, and a reply fails its request."""
        events.append(frame)
        match outline.value:
            case {"type": "control_request", "request_id": str(request_id), **rest}:
                if self._accept(request_id):
                    body = rest.get("request")
                    fields = body if isinstance(body, dict) else {}
                    events.append(RequestUnreadable(request_id, fields, frame.error))
            case {"type": "control_response", "response": {"request_id": str(request_id)}}:
                self._fail_request(request_id, f"malformed reply: {frame.error}", events)

    def _fail_request(self, request_id: str, problem: str, events: list[Event]) -> None:
        request = self._take_request(request_id)
        if request is not None:
            events.append(ReplyReceived(request, {}, problem))

    def _take_request(self, request_id: str) -> PendingRequest | None:
        """Remove a request whose reply has come, and return it; None for a reply that is repeated or to nobody."""
        return self._pending.pop(request_id, None) or self._forgotten.pop(request_id, None)

    def _on_request(self, frame: ControlRequest, events: list[Event]) -> None:
        if self._accept(frame.request_id):
            events.append(frame)

    def _accept(self, request_id: str) -> bool:
        """Add a request of the CLI. Return whether it is new."""
        if request_id in self._asked or request_id in self._settled:
            return False
        self._asked.add(request_id)
        return True

    def _on_cancel(self, frame: ControlCancelRequest, events: list[Event]) -> None:
        if self._settle_request(frame.request_id):
            events.append(frame)

    def _on_response(self, frame: ControlResponse, events: list[Event]) -> None:
        response = frame.response
        request = self._take_request(response.request_id)
        if request is None:
            return
        if isinstance(response, ControlSuccess):
            events.append(ReplyReceived(request, response.response or {}))
        else:
            events.append(ReplyReceived(request, {}, response.error, response.error_code))
        for pending in (
            *(response.pending_permission_requests or ()),
            *(response.pending_user_dialog_requests or ()),
            *(response.pending_elicitation_requests or ()),
        ):
            self._on_request(pending, events)  # asked before the client connected, and still open

    # Control requests --------------------------------------------------------------------------------------------

    def request(
        self, subtype: str, fields: Mapping[str, object], *, now: float, timeout: float | None, waiter: object = None
    ) -> PendingRequest:
        """Send a control request. Its reply, or the lack of one, is an event with its id and `waiter`, any object.

        Raises:
            LocalProtocolError: Nothing can be sent any more.
            ValueError, TypeError: The fields are not JSON; nothing was sent.
        """
        self.advance(Step.SEND)
        deadline = now + (math.inf if timeout is None else timeout)
        request_id = f"req_{next(self._numbers)}"
        frame = {"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}}
        self._to_send.append(encode_json(frame))
        if subtype == END_SESSION:
            self.advance(Step.ASK_EXIT)  # from now on the CLI may exit at any time
        request = self._pending[request_id] = PendingRequest(request_id, subtype, timeout, deadline, waiter)
        return request

    @property
    def waiters(self) -> list[Any]:
        """The waiters of the requests without a reply, except those that are forgotten."""
        return [request.waiter for request in self._pending.values()]

    def forget_request(self, request_id: str) -> None:
        """Note that nobody waits for the reply of a request any more. It is still an event: the CLI has acted on it."""
        request = self._pending.pop(request_id, None)
        if request is not None:
            self._forgotten.put(request_id, request)

    def answer(self, request_id: str, payload: JSONObject) -> bool:
        """Answer a request of the CLI. Return False if it is no longer pending.

        Raises:
            ValueError, TypeError: The payload is not JSON; the request is still pending.
        """
        return self._respond({"subtype": "success", "request_id": request_id, "response": payload})

    def answer_error(self, request_id: str, error: str, error_code: str | None = None) -> bool:
        """Refuse a request of the CLI. Return False if it is no longer pending."""
        code = {"error_code": error_code} if error_code else {}
        return self._respond({"subtype": "error", "request_id": request_id, "error": error, **code})

    def _respond(self, response: JSONObject) -> bool:
        # First, because a payload that is not JSON must leave the request open: it is then refused.
        line = encode_answer({"type": "control_response", "response": response})
        if not self._settle_request(response["request_id"]) or self._state not in CLI_READS:
            return False
        self._to_send.append(line)
        return True

    def _settle_request(self, request_id: str) -> bool:
        """Settle a request of the CLI. Return whether it was pending."""
        self._was_answered = True
        if request_id not in self._asked:
            return False
        self._asked.discard(request_id)
        self._settled.put(request_id, None)
        return True

    # Prompts -----------------------------------------------------------------------------------------------------

    def send_prompt(self, prompt: UserMessage) -> None:
        """Send a prompt.

        Raises:
            LocalProtocolError: Nothing can be sent any more.
            ValueError, TypeError: The prompt is not JSON; nothing was sent.
        """
        self.advance(Step.SEND)
        self._to_send.append(encode(prompt))

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

    def next_deadline(self) -> float:
        """Return when `tick` next has something to do; infinity if never."""
        if not self._pending:
            return math.inf
        return min(request.deadline for request in self._pending.values())

    def tick(self, now: float) -> list[Event]:
        """Return the requests whose time limit has expired. They are then forgotten."""
        expired = [request for request in self._pending.values() if request.deadline <= now]
        for request in expired:
            self.forget_request(request.request_id)
        return [RequestTimedOut(request) for request in expired]

    def take_cli_waited(self) -> bool:
        """Return whether the CLI has waited for an answer since the last call. Until then, silence does not count."""
        waited, self._was_answered = self._was_answered or bool(self._asked), False
        return waited

    _HANDLERS: ClassVar[Mapping[type, Callable[..., None]]] = {
        ControlRequest: _on_request,
        ControlResponse: _on_response,
        ControlCancelRequest: _on_cancel,
        KeepAlive: lambda self, frame, events: None,
        MalformedFrame: _on_malformed,
    }
    """What to call for the frames that are not messages."""
