"""Transports of the user's own that fail: the session ends with an error that names the cause."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from claude_agent_py import (
    AssistantMessage,
    Client,
    ClientOptions,
    CLIExitError,
    CLIStartError,
    ConnectionClosedError,
    Limits,
    Timeouts,
)
from claude_agent_py.sessions import MemoryStore
from claude_agent_py.testing import FakeCLI, FakeTransport, frames, steps
from claude_agent_py.transport import LaunchPlan, Transport

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


class Wrapped(Transport):
    """Passes everything on, except that one method fails from its `fails_at`-th call on."""

    def __init__(self, inner: FakeTransport, failing: str, fails_at: int = 1) -> None:
        self._inner = inner
        self._failing = failing
        self._left = fails_at
        self.is_closed = False

    def _count(self, method: str) -> None:
        if method == self._failing:
            self._left -= 1
            if self._left <= 0:
                raise OSError(f"my {method} is broken")

    async def start(self) -> None:
        self._count("start")
        await self._inner.start()

    async def receive(self) -> bytes:
        self._count("receive")
        return await self._inner.receive()

    async def send(self, data: bytes) -> None:
        self._count("send")
        await self._inner.send(data)

    async def end_input(self) -> None:
        self._count("end_input")
        await self._inner.end_input()

    async def run(self) -> None:
        self._count("run")
        await checkpoint()

    async def wait(self) -> int | None:
        self._count("wait")
        return await self._inner.wait()

    async def close(self, *, grace: float = 5.0) -> None:
        self.is_closed = True
        await self._inner.close(grace=grace)

    @property
    def exit_code(self) -> int | None:
        return self._inner.exit_code


@pytest.mark.parametrize("failing", ["start", "receive", "send", "run", "wait"])
async def test_one_that_fails_at_the_start(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    transport = Wrapped(FakeCLI().transport(), failing)
    with anyio.fail_after(60), pytest.raises((ConnectionClosedError, CLIStartError, OSError), match=f"my {failing}"):
        await Client(transport=transport).connect()
    assert transport.is_closed


@pytest.mark.parametrize(("failing", "fails_at"), [("receive", 4), ("send", 2)])
async def test_one_that_fails_in_use(failing: str, fails_at: int, caplog: pytest.LogCaptureFixture) -> None:
    transport = Wrapped(FakeCLI(steps.turn("one"), steps.turn("two")).transport(), failing, fails_at)
    client = Client(transport=transport)

    async def use() -> None:
        await client.connect()
        for _ in range(5):
            await client.query("hi")

    with anyio.fail_after(60):
        with pytest.raises(ConnectionClosedError, match=f"my {failing} is broken") as caught:
            await use()
        assert isinstance(caught.value.__cause__, OSError)
        with pytest.raises(ConnectionClosedError, match=f"my {failing} is broken"):
            client.query("more")
        with pytest.raises(ConnectionClosedError, match=f"my {failing} is broken"):
            async for _ in client.messages():
                pass
        assert not client.is_open
        await client.close()
    assert transport.is_closed


class Unstarted(Wrapped):
    """Never starts."""

    def __init__(self) -> None:
        super().__init__(FakeCLI().transport(), "nothing")
        self.was_asked = anyio.Event()

    async def start(self) -> None:
        self.was_asked.set()
        await anyio.sleep_forever()


async def test_one_that_never_starts() -> None:
    transport = Unstarted()
    client = Client(ClientOptions(timeouts=Timeouts(connect=0.05)), transport=transport)
    with anyio.fail_after(60), pytest.raises(CLIStartError, match=r"not started within 0\.05 s"):
        await client.connect()
    assert transport.is_closed


async def test_one_that_never_starts_can_be_closed() -> None:
    transport = Unstarted()
    client = Client(transport=transport)

    async def connect() -> None:
        with pytest.raises(ConnectionClosedError, match="the client is closed"):
            await client.connect()

    with anyio.fail_after(20):  # less than `Timeouts.connect`
        async with anyio.create_task_group() as group:
            group.start_soon(connect)
            await transport.was_asked.wait()
            await client.close()
            await client.wait_closed()
    assert transport.is_closed


async def test_the_error_of_a_session_names_the_first_of_a_group() -> None:
    class Grouping(Wrapped):
        async def receive(self) -> bytes:
            try:
                return await super().receive()
            except OSError as error:
                raise ExceptionGroup("several", [ExceptionGroup("one", [error])]) from None

    transport = Grouping(FakeCLI().transport(), "receive", 1)
    with anyio.fail_after(60), pytest.raises(ConnectionClosedError, match=r"broke: OSError: my receive is broken"):
        async with Client(transport=transport):
            pytest.fail("it starts")


@pytest.mark.parametrize("store", [None, MemoryStore()], ids=["", "with a store"])
async def test_one_that_cannot_be_closed(store: MemoryStore | None, caplog: pytest.LogCaptureFixture) -> None:
    class Unclosable(Wrapped):
        async def close(self, *, grace: float = 5.0) -> None:
            await super().close(grace=grace)
            raise OSError("my close is broken")

    def spawn(plan: LaunchPlan) -> Transport:
        plans.append(plan)
        return Unclosable(FakeCLI().transport(), "nothing")

    plans: list[LaunchPlan] = []
    client = Client(ClientOptions(spawn=spawn, home=True, settings={"model": "haiku"}, session_store=store))
    with anyio.fail_after(60):
        await client.connect()
        assert all(path.exists() for path in plans[0].files)
        await client.close()
        await client.wait_closed()
    assert "my close is broken" in caplog.text
    home, files = plans[0].home, plans[0].files
    assert home is not None
    assert files
    assert not any(path.exists() for path in (home, *files))


async def test_a_session_whose_end_fails_as_well(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    transport = Wrapped(FakeCLI(steps.turn("one")).transport(), "receive", 3)
    client = Client(transport=transport)
    with anyio.fail_after(60):
        await client.connect()
        monkeypatch.setattr(client.connection.handlers, "end", lambda: 1 / 0)
        with pytest.raises(ConnectionClosedError, match="my receive is broken"):
            await client.query("hi")
        await client.wait_closed()
        assert transport.is_closed
        await client.close()
    assert "ZeroDivisionError" in caplog.text


async def test_no_place_for_what_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Without a directory for temporary files, what does not fit into the memory of a mailbox stays there."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    said = [frames.of_prompt(frames.assistant("x" * 1000)) for _ in range(50)]
    fake = FakeCLI(steps.wait_for_prompt(), *said, frames.result("end"))
    with anyio.fail_after(60):
        async with Client(ClientOptions(limits=Limits(mailbox_bytes=5000)), transport=fake.transport()) as client:
            messages = client.messages()
            run = client.query("hi")
            assert len((await run).messages) == 51
            assert len([message async for message in run]) == 51
            assert isinstance(await anext(messages), AssistantMessage)


async def test_a_listener_hears_the_stderr_of_any_transport() -> None:
    """Of the transport in memory here, and of one of the user's that calls what it was given."""

    class Chatty(Wrapped):
        async def run(self) -> None:
            assert self.on_stderr is not None
            self.on_stderr("from my own")

    heard: list[str] = []
    fake = FakeCLI(steps.stderr("one\ntwo\r\nthr"), steps.wait_for_prompt(), steps.stderr("ee\nend"), steps.exit(3))
    for transport in (fake.transport(), Chatty(fake.transport(), "nothing")):
        with anyio.fail_after(60):
            async with Client(ClientOptions(on_stderr=heard.append), transport=transport) as client:
                with pytest.raises(CLIExitError):
                    await client.query("go")
    assert heard == ["one", "two", "three", "end", "from my own"]
