"""The readers: run one prompt with one SDK and read all messages, through the public API only.

    python -m benchmarks.reading <reader> <program to run as the CLI> <how>

Prints the cost to this process as JSON: CPU and wall time from the prompt to the result, and resident memory after
connecting, at its peak and at the end. `how` is `quiet`; `busy`, with a worker that competes for the loop, whose CPU
time is not counted; or `late`, which starts reading when no more messages arrive.
"""

import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeAlias

import anyio
import anyio.lowlevel

from benchmarks.bare import bare_session
from benchmarks.measuring import FLOOR, OFFICIAL, OURS, memory_mib

Wait: TypeAlias = Callable[[], Awaitable[None]]
Read: TypeAlias = Callable[[Wait], Awaitable[int]]
"""Sends the prompt, waits, and reads to the result; returns the number of messages."""

PROMPT: Final = "Go on."
SLICE: Final = 0.0002
"""Seconds that the competing worker blocks the loop on each turn."""


@asynccontextmanager
async def our_run(cli: str) -> AsyncIterator[Read]:
    """Iterate the run of the prompt: `async for message in client.query(...)`."""
    from claude_agent_py import Client, ClientOptions

    async with Client(ClientOptions(cli_path=cli)) as client:

        async def read(wait: Wait) -> int:
            run = client.query(PROMPT)
            await wait()
            return len([None async for _ in run])

        yield read


@asynccontextmanager
async def our_traced_run(cli: str) -> AsyncIterator[Read]:
    """The same as `our_run`, traced by OpenTelemetry's SDK, whose exporter drops what it gets."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    from claude_agent_py import Client, ClientOptions
    from claude_agent_py.observe import Telemetry

    class Dropping(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Dropping(), max_queue_size=65536))
    telemetry = Telemetry(tracer_provider=provider, meter_provider=MeterProvider())
    async with Client(ClientOptions(cli_path=cli, telemetry=telemetry)) as client:

        async def read(wait: Wait) -> int:
            run = client.query(PROMPT)
            await wait()
            return len([None async for _ in run])

        yield read
    provider.shutdown()


@asynccontextmanager
async def our_session(cli: str) -> AsyncIterator[Read]:
    """Iterate all messages of the session, `client.messages()`, but not the run."""
    from claude_agent_py import Client, ClientOptions, ResultMessage

    async with Client(ClientOptions(cli_path=cli)) as client:

        async def read(wait: Wait) -> int:
            count, messages = 0, client.messages()
            client.query(PROMPT)
            await wait()
            async for message in messages:
                count += 1
                if isinstance(message, ResultMessage):
                    break
            return count

        yield read


@asynccontextmanager
async def official_response(cli: str) -> AsyncIterator[Read]:
    """Iterate the answer to the prompt: `async for message in client.receive_response()`."""
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

    async with ClaudeSDKClient(ClaudeAgentOptions(cli_path=cli)) as client:

        async def read(wait: Wait) -> int:
            await client.query(PROMPT)
            await wait()
            return len([None async for _ in client.receive_response()])

        yield read


@asynccontextmanager
async def floor(cli: str) -> AsyncIterator[Read]:
    """Read lines and decode them."""
    async with bare_session(cli) as session:

        async def read(wait: Wait) -> int:
            session.send_prompt(PROMPT)
            await wait()
            return len([None async for _ in session.receive_response()])

        yield read


READERS: Final[dict[str, Callable[[str], AbstractAsyncContextManager[Read]]]] = {
    f"{OURS}: client.query()": our_run,
    f"{OURS}: client.messages()": our_session,
    f"{OURS}: client.query(), traced": our_traced_run,
    f"{OFFICIAL}: receive_response()": official_response,
    FLOOR: floor,
}


class Competitor:
    """A worker that repeatedly blocks the loop for a moment."""

    seconds = 0.0
    """CPU time that it used."""

    async def work(self) -> None:
        while True:
            begin = time.thread_time()
            while time.thread_time() - begin < SLICE:
                pass
            self.seconds += time.thread_time() - begin
            await anyio.lowlevel.checkpoint()


async def until_idle() -> None:
    """Wait until this process is idle: all messages have arrived, or the SDK has stopped reading."""
    used = -1.0
    while time.process_time() - used > 0.005:
        used = time.process_time()
        await anyio.sleep(0.2)


async def at_once() -> None:
    """Do not wait."""


async def measure(reader: str, cli: str, how: str) -> dict[str, float]:
    competitor, found = Competitor(), dict[str, float]()
    async with READERS[reader](cli) as read, anyio.create_task_group() as workers:
        connected = memory_mib()
        gc.collect()  # what importing and connecting left to collect is not the messages' cost
        wall, cpu = time.perf_counter(), time.process_time()
        if how == "busy":
            workers.start_soon(competitor.work)
        messages = await read(until_idle if how == "late" else at_once)
        found = {
            "cpu": time.process_time() - cpu - competitor.seconds,
            "wall": time.perf_counter() - wall,
            "messages": messages,
            "connected_mib": connected,
            "peak_mib": memory_mib("VmHWM"),
            "end_mib": memory_mib(),
        }
        workers.cancel_scope.cancel()
    return found


def work(reader: str, cli: str, how: str) -> dict[str, float]:
    return anyio.run(measure, reader, cli, how)


if __name__ == "__main__":
    print(json.dumps(work(*sys.argv[1:])))
