"""Sessions that nobody closes: the process ends with the event loop, or with the run that nobody holds any more."""

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from forks import Program, run_program
from leftovers import children, gone, is_alive, pipes, until_gone

from claude_agent_py import (
    Allow,
    Client,
    ClientOptions,
    PermissionContext,
    PermissionRequest,
    Timeouts,
    query,
    run,
    run_sync,
)
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the installed fake is a shell script")

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio", "bare asyncio", "bare trio"])


def run_loop(backend: str, main: Callable[[], Awaitable[None]]) -> None:
    """Run an event loop from its start to its end, as a user's program does."""
    if backend == "bare asyncio":
        asyncio.run(main())  # type: ignore[arg-type]
    elif backend == "bare trio":
        import trio

        trio.run(main)
    else:
        anyio.run(main, backend=backend)


@pytest.fixture
def options(tmp_path: Path) -> Callable[..., ClientOptions]:
    """Make options whose program is a fake; check at the end that no process and no pipe is left."""
    return lambda fake, **more: ClientOptions(cli_path=fake.install(tmp_path), **more)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Any:
    before = children(), pipes()
    yield
    gc.collect()
    assert children() <= before[0], "a process is left"
    assert pipes().items() <= before[1].items(), "a pipe is left"


MakeOptions = Callable[..., ClientOptions]

FORGETS = pytest.mark.filterwarnings("ignore:unclosed Client:ResourceWarning")
"""The test leaves its client open, on purpose."""


@FORGETS
@BACKENDS
def test_a_loop_that_ends_without_a_close_ends_the_process(backend: str, options: MakeOptions) -> None:
    fake = FakeCLI(steps.turn("one"), steps.wait_for_prompt())
    made = Client(options(fake))

    async def main() -> None:
        await made.connect()
        assert (await made.query("hi")).text == "one"
        made.query("and more")

    run_loop(backend, main)
    assert made.pid is not None
    assert not is_alive(made.pid)
    assert not made.is_open


@FORGETS
@BACKENDS
def test_a_loop_that_fails_ends_the_process(backend: str, options: MakeOptions) -> None:
    made = Client(options(FakeCLI(ignore_eof=True)))

    async def main() -> None:
        await made.connect()
        raise LookupError

    with pytest.raises(LookupError):
        run_loop(backend, main)
    assert made.pid is not None
    assert not is_alive(made.pid)


@FORGETS
@BACKENDS
def test_a_program_that_ignores_everything_ends_with_the_loop(backend: str, options: MakeOptions) -> None:
    made = Client(options(FakeCLI(ignore_eof=True, ignore_sigterm=True), timeouts=Timeouts(close=1)))
    run_loop(backend, made.connect)
    assert made.pid is not None
    assert not is_alive(made.pid)


@BACKENDS
def test_a_session_that_was_left_alone_ends_with_the_loop(backend: str, options: MakeOptions) -> None:
    made = Client(options(FakeCLI(steps.turn([frames.task_started("t1")]), ignore_eof=True)))

    async def main() -> None:
        await made.connect()
        await made.query("hi")
        await made.close(tasks="leave")

    run_loop(backend, main)
    assert made.pid is not None
    assert not is_alive(made.pid)


@BACKENDS
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 10, 30])
def test_a_loop_that_ends_during_a_connect_or_a_close(backend: str, turns: int, options: MakeOptions) -> None:
    fake = FakeCLI(ignore_eof=True)
    made = Client(options(fake, timeouts=Timeouts(close=6)))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(made.connect)
            for _ in range(turns):
                await checkpoint()
            group.cancel_scope.cancel()
        if made.is_open:
            with anyio.move_on_after(0):
                await made.close()

    run_loop(backend, main)
    assert made.pid is None or not is_alive(made.pid)
    assert all(not is_alive(start.pid) for start in fake.starts)


@FORGETS
@BACKENDS
def test_handlers_at_work_end_with_the_loop(backend: str, options: MakeOptions) -> None:
    begun: list[bool] = []

    async def can_use_tool(*args: Any) -> Any:
        begun.append(True)
        await anyio.sleep_forever()

    made = Client(options(FakeCLI(frames.can_use_tool("r1")), can_use_tool=can_use_tool))

    async def main() -> None:
        await made.connect()
        while not begun:
            await anyio.sleep(0.005)

    run_loop(backend, main)
    assert made.pid is not None
    assert not is_alive(made.pid)


