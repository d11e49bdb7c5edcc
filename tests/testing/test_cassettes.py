"""Cassettes with the real CLI: a scripted model stands in for the real one while they are recorded."""

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anyio
import pytest
from installed_cli import CLI_VARIABLE, find_cli

from claude_agent_py import Client, OptionsError, RunError
from claude_agent_py.testing import Cassette, CassetteMismatch, Failure, Gate, Reply, ScriptedModel, thinking, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

KEY = "sk-ant-this-is-the-real-key-0123456789"
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def real_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("DATABASE_PASSWORD", PASSWORD)


def post(cassette: Cassette, *messages: Any, headers: Mapping[str, str] | None = None, **fields: Any) -> int:
    """Send a request as the CLI does, and return the status of the answer."""
    env = cassette.options().env
    body = {"model": "m", "messages": messages or [{"role": "user", "content": "hi"}], **fields}
    url = f"{env['ANTHROPIC_BASE_URL']}/v1/messages"
    login = {"authorization": f"Bearer {env.get('CLAUDE_CODE_OAUTH_TOKEN')}"}
    try:
        with urlopen(Request(url, json.dumps(body).encode(), {**login, **(headers or {})}), timeout=60) as answer:
            answer.read()
            return int(answer.status)
    except HTTPError as refused:
        with refused:
            return refused.code


async def ask(cassette: Cassette, *prompts: str, until: Any = "result") -> list[str]:
    async with Client(cassette.options()) as client:
        return [(await client.query(prompt, until=until, timeout=120)).text for prompt in prompts]


async def test_a_session_is_recorded_once_and_replayed_elsewhere_without_secrets(tmp_path: Path) -> None:
    """With the calls of its tools, and a failure of the API."""
    path = tmp_path / "cassettes" / "tools.json"
    seen_keys = []

    def real(request: Any) -> Any:
        seen_keys.append(request.headers.get("x-api-key"))
        found = request.tool_result("toolu_pwd")
        cwd = found["content"].splitlines()[0] if found else ""
        if request.last_user_text == "Twice":
            return "Double."
        if request.last_user_text == "Curse":
            return Failure(400, "these words are bad")
        if not cwd:
            return tool_use("Bash", {"command": "pwd; touch seen; date"}, id="toolu_pwd")
        if len(request.messages) < 6:
            return tool_use("Write", {"file_path": f"{cwd}/note.txt", "content": f"{PASSWORD} {KEY}"})
        return f"It is in {cwd}."

    async def talk(cassette: Cassette) -> list[str]:
        async with Client(cassette.options()) as client:
            with anyio.fail_after(120):
                answers = [(await client.query(prompt)).text for prompt in ("Where\nis it?", "Twice")]
                with pytest.raises(RunError, match="these words are bad"):
                    await client.query("Curse")
        return answers

    with ScriptedModel(real) as upstream:
        async with Cassette(path, mode="once", upstream=upstream.url) as recording:
            assert recording.is_recording
            cwd = Path(recording.options().cwd or "")
            first = await talk(recording)
            assert (cwd / "seen").exists()
            assert (cwd / "note.txt").read_text() == f"{PASSWORD} {KEY}"
    assert first == [f"It is in {cwd}.", "Double."]
    assert set(seen_keys) == {KEY}

    stored = path.read_text()
    for secret in (KEY, PASSWORD, str(cwd), "sk-ant", str(Path.home()) + "/"):
        assert secret not in stored

    async with Cassette(path) as replay:  # no upstream any more
        there = Path(replay.options().cwd or "")
        assert await talk(replay) == [f"It is in {there}.", "Double."]
        assert (there / "note.txt").read_text() == "<DATABASE_PASSWORD> <ANTHROPIC_API_KEY>"
    assert there != cwd
    replay.check()

    async with Cassette(path) as other:
        with pytest.raises(RunError, match="the main agent sent a request that is not in"):
            await ask(other, "Where\nwas it?")
    with pytest.raises(CassetteMismatch) as caught:
        other.check()
    assert " user: Where\n-is it?\n+was it?\n" in str(caught.value)


