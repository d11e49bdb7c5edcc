"""The page and its HTTP interface, as an ASGI application.

Every route but the page itself needs a token, or a user whom `authenticate` finds, and works on that user's sessions
only. There are no cookies, so other sites cannot send requests in the user's name; nothing is cached, and the page may
load nothing from elsewhere.
"""

import hmac
import json
import math
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict
from socket import socket
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread
import uvicorn
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from claude_agent_py._base.checks import check_count
from claude_agent_py._base.json_object import JSONObject
from claude_agent_py.errors import (
    ClaudeAgentError,
    ConnectionClosedError,
    FleetError,
    OptionsError,
    PoolTimeoutError,
    SessionBusyError,
    SessionNotFoundError,
    TooManySessionsError,
)
from claude_agent_py.serve.page import POLICY, read_page
from claude_agent_py.serve.recent_use import RecentUse
from claude_agent_py.serve.session import ServedSession
from claude_agent_py.serve.sessions import AnySessions, is_derived

Authenticate: TypeAlias = Callable[[Request], str | Awaitable[str | None] | None]
"""Returns the name of the user who makes a request; None refuses it."""

MAX_BODY_BYTES: Final = 1024 * 1024
BODY_SECONDS: Final = 60.0
"""How long a request may take to send its body."""
GRACE_SECONDS: Final = 5
MINUTE: Final = 60.0
UNKNOWN_TASK: Final = "the task is not known in this process"
LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
"""The host names of this machine."""
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", POLICY.encode()),
)


def make_app(
    sessions: AnySessions,
    *,
    token: str | None = None,
    authenticate: Authenticate | None = None,
    hosts: Sequence[str] = LOOPBACK,
    prompts_per_minute: int | None = None,
) -> ASGIApp:
    """Return an application that serves the page and these sessions, to mount or to run with uvicorn.

    Args:
        sessions: The sessions. They are closed when the application ends; a mounted one does not notice that.
        token: What a request must have in the header `Authorization: Bearer ...`. The page takes it from the fragment
            of its address: `http://localhost:8000/#token`.
        authenticate: Finds the user of a request, instead of a token.
        hosts: The names by which the server may be called, without port; `*` allows any. Others are refused, so that no
            other site reaches a server on loopback by a name of its own.
        prompts_per_minute: How many prompts a user may send in a minute to this application. Further ones get status
            429, with the seconds to wait as `Retry-After`. None means no limit.

    Raises:
        OptionsError: There is neither a token nor `authenticate`, or the limit is not positive.
    """
    api = _API(sessions, choose(token, authenticate), PromptLimit(prompts_per_minute))
    routes = [
        Route("/", _show_page),
        Route("/api/sessions", api.list_all, methods=["GET"]),
        Route("/api/sessions", api.create, methods=["POST"]),
        Route("/api/sessions/{session:path}/events", api.follow, methods=["GET"]),
        Route("/api/sessions/{session:path}/timeline", api.show_timeline, methods=["GET"]),
        Route("/api/sessions/{session:path}/prompts", api.send, methods=["POST"]),
        Route("/api/sessions/{session:path}/answers/{question}", api.answer, methods=["POST"]),
        Route("/api/sessions/{session:path}/tasks/{task}/output", api.read_output, methods=["GET"]),
        Route("/api/sessions/{session:path}/tasks/{task}/stop", api.stop_task, methods=["POST"]),
        Route("/api/sessions/{session:path}/stop", api.stop, methods=["POST"]),
    ]
    return AccessGuard(make_routed(sessions, routes), hosts)


def choose(token: str | None, authenticate: Authenticate | None) -> Authenticate:
    """Return what finds the user of a request.

    Raises:
        OptionsError: There is neither a token nor `authenticate`.
    """
    if authenticate is not None:
        return authenticate
    if not token:
        raise OptionsError("is needed, unless `authenticate` finds the user", option="token")
    return _check_token(token)