# Runs with a process of their own --------------------------------------------------------------------------------


@BACKENDS
def test_leaving_a_loop_over_a_run_ends_its_process(backend: str, options: MakeOptions) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.of_prompt(frames.assistant("one")), steps.wait_for_prompt())
    chosen = options(fake)

    async def main() -> None:
        with anyio.fail_after(60):
            async for _ in query("hi", chosen):
                break
            await until_gone(fake.starts[0].pid)

    run_loop(backend, main)
    assert len(fake.starts) == 1


@BACKENDS
def test_dropping_a_run_ends_its_process(backend: str, options: MakeOptions) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.of_prompt(frames.assistant("one")), steps.wait_for_prompt())
    chosen = options(fake)

    async def main() -> None:
        with anyio.fail_after(60):
            one = query("hi", chosen)
            iterator = aiter(one)
            await anext(iterator)
            assert is_alive(fake.starts[0].pid)
            del one, iterator
            gc.collect()
            await until_gone(fake.starts[0].pid)

    run_loop(backend, main)


@BACKENDS
def test_a_run_that_is_never_begun_starts_nothing(backend: str, options: MakeOptions) -> None:
    fake = FakeCLI()
    chosen = options(fake)

    async def main() -> None:
        with pytest.warns(RuntimeWarning, match="query.* was never awaited, so its prompt was not sent"):
            query("hi", chosen)

    run_loop(backend, main)
    assert fake.starts == []


@BACKENDS
def test_the_process_has_exited_when_the_run_has_ended(backend: str, options: MakeOptions) -> None:
    fake = FakeCLI(steps.turn("one"))
    chosen = options(fake)

    async def main() -> None:
        with anyio.fail_after(60):
            assert (await run("hi", chosen)).text == "one"
            assert not is_alive(fake.starts[0].pid)
            one = query("hi", chosen)
            assert [type(message).__name__ async for message in one][-1] in ("ResultMessage", "CommandLifecycleMessage")
            assert not is_alive(fake.starts[1].pid)
            assert (await one).text == "one"
            assert (await one).text == "one"

    run_loop(backend, main)
    assert len(fake.starts) == 2


@BACKENDS
def test_a_run_may_be_made_outside_of_the_loop_that_runs_it(backend: str, options: MakeOptions) -> None:
    one = query("hi", options(FakeCLI(steps.turn("one"))))

    async def main() -> None:
        with anyio.fail_after(60):
            assert (await one).text == "one"

    run_loop(backend, main)


@BACKENDS
def test_a_client_may_be_made_outside_of_the_loop_that_runs_it(backend: str, options: MakeOptions) -> None:
    made = Client(options(FakeCLI(steps.turn("one")), on_stderr=print, on_task_notification=print))

    async def main() -> None:
        with anyio.fail_after(60):
            async with made:
                assert (await made.query("hi")).text == "one"

    run_loop(backend, main)


def test_one_loop_after_the_other(options: MakeOptions) -> None:
    chosen = options(FakeCLI(steps.turn("one")))
    for _ in range(3):
        assert run_sync("hi", chosen).text == "one"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_run_sync_inside_a_running_loop(backend: str, options: MakeOptions) -> None:
    chosen = options(FakeCLI(steps.turn("one")))

    async def main() -> None:
        assert run_sync("hi", chosen).text == "one"

    run_loop(backend, main)


def test_run_sync_raises_what_the_run_raises(options: MakeOptions, tmp_path: Path) -> None:
    from claude_agent_py import CLINotFoundError

    async def main() -> None:
        run_sync("hi", ClientOptions(cli_path=tmp_path / "nothing"))

    for call in (lambda: run_sync("hi", ClientOptions(cli_path=tmp_path / "nothing")), lambda: anyio.run(main)):
        with pytest.raises(CLINotFoundError):
            call()