@pytest.mark.long
async def test_secrets_of_the_options_are_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "cassette.json"
    key = (
        "-----BEGIN PRIVATE KEY-----\nthe first line of the key\nthe second line of the key\n-----END PRIVATE KEY-----"
    )
    env = {"GH_PAT": "of-a-person", "DATABASE_URL": "postgres://app:of-a-database@db/app", "SIGNING_KEY": key}
    command = 'echo $GH_PAT $DATABASE_URL; echo postgres; echo "$SIGNING_KEY" | cat -n'
    prompts = ["Show them", "And the password: of-a-database"]

    def real(request: Any) -> Any:
        return "Shown." if request.tool_results else tool_use("Bash", {"command": command})

    async def talk(cassette: Cassette, env: Any) -> list[str]:
        async with Client(cassette.options(env=env)) as client:
            return [(await client.query(prompt, timeout=120)).text for prompt in prompts]

    with ScriptedModel(real) as upstream:
        async with Cassette(path, mode="once", upstream=upstream.url) as recording:
            assert await talk(recording, env) == ["Shown.", "Shown."]
    stored = path.read_text()
    assert [text for text in ("of-a-", "line of the key") if text in stored] == []
    assert "postgres\\n" in stored
    async with Cassette(path) as replay:
        assert await talk(replay, {**env, "GH_PAT": "of-another-person"}) == ["Shown.", "Shown."]


TOKEN = "sk-ant-oat01-of-a-subscription-0123456789"


@pytest.mark.parametrize(
    "where", [pytest.param(each, marks=pytest.mark.long) for each in ("login", "ANTHROPIC_AUTH_TOKEN")]
)
async def test_a_subscription_is_recorded_without_its_token(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = TOKEN if where != "ANTHROPIC_AUTH_TOKEN" else "opaque/token:of-a-gateway"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    if where == "login":
        ends = (time.time() + 3600) * 1000
        login = {"accessToken": token, "refreshToken": "sk-ant-ort01-renews", "expiresAt": ends}
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / ".credentials.json").write_text(json.dumps({"claudeAiOauth": login}))
    else:
        monkeypatch.setenv(where, token)
    path = tmp_path / "recorded.json"

    def real(request: Any) -> Any:
        if not request.tool_results:
            return tool_use("Bash", {"command": "env | grep -E 'OAUTH|AUTH_TOKEN'; true"})
        assert token not in str(request.messages)  # the CLI and its tools do not have it
        return f"The token is {token}."

    with ScriptedModel(real) as upstream:
        async with Cassette(path, mode="once", upstream=upstream.url) as recording:
            assert await ask(recording, "Say it") == [f"The token is {token}."]
        [asked, *_] = upstream.requests_of("main")
    assert asked.headers["authorization"] == f"Bearer {token}"
    assert "x-api-key" not in asked.headers
    assert ("oauth-" in asked.headers["anthropic-beta"]) is (where != "ANTHROPIC_AUTH_TOKEN")
    assert not [secret for secret in (token, "sk-ant", "ort01") if secret in path.read_text()]
    if where == "login":  # the other is recorded alike
        (tmp_path / "config" / ".credentials.json").unlink()
        async with Cassette(path) as replay:
            assert await ask(replay, "Say it") != []
        replay.check()


def test_a_token_of_the_environment_is_used_like_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", TOKEN)
    path = tmp_path / "recorded.json"
    with ScriptedModel([f"It is {TOKEN}."]) as upstream:
        with Cassette(path, mode="once", upstream=upstream.url) as recording:
            assert TOKEN not in str(recording.options().env)
            assert post(recording) == 200
        [asked] = upstream.requests
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"
    assert "sk-ant" not in path.read_text()


def test_a_login_that_has_expired_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    login = {"accessToken": TOKEN, "expiresAt": 1_700_000_000_000}
    (tmp_path / ".credentials.json").write_text(json.dumps({"claudeAiOauth": login}))
    with pytest.raises(OptionsError, match="has expired: run `claude` once") as caught:
        Cassette(tmp_path / "x.json", mode="all")
    assert TOKEN not in str(caught.value)


@pytest.mark.long
async def test_parallel_subagents_are_replayed_in_the_recorded_order(tmp_path: Path) -> None:
    path = tmp_path / "agents.json"

    def launch(name: str) -> Any:
        return tool_use("Agent", {"description": name, "prompt": f"Do {name}", "subagent_type": "general-purpose"})

    gate = Gate()

    def main(request: Any) -> Any:
        if request.contains("b is done"):
            gate.open()
        ended = request.contains("b is done"), request.contains("a is done")
        return {
            (False, False): "Started." if request.tool_results else Reply([launch("a"), launch("b")]),
            (True, False): "Half.",
        }.get(ended, "Both.")

    last = Reply("a is done", after=gate)
    with ScriptedModel(main, agents={"Do a": last, "Do b": [tool_use("Bash", {"command": "pwd"}), "b is done"]}) as up:
        async with Cassette(path, mode="all", upstream=up.url) as recording:
            assert await ask(recording, "go", until="idle") == ["Both."]
        asked = [request.contains("b is done") for request in up.requests_of("main")]
    async with Cassette(path) as replay:
        assert await ask(replay, "go", until="idle") == ["Both."]
    replay.check()
    main_again = [request for request in replay.requests if request.conversation == "main"]
    assert [request.contains("b is done") for request in main_again] == asked


