"""Who may send what to a served session: every route, with hostile requests."""

import http.client
import json
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import NAMESPACE_URL, uuid4, uuid5

import anyio
import pytest
from bounds import set_bound
from serving import TOKEN, served
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from claude_agent_py import ClientOptions
from claude_agent_py.errors import OptionsError
from claude_agent_py.fleet import Fleet
from claude_agent_py.serve import FleetSessions, Sessions, make_agui_app, make_app
from claude_agent_py.testing import FakeCLI, steps

ROUTES = [
    ("GET", "/api/sessions/{id}/events"),
    ("GET", "/api/sessions/{id}/timeline"),
    ("POST", "/api/sessions/{id}/prompts"),
    ("POST", "/api/sessions/{id}/answers/q"),
    ("POST", "/api/sessions/{id}/stop"),
    ("GET", "/api/sessions/{id}/tasks/t/output"),
    ("POST", "/api/sessions/{id}/tasks/t/stop"),
]


class Caller:
    def __init__(self, url: str) -> None:
        self.host = urlsplit(url).netloc

    def __call__(
        self, method: str, path: str, body: Any = None, *, user: str = "ann", **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection(self.host, timeout=30)
        sent = {"authorization": f"Bearer {TOKEN}", "x-user": user, **headers}
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, {name: value for name, value in sent.items() if value})
            answer = connection.getresponse()
            is_json = answer.headers.get("content-type") == "application/json"
            return answer.status, json.loads(answer.read()) if is_json else answer.read(100), dict(answer.headers)
        finally:
            connection.close()


def find_user(request: Request) -> str | None:
    given = request.headers.get("authorization") == f"Bearer {TOKEN}"
    return request.headers.get("x-user", "") if given else None


@pytest.fixture(scope="module")
def call() -> Iterator[Caller]:
    sessions = Sessions(ClientOptions(cli_path="/nowhere/claude"), owns=lambda user, session_id: False)
    with served(sessions, authenticate=find_user) as url:
        yield Caller(url)


def make(call: Caller, user: str = "ann") -> str:
    status, made, _ = call("POST", "/api/sessions", {}, user=user)
    assert status == 201
    session_id: str = made["id"]
    return session_id


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/sessions"), ("POST", "/api/sessions"), *ROUTES])
def test_every_route_needs_the_user(call: Caller, method: str, path: str) -> None:
    there = path.format(id=make(call))
    for wrong in ("", "Bearer wrong", "Bearer", TOKEN):
        status, told, _ = call(method, there, {} if method == "POST" else None, authorization=wrong)
        assert status == 401, path
        assert told["error"] == "the request is of no known user: log in"


def test_a_wrong_token_is_refused_with_where_to_find_it() -> None:
    with served(Sessions(ClientOptions(cli_path="/nowhere/claude")), token="another") as url:
        status, told, _ = Caller(url)("GET", "/api/sessions")
    assert (status, told["error"]) == (401, "the token is missing or wrong; open the address that the server printed")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_route_reaches_the_session_of_another_user(call: Caller, method: str, path: str) -> None:
    mine = make(call)
    for session_id in (mine, str(uuid4()), "..%2f..%2fetc"):
        status, told, _ = call(method, path.format(id=session_id), {} if method == "POST" else None, user="bob")
        assert status == 404, path
        assert session_id.startswith("..") or "no session" in told["error"]
    assert [each["id"] for each in call("GET", "/api/sessions", user="bob")[1]] == []
    assert mine in [each["id"] for each in call("GET", "/api/sessions")[1]]


def test_other_names_and_other_sites_are_refused(call: Caller) -> None:
    for headers in (
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:80"},
        {"origin": "https://evil.example"},
    ):
        for path in ("/", "/api/sessions"):
            assert call("GET", path, **headers)[0] == 403
    assert call("GET", "/api/sessions", origin=f"http://{call.host}")[0] == 200


def test_bad_requests_get_a_clear_status(call: Caller) -> None:
    session_id = make(call)
    there = f"/api/sessions/{session_id}"
    for body in (b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000):
        status, told, _ = call("POST", f"{there}/prompts", body)
        assert (status, told["error"]) == (400, "the body must be a JSON object")
    assert call("POST", f"{there}/prompts", {"text": 5})[1]["error"] == "`text` must be a text"
    assert call("POST", f"{there}/prompts", b'{"text":"' + b"x" * 1024 * 1024 + b'"}')[0] == 413
    assert call("POST", f"{there}/answers/none", {"decision": "allow"})[0] == 409
    assert call("GET", f"{there}/tasks/none/output")[0] == 404
    assert call("POST", "/api/sessions", {"id": session_id})[0] == 400
    # Such ids are those of threads: nobody can take one first.
    status, told, _ = call("POST", "/api/sessions", {"id": str(uuid5(NAMESPACE_URL, "main"))}, user="bob")
    assert (status, "version 5" in told["error"]) == (400, True)
    assert call("DELETE", there + "/prompts")[0] == 405
    status, told, _ = call("POST", f"{there}/prompts", {"text": "Hello"})
    assert status == 502
    assert "nowhere" in told["error"]


