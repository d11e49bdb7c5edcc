"""The HTTP server of the scripted model.

Headers and first event are sent in one write with TCP_NODELAY, because small separate writes cost 40 ms per call: all
output is buffered until `flush`.
"""

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias, cast

from claude_agent_py.testing import messages_api
from claude_agent_py.testing.script import POLL, Answer, CutStream, Failure, Gate, Reply
from claude_agent_py.wire import JSONObject

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
LAST_CHUNK = b"0\r\n\r\n"

READ_PAUSE = 0.4
"""Seconds for which the peer can read before a reset, unless the script has a gate for it."""

LAST_SECONDS = 2.0
"""How long the end waits for answers that are being made."""


GetAnswer: TypeAlias = Callable[[JSONObject, Mapping[str, str]], Answer]
"""Returns the answer to the body and the headers of a `POST /v1/messages`. Called in the thread of the connection."""


class MessagesServer(ThreadingHTTPServer):
    """Serves the Messages API on a free port of 127.0.0.1. `start()` and `stop()` block only briefly.

    Args:
        get_answer: Decides the answers.
        new_id: Returns a fresh id with a prefix.
    """

    request_queue_size = 128

    def __init__(self, get_answer: GetAnswer, new_id: messages_api.NewID) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.get_answer = get_answer
        self.new_id = new_id
        self.stopping: threading.Event = threading.Event()
        self._connections: dict[socket.socket, threading.Thread] = {}
        """The connections and the threads that serve them. Only used by the accepting thread, and after its end."""
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), name="scripted model", daemon=True)

    @property
    def url(self) -> str:
        """The base URL, for `ANTHROPIC_BASE_URL`."""
        return f"http://127.0.0.1:{self.server_port}"

    def start(self) -> None:
        """Start accepting connections."""
        self._thread.start()

    def stop(self) -> None:
        """Close all connections and wait for their threads. Pending answers are abandoned.

        The thread of a function, or of a real model that is recorded, is left if it takes longer than `LAST_SECONDS`.
        """
        self.stopping.set()
        self.shutdown()
        self._thread.join()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + LAST_SECONDS
        for worker in self._connections.values():
            worker.join(max(0.0, deadline - time.monotonic()))
        self.server_close()

    def process_request(self, request: Any, client_address: object) -> None:
        """Serve a connection in a daemon thread, for which `stop` waits."""
        self._connections = {known: worker for known, worker in self._connections.items() if worker.is_alive()}
        worker = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="scripted model connection",
            daemon=True,
        )
        worker.start()
        self._connections[request] = worker

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore dropped connections: the CLI drops one at every interrupt."""


class _Handler(BaseHTTPRequestHandler):
    """Handles a connection of the CLI, which may send several requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = None
    wbufsize = -1

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Do not log: `ScriptedModel.requests` has the requests."""

    @property
    def _owner(self) -> MessagesServer:
        return cast("MessagesServer", self.server)

    # Routes

    def do_HEAD(self) -> None:
        self._send_whole(HTTPStatus.OK, None)

    def do_GET(self) -> None:
        self._send_failure(Failure(404, f"the scripted model does not serve {self.path.partition('?')[0]}"))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        if path not in ("/v1/messages", "/v1/messages/count_tokens"):
            self.do_GET()
            return
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self._send_failure(Failure(400, "the body is not a JSON object"))
        elif path == "/v1/messages":
            self._handle_messages(body)
        else:
            # An estimate: a token has about four characters.
            tokens = max(1, round(len(str(body.get("messages", ""))) / 4))
            self._send_whole(HTTPStatus.OK, {"input_tokens": tokens})

    def _handle_messages(self, body: JSONObject) -> None:
        model = str(body.get("model", ""))
        answer = self._owner.get_answer(body, {name.lower(): value for name, value in self.headers.items()})
        timing = answer.reply if isinstance(answer, CutStream) else answer
        self._hold_back(timing.after, timing.delay)
        if isinstance(answer, Failure):
            self._send_failure(answer)
        elif body.get("stream"):
            self._stream(answer, model)
        elif isinstance(answer, CutStream):
            self._reset(answer.when)
        else:
            self._send_whole(HTTPStatus.OK, messages_api.message(answer, model, self._owner.new_id))

    # Answers

    def _send_failure(self, failure: Failure) -> None:
        body = messages_api.error_event(failure.error_type, failure.message)
        body["request_id"] = self._owner.new_id("req_")
        retry = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
        self._send_whole(failure.status, body, {**retry, **failure.headers})

    def _send_whole(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        payload = b"" if body is None else json.dumps(body).encode()
        self._send_head(status, JSON, {"content-length": str(len(payload)), **(headers or {})})
        self.wfile.write(payload)

    def _stream(self, answer: Reply | CutStream, model: str) -> None:
        reply = answer.reply if isinstance(answer, CutStream) else answer
        self._send_head(HTTPStatus.OK, EVENT_STREAM, {"transfer-encoding": "chunked", **reply.headers})
        chars = blocks = 0
        for step in messages_api.stream(reply, model, self._owner.new_id):
            if step.chars and reply.chunk_delay:
                self._hold_back(None, reply.chunk_delay)
            self._send_chunk(step)
            is_block_end = step.event["type"] == "content_block_stop"
            chars += step.chars
            blocks += is_block_end
            if isinstance(answer, CutStream) and _breaks_after(answer, blocks, chars):
                self._break_stream(answer)
                return
            if step.chars or is_block_end:
                self.wfile.flush()
        self.wfile.write(LAST_CHUNK)

    def _break_stream(self, cut: CutStream) -> None:
        if cut.error is None:
            self._reset(cut.when)
            return
        self._hold_back(cut.when, 0.0)
        event = messages_api.StreamStep(messages_api.error_event(cut.error, "scripted failure in the stream"))
        self._send_chunk(event)
        self.wfile.write(LAST_CHUNK)

    def _reset(self, when: Gate | None) -> None:
        # A reset discards unread data, so let the peer read it first.
        self._hold_back(when, READ_PAUSE if when is None else 0.0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Closes the socket at the end of the handler; otherwise the server would shut it down first.
        self.connection.close()
        self.close_connection = True

    # Bytes

    def _send_head(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        fields = {"content-type": content_type, "request-id": self._owner.new_id("req_"), **headers}
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_chunk(self, step: messages_api.StreamStep) -> None:
        data = step.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    # Waiting

    def _hold_back(self, gate: Gate | None, delay: float) -> None:
        """Send the buffered output, and wait for the gate and then `delay` seconds.

        Raises ConnectionAbortedError, which ends the connection, if the peer abandons the request first.
        """
        self.wfile.flush()
        is_open = gate is None or gate.hold(self._is_abandoned)
        end = time.monotonic() + delay
        while is_open and (left := end - time.monotonic()) > 0:
            is_open = not self._is_abandoned()
            time.sleep(min(left, POLL))
        if not is_open:
            raise ConnectionAbortedError

    def _is_abandoned(self) -> bool:
        return self._owner.stopping.is_set() or _is_closed(self.connection)


def _breaks_after(cut: CutStream, blocks: int, chars: int) -> bool:
    """Return whether a stream breaks once this many blocks and characters were sent."""
    if cut.after_chars is not None:
        return chars >= cut.after_chars
    return blocks >= (cut.after_blocks or 0)


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the peer has closed its end. Only for the thread that serves the connection."""
    # Not select(), which is limited to the first 1024 descriptors.
    connection.setblocking(False)
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.setblocking(True)
