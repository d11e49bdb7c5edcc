"""The HTTP server of a worker, for probes and Prometheus."""

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from anyio import to_thread
from bounds import set_bound
from fleets import PATIENCE, fleet_in, fleet_url as fleet_url, until, until_state
from temporal_server import TemporalServer, stoppable_temporal as stoppable_temporal

from claude_agent_py import ClientOptions
from claude_agent_py.errors import FleetError, OptionsError
from claude_agent_py.fleet import Fleet, Worker
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import FakeCLI, Gate, ScriptedModel, steps

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@asynccontextmanager
async def working(folder: Path, url: str, gate: Gate | None = None) -> AsyncIterator[tuple[Fleet, Worker, str]]:
    """Run a worker, and yield it with the URL of its HTTP server."""
    program = FakeCLI(*([] if gate is None else [steps.wait_gate(gate)]), steps.turn("ok")).install(folder / "cli")
    async with Fleet(url, store=SQLiteStore(folder / "store.db"), poll=0.1, lease=3.0) as fleet:
        fleet.agent("works", ClientOptions(cli_path=program, cwd=folder))
        async with fleet.worker(health=0) as worker:
            assert worker.health is not None
            host, port = worker.health
            assert host == "127.0.0.1"
            yield fleet, worker, f"http://{host}:{port}"


async def get(url: str, method: str = "GET") -> tuple[int, str]:
    def request() -> tuple[int, str]:
        address = urlsplit(url)
        with closing(HTTPConnection(str(address.hostname), address.port, timeout=PATIENCE)) as connection:
            connection.request(method, url.removeprefix(f"http://{address.netloc}"))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    return await to_thread.run_sync(request)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="kills a server")
async def test_a_worker_is_not_ready_while_its_temporal_server_is_away(
    tmp_path: Path, stoppable_temporal: TemporalServer
) -> None:
    async with working(tmp_path, f"temporal://{stoppable_temporal.address}/test-0") as (_, _, at):
        assert await get(f"{at}/readyz") == (200, "ready\n")
        stoppable_temporal.kill()
        try:
            began = anyio.current_time()
            assert await get(f"{at}/readyz") == (503, "the Temporal server does not answer\n")
            assert anyio.current_time() - began < PATIENCE / 2
            assert await get(f"{at}/healthz") == (200, "ok\n")
        finally:
            stoppable_temporal.restart()

        async def is_ready() -> bool:
            return (await get(f"{at}/readyz"))[0] == 200

        await until(is_ready, "the worker is ready again")


async def test_a_worker_tells_how_it_is(tmp_path: Path, fleet_url: str) -> None:
    gate = Gate()
    async with working(tmp_path, fleet_url, gate) as (fleet, worker, at):
        assert await get(f"{at}/healthz") == (200, "ok\n")
        assert await get(f"{at}/readyz") == (200, "ready\n")
        assert await get(f"{at}/healthz", "HEAD") == (200, "")
        session = await fleet.start("works", "hi", tenant="acme")
        await until_state(session, "running")
        status, metrics = await get(f"{at}/metrics?from=prometheus")
        assert status == 200
        assert "\nclaude_agent_fleet_running_sessions 1\n" in metrics
        assert await get(f"{at}/metrics", "POST") == (405, "only GET and HEAD are answered\n")
        assert await get(f"{at}/") == (404, "there are /healthz, /readyz and /metrics\n")
        async with anyio.create_task_group() as group:
            group.start_soon(worker.drain)
            await until(lambda: "draining" in repr(worker), "it drains")
            assert await get(f"{at}/readyz") == (503, "the worker drains\n")
            assert (await get(f"{at}/healthz"))[0] == 200
            gate.open()
        assert (await session.result()).text == "ok"


async def test_slow_and_wrong_clients_hold_up_nobody(
    tmp_path: Path, fleet_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "REQUEST_SECONDS", 0.5)
    set_bound(monkeypatch, "MAX_CONNECTIONS", 4)
    async with working(tmp_path, fleet_url) as (_, worker, at):
        assert worker.health is not None
        slow = [socket.create_connection(worker.health) for _ in range(20)]
        slow[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        assert (await get(f"{at}/healthz"))[0] == 200  # once the slow ones are sent away
        for text, status in (
            (b"GET /healthz HTTP/1.1\r\n" + b"X: " + b"x" * 20_000, b"431"),
            (b"\x16\x03\x01 TLS\r\n\r\n", b"400"),
            (b"GET /healthz\r\n\r\n", b"400"),
            (b"GET /healthz HTTP/1.1\r\n", b"408"),
        ):
            assert await ask(worker.health, text) == status
        for each in slow:
            each.close()
        assert await get(f"{at}/healthz") == (200, "ok\n")


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process")
async def test_idle_connections_to_its_health_do_not_end_a_worker(tmp_path: Path) -> None:
    import resource

    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    with ScriptedModel(lambda request: "") as model, fleet_in(tmp_path, model) as made:
        process = made.start_worker(options={"env": {}, "cli_path": str(program)}, health=address[1])
        fleet = made.fleet()
        fleet.agent("worker")

        async def is_ready() -> bool:
            with suppress(OSError):
                return (await get(f"http://127.0.0.1:{address[1]}/readyz"))[0] == 200
            return False

        await until(is_ready, "the worker is ready")
        descriptors = len(list(Path(f"/proc/{process.pid}/fd").iterdir())) + 60
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
        idle = [socket.create_connection(address) for _ in range(100)]
        assert await get(f"http://127.0.0.1:{address[1]}/healthz") == (200, "ok\n")
        idle += [socket.create_connection(address) for _ in range(100)]
        session = await fleet.start("worker", "hi")
        assert (await session.result(timeout=PATIENCE)).text == "ok", made.logs()
        assert process.poll() is None
        for each in idle:
            each.close()


async def ask(address: tuple[str, int], text: bytes) -> bytes:
    """Send bytes, and return the status of the answer."""
    stream = await anyio.connect_tcp(*address)
    async with stream:
        await stream.send(text)
        with anyio.fail_after(PATIENCE):
            return (await stream.receive()).split(b" ")[1]


async def test_an_address_that_cannot_be_served_is_reported(tmp_path: Path) -> None:
    async with Fleet(f"sqlite:///{tmp_path / 'fleet.db'}", store=SQLiteStore(tmp_path / "store.db")) as fleet:
        fleet.agent("works", ClientOptions(cwd=tmp_path))
        for wrong in ("here", "127.0.0.1:http", "::1:80", "127.0.0.1:99999", ""):
            with pytest.raises(OptionsError, match=r"health: must be \[HOST:\]PORT"):
                fleet.worker(health=wrong)
        assert fleet.worker(health="[::1]:80").health == ("::1", 80)
        assert fleet.worker(health="0.0.0.0:80").health == ("0.0.0.0", 80)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(FleetError, match=f"cannot serve its health on 127.0.0.1, port {port}"):
                async with fleet.worker(health=port):
                    pass
