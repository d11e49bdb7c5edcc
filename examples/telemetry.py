"""Trace a session with OpenTelemetry: spans and metrics by its conventions for generative AI.

Needs `pip install ".[otel]" opentelemetry-sdk`. Replace `Printing` by an exporter of your choice.
"""

from collections.abc import Sequence

import anyio
from offline import offline
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from claude_agent_py import Client, ClientOptions
from claude_agent_py.observe import Telemetry
from claude_agent_py.testing import tool_use


class Printing(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            tokens = (span.attributes or {}).get("gen_ai.usage.output_tokens")
            print(f"{span.name}{'' if tokens is None else f', {tokens} output tokens'}")
        return SpanExportResult.SUCCESS


async def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Printing()))
    trace.set_tracer_provider(provider)

    options = ClientOptions(telemetry=Telemetry(agent_name="greeter"), allowed_tools=["Bash"])
    async with Client(options) as client:
        with trace.get_tracer("my program").start_as_current_span("handle a request"):
            await client.query("Say hello")  # in the trace of this request
        await client.query("Say goodbye")  # in a separate trace


if __name__ == "__main__":
    with offline([tool_use("Bash", {"command": "echo hello"}), "Hello.", "Goodbye."]):
        anyio.run(main)