def test_a_key_that_is_refused_leaves_no_cassette(tmp_path: Path) -> None:
    with ScriptedModel([Failure(403, "no such key")]) as upstream:
        with Cassette(tmp_path / "none.json", mode="once", upstream=upstream.url) as recording:
            assert post(recording) == 403
    assert not list(tmp_path.iterdir())


def test_an_api_that_is_not_there_leaves_no_cassette(tmp_path: Path) -> None:
    recording = Cassette(tmp_path / "none.json", mode="once", upstream="http://127.0.0.1:9")
    recording.__enter__()
    assert post(recording) >= 400
    with pytest.raises(OSError, match="refused"):
        recording.__exit__(None, None, None)
    assert not list(tmp_path.iterdir())


def test_a_cassette_error_names_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionsError, match="run pytest with --cassette-mode=once"):
        Cassette(tmp_path / "missing.json")
    (tmp_path / "bad.json").write_text(json.dumps({"cassette": 99, "entries": []}))
    with pytest.raises(OptionsError, match="has the format 99"):
        Cassette(tmp_path / "bad.json")
    with pytest.raises(OptionsError, match="model, tools, system"):
        Cassette(tmp_path / "x.json", mode="all", match=["modle"])
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))  # without a login
    with pytest.raises(OptionsError, match=r"claude setup-token.*replaying needs no key"):
        Cassette(tmp_path / "x.json", mode="all")


class _Streaming(BaseHTTPRequestHandler):
    """Answers with these events."""

    events: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in self.events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def streamed(path: Path, *events: Any) -> list[Any]:
    """Record one request that is answered with these events, and return the answers that the file has."""
    with HTTPServer(("127.0.0.1", 0), type("Server", (_Streaming,), {"events": events})) as server:
        threading.Thread(target=server.handle_request).start()
        with Cassette(path, mode="all", upstream=f"http://127.0.0.1:{server.server_port}") as recording:
            post(recording)
    return [entry["answer"] for entry in json.loads(path.read_text())["entries"]] if path.exists() else []


def test_a_stream_that_breaks_off_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="broke off"):
        streamed(tmp_path / "c.json", {"type": "message_start", "message": {"content": []}})
    assert not (tmp_path / "c.json").exists()