@pytest.mark.parametrize("backend", ["asyncio", "trio", "bare asyncio", "bare trio", "no loop"])
def test_run_sync_runs_in_the_context_of_its_caller(backend: str, options: MakeOptions) -> None:
    tenant = ContextVar("tenant", default="nobody")
    seen = []

    async def allow(request: PermissionRequest, context: PermissionContext) -> Allow:
        seen.append(tenant.get())
        return Allow()

    chosen = options(
        FakeCLI(steps.wait_for_prompt(), frames.can_use_tool("r1"), steps.wait_for_reply("r1"), frames.result("one")),
        can_use_tool=allow,
    )

    async def main() -> None:
        tenant.set("Ann")
        run_sync("hi", chosen)

    if backend == "no loop":
        tenant.set("Ann")
        run_sync("hi", chosen)
    else:
        run_loop(backend, main)
    assert seen == ["Ann"]


# Whole programs --------------------------------------------------------------------------------------------------

PROGRAM = """
    import signal
    import sys
    import anyio
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits that it is ignored
    from claude_agent_py import Client, ClientOptions, query

    async def main():
        client = Client(ClientOptions(cli_path=sys.argv[1]))
        await client.connect()
        print(client.pid, flush=True)
        if sys.argv[3] == "interrupt":
            await anyio.sleep(120)
        if sys.argv[3] == "exit":
            sys.exit(5)
        if sys.argv[3] == "kept":
            kept.append(client)
        if sys.argv[3] in ("query", "closed"):
            async for _ in query("hi", ClientOptions(cli_path=sys.argv[1])):
                break
        if sys.argv[3] == "closed":
            await client.close()

    kept = []
    anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.parametrize(
    ("how", "code", "backend"),
    [
        ("end", 0, "asyncio"),
        ("end", 0, "trio"),
        ("kept", 0, "asyncio"),
        ("exit", 5, "trio"),
        ("interrupt", 130, "asyncio"),
        ("interrupt", 130, "trio"),
        ("query", 0, "asyncio"),
        ("query", 0, "trio"),
        ("closed", 0, "asyncio"),
    ],
)
def test_a_program_that_forgets_to_close_leaves_nothing_and_hears_of_it_once(
    backend: str, how: str, code: int, tmp_path: Path
) -> None:
    """With all warnings and asyncio's debug mode: one warning, no unclosed transport, no pending worker, no traceback.

    To leave the loop over a `query` is nothing that is forgotten, and so no warning. What ends by itself does so in an
    interpreter of its own, in development mode.
    """
    is_fresh = how in ("end", "kept", "exit")
    fake = FakeCLI(steps.wait_for_prompt(), frames.of_prompt(frames.assistant("one")), steps.wait_for_prompt())
    mode = [sys.executable, *(["-X", "dev"] if is_fresh else []), "-W", "error", "-W", "always::ResourceWarning"]
    process = (subprocess.Popen if is_fresh else Program)(
        [*mode, "-c", textwrap.dedent(PROGRAM), str(fake.install(tmp_path)), backend, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONASYNCIODEBUG": "1"},
        text=True,
    )
    with process:
        assert process.stdout is not None
        printed = process.stdout.readline()
        assert printed.strip().isdigit(), process.communicate(timeout=120)
        pid = int(printed)
        if how == "interrupt":
            process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode in (code, -signal.SIGINT if how == "interrupt" else code)
    assert gone(pid, *(start.pid for start in fake.starts))
    noise = ("Executing <", "  ", "ResourceWarning: Enable")  # asyncio finds the import slow
    told = [line for line in stderr.splitlines() if not line.startswith(noise)]
    warned = [line for line in told if "ResourceWarning: unclosed Client over <SubprocessTransport" in line]
    assert len(warned) == (how != "closed")
    others = [line for line in told if line not in warned]
    assert others == [] or how == "interrupt"
    assert not [line for line in others if "Warning" in line or "never" in line or "unclosed" in line]


INTERRUPTED = """
    import signal
    import sys
    import anyio
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from claude_agent_py import Client, ClientOptions

    async def interrupt(*args):
        if not begun:
            begun.append(True)
            signal.raise_signal(signal.SIGINT)

    async def interrupt_below(*args):
        async with anyio.create_task_group() as group:
            group.start_soon(interrupt)

    async def main():
        handlers = {sys.argv[3]: interrupt_below if sys.argv[4] == "below" else interrupt}
        async with Client(ClientOptions(cli_path=sys.argv[1], **handlers)) as client:
            client.query("hi")
            try:
                await anyio.sleep(120)
            finally:
                print("interrupted with the session", "open" if client.is_open else "closed", flush=True)

    begun = []
    anyio.run(main, backend=sys.argv[2])
