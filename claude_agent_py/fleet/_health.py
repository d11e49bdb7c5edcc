"""The HTTP server of a worker: `/healthz`, `/readyz` and `/metrics`, for probes and Prometheus.

It answers nothing else, reads no body, and closes each connection after one answer or five seconds. It has few
connections open at a time, and none of its failures ends the worker.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Final, NamedTuple, TypeAlias, cast

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketListener, TaskGroup

from claude_agent_py._base.errors import FleetError, OptionsError
from claude_agent_py._base.log import logger
from claude_agent_py._base.streams import RepeatingEvent
from claude_agent_py.fleet.metrics import CONTENT_TYPE, FleetMetrics

REQUEST_SECONDS: Final = 5.0
"""Seconds that a client may take for its request, and again for the answer."""
ANSWER_SECONDS: Final = 4.0
"""Seconds that the database may take."""
MAX_REQUEST: Final = 8192
"""The maximum length of a request, in bytes."""
MAX_CONNECTIONS: Final = 16
"""How many connections are open at the same time. For another one, the oldest without a request is closed."""
PAUSE: Final = 0.2
"""Seconds until another connection is accepted after that has failed."""
PLAIN: Final = "text/plain; charset=utf-8"
LOOPBACK: Final = "127.0.0.1"

CheckReady: TypeAlias = Callable[[], Awaitable[str]]
"""Returns why the worker takes no sessions, or an empty text if it does."""
Address: TypeAlias = tuple[str, int]


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    body: str
    content_type: str = PLAIN


def parse_address(text: str | int | Address) -> Address:
    """Return the host and the port of `8080`, `127.0.0.1:8080` or `[::1]:8080`. Without a host, it is loopback.

    Raises:
        OptionsError: The text is no address.
    """
    if isinstance(text, tuple):
        return text
    host, _, port = str(text).rpartition(":")
    if host.startswith("[") != host.endswith("]") or (":" in host and not host.startswith("[")):
        raise OptionsError(f"must be [HOST:]PORT, with an IPv6 address in brackets, not {text!r}", option="health")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise OptionsError(f"must be [HOST:]PORT, not {text!r}", option="health")
    return host.strip("[]") or LOOPBACK, int(port)


class HealthServer:
    """Answers probes and scrapes."""

    def __init__(self, is_ready: CheckReady, load_metrics: Callable[[], Awaitable[FleetMetrics]]) -> None:
        self._is_ready = is_ready
        self._load_metrics = load_metrics
        self._open = 0
        """The number of open connections."""
        self._reading: dict[anyio.CancelScope, None] = {}
        """The connections without a request, oldest first."""
        self._has_room = RepeatingEvent()

    @contextlib.asynccontextmanager
    async def serve(self, address: Address) -> AsyncIterator[Address]:
        """Serve on an address, and yield it with the port that was chosen if it was 0.

        Raises:
            FleetError: The address is in use, or does not belong to this machine.
        """
        host, port = address
        try:
            listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
        except OSError as error:
            raise FleetError(f"the worker cannot serve its health on {host}, port {port}: {error}") from error
        async with listener, anyio.create_task_group() as group:
            for each in listener.listeners:
                group.start_soon(self._accept, cast("SocketListener", each), group)
            yield host, listener.extra(SocketAttribute.local_port)  # noqa: S610 - no Django
            group.cancel_scope.cancel()

    async def _accept(self, listener: SocketListener, group: TaskGroup) -> None:
        """Accept connections until cancelled."""
        was_told = False
        while True:
            while self._open >= MAX_CONNECTIONS:
                self._close_oldest()
                await self._has_room.wait()
            try:
                stream = await listener.accept()
            except Exception as error:  # such as too many open files
                if not was_told:
                    logger.warning("a worker of the fleet cannot accept connections for its health: %s", error)
                was_told = True
                self._close_oldest()
                await anyio.sleep(PAUSE)
            else:
                was_told = False
                self._open += 1
                scope = anyio.CancelScope()
                self._reading[scope] = None
                group.start_soon(self._handle, stream, scope)

    def _close_oldest(self) -> None:
        if self._reading:
            next(iter(self._reading)).cancel()

    async def _handle(self, stream: ByteStream, reading: anyio.CancelScope) -> None:
        """Answer one request, and close the connection. Cancelling the scope closes it without a request."""
        try:
            async with stream:
                head: bytes | Answer = b""
                try:
                    with reading:
                        head = await _read_head(stream)
                finally:
                    self._reading.pop(reading)
                if head:
                    answer = head if isinstance(head, Answer) else await self._answer(head)
                    with anyio.move_on_after(REQUEST_SECONDS):
                        await stream.send(_build_answer(answer, has_body=head[:5] != b"HEAD "))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            pass
        except Exception:
            logger.exception("a worker of the fleet cannot serve a connection for its health")
        finally:
            self._open -= 1
            self._has_room.set()

    async def _answer(self, head: bytes) -> Answer:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return Answer(400, "this is no HTTP/1 request\n")
        if words[0] not in (b"GET", b"HEAD"):
            return Answer(405, "only GET and HEAD are answered\n")
        path = words[1].split(b"?", 1)[0]
        if path == b"/healthz":
            return Answer(200, "ok\n")
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                if path == b"/readyz":
                    problem = await self._is_ready()
                    return Answer(503, f"{problem}\n") if problem else Answer(200, "ready\n")
                if path == b"/metrics":
                    return Answer(200, (await self._load_metrics()).to_prometheus(), CONTENT_TYPE)
        except (FleetError, TimeoutError):
            # The error may name the machine and the user of the database.
            return Answer(503, "the database of the fleet does not answer\n")
        except Exception:
            logger.exception("a worker of the fleet cannot answer a request for %s", path.decode(errors="replace"))
            return Answer(503, "the worker failed to answer; its log says why\n")
        return Answer(404, "there are /healthz, /readyz and /metrics\n")


async def _read_head(stream: ByteStream) -> bytes | Answer:
    """Read the head of a request. Returns an answer if it is too long or does not come."""
    head = b""
    with anyio.move_on_after(REQUEST_SECONDS):
        while b"\r\n\r\n" not in head:
            if len(head) > MAX_REQUEST:
                return Answer(431, f"the request is longer than {MAX_REQUEST} bytes\n")
            head += await stream.receive(4096)
        return head
    return Answer(408, f"no request came within {REQUEST_SECONDS:g} s\n")


def _build_answer(answer: Answer, *, has_body: bool) -> bytes:
    body = answer.body.encode()
    lines = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    )
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return head + body if has_body else head