class _Answering(BaseHTTPRequestHandler):
    """Answers the first request like the API, and others with this text."""

    said: ClassVar[bytes] = b""
    right: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        text = self.right.pop() if self.right else self.said
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.mark.parametrize("said", [b"<html>Log in to this network", b'{"hello": "there"}', b"[]"])
def test_what_is_no_answer_leaves_no_cassette(said: bytes, tmp_path: Path) -> None:
    right = json.dumps({"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}).encode()
    handler = type("Handler", (_Answering,), {"said": said, "right": [right]})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        recording = Cassette(tmp_path / "c.json", mode="all", upstream=f"http://127.0.0.1:{server.server_port}").start()
        assert post(recording) == 200
        assert post(recording) >= 400
        server.shutdown()
        with pytest.raises((ValueError, LookupError, AttributeError)):
            recording.__exit__(None, None, None)
    assert not list(tmp_path.iterdir())


def test_the_key_does_not_follow_a_redirect(tmp_path: Path) -> None:
    asked: list[str] = []

    class Portal(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(302)
            self.send_header("location", "/log-in")
            self.end_headers()

        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers['x-api-key']}")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Portal) as server:
        threading.Thread(target=server.serve_forever).start()
        recording = Cassette(tmp_path / "c.json", mode="all", upstream=f"http://127.0.0.1:{server.server_port}").start()
        assert post(recording) >= 400
        server.shutdown()
        with pytest.raises(ConnectionError, match=r"redirects \(HTTP 302\)"):
            recording.__exit__(None, None, None)
    assert asked == ["/v1/messages?beta=true"]
    assert not list(tmp_path.iterdir())


def test_an_answer_that_nobody_waits_for_any_more_is_not_waited_for(tmp_path: Path) -> None:
    gate = Gate()

    def ask_in_vain() -> None:
        with suppress(OSError):
            post(recording)

    with ScriptedModel([Reply("late", after=gate)]) as upstream:
        recording = Cassette(tmp_path / "c.json", mode="all", upstream=upstream.url).start()
        threading.Thread(target=ask_in_vain, daemon=True).start()
        anyio.run(partial(upstream.wait_for_requests, 1))
        ended = threading.Thread(target=recording.close)
        ended.start()
        ended.join(30)
        assert not ended.is_alive()
        gate.open()
    assert not list(tmp_path.iterdir())


def record(path: Path, *messages: Any, answer: Any = "Recorded.", **fields: Any) -> Any:
    """Record one request without the CLI, and return what the file has of it."""
    with ScriptedModel([answer]) as upstream, Cassette(path, mode="all", upstream=upstream.url) as recording:
        post(recording, *messages, **fields)
    [entry] = json.loads(path.read_text())["entries"]
    return entry


def user(*blocks: Any) -> Any:
    return {"role": "user", "content": list(blocks)}


def test_what_is_recorded_of_a_request_are_the_new_messages_in_words(tmp_path: Path) -> None:
    notification = (
        "<task-notification><tool-use-id>toolu_9</tool-use-id><status>completed</status>"
        "<result>All done</result></task-notification>"
    )
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    entry = record(
        tmp_path / "c.json",
        user({"type": "text", "text": "before"}),
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "answer"}]},
        user(
            {"type": "tool_result", "tool_use_id": "other", "content": [image, {"type": "text", "text": "seen"}]},
            {"type": "tool_result", "tool_use_id": "another", "is_error": True, "content": "no"},
            {"type": "text", "text": f"{notification} and"},
            {"type": "thinking", "thinking": "of nobody"},
            image,
        ),
    )
    assert entry["lines"] == [
        "result other: [image]\nseen",
        "result another failed: no",
        "notified: toolu_9 completed All done",
        f"user: {notification} and",
        "user: [image]",
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_recorded_alike_whether_it_is_streamed(stream: bool, tmp_path: Path) -> None:
    said = Reply([thinking("hm"), "Hello", tool_use("Bash", {"command": "ls"}, id="toolu_x")], stop_reason="tool_use")
    message = record(tmp_path / "c.json", answer=said, stream=stream)["answer"]["message"]
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    assert message["content"][1]["text"] == "Hello"
    assert message["content"][2]["input"] == {"command": "ls"}
    assert message["stop_reason"] == "tool_use"
    assert message["usage"]["output_tokens"] > 0


def test_citations_are_joined_and_an_error_in_the_stream_is_the_answer(tmp_path: Path) -> None:
    def event(kind: str, **fields: Any) -> Any:
        return {"type": kind, **fields}

    citations = [{"cited_text": "a"}, {"cited_text": "b"}]
    deltas = [{"type": "citations_delta", "citation": each} for each in citations]
    deltas += [{"type": "text_delta", "text": "said"}, {"type": "a_new_delta"}]
    began = [event("message_start", message={"role": "assistant"}), event("ping")]
    began.append(event("content_block_start", index=0, content_block={"type": "text", "text": ""}))
    began += [event("content_block_delta", index=0, delta=delta) for delta in deltas]
    [joined] = streamed(tmp_path / "a.json", *began, event("content_block_stop", index=0), event("message_stop"))
    assert joined["message"]["content"] == [{"type": "text", "text": "said", "citations": citations}]
    broken = event("error", error={"type": "overloaded_error", "message": "busy"})
    [failed] = streamed(tmp_path / "b.json", *began, broken)
    assert failed == {"status": 529, "error": {"type": "overloaded_error", "message": "busy"}}


def test_a_refusal_is_recorded_with_its_pause(tmp_path: Path) -> None:
    answer = record(tmp_path / "c.json", answer=Failure(429, "slow down", retry_after=2))["answer"]
    assert answer["status"] == 429
    assert answer["error"]["message"] == "slow down"
    assert answer["retry_after"] == 2


class _Gateway(BaseHTTPRequestHandler):
    """Refuses each request with a page."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_error(502, "the gateway is down")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_a_refusal_without_json_is_recorded_by_its_status(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), _Gateway) as gateway:
        threading.Thread(target=gateway.handle_request).start()
        url = f"http://127.0.0.1:{gateway.server_port}"
        with Cassette(tmp_path / "c.json", mode="all", upstream=url) as recording:
            assert post(recording) == 502
    [entry] = json.loads((tmp_path / "c.json").read_text())["entries"]
    assert entry["answer"] == {
        "status": 502,
        "error": {"type": "api_error", "message": "HTTP Error 502: the gateway is down"},
    }


def test_a_token_of_a_gateway_is_sent_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "opaque/token:of-a-gateway")
    with ScriptedModel("It is opaque/token:of-a-gateway.") as upstream:
        with Cassette(tmp_path / "c.json", mode="all", upstream=upstream.url) as recording:
            assert post(recording) == 200
        [asked] = upstream.requests
    assert asked.headers["authorization"] == "Bearer opaque/token:of-a-gateway"
    assert "of-a-gateway" not in (tmp_path / "c.json").read_text()


@pytest.mark.long
async def test_an_answer_that_looks_like_a_placeholder_or_a_home_is_replayed_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cassette.json"
    said = [
        r"<root><home/></root> is the <cwd> of <task-1>, not <\root>",
        "See /srv/flat/x and https://example.org/flat.",
    ]
    monkeypatch.setenv(CLI_VARIABLE, str(find_cli()))
    monkeypatch.setenv("HOME", "/flat")
    monkeypatch.setenv("USERPROFILE", "/flat")
    with ScriptedModel([*said, "/flat/mine"]) as upstream:
        async with Cassette(path, mode="once", upstream=upstream.url) as recording:
            assert await ask(recording, "Now?", "Then?", "Last?") == [*said, "/flat/mine"]
    monkeypatch.setenv("HOME", "/other")
    monkeypatch.setenv("USERPROFILE", "/other")
    async with Cassette(path) as replay:
        assert await ask(replay, "Now?", "Then?", "Last?") == [*said, "/other/mine"]
    replay.check()


def test_texts_to_ignore_may_differ(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    record(path, user({"type": "text", "text": "look at 3 files"}))
    with Cassette(path, ignore=[r"\d+ files"]) as replay:
        assert post(replay, user({"type": "text", "text": "look at 12 files"})) == 200
        assert post(replay, user({"type": "text", "text": "look at a file"})) == 410


def test_the_clis_own_requests_need_no_recording_and_those_of_subagents_do(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    record(path)

    with Cassette(path) as replay:
        assert post(replay, headers={"x-claude-code-request-class": "auxiliary"}) == 200
        assert replay.mismatches == []
        agent = {"x-claude-code-agent-id": "a1", "x-claude-code-agent-type": "Explore"}
        assert post(replay, headers=agent) == 410
    assert "agent Explore: hi sent a request" in replay.mismatches[0]
    assert "- main\n+ agent Explore: hi" in replay.mismatches[0]


def mismatch(path: Path, *messages: Any, **fields: Any) -> str:
    with Cassette(path, match=("model", "tools")) as replay:
        assert post(replay, *messages, **fields) == 410
    [text] = replay.mismatches
    return text


def test_a_mismatch_tells_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    asked = user({"type": "text", "text": "go on"})
    earlier = [user({"type": "text", "text": "hi"}), {"role": "assistant", "content": "hello"}, asked]
    with ScriptedModel("ok") as upstream, Cassette(path, mode="all", match=(), upstream=upstream.url) as recording:
        post(recording, *earlier)
    stored = json.loads(path.read_text())
    stored["entries"][0]["facts"] = {"model": "m", "tools": ["Bash"]}
    path.write_text(json.dumps(stored))
    tools = [{"name": "Bash"}]
    assert "  model: 'm' -> 'other'" in mismatch(path, *earlier, model="other", tools=tools)
    assert "  tools: ['Bash'] -> []" in mismatch(path, *earlier)
    assert "-user: go on\n+user: stop" in mismatch(
        path, *earlier[:2], user({"type": "text", "text": "stop"}), tools=tools
    )
    otherwise = [earlier[0], {"role": "assistant", "content": "good day"}, asked]
    assert "the conversation before them differs" in mismatch(path, *otherwise, tools=tools)
    with Cassette(path) as replay:
        assert repr(replay) == f"<Cassette replays {path}, 1 answers>"
        assert [post(replay, *earlier) for _ in range(2)] == [200, 200]  # the second one is a retry
        assert post(replay, user({"type": "text", "text": "more"})) == 410
    assert "all recorded answers were used\n+ user: more" in replay.mismatches[0]


def test_a_recording_with_a_secret_that_a_name_hides_is_not_saved(tmp_path: Path) -> None:
    scrub = {"istor": "<part of a name>"}
    with ScriptedModel("ok") as upstream:
        recording = Cassette(tmp_path / "c.json", mode="all", upstream=upstream.url, scrub=scrub)
        recording.__enter__()
        post(recording)
        with pytest.raises(RuntimeError, match="contains a secret: <part of a name>"):
            recording.__exit__(None, None, None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["no json", "[]", "{}", '{"cassette": 1, "entries": [{"unknown": 1}]}'])
def test_a_file_that_is_no_cassette_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(OptionsError, match=r"c\.json is not a cassette"):
        Cassette(tmp_path / "c.json")