"""


INTERRUPTED_INSIDE = """
    import asyncio
    import os
    import signal
    import sys
    import anyio
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from claude_agent_py import ClientOptions, run_sync

    async def interrupt(*args):
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep(120)

    async def main():
        run_sync("hi", ClientOptions(cli_path=sys.argv[1], can_use_tool=interrupt))

    if sys.argv[2] == "notebook":
        asyncio.new_event_loop().run_until_complete(main())
    else:
        anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.parametrize("where", ["asyncio", "trio", "notebook"])
def test_an_interrupt_of_run_sync_inside_a_running_loop_ends_the_run(where: str, tmp_path: Path) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.can_use_tool("r1"))
    done = run_program([sys.executable, "-c", textwrap.dedent(INTERRUPTED_INSIDE), str(fake.install(tmp_path)), where])
    assert done.returncode in (130, -signal.SIGINT), done.stderr
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert gone(*(start.pid for start in fake.starts))


ONE = [frames.can_use_tool("r1")]
TWO = [*ONE, frames.can_use_tool("r2")]
NOTIFIED = [frames.task_started("t"), frames.task_notification("t")]


@pytest.mark.parametrize(
    ("option", "asks", "where", "backend"),
    [
        pytest.param("can_use_tool", ONE, "here", "asyncio", id="a handler-asyncio"),
        pytest.param("can_use_tool", TWO, "here", "trio", id="two handlers-trio"),
        pytest.param("on_task_notification", NOTIFIED, "here", "asyncio", id="a listener-asyncio"),
        pytest.param("on_task_notification", NOTIFIED, "here", "trio", id="a listener-trio"),
        pytest.param("can_use_tool", ONE, "below", "asyncio", id="below a handler-asyncio"),
        pytest.param("can_use_tool", ONE, "below", "trio", id="below a handler-trio"),
    ],
)
def test_an_interrupt_while_a_worker_runs_reaches_the_program(
    option: str, asks: list[Any], where: str, backend: str, tmp_path: Path
) -> None:
    """The session is unharmed, unless the interrupt is raised in a worker that trio runs for user code."""
    at_once = b"".join(json.dumps(ask).encode() + b"\n" for ask in asks)
    fake = FakeCLI(steps.wait_for_prompt(), steps.emit_raw(at_once))
    argv = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(fake.install(tmp_path)), backend, option, where]
    done = run_program(argv)
    state = "closed" if where == "below" and backend == "trio" else "open"
    assert done.stdout == f"interrupted with the session {state}\n", done.stderr
    assert done.returncode in (130, -signal.SIGINT), done.stderr
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert gone(*(start.pid for start in fake.starts))


