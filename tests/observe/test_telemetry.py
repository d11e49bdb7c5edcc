"""Telemetry with the real SDK of OpenTelemetry: what it records of recordings and of scripted sessions."""

import contextlib
import logging
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import recordings_loader as recordings
from live import LiveJournal
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from peers import install_in_turn
from stored import SESSION, Stored

from claude_agent_py import AssistantMessage, Client, ClientOptions, ResultMessage, UserMessage
from claude_agent_py.errors import CLIExitError, OptionsError
from claude_agent_py.observe import Telemetry, instrument, uninstrument, watch
from claude_agent_py.sessions import project_key_for_directory
from claude_agent_py.testing import FakeCLI, Gate, frames, steps
from claude_agent_py.wire import decode

TOOL = "gen_ai.tool.name"


class Recorded:
    """A real SDK whose exporters keep what they get."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    def telemetry(self, **more: Any) -> Telemetry:
        return Telemetry(tracer_provider=self.tracers, meter_provider=self.meters, **more)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == name]
        return [point for metric in metrics for point in metric.data.data_points]


@pytest.fixture
def sdk() -> Iterator[Recorded]:
    recorded = Recorded()
    yield recorded
    recorded.tracers.shutdown()
    recorded.meters.shutdown()


def replay(name: str, telemetry: Telemetry) -> None:
    """Trace a recording as a session that runs."""
    journal = traced(telemetry)
    for record in recordings.records(name):
        if record.direction in ("in", "out"):
            frame, is_sent = decode(recordings.as_line(record.value)), record.direction == "in"
            if is_sent or record.value.get("type") == "control_request":
                journal.feed(frame, sent=is_sent)
            else:
                journal.feed(frame)
    journal.end(None)


def traced(telemetry: Telemetry) -> LiveJournal:
    """Return the journal of a session with this telemetry."""
    journal = LiveJournal(clock=time.time)
    journal.observe(telemetry.observer())
    return journal


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_spans_follow_the_conventions(sdk: Recorded) -> None:
    with sdk.tracers.get_tracer("app").start_as_current_span("request") as request:
        replay("turns/nested_agents", sdk.telemetry(agent_name="lead"))
    mine = request.get_span_context()

    [turn, *follow_ups] = sdk.named("invoke_agent lead")
    assert turn.parent is not None
    assert turn.parent.span_id == mine.span_id
    assert attributes(turn)["gen_ai.operation.name"] == "invoke_agent"
    assert attributes(turn)["gen_ai.agent.name"] == "lead"
    assert attributes(turn)["gen_ai.conversation.id"]
    assert attributes(turn)["claude_agent.cost_usd"] > 0
    assert {span.context.trace_id for span in follow_ups if span.context} <= {mine.trace_id}

    chats = sdk.named("chat claude-opus-5-5")
    assert {span.kind for span in chats} == {trace.SpanKind.CLIENT}
    assert attributes(chats[0])["gen_ai.usage.input_tokens"] == 100
    assert attributes(chats[0])["gen_ai.request.model"] == "claude-opus-5-5"

    [launch, *_] = sdk.named("execute_tool Agent")
    assert attributes(launch)["gen_ai.tool.name"] == "Agent"
    assert attributes(launch)["gen_ai.tool.call.id"].startswith("toolu_")
    assert launch.parent is not None
    assert turn.context is not None
    assert launch.parent.span_id == turn.context.span_id

    agents = sdk.named("invoke_agent general-purpose")
    back = [span for span in agents if span.parent is None]
    assert back
    assert launch.context is not None
    assert back[0].links[0].context.span_id == launch.context.span_id
    inside = [span for span in sdk.spans if span.parent and span.parent.span_id == back[0].context.span_id]
    assert inside
    assert all(span.end_time >= span.start_time for span in sdk.spans if span.end_time and span.start_time)


def test_follow_up_turns_are_in_the_trace_of_a_run_that_is_in_none(sdk: Recorded) -> None:
    replay("turns/nested_agents", sdk.telemetry())
    [first, *follow_ups] = sdk.named("invoke_agent")
    assert first.parent is None
    assert follow_ups
    mine = first.context
    assert mine is not None
    assert {span.parent.span_id if span.parent else None for span in follow_ups} == {mine.span_id}


def test_content_comes_only_when_asked_for_and_never_with_secrets(sdk: Recorded, monkeypatch: Any) -> None:
    replay("tasks/s09_ask_user_question", sdk.telemetry())
    quiet = str([attributes(span) | {"name": span.name} for span in sdk.spans])
    assert "gen_ai.tool.call.arguments" not in quiet
    assert "question" not in quiet.replace("claude_agent.question", "").replace("'question'", "").replace(
        "AskUserQuestion", ""
    )
    sdk.exporter.clear()
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    replay("tasks/s09_ask_user_question", sdk.telemetry())
    assert "gen_ai.tool.call.arguments" in str([attributes(span) for span in sdk.spans])
    assert "gen_ai.input.messages" in str([attributes(span) for span in sdk.spans])

    sdk.exporter.clear()
    journal = traced(sdk.telemetry(content=True))
    said = {
        "type": "tool_use",
        "id": "t1",
        "name": "Bash",
        "input": {"command": "curl -H 'x-api-key: sk-ant-abc123'", "api_key": "hush"},
    }
    message = {"id": "m1", "role": "assistant", "model": "m", "content": [said]}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "Authorization: Bearer abcdefghijkl"}
    for frame in (
        {"type": "assistant", "message": message, "uuid": "u1"},
        {"type": "user", "message": {"role": "user", "content": [result]}},
    ):
        journal.feed(decode(recordings.as_line(frame)))
    journal.end(None)
    told = str([attributes(span) for span in sdk.spans])
    assert "curl" in told
    assert not [secret for secret in ("sk-ant-abc123", "hush", "abcdefghijkl") if secret in told]


@pytest.mark.anyio
async def test_no_view_of_a_session_shows_a_secret_that_its_options_or_the_environment_have(
    sdk: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNING_PASSPHRASE", "correct horse")
    use = frames.assistant([frames.tool_use_block("Bash", {"command": "env"}, id="t1")])
    printed = frames.tool_result("t1", "correct horse, acme-9f8e7d6c")
    options = ClientOptions(env={"ACME_TOKEN": "acme-9f8e7d6c"}, telemetry=sdk.telemetry(content=True))
    async with Client(options, transport=FakeCLI(steps.turn([use, printed])).transport()) as client:
        with watch(client) as watched:
            result = await client.query("Print the environment")
    elsewhere = pickle.loads(pickle.dumps(result))
    told = str([attributes(span) for span in sdk.spans])
    here = [told, str(result.timeline().spans), str(watched.timeline().spans)]
    for shown in (*here, str(elsewhere.timeline().spans)):
        assert "SIGNING_PASSPHRASE" in shown
        assert "correct horse" not in shown
    for shown in here:
        assert "ACME_TOKEN" in shown
        assert "acme-9f8e" not in shown


def test_metrics_have_tokens_cost_and_durations(sdk: Recorded) -> None:
    replay("turns/three_agents", sdk.telemetry())
    tokens = sdk.points("gen_ai.client.token.usage")
    sums = {point.attributes["gen_ai.token.type"]: point.sum for point in tokens}
    last = [frame for frame in recordings.frames("turns/three_agents") if frame["type"] == "result"][-1]
    [used] = last["modelUsage"].values()
    assert sums == {"input": used["inputTokens"], "output": used["outputTokens"]}
    assert sum(point.value for point in sdk.points("claude_agent.cost")) == pytest.approx(last["total_cost_usd"])
    operations = {point.attributes["gen_ai.operation.name"] for point in sdk.points("gen_ai.client.operation.duration")}
    assert operations == {"invoke_agent", "chat", "execute_tool"}


def test_each_recording_is_traced_without_a_failure(sdk: Recorded, caplog: pytest.LogCaptureFixture) -> None:
    for name in recordings.names():
        replay(name, sdk.telemetry(content=True))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert len(sdk.spans) > 1000
    calls = [attributes(span) for span in sdk.spans if span.name.startswith("execute_tool")]
    assert [call for call in calls if "gen_ai.agent.id" in call and "gen_ai.agent.name" not in call] == []


def test_tokens_of_the_cache_are_attributes_and_part_of_the_input(sdk: Recorded) -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 200,
        "cache_creation_input_tokens": 3000,
    }
    journal = traced(sdk.telemetry())
    answer = frames.assistant("Hi.")
    answer["message"]["usage"] = usage
    for frame in (frames.init(), answer, frames.result("Hi.")):
        journal.feed(decode(frames.encode(frame)))
    journal.end(None)
    [chat] = [span for span in sdk.spans if span.name.startswith("chat")]
    found = attributes(chat)
    assert found["gen_ai.usage.input_tokens"] == 3210
    assert found["gen_ai.usage.cache_read.input_tokens"] == 200
    assert found["gen_ai.usage.cache_creation.input_tokens"] == 3000


@pytest.mark.parametrize(("is_over", "found"), [(False, {}), (True, {"claude_agent.cancelled": True})])
def test_a_call_that_nobody_observes_to_its_end_was_not_cancelled(
    is_over: bool, found: dict[str, Any], sdk: Recorded
) -> None:
    journal, observer = LiveJournal(clock=time.time), sdk.telemetry().observer()
    journal.observe(observer)
    call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="t1")])
    for frame in (frames.init(), call):
        journal.feed(decode(frames.encode(frame)))
    if is_over:
        journal.end(None)
    else:
        journal.remove(observer)
    [span] = sdk.named("execute_tool Bash")
    kinds = ("error.type", "claude_agent.cancelled")
    assert {name: value for name, value in attributes(span).items() if name in kinds} == found
    assert span.status.status_code is trace.StatusCode.UNSET


@pytest.mark.anyio
async def test_a_span_ends_with_its_message_not_with_the_next(sdk: Recorded) -> None:
    happened: list[str] = []
    called = anyio.Event()

    class Noting(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            happened.append(span.name)
            if span.name == "execute_tool Bash":
                called.set()

    sdk.tracers.add_span_processor(Noting())
    call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="t1")])
    before = steps.emit(frames.init(**frames.prompt_field("uuid")), call, frames.tool_result("t1", "a.py"))
    gate = Gate()
    fake = FakeCLI(steps.wait_for_prompt(), before, steps.wait_gate(gate), steps.emit(frames.result("Done.")))
    async with Client(ClientOptions(telemetry=sdk.telemetry()), transport=fake.transport()) as client:
        with anyio.fail_after(60):
            async for message in client.query("hello"):
                happened.append(type(message).__name__)
                if isinstance(message, UserMessage):
                    await called.wait()  # without another message
                    gate.open()
                if isinstance(message, ResultMessage):
                    assert happened[-2:] == ["invoke_agent", "ResultMessage"]


@pytest.mark.anyio
@pytest.mark.each_backend
@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
@pytest.mark.parametrize("is_within", [True, False], ids=["within a span", "outside"])
@pytest.mark.parametrize("is_resumed", [True, False], ids=["resumed", "sent again"])
async def test_a_turn_that_goes_on_in_the_next_process_stays_in_its_trace(
    is_within: bool, is_resumed: bool, sdk: Recorded, tmp_path: Path
) -> None:
    tracer, prompt = sdk.tracers.get_tracer("app"), "00000000-0000-4000-8000-00000000000a"
    init = frames.init(session_id=SESSION, user_message_uuids=[prompt])
    first = FakeCLI(steps.wait_for_prompt(), init, steps.exit(1))
    second = FakeCLI(steps.turn("again"))
    if is_resumed:
        stored = Stored(tmp_path / "config", project=project_key_for_directory(tmp_path))
        stored.user("hi", uuid=prompt)
        stored.assistant("half of an answer")
        again = [init, frames.assistant("again"), frames.result("again", user_message_uuids=[prompt])]
        second = FakeCLI(*again, initialize=frames.initialize_response(session_state="running"))
    options: ClientOptions = ClientOptions(
        cli_path=install_in_turn(tmp_path, first, second),
        cwd=tmp_path,
        env={"CLAUDE_CONFIG_DIR": str(tmp_path / "config")},
        telemetry=sdk.telemetry(),
    )
    with anyio.fail_after(60):
        async with Client(options) as client:
            with tracer.start_as_current_span("request") if is_within else contextlib.nullcontext():
                run = client.query("hi", uuid=prompt)
            with pytest.raises(CLIExitError):
                await run
            with tracer.start_as_current_span("who opens it again"):
                await client.reopen()
            assert (await run).text == "again"
    before, after = sdk.named("invoke_agent")
    [parent] = sdk.named("request") or [before]
    assert after.parent == parent.get_span_context()


@pytest.mark.anyio
async def test_the_option_and_the_program_decide(sdk: Recorded) -> None:
    async def is_traced(recorded: Recorded, **options: Any) -> bool:
        before = len(recorded.spans)
        async with Client(ClientOptions(**options), transport=FakeCLI(steps.turn()).transport()) as client:
            await client.query("go")
        return len(recorded.spans) > before

    own = Recorded()
    assert not await is_traced(sdk)
    assert not await is_traced(sdk, telemetry=True)  # the program has no tracer
    instrument(sdk.telemetry())
    try:
        assert await is_traced(sdk)
        assert not await is_traced(sdk, telemetry=False)
        assert not await is_traced(sdk, telemetry=own.telemetry())
        assert await is_traced(own, telemetry=own.telemetry())
    finally:
        uninstrument()
    assert not await is_traced(sdk)
    with pytest.raises(OptionsError, match="telemetry"):
        ClientOptions(telemetry="yes")


def test_without_opentelemetry_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith(("opentelemetry", "claude_agent_py.observe.tracing"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(OptionsError, match="pip install opentelemetry-api"):
        instrument()


@pytest.mark.anyio
async def test_tools_that_a_model_invents_share_a_name_in_metrics(sdk: Recorded) -> None:
    invented = [f"Invented{i}" + "x" * 5000 for i in range(3)]
    blocks = [frames.tool_use_block(name) for name in [*invented, "Read"]]
    refused = [frames.tool_result(block["id"], "no", is_error=True) for block in blocks]
    fake = FakeCLI(steps.turn([frames.assistant(blocks), *refused, frames.assistant("done")]))
    async with Client(ClientOptions(telemetry=sdk.telemetry()), transport=fake.transport()) as client:
        await client.query("go")
    named = {point.attributes.get(TOOL) for point in sdk.points("gen_ai.client.operation.duration")}
    assert named == {None, "_OTHER", "Read"}
    assert {span.name for span in sdk.spans if TOOL in attributes(span)} == {
        "execute_tool _OTHER",
        "execute_tool Read",
    }
    kept = {attributes(span)[TOOL] for span in sdk.named("execute_tool _OTHER")}
    assert kept == {name[:200] for name in invented}


@pytest.mark.anyio
@pytest.mark.parametrize("with_nested_calls", [False, True])
async def test_what_the_cli_sends_only_for_telemetry_reaches_no_reader(sdk: Recorded, with_nested_calls: bool) -> None:
    def says(agent: str) -> list[Any]:
        call = frames.tool_use_block("Bash", {"command": agent}, id=f"toolu_{agent}")
        by = {"agent_id": agent, "parent_tool_use_id": f"toolu_launch_{agent}"}
        return [frames.assistant(f"text of {agent}", **by), frames.assistant([call], **by)]

    fake = FakeCLI(
        steps.wait_for_prompt(),
        frames.task_started("outer", is_backgrounded=False),
        frames.task_started("inner", is_backgrounded=False, parent_task_id="outer", spawn_depth=2),
        *says("outer"),
        *says("inner"),
        frames.result("done"),
    )
    options = ClientOptions(telemetry=sdk.telemetry(content=True), forward_nested_subagent_tool_calls=with_nested_calls)
    async with Client(options, transport=fake.transport()) as client:
        read = client.messages()
        await client.query("go")
        await client.close()
        said = [message async for message in read if isinstance(message, AssistantMessage)]
    assert [message.text for message in said if message.text] == []
    assert [call.id for message in said for call in message.tool_uses] == [
        "toolu_outer",
        *["toolu_inner"] * with_nested_calls,
    ]
    assert {span.attributes["gen_ai.tool.call.id"] for span in sdk.named("execute_tool Bash") if span.attributes} == {
        "toolu_outer",
        "toolu_inner",
    }
