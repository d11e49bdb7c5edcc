"""What a timeline shows of failures, hooks and costs."""

from typing import Any

import anyio
import pytest
import recordings_loader as recordings
from child_clis import MakeAgent, child_cli
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from peers import start_in_memory

from claude_agent_py import CLIExitError, Deny, PermissionContext
from claude_agent_py.hooks import PreToolUseInput
from claude_agent_py.messages import AssistantMessage
from claude_agent_py.observe import Telemetry, Timeline, instrument, uninstrument, watch
from claude_agent_py.permissions import PermissionRequest
from claude_agent_py.testing import FakeCLI, Gate, frames, steps


def recorded(name: str) -> Timeline:
    return Timeline.from_recording(recordings.FOLDER / f"{name}.jsonl")


def test_a_text_that_the_cli_writes_itself_is_no_model_call() -> None:
    timeline = recorded("control/05_err_529_exhausted")
    [turn] = [span for span in timeline.spans if span.kind == "turn" and span.status == "error"]
    assert turn.attributes["error_type"] == "server_error"
    assert "<synthetic>" not in timeline.summary.by_model
    models = [span.name for name in recordings.names() for span in recorded(name).spans if span.kind == "model"]
    assert "<synthetic>" not in models


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("control/04_interrupt_pending_permission", "cancelled"),
        ("control/08_sigint_twice", "cancelled"),
        ("tasks/s07_stdin_closed_permission", "cancelled"),
        ("tasks/s09_dontask_mode", "denied"),
    ],
)
def test_a_call_whose_approval_was_cut_off_is_not_denied(name: str, status: str) -> None:
    stopped = [span.status for span in recorded(name).spans if span.kind == "tool" and span.status != "ok"]
    assert set(stopped) == {status}


def exported() -> tuple[Telemetry, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Telemetry(tracer_provider=provider), exporter


@pytest.mark.anyio
async def test_a_hook_has_its_tool_and_its_handler() -> None:
    async def guard(hook_input: PreToolUseInput, context: Any) -> None:
        return None

    asked = {
        "type": "control_request",
        "request_id": "r1",
        "request": {
            "subtype": "hook_callback",
            "callback_id": "hook_0",
            "tool_use_id": "t1",
            "input": {
                "hook_event_name": "PreToolUse",
                "tool_name": "Bash",
                "tool_input": {"command": "ls"},
                "tool_use_id": "t1",
                "session_id": "s",
                "transcript_path": "/t",
                "cwd": "/",
            },
        },
    }
    call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="t1")])
    fake = FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.prompt_field("uuid")), call, asked),
        steps.wait_for_reply("r1"),
        steps.emit(frames.tool_result("t1", ""), frames.result("Done.")),
    )
    telemetry, exporter = exported()
    async with start_in_memory(fake, hooks={"PreToolUse": [guard]}, telemetry=telemetry) as client:
        with watch(client) as watched:
            await client.query("hello")
    [hook] = [span for span in watched.spans if span.kind == "hook"]
    assert (hook.name, hook.parent, hook.attributes["tool"]) == ("PreToolUse", "t1", "Bash")
    assert hook.attributes["handler"].endswith("guard")
    [traced] = [dict(span.attributes or {}) for span in exporter.get_finished_spans() if span.name == "hook PreToolUse"]
    assert (traced["claude_agent.tool"], traced["claude_agent.handler"]) == ("Bash", hook.attributes["handler"])


def test_a_hook_of_the_settings_has_its_tool_and_its_handler() -> None:
    hooks = [span for span in recorded("control/05_hook_events").spans if span.kind == "hook"]
    told = {(span.name, span.attributes.get("tool"), span.attributes.get("handler")) for span in hooks}
    assert told >= {("PreToolUse", "Bash", "PreToolUse:Bash"), ("SessionStart", None, "SessionStart:startup")}


def test_the_cost_is_divided_among_the_agents() -> None:
    summary = recorded("turns/three_agents").summary
    costs = {agent: used.cost_usd for agent, used in summary.by_agent.items()}
    assert len(costs) == 4
    assert all(cost and cost > 0 for cost in costs.values())
    assert sum(filter(None, costs.values())) == pytest.approx(summary.cost_usd)