def make_routed(sessions: AnySessions, routes: Sequence[Route]) -> Starlette:
    """Return an application with these routes, which closes the sessions when it ends."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await sessions.close()

    def refuse(request: Request, error: Any) -> Response:
        return JSONResponse({"error": error.reason}, error.status, error.headers)

    handlers = {**EXCEPTION_HANDLERS, Refused: refuse}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


class Server(uvicorn.Server):
    """A uvicorn server for such an application. It closes the sessions when it begins to shut down.

    Otherwise uvicorn would wait for the pages to leave, which stay as long as the server does. For requests that do not
    end it waits five seconds, unless the configuration has another `timeout_graceful_shutdown`.
    """

    def __init__(self, config: uvicorn.Config, sessions: AnySessions) -> None:
        """Create a server for a configuration with the application of these sessions."""
        super().__init__(config)
        self._sessions = sessions
        if config.timeout_graceful_shutdown is None:
            config.timeout_graceful_shutdown = GRACE_SECONDS

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Close the sessions, then the connections. uvicorn calls it."""
        await self._sessions.close()
        await super().shutdown(sockets)


def make_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(24)


class Refused(Exception):
    """A request is refused with an HTTP status."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers


class PromptLimit:
    """At most so many prompts of each user in any minute.

    Args:
        most: How many; None for any number.

    Raises:
        OptionsError: It is not positive.
    """

    def __init__(self, most: int | None) -> None:
        if most is not None:
            check_count(most, "prompts_per_minute", 1)
        self._most = most
        self._sent = RecentUse(MINUTE)

    def take(self, user: str) -> None:
        """Count a prompt, or refuse it."""
        if self._most is None:
            return
        wait = self._sent.add(user, self._most, time.monotonic())
        if wait > 0:
            raise Refused(429, f"at most {self._most} prompts a minute", {"retry-after": str(math.ceil(wait))})


class AccessGuard:
    """Checks each request before any route sees it, and adds the headers of all responses."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str], origins: Sequence[str] = ()) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, unless something about it is wrong."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        problem = self._find_problem(headers)
        if problem is not None:
            await JSONResponse({"error": problem}, 403)(scope, receive, send)
            return
        left, deadline = MAX_BODY_BYTES, anyio.current_time() + BODY_SECONDS

        async def receive_some() -> Message:
            nonlocal left, deadline
            try:
                with anyio.fail_after(deadline - anyio.current_time()):
                    message = await receive()
            except TimeoutError:
                raise Refused(408, f"the body did not come within {BODY_SECONDS:g} seconds") from None
            if not message.get("more_body"):
                deadline = math.inf  # the next message is that the client has left
            left -= len(message.get("body", b""))
            if left < 0:
                raise Refused(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
            return message

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in _HEADERS}
                message["headers"] = [*(pair for pair in message["headers"] if pair[0] not in names), *_HEADERS]
            await send(message)

        await self._app(scope, receive_some, send_guarded)

    def _find_problem(self, headers: dict[bytes, str]) -> str | None:
        host = headers.get(b"host", "")
        if "*" not in self._hosts and _without_port(host) not in self._hosts:
            return f"the server is not called {host!r}"
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._origins and origin.partition("://")[2] != host:
            return f"requests from {origin!r} are refused"
        return None


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _check_token(token: str) -> Authenticate:
    expected = f"Bearer {token}".encode()

    def check(request: Request) -> str:
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), expected):
            raise Refused(401, "the token is missing or wrong; open the address that the server printed")
        return ""

    return check


def _refuse(status: int) -> Callable[[Request, Exception], Response]:
    return lambda request, error: JSONResponse({"error": str(error)}, status)


def _refuse_fleet(request: Request, error: Exception) -> Response:
    is_away = isinstance(error, FleetError) and error.is_retryable
    return JSONResponse({"error": str(error)}, 503 if is_away else 409)


EXCEPTION_HANDLERS: Final[Mapping[type[Exception], Callable[[Request, Exception], Response]]] = {
    ClientDisconnect: _refuse(400),  # nobody reads it, but uvicorn would log a traceback
    SessionNotFoundError: _refuse(404),
    SessionBusyError: _refuse(409),
    TooManySessionsError: _refuse(503),
    PoolTimeoutError: _refuse(503),
    ConnectionClosedError: _refuse(503),
    OptionsError: _refuse(400),
    FleetError: _refuse_fleet,
    ClaudeAgentError: _refuse(502),
}
"""What errors of sessions are to clients, for an application of your own: `FastAPI(exception_handlers=...)`."""


