"""The scripted model without a CLI: its HTTP answers, and which script answers."""

import http.client
import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from forks import run_program

from claude_agent_py.testing import (
    CutStream,
    Failure,
    Gate,
    RawBlock,
    RecordedRequest,
    Reply,
    ScriptedModel,
    Usage,
    text,
    thinking,
    tool_use,
)

Body = dict[str, Any]
REMINDER = {"type": "text", "text": "<system-reminder>\nbe nice\n</system-reminder>"}


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.data = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def events(self) -> list[Body]:
        parts = self.data.decode().strip().split("\n\n")
        return [json.loads(part.split("\ndata: ", 1)[1]) for part in parts]


def connect(model: ScriptedModel) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=60)


def send(
    model: ScriptedModel, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> Answer:
    connection = connect(model)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        connection.request(method, path, data, headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def ask(model: ScriptedModel, prompt: str = "hi", *, stream: bool = False, **headers: str) -> Answer:
    content = [REMINDER, {"type": "text", "text": prompt}]
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": content}]}
    named = {f"x-claude-code-{name.replace('_', '-')}": value for name, value in headers.items()}
    return send(model, "POST", "/v1/messages?beta=true", body, named)


def said(answer: Answer) -> str:
    assert answer.status == 200, answer.data
    return "".join(block["text"] for block in answer.json["content"])


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel("hello") as model:
        yield model


# The wire


def test_a_whole_message() -> None:
    usage = Usage(input_tokens=7, output_tokens=9)
    with ScriptedModel([Reply([thinking("hm"), "hello", tool_use("Bash", {"a": 1}, id="toolu_x")], usage=usage)]) as m:
        message = ask(m).json
    assert message["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "c2lnbmF0dXJl"},
        {"type": "text", "text": "hello"},
        {"type": "tool_use", "id": "toolu_x", "name": "Bash", "input": {"a": 1}},
    ]
    assert (message["role"], message["model"], message["stop_reason"]) == ("assistant", "m", "tool_use")
    assert (message["usage"]["input_tokens"], message["usage"]["output_tokens"]) == (7, 9)


def test_a_stream_adds_up_to_the_message() -> None:
    call, odd = tool_use("Bash", {"command": "ls"}), RawBlock({"type": "odd", "x": 1})
    with ScriptedModel([Reply([thinking("hmm"), text("hello"), call, odd], chunk_chars=2)]) as model:
        answer = ask(model, stream=True)
    assert answer.headers["content-type"] == "text/event-stream"
    kinds = [event["type"] for event in answer.events]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 4
    deltas = [event["delta"] for event in answer.events if event["type"] == "content_block_delta"]
    for kind, key, whole in (
        ("text_delta", "text", "hello"),
        ("thinking_delta", "thinking", "hmm"),
        ("input_json_delta", "partial_json", '{"command": "ls"}'),
    ):
        assert "".join(delta[key] for delta in deltas if delta["type"] == kind) == whole
    assert all(len(delta.get("text", "")) <= 2 for delta in deltas)
    assert answer.events[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_block_given_as_json_keeps_its_other_fields_and_is_streamed_like_a_built_one() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "hello", "citations": [{"type": "char_location"}]},
        {"type": "tool_use", "id": "toolu_x", "name": "Bash", "input": {"a": 1}, "caller": {"type": "direct"}},
    ]
    with ScriptedModel([Reply([RawBlock(block) for block in blocks])] * 2) as model:
        assert ask(model).json["content"] == blocks
        events = ask(model, stream=True).events
    starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert starts == [blocks[0] | {"text": ""}, blocks[1] | {"input": {}}]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert [delta.get("text") or delta["partial_json"] for delta in deltas] == ["hello", '{"a": 1}']


def test_the_stop_reason_can_be_named() -> None:
    with ScriptedModel([Reply("cut", stop_reason="max_tokens")]) as model:
        assert ask(model).json["stop_reason"] == "max_tokens"


def test_a_failure() -> None:
    with ScriptedModel([Failure(429, "slow down", retry_after=2.5, headers={"x-more": "1"})]) as model:
        answer = ask(model)
    assert answer.status == 429
    assert answer.json["error"] == {"type": "rate_limit_error", "message": "slow down"}
    assert (answer.headers["retry-after"], answer.headers["x-more"]) == ("2.5", "1")


@pytest.mark.parametrize(
    ("cut", "blocks", "chars"),
    [
        (lambda seen: CutStream("abcdef", when=seen), 0, 0),
        (lambda seen: CutStream([text("ab"), text("cd")], after_blocks=1, when=seen), 1, 2),
        (lambda seen: CutStream("abcdef", after_chars=3, when=seen), 0, 3),
    ],
)
def test_a_cut_stream_breaks_where_it_says(cut: Callable[[Gate], CutStream], blocks: int, chars: int) -> None:
    seen = Gate()

    def found(data: bytes) -> tuple[bool, int, int]:
        texts = re.findall(rb'"type": "text_delta", "text": "(\w+)"', data)
        return b"message_start" in data, data.count(b"event: content_block_stop"), sum(map(len, texts))

    with (
        ScriptedModel([cut(seen)]) as model,
        socket.create_connection(("127.0.0.1", int(model.url.split(":")[-1]))) as peer,
    ):
        body = json.dumps({"stream": True, "messages": []}).encode()
        peer.sendall(b"POST /v1/messages HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        data, reset = b"", False
        try:
            while part := peer.recv(65536):
                data += part
                if found(data) == (True, blocks, chars):
                    seen.open()
        except ConnectionResetError:
            reset = True
    assert reset
    assert found(data) == (True, blocks, chars)


def test_a_cut_stream_without_a_gate_breaks_by_itself() -> None:
    with (
        ScriptedModel([CutStream("abcdef", after_chars=3)]) as model,
        pytest.raises((OSError, http.client.HTTPException)),
    ):
        ask(model, stream=True)


def _open_once_reached(gate: Gate) -> None:
    anyio.run(gate.wait_reached)
    gate.open()


def test_an_answer_that_is_not_streamed_is_cut_at_once() -> None:
    with (
        ScriptedModel([CutStream("abcdef", after_chars=3)]) as model,
        pytest.raises((OSError, http.client.HTTPException)),
    ):
        ask(model)


def test_the_repr_of_a_model_tells_its_url_and_its_requests() -> None:
    model = ScriptedModel("hello")
    assert repr(model) == "<ScriptedModel not running, 0 requests>"
    with model:
        ask(model)
        assert repr(model) == f"<ScriptedModel {model.url}, 1 requests>"


def test_an_error_event_may_wait_for_a_gate() -> None:
    gate = Gate()
    with ScriptedModel([CutStream("abc", after_chars=1, error="overloaded_error", when=gate)]) as model:
        threading.Thread(target=_open_once_reached, args=(gate,)).start()
        events = ask(model, stream=True).events
    assert events[-1]["error"]["type"] == "overloaded_error"


def test_a_cut_stream_can_end_with_an_error_event() -> None:
    with ScriptedModel([CutStream("abc", after_chars=1, error="overloaded_error")]) as model:
        events = ask(model, stream=True).events
    assert events[-1]["error"]["type"] == "overloaded_error"


def test_other_endpoints_that_the_cli_calls(model: ScriptedModel) -> None:
    assert send(model, "HEAD", "/").status == 200
    tokens = send(model, "POST", "/v1/messages/count_tokens?beta=true", {"messages": [{"content": "x" * 400}]})
    assert tokens.json["input_tokens"] > 100
    for path in ("/v1/nothing", "/"):
        answer = send(model, "POST", path, {})
        assert (answer.status, answer.json["error"]["type"]) == (404, "not_found_error")
    assert send(model, "GET", "/v1/models").status == 404
    assert model.requests == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"])
def test_a_body_that_is_no_object_is_refused(model: ScriptedModel, body: bytes) -> None:
    assert send(model, "POST", "/v1/messages", body).status == 400


def test_several_requests_share_a_connection(model: ScriptedModel) -> None:
    connection = connect(model)
    for _ in range(3):
        connection.request("POST", "/v1/messages", json.dumps({"stream": True, "messages": []}))
        assert connection.getresponse().read().endswith(b"\n\n")
    connection.close()
    assert len(model.requests) == 3


def test_a_short_answer_does_not_wait_for_an_acknowledgement(model: ScriptedModel) -> None:
    with socket.create_connection(("127.0.0.1", int(model.url.split(":")[-1])), timeout=60) as peer:
        body = json.dumps({"stream": True, "messages": []}).encode()
        peer.sendall(b"POST /v1/messages HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        first = peer.recv(65536)
    assert b"HTTP/1.1 200" in first
    assert b"message_start" in first  # in the same packet as the head


# Which script answers


def test_main_and_agents_have_their_own_scripts() -> None:
    with ScriptedModel(
        ["m1", "m2"],
        agents={
            "auth": ["a1", "a2"],
            re.compile(r"bill\w+"): "b1",
            (lambda request: request.agent_type == "Explore"): "e1",
        },
    ) as model:
        assert said(ask(model, "auth and billing", request_class="main")) == "m1"
        assert said(ask(model, "check auth", request_class="subagent", agent_id="1")) == "a1"
        assert said(ask(model, "check billing", request_class="subagent", agent_id="2")) == "b1"
        assert said(ask(model, "look", request_class="subagent", agent_id="3", agent_type="Explore")) == "e1"
        assert said(ask(model, "unknown", request_class="subagent", agent_id="4")) == "Done."
        assert said(ask(model, "auth and billing", request_class="main")) == "m2"
        names = [request.agent for request in model.requests]
        assert names == ["main", "auth", r"bill\w+", "<lambda>", "agent", "main"]


def test_each_agent_plays_its_script_from_the_start_and_keeps_it() -> None:
    with ScriptedModel(agents={"auth": ["a1", "a2"]}) as model:
        assert said(ask(model, "auth", request_class="subagent", agent_id="1")) == "a1"
        assert said(ask(model, "auth", request_class="subagent", agent_id="2")) == "a1"
        assert said(ask(model, "a summary of it all", request_class="subagent", agent_id="1")) == "a2"


def test_a_cli_that_gives_no_hints_is_understood_too() -> None:
    with ScriptedModel("main", agents={"auth": "sub"}) as model:
        assert said(ask(model, "auth")) == "main"
        assert said(ask(model, "auth", agent_id="1")) == "sub"


def test_sessions_share_one_model() -> None:
    with ScriptedModel(["m1", "m2"], sessions={"child": ["c1", "c2"]}) as model:
        assert said(ask(model, "a child", session_id="1")) == "c1"
        assert said(ask(model, "parent", session_id="2")) == "m1"
        assert said(ask(model, "a child", session_id="3")) == "c1"
        assert said(ask(model, "compacted", session_id="1")) == "c2"
        assert said(ask(model, "parent", session_id="2")) == "m2"


def test_side_requests_have_their_own_script() -> None:
    with ScriptedModel("main", side=lambda request: f"side {request.request_class}") as model:
        assert said(ask(model, request_class="auxiliary")) == "side auxiliary"
    with ScriptedModel("main") as model:
        assert "<summary>" in said(ask(model, request_class="compaction"))
        assert said(ask(model)) == "main"


def test_reminders_do_not_choose_a_script() -> None:
    with ScriptedModel(agents={"be nice": "wrong", "auth": "right"}) as model:
        assert said(ask(model, "auth", request_class="subagent", agent_id="1")) == "right"


def test_an_exhausted_script_answers_or_fails_as_on_exhausted_says() -> None:
    with ScriptedModel(["one"]) as model:
        assert [said(ask(model)) for _ in range(3)] == ["one", "Done.", "Done."]
    with ScriptedModel(["one"], on_exhausted="bye") as model:
        assert [said(ask(model)) for _ in range(2)] == ["one", "bye"]
    with ScriptedModel(["one"], on_exhausted="fail") as model:
        assert said(ask(model)) == "one"
        answer = ask(model)
        assert answer.status == 410
        assert "'main' has run out" in answer.json["error"]["message"]


def test_a_refusal_stays_until_the_conversation_moves_on() -> None:
    with ScriptedModel([Failure(400), Failure(500), "fine"]) as model:
        assert [ask(model, "one").status for _ in range(3)] == [400, 400, 400]
        assert ask(model, "two").status == 500
        assert said(ask(model, "two")) == "fine"


def off_the_end(request: RecordedRequest) -> str:
    return ["only one"][request.index + 1]


def test_the_traceback_of_a_script_that_raises_is_seen_in_the_answer_and_by_the_test() -> None:
    answers: list[Answer] = []

    def go() -> None:
        with ScriptedModel(off_the_end) as model:
            answers.append(ask(model))

    with pytest.raises(IndexError) as caught:
        go()
    assert caught.traceback[-1].name == "off_the_end"
    assert answers[0].status == 410
    message = answers[0].json["error"]["message"]
    assert "in off_the_end" in message
    assert 'return ["only one"][request.index + 1]' in message


@pytest.mark.anyio
async def test_a_test_that_fails_with_its_script_has_the_traceback_as_a_note() -> None:
    async def go() -> None:
        async with ScriptedModel(off_the_end) as model:
            await anyio.to_thread.run_sync(ask, model)
            raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test") as caught:
        await go()
    [note] = caught.value.__notes__
    assert "in off_the_end" in note


def test_a_function_decides() -> None:
    def script(request: RecordedRequest) -> Reply | Failure:
        return Failure(529) if request.index == 0 else Reply(request.prompt)

    with ScriptedModel(script) as model:
        assert ask(model).status == 529
        assert said(ask(model, "echo")) == "echo"


def test_ids_are_never_used_twice() -> None:
    with ScriptedModel(lambda _: tool_use("Bash")) as model:
        messages = [ask(model).json for _ in range(3)]
    ids = [message["id"] for message in messages] + [message["content"][0]["id"] for message in messages]
    assert len(set(ids)) == 6


# Waiting and ending


@pytest.mark.anyio
async def test_waiting_for_requests(anyio_backend: str) -> None:
    async with ScriptedModel("hi", agents={"auth": "sub"}) as model:
        with pytest.raises(TimeoutError, match=r"1 requests; received: \[\]"):
            await model.wait_for_requests(1, timeout=0.05)
        async with anyio.create_task_group() as workers:
            workers.start_soon(anyio.to_thread.run_sync, lambda: ask(model))
            assert [request.agent for request in await model.wait_for_requests(1)] == ["main"]
        with pytest.raises(TimeoutError, match=r"of 'auth'; received: \['main'\]"):
            await model.wait_for_requests(1, agent="auth", timeout=0.05)


@pytest.mark.anyio
async def test_waiting_can_be_cancelled() -> None:
    async with ScriptedModel() as model:
        with anyio.fail_after(60):
            with anyio.move_on_after(0.05) as scope:
                await model.wait_for_requests(1, timeout=60)
            assert scope.cancelled_caught


@pytest.mark.anyio
async def test_closing_abandons_what_is_held_back() -> None:
    gate = Gate()
    model = ScriptedModel([Reply("never", after=gate), Reply("never", delay=600)])
    failed: list[BaseException] = []

    def wait_for_ever() -> None:
        try:
            ask(model)
        except (OSError, http.client.HTTPException) as error:
            failed.append(error)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as workers, model:
            workers.start_soon(anyio.to_thread.run_sync, wait_for_ever)
            await gate.wait_reached()
            workers.start_soon(anyio.to_thread.run_sync, wait_for_ever)
            await model.wait_for_requests(2)
    assert len(failed) == 2
    assert not [thread for thread in threading.enumerate() if "scripted" in thread.name]


def test_a_peer_that_went_away_frees_its_thread() -> None:
    before = set(threading.enumerate())  # a thread of another test may end meanwhile
    with ScriptedModel([Reply("never", after=Gate())]) as model:
        connection = connect(model)
        connection.request("POST", "/v1/messages", json.dumps({"messages": []}))
        _until(lambda: len(model.requests) == 1)
        connection.close()
        _until(lambda: len(set(threading.enumerate()) - before) == 1)


def test_a_model_can_be_started_again_and_closed_twice() -> None:
    model = ScriptedModel("hi")
    with pytest.raises(RuntimeError, match="not running"):
        _ = model.url
    model.start()
    first = model.sandbox.root
    assert said(ask(model)) == "hi"
    model.close()
    model.close()
    assert not first.exists()
    with model:
        assert said(ask(model)) == "Done."


def test_the_environment_is_clean(monkeypatch: pytest.MonkeyPatch, model: ScriptedModel) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "secret")
    monkeypatch.setenv("HOME", "/home/somebody")
    environment = model.environment(EXTRA="1")
    assert "ANTHROPIC_AUTH_TOKEN" not in environment
    assert environment["ANTHROPIC_BASE_URL"] == model.url
    assert environment["EXTRA"] == "1"
    assert environment["HOME"] == str(model.sandbox.home)
    assert model.sandbox.home.is_dir()


def _until(done: Any) -> None:
    """Wait for a condition that a thread of the server changes; fails after some seconds."""
    over = threading.Event()
    for _ in range(1000):
        if done():
            return
        over.wait(0.01)
    raise AssertionError("it did not happen")


FORGETFUL = """
import http.client, sys
from claude_agent_py.testing import Gate, Reply, ScriptedModel

model = ScriptedModel([Reply("never", after=Gate())]).start()
connection = http.client.HTTPConnection(model.url.removeprefix("http://"))
connection.request("POST", "/v1/messages", '{"messages": []}')
"""


def test_a_program_that_forgets_to_stop_it_can_end() -> None:
    done = run_program([sys.executable, "-c", FORGETFUL])
    assert (done.returncode, done.stderr) == (0, "")
