"""The scripted model with the real CLI: every kind of answer has the same effect as the API's."""

import json
import time

import anyio
import pytest
from raw_cli import Frame, RawCLI, ask, running

from claude_agent_py.testing import (
    CutStream,
    Failure,
    Gate,
    RecordedRequest,
    Reply,
    ScriptedModel,
    text,
    thinking,
    tool_use,
)
from claude_agent_py.testing.script import LooseAnswer

pytestmark = pytest.mark.real_cli

AGENT = {"description": "look", "subagent_type": "general-purpose"}


def kinds(cli: RawCLI) -> list[str]:
    return [block["type"] for frame in cli.of_type("assistant") for block in frame["message"]["content"]]


def test_text_and_thinking_arrive() -> None:
    with ScriptedModel([Reply([thinking("hm"), text("hello")])]) as model:
        cli = ask(model, "hi")
    assert cli.results[0]["result"] == "hello"
    assert kinds(cli) == ["thinking", "text"]
    assert [request.prompt for request in model.requests] == ["hi"]


def test_parallel_tool_results_come_back_in_one_message() -> None:
    calls = [tool_use("Bash", {"command": f"echo {name}"}, id=f"toolu_{name}") for name in ("a", "b")]
    with ScriptedModel([Reply(calls), "done"], on_exhausted="fail") as model:
        cli = ask(model, "go")
    assert cli.results[0]["result"] == "done"
    first, second = model.requests
    assert first.tool_results == []
    assert {result["tool_use_id"]: result["content"] for result in second.tool_results} == {
        "toolu_a": "a",
        "toolu_b": "b",
    }


def test_subagents_play_their_own_scripts_whatever_the_main_prompt_says() -> None:
    start = [
        tool_use("Agent", {**AGENT, "prompt": "Review auth now"}),
        tool_use("Agent", {**AGENT, "prompt": "Review billing now"}),
        tool_use("Agent", {**AGENT, "prompt": "Something else"}),
    ]
    gate = Gate()
    with ScriptedModel(
        [Reply(start), "started", Reply("after one"), Reply("after all"), Reply("after all")],
        agents={
            "Review auth": [tool_use("Bash", {"command": "echo from auth"}), "auth is fine"],
            "Review billing": [Reply("billing is fine", after=gate)],
        },
    ) as model:
        with running(model) as cli:
            cli.send("Review auth, Review billing and Something else")
            cli.until(1)
            gate.open()
            while len(cli.of_type("system", "task_notification")) < 3:
                cli.until(len(cli.results) + 1)
        summaries = {frame["summary"] for frame in cli.of_type("system", "task_notification")}
    assert summaries == {"auth is fine", "billing is fine", "Done."}
    assert len(model.requests_of("Review auth")) == 2
    assert len(model.requests_of("Review billing")) == 1
    assert len(model.requests_of("agent")) == 1
    task_ids = {frame["task_id"] for frame in cli.of_type("system", "task_started")}
    assert {request.agent_id for request in model.requests if request.agent_id} == task_ids


