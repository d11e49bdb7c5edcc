"""Traces of this library and of the CLI itself, in one receiver, on the real CLI."""

from typing import Any

import pytest
from anyio import to_thread
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from otlp_receiver import Receiver

from claude_agent_py import AssistantMessage, Client, ClientOptions
from claude_agent_py.errors import OptionsError
from claude_agent_py.observe import Telemetry
from claude_agent_py.testing import ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


def cli_exports_to(url: str) -> dict[str, str]:
    return {
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_TRACES_EXPORT_INTERVAL": "100",
    }


async def test_each_run_is_in_the_trace_of_its_prompt_and_the_cli_joins_that_of_the_start() -> None:
    script = [tool_use("Bash", {"command": "echo hello"}), "Done.", "Again."]
    with Receiver() as receiver:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{receiver.url}/v1/traces")))
        tracer = provider.get_tracer("app")
        telemetry = Telemetry(tracer_provider=provider, agent_name="lead")
        async with ScriptedModel(script) as model:
            options = model.options(telemetry=telemetry, env=cli_exports_to(receiver.url))
            with tracer.start_as_current_span("first request"):
                client = Client(options)
                await client.connect()
                await client.query("Say hello")
            with tracer.start_as_current_span("second request"):
                await client.query("Again")
            await client.close()
            await to_thread.run_sync(provider.shutdown)

            [first] = receiver.wait_for("first request", 1)
            [second] = receiver.wait_for("second request", 1)
            one, two = receiver.wait_for("invoke_agent lead", 2)
            [call] = receiver.wait_for("execute_tool Bash", 1)
            theirs = await to_thread.run_sync(lambda: receiver.wait_for("claude_code.interaction", 2))

    assert (one.trace_id, one.parent_span_id) == (first.trace_id, first.span_id)
    assert (two.trace_id, two.parent_span_id) == (second.trace_id, second.span_id)
    assert call.parent_span_id == one.span_id
    assert {span.trace_id for span in theirs} == {first.trace_id}  # fixed when the process starts
    assert [link.trace_id for link in two.links] == [first.trace_id]
    assert list(one.links) == []


@pytest.mark.parametrize("where", ["env", "settings"])
async def test_exporters_that_print_among_the_messages_are_refused(where: str) -> None:
    printing: dict[str, Any] = {"CLAUDE_CODE_ENABLE_TELEMETRY": "1", "OTEL_METRICS_EXPORTER": "otlp,console"}
    options = ClientOptions(env=printing) if where == "env" else ClientOptions(settings={"env": printing})
    with pytest.raises(OptionsError, match="OTEL_METRICS_EXPORTER") as caught:
        async with Client(options):
            raise AssertionError("it started")
    assert caught.value.option == where


@pytest.mark.long
async def test_the_last_answer_of_a_foreground_subagent_is_traced_and_not_shown() -> None:
    def launch(prompt: str) -> Any:
        call = {"description": "look", "prompt": prompt, "subagent_type": "general-purpose"}
        return tool_use("Agent", call | {"run_in_background": False})

    agents = {"LOOK": [launch("DEEPER"), "Outer found it."], "DEEPER": ["Inner found it."]}
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with ScriptedModel([launch("LOOK"), "Done."], agents=agents) as model:
        async with Client(model.options(telemetry=Telemetry(tracer_provider=provider))) as client:
            result = await client.query("Look around")
    answers = [message for message in result.messages if isinstance(message, AssistantMessage) and message.is_subagent]
    assert [bool(message.tool_uses) for message in answers] == [True]
    chats = [span for span in exporter.get_finished_spans() if span.name.startswith("chat")]
    assert sorted("gen_ai.agent.id" in (span.attributes or {}) for span in chats) == [False] * 2 + [True] * 3
