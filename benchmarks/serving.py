"""The delay from a CLI to many readers of served sessions, compared with a bare Starlette loop.

    python -m benchmarks.serving [--sessions 50] [--readers 10] [--seconds 120] [--pause 0.1]

Each session has a stand-in CLI, which writes a delta with its time every `pause` seconds. Readers are plain sockets in
a process of their own, which checks that every reader got every delta once and in order. The bare server has the same
CLIs, and writes their lines to its readers unread. All prompts are sent at once, and the first delta of each CLI comes
after a random part of the pause: otherwise the delays would be those of CLIs that happen to write at the same moment.
"""

import argparse
import asyncio
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import uvicorn
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from benchmarks.measuring import ROOT, memory_mib
from claude_agent_py import ClientOptions
from claude_agent_py.serve import Server, Sessions, make_app

TOKEN: Final = "token"
START_SECONDS: Final = 3.0
CLI: Final = """
import json, random, sys, time
count, pause = int(sys.argv[1]), float(sys.argv[2])

def send(frame):
    sys.stdout.write(json.dumps(frame) + "\\n")
    sys.stdout.flush()

ids = {"session_id": "s", "uuid": "u"}
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "control_request":
        body = {"subtype": "success", "request_id": frame["request_id"], "response": {}}
        send({"type": "control_response", "response": body})
    elif frame["type"] == "user":
        prompt = frame["uuid"]
        event = {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "x",
                 "content": [], "stop_reason": None, "stop_sequence": None, "usage": {}}}
        send({"type": "stream_event", "event": event, "user_message_uuid": prompt, **ids})
        time.sleep(random.uniform(0, pause))
        for number in range(count):
            delta = {"type": "text_delta", "text": f"{number} {time.time()};"}
            event = {"type": "content_block_delta", "index": 0, "delta": delta}
            send({"type": "stream_event", "event": event, **ids})
            time.sleep(pause)
        send({"type": "result", "subtype": "success", "is_error": False, "duration_ms": 1, "duration_api_ms": 1,
              "num_turns": 1, "result": "done", "total_cost_usd": 0, "usage": {}, "user_message_uuid": prompt, **ids})
"""


def write_cli(folder: Path, count: int, pause: float) -> Path:
    """Write the stand-in as a program, and return its path."""
    (folder / "cli.py").write_text(CLI)
    program = folder / "claude"
    words = shlex.join([sys.executable, "-I", str(folder / "cli.py"), str(count), str(pause)])
    program.write_text(f"#!/bin/sh\nexec {words}\n")
    program.chmod(0o755)
    return program


def make_bare(program: Path, count: int) -> ASGIApp:
    """Return an application that passes the lines of a CLI on to whoever reads them."""
    readers: dict[str, list[asyncio.Queue[str]]] = {}
    workers: set[asyncio.Task[None]] = set()

    async def create(request: Request) -> Response:
        name = str(len(readers))
        readers[name] = []
        return JSONResponse({"id": name})

    async def run(name: str) -> None:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(program, stdin=pipe, stdout=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"type": "user", "uuid": "p"}).encode() + b"\n")
        for _ in range(count + 2):
            line = (await process.stdout.readline()).decode().strip()
            for queue in readers[name]:
                queue.put_nowait(line)
        process.kill()
        await process.wait()

    async def send(request: Request) -> Response:
        worker = asyncio.create_task(run(request.path_params["session"]))
        workers.add(worker)
        worker.add_done_callback(workers.discard)
        return JSONResponse({})

    async def follow(request: Request) -> Response:
        queue: asyncio.Queue[str] = asyncio.Queue()
        readers[request.path_params["session"]].append(queue)

        async def events() -> AsyncIterator[ServerSentEvent]:
            while True:
                yield ServerSentEvent(await queue.get())

        return EventSourceResponse(events())

    return Starlette(
        routes=[
            Route("/api/sessions", create, methods=["POST"]),
            Route("/api/sessions/{session}/events", follow),
            Route("/api/sessions/{session}/prompts", send, methods=["POST"]),
        ]
    )