@FORGETS
def test_a_session_whose_workers_are_cancelled_before_they_start_ends(
    options: MakeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As hosts do that cancel all tasks of the loop before they end it."""
    opened = asyncio.Event()
    connection = type(Client().connection)
    open_session = connection.open

    def note(session: Any, launched: Any) -> None:
        open_session(session, launched)
        opened.set()

    monkeypatch.setattr(connection, "open", note)
    made = Client(options(FakeCLI(steps.wait_for_prompt())))

    async def main() -> None:
        connecting = asyncio.ensure_future(made.connect())
        await opened.wait()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        async with asyncio.timeout(60):
            await made.connection.shutdown.wait_closed()
        await asyncio.wait([connecting])

    asyncio.run(main())


@FORGETS
def test_a_session_that_is_cancelled_before_it_starts_ends(
    options: MakeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = type(Client().connection)
    open_session = connection.open

    def cancel_all(session: Any, launched: Any) -> None:
        open_session(session, launched)
        for task in asyncio.all_tasks() - {main_task}:
            task.cancel()

    monkeypatch.setattr(connection, "open", cancel_all)
    made = Client(options(FakeCLI(steps.wait_for_prompt())))
    main_task: asyncio.Task[Any] | None = None

    async def main() -> None:
        nonlocal main_task
        main_task = asyncio.current_task()
        connecting = asyncio.ensure_future(made.connect())
        _, pending = await asyncio.wait([connecting], timeout=60)
        assert not pending
        assert connecting.cancelled()
        assert made.pid is not None
        assert not is_alive(made.pid)

    asyncio.run(main())


async def cancel_all_tasks(*, times: int) -> None:
    """Cancel all other tasks of the loop, as its end does, repeatedly."""
    for _ in range(times):
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        for _ in range(5):
            await checkpoint()


async def check_over(client: Client) -> None:
    """Wait until a session has closed, and check that its process has ended."""
    async with asyncio.timeout(60):
        await client.connection.shutdown.wait_closed()
    assert client.pid is not None
    assert not is_alive(client.pid)


@FORGETS
def test_a_session_that_is_cancelled_again_while_its_process_ends_ends(options: MakeOptions) -> None:
    fake = FakeCLI(ignore_eof=True, ignore_sigterm=True)
    made = Client(options(fake, timeouts=Timeouts(close=1)))

    async def main() -> None:
        await made.connect()
        await cancel_all_tasks(times=2)
        await check_over(made)

    asyncio.run(main())


@FORGETS
def test_a_session_whose_workers_are_cancelled_again_while_they_end_ends(options: MakeOptions) -> None:
    """As by a host that cancels all tasks and then ends its loop, which cancels them again."""
    asked, may_end = asyncio.Event(), asyncio.Event()

    async def stubborn(_request: Any, _context: Any) -> None:
        asked.set()
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_end.wait()

    fake = FakeCLI(steps.wait_for_prompt(), steps.emit(frames.can_use_tool("r1")), steps.hang())
    made = Client(options(fake, can_use_tool=stubborn))

    async def main() -> None:
        await made.connect()
        made.query("hi")
        await asked.wait()
        await cancel_all_tasks(times=3)
        may_end.set()
        await check_over(made)

    asyncio.run(main())


LOST = """
    import os, sys, threading
    import anyio
    from claude_agent_py import Client, ClientOptions

    async def start():
        client = Client(ClientOptions(cli_path=sys.argv[1]))
        kept.append(client)
        await client.connect()
        print(client.pid, flush=True)

    async def stay():
        await start()
        up.set()
        await anyio.sleep_forever()

    kept, up = [], threading.Event()
    if sys.argv[2] == "stopped":
        import asyncio
        loop = asyncio.new_event_loop()
        loop.run_until_complete(start())
    else:
        threading.Thread(target=lambda: anyio.run(stay, backend=sys.argv[2]), daemon=True).start()
        up.wait()
    copy = os.fork()
    if copy:
        os.waitpid(copy, 0)
        with open(f"/proc/{kept[0].pid}/stat") as stat:
            print(stat.read().rpartition(")")[2].split()[0], flush=True)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize(
    ("loop", "stubborn"),
    [("stopped", True), ("asyncio", False), ("asyncio", True), ("trio", True)],
    ids=lambda value: value if isinstance(value, str) else "stubborn" if value else "polite",
)
def test_a_program_whose_loop_never_ends(loop: str, stubborn: bool, tmp_path: Path) -> None:
    """Stopped and left, or in a daemon thread: the CLI ends with the interpreter, but not with a forked copy of it."""
    fake = FakeCLI(
        steps.spawn([sys.executable, "-IS", "-c", "import os, time; os.setsid(); time.sleep(60)"]),
        ignore_eof=True,
        ignore_sigterm=stubborn,
    )
    argv = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(LOST), str(fake.install(tmp_path)), loop]
    done = run_program(argv)
    pid, state = done.stdout.split()
    assert state in "SR"
    assert len(fake.spawned) == 1
    assert gone(int(pid), *fake.spawned)