def test_requests_beside_the_conversation_use_up_no_script() -> None:
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "prompt", "prompt": "Is it ok?"}]}]}}
    question = {"subtype": "side_question", "question": "What?"}
    with ScriptedModel([tool_use("Bash", {"command": "echo 1"}), "end"], on_exhausted="fail") as model:
        cli = ask(
            model,
            {"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}},
            "hi",
            {"type": "control_request", "request_id": "2", "request": question},
            "/compact",
            results=2,
            args=("--settings", json.dumps(settings)),
        )
    assert cli.results[0]["result"] == "end"
    assert cli.of_type("system", "compact_boundary")
    assert [request.agent for request in model.requests if request.request_class == "main"] == ["main", "main"]
    assert {request.request_class for request in model.requests_of("side")} == {"auxiliary", "compaction"}


def test_a_refusal_is_the_result_and_does_not_wear_off() -> None:
    errors = {400: "unknown", 403: "authentication_failed", 404: "model_not_found"}
    script = [answer for status in errors for answer in (Failure(status, "no good"), "fine")]
    with ScriptedModel(script) as model, running(model) as cli:
        for number, (status, error) in enumerate(errors.items()):
            before = len(cli.frames)
            cli.send("hi")
            cli.until(2 * number + 1)
            refused = [frame for frame in cli.frames[before:] if frame["type"] == "assistant"]
            cli.send("again")
            cli.until(2 * number + 2)
            assert cli.results[-2]["is_error"], status
            assert refused[0]["error"] == error
            assert cli.results[-1]["result"] == "fine", status


def test_a_failure_is_tried_again_with_the_next_reply_and_retry_after_is_obeyed() -> None:
    errors = {401: "authentication_failed", 429: "rate_limit", 500: "server_error", 529: "overloaded"}
    script = [answer for status in errors for answer in (Failure(status, retry_after=0), f"fine after {status}")]
    script = [*script, Failure(429, retry_after=1), "later"]
    with ScriptedModel(script, on_exhausted="fail") as model, running(model) as cli:
        for number in range(len(errors) + 1):
            cli.send("hi")
            cli.until(number + 1)
    retries = cli.of_type("system", "api_retry")
    assert {retry["error_status"]: retry["error"] for retry in retries} == errors
    assert [result["result"] for result in cli.results] == [*(f"fine after {status}" for status in errors), "later"]
    assert retries[-1]["retry_delay_ms"] >= 1000


def test_a_stream_cut_before_a_block_is_tried_again() -> None:
    seen = Gate()
    script: list[LooseAnswer] = [CutStream("hello world", after_chars=5, when=seen), "again"]
    with ScriptedModel(script, on_exhausted="fail") as model, running(model, "--include-partial-messages") as cli:
        cli.send("hi")
        cli.until_true(lambda: _streamed(cli.frames) == list("hello"))
        seen.open()
        cli.until(1)
    assert cli.results[0]["result"] == "again"
    assert cli.of_type("system", "api_retry")
    assert _streamed(cli.frames)[:5] == list("hello")


def test_a_stream_cut_after_a_block_is_resumed() -> None:
    seen = Gate()
    script: list[LooseAnswer] = [CutStream([text("one"), text("two")], after_blocks=1, when=seen), "rest"]
    with ScriptedModel(script, on_exhausted="fail") as model, running(model) as cli:
        cli.send("hi")
        cli.until_true(lambda: bool(cli.of_type("assistant")))
        seen.open()
        cli.until(1)
    assert [b["text"] for f in cli.of_type("assistant") for b in f["message"]["content"]] == ["one", "rest"]
    assert not cli.of_type("system", "api_retry")


def test_a_stream_may_end_with_an_error_event() -> None:
    cut = CutStream("hello", after_chars=2, error="overloaded_error")
    with ScriptedModel([cut, "whole"], on_exhausted="fail") as model:
        cli = ask(model, "hi")
    assert cli.results[0]["result"] == "whole"
    assert [request.stream for request in model.requests] == [True, False]


def test_text_comes_in_chunks() -> None:
    with ScriptedModel([Reply("abcdef", chunk_chars=2, chunk_delay=0.01)]) as model:
        cli = ask(model, "hi", args=("--include-partial-messages",))
    assert _streamed(cli.frames) == ["ab", "cd", "ef"]


def test_a_script_that_ran_out_says_so_at_once() -> None:
    with ScriptedModel(["one"], on_exhausted="fail") as model:
        cli = _two_turns(model)
    assert cli.results[1]["is_error"]
    assert "the script of 'main' has run out" in cli.results[1]["result"]
    assert len(model.requests) == 2


def _two_turns(model: ScriptedModel) -> RawCLI:
    with running(model) as cli:
        cli.send("first")
        cli.until(1)
        cli.send("second")
        cli.until(2)
    return cli


def test_a_function_sees_the_request() -> None:
    def answer(request: RecordedRequest) -> str:
        return f"{request.last_user_text}, {'Bash' in request.tool_names}"

    with ScriptedModel(answer) as model:
        cli = _two_turns(model)
    assert [result["result"] for result in cli.results] == ["first, True", "second, True"]


def test_a_function_that_fails_is_seen_in_the_run() -> None:
    def broken(_: RecordedRequest) -> str:
        raise ValueError("my mistake")

    def run() -> None:
        with ScriptedModel(broken) as model:
            cli = ask(model, "hi")
            assert "ValueError: my mistake" in cli.results[0]["result"]

    with pytest.raises(ValueError, match="my mistake"):
        run()


def test_nothing_outside_the_sandbox_is_written() -> None:
    call = tool_use("Bash", {"command": 'echo "$HOME"; pwd; echo x > made', "run_in_background": False})
    with ScriptedModel([call, "ok"]) as model:
        ask(model, "hi")
        root = model.sandbox.root
        assert (model.sandbox.cwd / "made").exists()
        said = model.requests[1].tool_results[0]["content"]
        assert said.splitlines() == [str(model.sandbox.home), str(model.sandbox.cwd)]
        transcripts = list(model.sandbox.config_dir.glob("projects/*/*.jsonl"))
        assert len(transcripts) == 1
    assert not root.exists()


@pytest.mark.anyio
async def test_held_back_until_a_gate_opens() -> None:
    gate = Gate()
    frames: list[Frame] = []
    async with ScriptedModel([Reply("at last", after=gate)]) as model, anyio.create_task_group() as workers:

        async def session() -> None:
            cli = await anyio.to_thread.run_sync(ask, model, "hi")
            frames.extend(cli.frames)

        workers.start_soon(session)
        with anyio.fail_after(30):
            await model.wait_for_requests(1, timeout=30)
            await gate.wait_reached(timeout=30)
        assert not frames
        gate.open()
    assert frames[-1]["result"] == "at last"


def test_an_answer_that_nobody_waits_for_any_more_holds_nothing_up() -> None:
    with ScriptedModel([Reply("never", after=Gate())]) as model:
        with running(model) as cli:
            cli.send("hi")
            while not model.requests:
                assert cli.process.poll() is None
                time.sleep(0.01)
        assert cli.process.poll() is not None  # the model closes although its gate never opened
    assert len(model.requests) == 1


def _streamed(frames: list[Frame]) -> list[str]:
    events = [frame["event"] for frame in frames if frame["type"] == "stream_event"]
    return [event["delta"]["text"] for event in events if event.get("delta", {}).get("type") == "text_delta"]