def test_a_user_sends_so_many_prompts_a_minute_and_others_are_not_affected() -> None:
    sessions = Sessions(ClientOptions(cli_path="/nowhere/claude"))
    with served(sessions, authenticate=find_user, prompts_per_minute=2) as url:
        call = Caller(url)
        there = f"/api/sessions/{make(call)}/prompts"
        assert [call("POST", there, {"text": "Hello"})[0] for _ in range(2)] == [502, 502]
        status, told, headers = call("POST", there, {"text": "Hello"})
        assert (status, told["error"]) == (429, "at most 2 prompts a minute")
        assert 0 < int(headers["retry-after"]) <= 60
        assert call("POST", f"/api/sessions/{make(call, 'bob')}/prompts", {"text": "Hello"}, user="bob")[0] == 502
    with pytest.raises(OptionsError, match="prompts_per_minute"):
        make_app(sessions, token="t", prompts_per_minute=0)


def test_nothing_is_cached_or_framed_and_the_page_loads_nothing_from_elsewhere(call: Caller) -> None:
    for path in ("/", "/api/sessions", "/missing"):
        headers = call("GET", path)[2]
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]


def test_a_request_that_never_ends_does_not_keep_the_server() -> None:
    with socket.socket() as never, served(Sessions()) as url:
        never.connect(("127.0.0.1", urlsplit(url).port))
        head = f"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        never.sendall(f"{head}Content-Length: 9\r\nExpect: 100-continue\r\n\r\n".encode())
        assert never.recv(100).startswith(b"HTTP/1.1 100")  # it waits for the body


def test_a_body_that_does_not_come_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_bound(monkeypatch, "BODY_SECONDS", 0.1)
    program = FakeCLI(steps.turn("Hello.")).install(tmp_path)
    with served(Sessions(ClientOptions(cli_path=program)), authenticate=find_user) as url:
        call = Caller(url)
        head = f"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=60) as slow:
            slow.sendall(f"{head}Content-Length: 9\r\n\r\n{{".encode())
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
        # A stream of events waits for no body, and so has no limit.
        with closing(http.client.HTTPConnection(call.host, timeout=60)) as reader:
            set_bound(monkeypatch, "BODY_SECONDS", 60)
            session = f"/api/sessions/{make(call)}"
            set_bound(monkeypatch, "BODY_SECONDS", 0.1)
            reader.request("GET", f"{session}/events", headers={"authorization": f"Bearer {TOKEN}", "x-user": "ann"})
            stream = reader.getresponse()
            set_bound(monkeypatch, "BODY_SECONDS", 60)
            assert call("POST", f"{session}/prompts", {"text": "Hello"})[0] == 202
            while b"opened" not in (line := stream.readline()):
                assert line


@pytest.mark.parametrize("make", [make_app, make_agui_app])
def test_a_client_that_leaves_in_its_body_is_no_error_of_the_server(
    make: Callable[..., ASGIApp], caplog: pytest.LogCaptureFixture
) -> None:
    left = Event()

    def marking(*given: Any, **more: Any) -> ASGIApp:
        app = make(*given, **more)

        async def marked(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await app(scope, receive, send)
            finally:
                if scope["type"] == "http":
                    left.set()

        return marked

    with served(Sessions(ClientOptions(cli_path="/nowhere/claude")), marking) as url:
        log = logging.getLogger("uvicorn.error")
        log.addHandler(caplog.handler)
        place = urlsplit(url)
        head = f"POST {'/api/sessions' if make is make_app else '/'} HTTP/1.1\r\nHost: {place.netloc}\r\n"
        with socket.create_connection((place.hostname, place.port)) as cut:
            cut.sendall(f"{head}Authorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n{{".encode())
        assert left.wait(30)
    log.removeHandler(caplog.handler)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_request_for_the_head_of_a_stream_ends() -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "x-user": "ann"}
    for make_it in (make_app, make_agui_app):
        with served(Sessions(ClientOptions(cli_path="/nowhere/claude")), make_it, authenticate=find_user) as url:
            call = Caller(url)
            path = f"/api/sessions/{make(call)}/events" if make_it is make_app else "/?threadId=t"
            with closing(http.client.HTTPConnection(call.host, timeout=30)) as connection:
                for _ in range(2):  # the second request waits for the end of the first
                    connection.request("HEAD", path, headers=headers)
                    with connection.getresponse() as answer:
                        assert (answer.status, answer.read()) == (200, b"")


def test_an_application_without_a_token_is_refused() -> None:
    with pytest.raises(OptionsError, match="token"):
        make_app(Sessions())


def test_every_id_of_a_fleet_works_in_a_path(tmp_path: Path) -> None:
    fleet = Fleet(f"sqlite:///{tmp_path / 'fleet.db'}")
    fleet.agent("chat")
    with closing(fleet), served(FleetSessions(fleet, "chat"), authenticate=find_user) as url:
        call = Caller(url)
        for session_id in ("pr/17", "a/tasks/b", "50% & ä?#"):
            assert call("POST", "/api/sessions", {"id": session_id})[:2] == (201, {"id": session_id})
            path = f"/api/sessions/{quote(session_id, safe='')}"
            assert call("POST", f"{path}/prompts", {"text": "Hello"})[0] == 202
            assert call("POST", f"{path}/tasks/t/stop", {})[1] == {"error": "the task is not known in this process"}
            assert call("POST", f"{path}/prompts", {"text": "Hello"}, user="bob")[0] == 404
        assert len(call("GET", "/api/sessions")[1]) == 3
        anyio.run(fleet.session(session_id).cancel)
        status, told, _ = call("POST", f"{path}/prompts", {"text": "Hello"})
        assert (status, "was cancelled" in told["error"]) == (409, True)