@pytest.mark.anyio
async def test_the_last_model_call_of_a_subagent_is_traced_though_the_user_did_not_ask_for_its_text() -> None:
    launch = frames.assistant([frames.tool_use_block("Agent", {"prompt": "Look"}, id="t1")])
    said = {**frames.assistant("I have looked.", id="m2"), "agent_id": "a1", "parent_tool_use_id": "t1"}
    started = frames.task_started("a1", tool_use_id="t1", is_backgrounded=False)
    fake = FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.prompt_field("uuid")), launch, started, said),
        steps.emit(frames.task_notification("a1"), frames.tool_result("t1", "Looked."), frames.result("Done.")),
    )
    telemetry, exporter = exported()
    async with start_in_memory(fake, telemetry=telemetry) as client:
        result = await client.query("hello")
    assert "I have looked." not in [
        message.text for message in result.messages if isinstance(message, AssistantMessage)
    ]
    chats = [dict(span.attributes or {}) for span in exporter.get_finished_spans() if span.name.startswith("chat")]
    assert {chat.get("gen_ai.agent.id") for chat in chats} == {None, "a1"}


@pytest.mark.anyio
@pytest.mark.parametrize(("in_background", "is_wanted"), [(False, False), (True, False), (False, True)])
async def test_the_last_model_call_of_a_subagent_of_a_child_is_traced(
    agent_of: MakeAgent, in_background: bool, is_wanted: bool
) -> None:
    """All get it if it is in the background, because the CLI sends it anyhow, or if the child's options say so."""
    started = frames.task_started("a1", tool_use_id="t1", is_backgrounded=in_background)
    said = {**frames.assistant("I have looked.", id="m2"), "agent_id": "a1", "parent_tool_use_id": "t1"}
    launch = frames.assistant([frames.tool_use_block("Agent", {"prompt": "Look"}, id="t1")])
    end = frames.task_notification("a1"), frames.tool_result("t1", "Looked."), frames.result()
    fake = child_cli(steps.turn([launch, started, said, *end]))
    telemetry, exporter = exported()
    instrument(telemetry)
    try:
        async with start_in_memory(FakeCLI()) as client:
            with anyio.fail_after(60):
                await (await client.spawn(agent_of(fake, options={"forward_subagent_text": is_wanted}), "Do it."))
            seen = [
                message.text for message in client.tasks["a1"].seen_messages if isinstance(message, AssistantMessage)
            ]
    finally:
        uninstrument()
    assert seen == (["I have looked."] if in_background or is_wanted else [])
    chats = [dict(span.attributes or {}) for span in exporter.get_finished_spans() if span.name.startswith("chat")]
    assert "a1" in {chat.get("gen_ai.agent.id") for chat in chats}


@pytest.mark.anyio
@pytest.mark.parametrize("own", [None, {"max_turns": 3}])
async def test_a_child_sends_what_the_telemetry_of_its_parent_needs(agent_of: MakeAgent, own: Any) -> None:
    fake = child_cli(steps.turn("Done."))
    async with start_in_memory(FakeCLI(), telemetry=exported()[0]) as client:
        with anyio.fail_after(60):
            await (await client.spawn(agent_of(fake, options=own), "Do it."))
    [initialize] = [frame for frame in fake.received if frame.get("request", {}).get("subtype") == "initialize"]
    assert initialize["request"]["forwardSubagentText"] is True


@pytest.mark.anyio
async def test_what_a_subagent_in_the_background_says_is_told_to_all(agent_of: MakeAgent) -> None:
    """Telemetry is not why the CLI sends it."""
    said = {**frames.assistant("I have looked.", id="m2"), "agent_id": "a1", "parent_tool_use_id": "t1"}
    fake = FakeCLI(steps.turn([frames.task_started("a1", is_backgrounded=True), said, frames.result()]))
    telemetry, _ = exported()
    async with start_in_memory(fake, telemetry=telemetry) as client:
        result = await client.query("hello")
        assert "I have looked." in [
            message.text for message in result.messages if isinstance(message, AssistantMessage)
        ]


@pytest.mark.anyio
async def test_an_approval_that_ends_with_the_process_is_cancelled_and_not_denied() -> None:
    asked = anyio.Event()

    async def decide(request: PermissionRequest, context: PermissionContext) -> Deny:
        asked.set()
        await anyio.sleep_forever()
        return Deny("never")

    gate = Gate()
    call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="t1")])
    fake = FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.prompt_field("uuid")), call, frames.can_use_tool("r1", tool_use_id="t1")),
        steps.wait_gate(gate),
        steps.exit(137),
    )
    async with start_in_memory(fake, can_use_tool=decide) as client:
        with watch(client) as watched:
            run = client.query("hello")
            with anyio.fail_after(60):
                await asked.wait()
                gate.open()
                with pytest.raises(CLIExitError):
                    await run
    spans = {span.kind: span.status for span in watched.spans}
    assert (spans["waiting"], spans["tool"]) == ("cancelled", "cancelled")
    assert {span.kind for span in watched.timeline().summary.failed} == {"turn", "run"}