async def find_user(authenticate: Authenticate, request: Request) -> str:
    """Return the user of a request, or refuse it."""
    found = authenticate(request)
    user = found if isinstance(found, str) or found is None else await found
    if user is None:
        raise Refused(401, "the request is of no known user: log in")
    return user


def write_event(data: bytes, name: str) -> bytes:
    """Return a server-sent event with JSON, which has no line breaks, and an id if it has one."""
    return b"id: %s\ndata: %s\n\n" % (name.encode(), data) if name else b"data: %s\n\n" % data


async def _show_page(request: Request) -> Response:
    return HTMLResponse(read_page())


class _API:
    """The routes."""

    def __init__(self, sessions: AnySessions, authenticate: Authenticate, limit: PromptLimit) -> None:
        self._sessions = sessions
        self._authenticate = authenticate
        self._limit = limit

    async def _find(self, request: Request) -> tuple[ServedSession, str]:
        user = await find_user(self._authenticate, request)
        return await self._sessions.get(request.path_params["session"], user=user), user

    async def list_all(self, request: Request) -> Response:
        user = await find_user(self._authenticate, request)
        return JSONResponse([asdict(each) for each in await self._sessions.list(user=user)])

    async def create(self, request: Request) -> Response:
        user = await find_user(self._authenticate, request)
        body = await _read_body(request)
        session_id = _get_text(body, "id") or None
        if session_id is not None and is_derived(session_id):
            raise Refused(400, "`id` must not be a uuid of version 5: those are made of the names of AG-UI threads")
        session = await self._sessions.create(user=user, session_id=session_id)
        return JSONResponse({"id": session.id}, 201)

    async def follow(self, request: Request) -> Response:
        session, _ = await self._find(request)
        after = request.headers.get("last-event-id") or request.query_params.get("after")

        async def events() -> AsyncIterator[bytes]:
            async with aclosing(session.follow(after)) as told:
                async for name, event in told:
                    yield write_event(event.data, name)

        return EventSourceResponse(events(), ping=15)

    async def show_timeline(self, request: Request) -> Response:
        session, _ = await self._find(request)
        timeline = await session.read_timeline()
        return HTMLResponse(await anyio.to_thread.run_sync(timeline.to_html))

    async def send(self, request: Request) -> Response:
        session, user = await self._find(request)
        body = await _read_body(request)
        self._limit.take(user)
        prompt_id = await session.send(_get_text(body, "text"), prompt_id=_get_text(body, "id") or None)
        return JSONResponse({"id": prompt_id}, 202)

    async def answer(self, request: Request) -> Response:
        session, user = await self._find(request)
        body = await _read_body(request)
        try:
            is_first = await session.answer(request.path_params["question"], body, by=user)
        except ValueError as error:
            raise Refused(400, str(error)) from None
        if not is_first:
            raise Refused(409, "the question is no longer open")
        return JSONResponse({})

    async def stop(self, request: Request) -> Response:
        session, _ = await self._find(request)
        await session.stop()
        return JSONResponse({})

    async def stop_task(self, request: Request) -> Response:
        session, _ = await self._find(request)
        if not await session.stop_task(request.path_params["task"]):
            raise Refused(404, UNKNOWN_TASK)
        return JSONResponse({})

    async def read_output(self, request: Request) -> Response:
        session, _ = await self._find(request)
        text = await session.read_output(request.path_params["task"])
        if text is None:
            raise Refused(404, UNKNOWN_TASK)
        return JSONResponse({"text": text})


async def _read_body(request: Request) -> JSONObject:
    try:
        body = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Refused(400, "the body must be a JSON object")
    return body


def _get_text(body: JSONObject, name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise Refused(400, f"`{name}` must be a text")
    return value
