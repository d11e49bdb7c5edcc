"""The scripted model with the real CLI: every kind of answer has the same effect as the API's."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from raw_cli import Frame, ask, running

from claude_agent_py import run
from claude_agent_py.sessions import MemoryStore, StoredSessions
from claude_agent_py.testing import (
    CutStream,
    Failure,
    Gate,
    LooseAnswer,
    RecordedRequest,
    Reply,
    ScriptedModel,
    text,
    thinking,
    tool_use,
)

pytestmark = pytest.mark.real_cli

AGENT = {"description": "look", "subagent_type": "general-purpose"}


def test_text_thinking_calls_and_streams_that_are_cut_arrive_as_the_apis_do() -> None:
    """One session plays them all, since what is asked for one of them says nothing of another."""
    calls = [tool_use("Bash", {"command": f"echo {name}"}, id=f"toolu_{name}") for name in ("a", "b")]
    early, late = Gate(), Gate()
    script: list[LooseAnswer] = [
        Reply([thinking("hm"), text("abcdef")], chunk_chars=2, chunk_delay=0.01),
        *(Reply(calls), "done"),
        *(CutStream("hello world", after_chars=5, when=early), "again"),
        *(CutStream([text("one"), text("two")], after_blocks=1, when=late), "rest"),
        *(CutStream("hello", after_chars=2, error="overloaded_error"), "whole"),
    ]
    with ScriptedModel(script, on_exhausted="fail") as model, running(model, "--include-partial-messages") as cli:

        def turn(prompt: str, *, seen: Callable[[list[Frame]], bool] | None = None, gate: Gate | None = None) -> Turn:
            frames, requests = len(cli.frames), len(model.requests)
            cli.send(prompt)
            if seen is not None and gate is not None:
                cli.until_true(lambda: seen(cli.frames[frames:]))
                gate.open()
            cli.until(len(cli.results) + 1)
            return Turn(cli.frames[frames:], model.requests[requests:])

        first = turn("hi")
        assert [block["type"] for block in first.blocks] == ["thinking", "text"]
        assert first.answer == "abcdef"
        assert _streamed(first.frames) == ["ab", "cd", "ef"]
        assert [request.prompt for request in first.requests] == ["hi"]

        called = turn("go")
        assert called.answer == "done"
        before, after = called.requests
        assert before.tool_results == []
        assert {result["tool_use_id"]: result["content"] for result in after.tool_results} == {
            "toolu_a": "a",
            "toolu_b": "b",
        }

        cut = turn("cut before a block", seen=lambda frames: _streamed(frames) == list("hello"), gate=early)
        assert cut.answer == "again"
        assert cut.retries
        assert _streamed(cut.frames)[:5] == list("hello")

        resumed = turn("cut after a block", seen=lambda frames: bool(Turn(frames, []).blocks), gate=late)
        assert [block["text"] for block in resumed.blocks] == ["one", "rest"]
        assert not resumed.retries

        broken = turn("an error event")
        assert broken.answer == "whole"
        assert [request.stream for request in broken.requests] == [True, False]


class Turn(NamedTuple):
    """The frames and requests of a turn."""

    frames: list[Frame]
    requests: Sequence[RecordedRequest]

    @property
    def answer(self) -> str:
        return str(self.frames[-1]["result"])

    @property
    def blocks(self) -> list[Frame]:
        return [block for frame in self.frames if frame["type"] == "assistant" for block in frame["message"]["content"]]

    @property
    def retries(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.get("subtype") == "api_retry"]


@pytest.mark.long
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


@pytest.mark.anyio
async def test_another_model_answers_a_resumed_conversation() -> None:
    """Its ids are new in the conversation; the CLI drops a call with the id of an earlier one."""
    store = MemoryStore()
    today = ScriptedModel([tool_use("Bash", {"command": "echo one"}), "done"], on_exhausted="fail")
    tomorrow = ScriptedModel([tool_use("Bash", {"command": "echo two"}), "done"], on_exhausted="fail")
    async with today, tomorrow:
        first = await run("one", today.options(session_store=store))
        await run("two", tomorrow.options(session_store=store, resume=first.session_id))
    assert [each["content"] for each in tomorrow.requests[-1].tool_results] == ["two"]
    session = await StoredSessions(store, today.sandbox.cwd).get(first.session_id)
    assert [call.text for call in session.tool_calls] == ["one", "two"]


def test_side_requests_use_up_no_script() -> None:
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


def test_failures_are_the_result_or_tried_again_as_the_apis_are() -> None:
    """A refusal does not wear off; others are tried again with the next reply, and `retry_after` is obeyed."""
    refused = {400: "unknown", 403: "authentication_failed", 404: "model_not_found"}
    retried = {401: "authentication_failed", 429: "rate_limit", 500: "server_error", 529: "overloaded"}
    script = [answer for status in refused for answer in (Failure(status, "no good"), "fine")]
    script += [answer for status in retried for answer in (Failure(status, retry_after=0), f"fine after {status}")]
    script += [Failure(429, retry_after=1), "later"]
    with ScriptedModel(script, on_exhausted="fail") as model, running(model) as cli:

        def turn() -> Frame:
            cli.send("hi")
            cli.until(len(cli.results) + 1)
            return cli.results[-1]

        for status, error in refused.items():
            before = len(cli.frames)
            assert turn()["is_error"], status
            assert [frame["error"] for frame in cli.frames[before:] if frame["type"] == "assistant"] == [error]
            assert turn()["result"] == "fine", status
        assert [turn()["result"] for _ in retried] == [f"fine after {status}" for status in retried]
        assert turn()["result"] == "later"
        retries = cli.of_type("system", "api_retry")
        assert {retry["error_status"]: retry["error"] for retry in retries} == retried
        assert retries[-1]["retry_delay_ms"] >= 1000
        asked = len(model.requests)
        exhausted = turn()
        assert exhausted["is_error"]
        assert "the script of 'main' has run out" in exhausted["result"]
        assert len(model.requests) == asked + 1  # and says so at once


def test_a_reply_function_gets_the_request_and_its_errors_are_reported() -> None:
    shell = tool_use("Bash", {"command": 'echo "$HOME"; pwd; echo x > made', "run_in_background": False})
    roots: list[Path] = []

    def answer(request: RecordedRequest) -> LooseAnswer:
        if request.last_user_text == "third":
            raise ValueError("my mistake")
        if request.last_user_text == "second" and not request.tool_results:
            return shell
        return f"{request.prompt}, {'Bash' in request.tool_names}"

    def run() -> None:
        with ScriptedModel(answer) as model, running(model) as cli:
            sandbox = model.sandbox
            roots.append(sandbox.root)
            for number, prompt in enumerate(("first", "second", "third"), 1):
                cli.send(prompt)
                cli.until(number)
            results = [result["result"] for result in cli.results]
            assert results[:2] == ["first, True"] * 2
            assert "ValueError: my mistake" in results[2]
            said = model.requests[2].tool_results[0]["content"]
            assert said.splitlines() == [str(sandbox.home), str(sandbox.cwd)]
            assert (sandbox.cwd / "made").exists()
            assert len(list(sandbox.config_dir.glob("projects/*/*.jsonl"))) == 1

    with pytest.raises(ValueError, match="my mistake"):
        run()
    assert not roots[0].exists()


def _streamed(frames: list[Frame]) -> list[str]:
    events = [frame["event"] for frame in frames if frame["type"] == "stream_event"]
    return [event["delta"]["text"] for event in events if event.get("delta", {}).get("type") == "text_delta"]