def serve(kind: str, program: Path, count: int, sessions: int) -> None:
    """Serve until the parent closes stdin; print the port, and at the end CPU seconds and memory."""
    kept = Sessions(ClientOptions(cli_path=program), max_open=sessions)
    app = make_app(kept, token=TOKEN) if kind == "claude_agent_py" else make_bare(program, count)
    config = uvicorn.Config(app, "127.0.0.1", 0, log_level="error", timeout_graceful_shutdown=1)
    sock = config.bind_socket()
    sock.listen(2048)
    server = Server(config, kept)

    async def run() -> None:
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        print(sock.getsockname()[1], flush=True)
        loop = asyncio.get_running_loop()
        for _ in range(2):  # once when all is connected, once when all is over
            await loop.run_in_executor(None, sys.stdin.readline)
            used = time.process_time()
            print(json.dumps({"cpu": used, "mib": memory_mib()}), flush=True)
        server.should_exit = True
        await serving

    asyncio.run(run())


@asynccontextmanager
async def request(port: int, method: str, path: str, body: bytes = b"{}") -> AsyncIterator[asyncio.StreamReader]:
    """Send a request, and give the answer's reader after its head."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 2"), answer
        yield reader
    finally:
        writer.close()


async def read(port: int, session: str, count: int, delays: list[float]) -> None:
    """Read a session to its last delta."""
    number = 0
    async with request(port, "GET", f"/api/sessions/{session}/events") as reader:
        while number < count:
            line = await reader.readline()
            assert line, "the stream ended"
            if b"text_delta" not in line and b'"type":"text"' not in line:
                continue
            event = json.loads(line.removeprefix(b"data: "))
            text = event["delta"] if event["type"] == "text" else event["event"]["delta"]["text"]
            for part in text.split(";")[:-1]:
                found, sent = part.split()
                assert int(found) == number, (found, number)
                number += 1
                delays.append(time.time() - float(sent))


async def measure(kind: str, program: Path, given: argparse.Namespace, count: int) -> dict[str, Any]:
    """Let all readers read all sessions of one server."""
    command = [sys.executable, "-m", "benchmarks.serving", "--serve", kind, "--program", str(program)]
    command += ["--count", str(count), "--sessions", str(given.sessions)]
    server = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=os.environ
    )
    assert server.stdin is not None
    assert server.stdout is not None
    port = int(await server.stdout.readline())
    names = []
    for _ in range(given.sessions):
        async with request(port, "POST", "/api/sessions") as reader:
            names.append(json.loads(await reader.readuntil(b"}"))["id"])
    delays: list[float] = []
    readers = [asyncio.create_task(read(port, name, count, delays)) for name in names for _ in range(given.readers)]
    await asyncio.sleep(1)
    figures = []

    async def begin(name: str) -> None:
        async with request(port, "POST", f"/api/sessions/{name}/prompts", b'{"text": "Go"}'):
            pass

    await asyncio.gather(*map(begin, names))
    await asyncio.sleep(min(START_SECONDS, given.seconds / 10))  # the processes start
    begun = len(delays)
    for done in (False, True):
        if done:
            await asyncio.gather(*readers)
        server.stdin.write(b"\n")
        figures.append(json.loads(await server.stdout.readline()))
    await asyncio.wait_for(server.wait(), 60)
    later = delays[begun:]
    cuts = quantiles(later, n=100)
    return {
        "events": len(delays),
        "p50": cuts[49] * 1000,
        "p99": cuts[98] * 1000,
        "all_p99": quantiles(delays, n=100)[98] * 1000,
        "cpu": (figures[1]["cpu"] - figures[0]["cpu"]) / len(later) * 1e6,
        "more_mib": figures[1]["mib"] - figures[0]["mib"],
    }


def main() -> None:
    """Measure and print, or serve for a measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving")
    parser.add_argument("--sessions", type=int, default=50, help="how many sessions")
    parser.add_argument("--readers", type=int, default=10, help="how many readers each has")
    parser.add_argument("--seconds", type=float, default=120.0, help="for how long each CLI writes")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between two deltas of a CLI")
    parser.add_argument("--rounds", type=int, default=1, help="how often")
    for hidden in ("--serve", "--program", "--count"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, Path(given.program), int(given.count), given.sessions)
        return
    count = int(given.seconds / given.pause)
    print(f"{given.sessions} sessions, {given.readers} readers each, a delta every {given.pause:g} s, {count} deltas")
    with tempfile.TemporaryDirectory() as folder:
        program = write_cli(Path(folder), count, given.pause)
        for _ in range(given.rounds):
            for kind in ("bare Starlette", "claude_agent_py"):
                found = asyncio.run(measure(kind, program, given, count))
                shown = f"{found['events']} events, delay p50 {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms"
                shown += f" ({found['all_p99']:.1f} ms with the starts)"
                print(f"{kind:16} {shown}, {found['cpu']:.0f} us CPU an event, {found['more_mib']:+.1f} MiB")


if __name__ == "__main__":
    main()
