"""The CLI ends under a session: whoever waits for anything is told so, soon, with the evidence."""

import contextlib
import signal
import sys
import uuid
from collections.abc import AsyncIterable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from bounds import set_bound
from leftovers import is_alive, kill, until_gone
from peers import MakeClient, read_into

from claude_agent_py import (
    AuthenticationError,
    Client,
    ClientOptions,
    CLIExitError,
    ConnectionClosedError,
    MalformedFrame,
    ResultMessage,
    RunTimeoutError,
    TaskStatus,
    Timeouts,
)
from claude_agent_py.errors import RunFailed
from claude_agent_py.tasks import TaskFinished
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


CRASH = [steps.stderr("Segmentation fault\n"), steps.exit(139)]


async def test_a_run_under_which_the_program_ends_raises_with_the_evidence(start: MakeClient) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.of_prompt(frames.assistant("one mom")), *CRASH)
    with anyio.fail_after(60):
        async with start(fake) as client:
            run = client.query("hi")
            with pytest.raises(CLIExitError) as caught:
                await run
            assert run.done
            assert not client.is_open
    error = caught.value
    assert (error.exit_code, error.stderr_tail.strip()) == (139, "Segmentation fault")
    assert "139" in str(error)
    assert "Segmentation fault" in str(error)


async def test_iterating_gives_what_came_and_then_the_error(start: MakeClient) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.of_prompt(frames.assistant("one mom")), *CRASH)
    seen: list[Any] = []
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(CLIExitError):
                await read_into(seen, client.query("hi"))
    assert [message.text for message in seen] == ["one mom"]


async def test_text_gives_what_came_and_then_the_error(start: MakeClient) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.of_prompt(frames.assistant("one mom")), *CRASH)
    seen: list[str] = []
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(CLIExitError):
                await read_into(seen, client.query("hi").text_stream())
    assert seen == ["one mom"]


async def test_a_run_keeps_its_messages_when_the_cli_dies(start: MakeClient) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.of_prompt(frames.assistant("one mom")), *CRASH)
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(RunFailed) as caught:
                await client.query("hi")
    assert isinstance(caught.value, CLIExitError)
    assert caught.value.is_retryable
    assert caught.value.result is not None
    assert caught.value.result.text == "one mom"


async def test_every_waiter_gets_the_error(start: MakeClient) -> None:
    gate = Gate()
    fake = FakeCLI(
        steps.wait_for_prompt("one"),
        steps.wait_for_prompt("two"),
        steps.wait_gate(gate),
        *CRASH,
        answers={"get_settings": None},
    )
    told: list[str] = []
    with anyio.fail_after(60):
        async with start(fake) as client:

            async def fails(what: str, function: Callable[[], Any]) -> None:
                with pytest.raises(CLIExitError, match="139"):
                    await function()
                told.append(what)

            async with anyio.create_task_group() as group:
                one, two = client.query("one"), client.query("two", until="idle")
                group.start_soon(fails, "run", lambda: one)
                group.start_soon(fails, "idle run", lambda: two)
                group.start_soon(fails, "same run", one.result)
                group.start_soon(fails, "control", lambda: client.control("get_settings"))
                await fake.wait_received({"request": {"subtype": "get_settings"}})
                gate.open()
    assert sorted(told) == ["control", "idle run", "run", "same run"]


async def test_ten_live_tasks_settle_as_failed(start: MakeClient) -> None:
    names = [f"t{number}" for number in range(10)]
    fake = FakeCLI(steps.turn([frames.task_started(name, name) for name in names]), steps.wait_for_prompt(), *CRASH)
    finished: list[TaskFinished] = []
    with anyio.fail_after(60):
        async with start(fake) as client:
            client.tasks.on(TaskFinished, finished.append)
            await client.query("start them")
            assert len(client.tasks.running) == 10

            async def waits() -> None:
                assert (await client.tasks.wait("t3")).status is TaskStatus.FAILED

            async with anyio.create_task_group() as group:
                group.start_soon(waits)
                with pytest.raises(CLIExitError):
                    await client.query("go on", until="idle")
            outcomes = await client.tasks.wait_all()
            while len(finished) < 10:
                await anyio.lowlevel.checkpoint()
    assert [outcome.status for outcome in outcomes] == [TaskStatus.FAILED] * 10
    assert all("139" in (task.failure_reason or "") for task in client.tasks)
    assert client.tasks.running == []


async def test_an_end_between_runs_is_told_to_the_next(start: MakeClient) -> None:
    fake = FakeCLI(steps.turn("hello"), *CRASH)
    with anyio.fail_after(60):
        async with start(fake) as client:
            assert (await client.query("hi")).text == "hello"
            seen: list[Any] = []
            with pytest.raises(CLIExitError, match="139"):
                await read_into(seen, client.messages())  # it ends with the process
            assert seen != []
            for use in (lambda: client.query("more"), lambda: client.control("interrupt")):
                with pytest.raises(CLIExitError, match="139"):
                    await use()
    with pytest.raises(ConnectionClosedError):
        client.query("more")


async def test_a_turn_whose_result_came_before_the_end_is_good(start: MakeClient) -> None:
    with anyio.fail_after(60):
        async with start(FakeCLI(steps.turn("hello"), steps.exit(1))) as client:
            assert (await client.query("hi")).text == "hello"


async def test_half_a_line_at_the_end_is_an_event(start: MakeClient) -> None:
    fake = FakeCLI(steps.turn("hello"), b'{"type": "assist', steps.exit(1))
    with anyio.fail_after(60):
        async with start(fake) as client:
            messages, seen = client.messages(), list[Any]()
            await client.query("hi")
            with pytest.raises(CLIExitError):
                await read_into(seen, messages)
    assert isinstance(seen[-1], MalformedFrame)
    assert seen[-1].line == b'{"type": "assist'


async def test_the_messages_of_the_session_end_with_the_error_of_a_run(start: MakeClient) -> None:
    """For a reader who is there when it happens, one who is behind, and one who comes after the client was closed."""
    fake = FakeCLI(steps.wait_for_prompt(), frames.of_prompt(frames.assistant("one mom")), *CRASH)
    said: dict[str, list[Any]] = {"there": [], "behind": [], "late": []}
    with anyio.fail_after(60):
        async with start(fake) as client:
            sources = {"there": client.messages(), "behind": client.messages()}

            async def read(who: str) -> None:
                for _ in range(2):  # an error is not to be had only once
                    with pytest.raises(CLIExitError) as caught:
                        await read_into(said[who], sources[who])
                    assert caught.value.exit_code == 139
                    assert "Segmentation fault" in caught.value.stderr_tail

            async with anyio.create_task_group() as group:
                group.start_soon(read, "there")
                await anyio.wait_all_tasks_blocked()
                run = client.query("hi")
        sources["late"] = client.messages()
        await read("behind")
        await read("late")
        with pytest.raises(CLIExitError, match="139"):
            await run
    assert [message.text for message in said["there"]] == ["one mom"]
    assert said["behind"] == said["there"]
    assert said["late"] == []


async def test_streams_of_tasks_end_when_the_cli_dies(start: MakeClient) -> None:
    """No error there: that the CLI died is what the tasks say."""
    gate, before = Gate(), [frames.task_started("t1", "one"), frames.task_started("t2", "two")]
    fake = FakeCLI(steps.turn(before), steps.wait_gate(gate), *CRASH)
    seen: dict[str, list[Any]] = {}
    with anyio.fail_after(60):
        async with start(fake, interactions=True) as client:
            await client.query("start them")
            sources: dict[str, AsyncIterable[Any]] = {
                "events": client.tasks.events(),
                "finished": client.tasks.events("finished"),
                "completed": client.tasks.as_completed(),
                "messages": client.tasks["t1"].messages(),
                "changes": client.task_list.changes(),
                "arrivals": client.interactions.arrivals(),
            }
            async with anyio.create_task_group() as group:
                for name, source in sources.items():
                    group.start_soon(read_into, seen.setdefault(name, []), source)
                await anyio.wait_all_tasks_blocked()
                gate.open()
    assert [event.task_id for event in seen["finished"]] == ["t1", "t2"]
    assert [done.id for done in seen["completed"]] == ["t1", "t2"]
    assert all(done.status is TaskStatus.FAILED and "139" in (done.failure_reason or "") for done in seen["completed"])
    assert [event for event in seen["events"] if isinstance(event, TaskFinished)] == seen["finished"]
    assert [seen[name] for name in ("messages", "changes", "arrivals")] == [[], [], []]


@pytest.fixture
def short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test waits for in vain it waits for less long."""
    set_bound(monkeypatch, "EXIT_GRACE", 0.5)
    set_bound(monkeypatch, "DRAIN_GRACE", 0.2)


@pytest.mark.usefixtures("short_graces")
async def test_output_that_ends_while_the_program_lives(start: MakeClient) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), steps.close_output())
    with anyio.fail_after(60):
        async with start(fake, timeouts=Timeouts(close=6)) as client:
            with pytest.raises(CLIExitError) as caught:
                await client.query("hi")
    assert caught.value.exit_code is None


@pytest.mark.usefixtures("short_graces")
async def test_output_that_ends_during_the_start(start: MakeClient) -> None:
    from claude_agent_py import CLIStartError

    with anyio.fail_after(60), pytest.raises(CLIStartError) as caught:
        await start(FakeCLI(steps.close_output(), answers={"initialize": None})).connect()
    assert caught.value.exit_code is None


linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are found on Linux only")
ENDS = pytest.mark.parametrize("end", [steps.exit(3), steps.die(signal.SIGKILL)], ids=["exit", "kill"])


@linux_only
@ENDS
async def test_closing_ends_the_processes_of_a_dead_program(start_process: MakeClient, end: Any) -> None:
    """Also in a session of its own, as the shells of the CLI are, and with a parent that is gone."""
    tag = f"# {uuid.uuid4()}"
    shells = f"import os, time\nif os.fork(): os._exit(0)\nos.setsid()\ntime.sleep(600) {tag}"
    fake = FakeCLI(
        steps.wait_for_prompt(),
        steps.spawn([sys.executable, "-IS", "-c", "import time; time.sleep(600)"]),
        steps.spawn([sys.executable, "-IS", "-c", shells]),
        end,
    )
    with anyio.fail_after(60):
        async with start_process(fake) as client:
            with pytest.raises(CLIExitError):
                await client.query("hi")
        assert len(fake.spawned) == 2
        await until_gone(*fake.spawned, *processes_with(tag))


def processes_with(text: str) -> list[int]:
    """Find the processes with a text among their arguments."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if text.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


@linux_only
@ENDS
async def test_an_end_is_noticed_although_a_child_holds_the_pipes(tmp_path: Path, end: Any) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), steps.stderr("the reason\n"), end)
    program = fake.install(tmp_path)
    program.write_text(program.read_text().replace("exec ", f"sleep 600 &\necho $! >> {tmp_path}/pids\nexec "))
    with anyio.fail_after(60):
        async with Client(ClientOptions(cli_path=program)) as client:
            with pytest.raises(CLIExitError) as caught:
                await client.query("hi")
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        await until_gone(*pids)
    assert caught.value.exit_code in (3, -signal.SIGKILL)
    assert "the reason" in caught.value.stderr_tail


@linux_only
@pytest.mark.usefixtures("short_graces")
async def test_a_session_that_was_left_ends_although_a_child_holds_the_pipes(tmp_path: Path) -> None:
    program = FakeCLI(steps.turn()).install(tmp_path)
    program.write_text(program.read_text().replace("exec ", f"sleep 600 &\necho $! >> {tmp_path}/pids\nexec "))
    client = Client(ClientOptions(cli_path=program))
    try:
        with anyio.fail_after(60):
            await client.connect()
            events = client.events()
            await client.query("hi")
            await client.close(tasks="leave")
            async for _ in events:
                pass
    finally:
        kill(*map(int, (tmp_path / "pids").read_text().split()))


async def test_a_long_stderr_is_cut_to_its_end(start_process: MakeClient) -> None:
    noise = "".join(f"line {number}\n" for number in range(100_000))
    fake = FakeCLI(steps.wait_for_prompt(), steps.stderr(noise + "the reason\n"), steps.exit(1))
    with anyio.fail_after(60):
        async with start_process(fake) as client:
            with pytest.raises(CLIExitError) as caught:
                await client.query("hi")
    assert caught.value.stderr_tail.endswith("the reason\n")
    assert len(caught.value.stderr_tail) <= 64 * 1024


async def test_writing_to_a_program_that_no_longer_reads(start_process: MakeClient) -> None:
    """It is too busy to read, and then gone: a prompt that fills the pipe must not hang."""
    gate = Gate()
    fake = FakeCLI(steps.wait_for_prompt("first"), steps.wait_gate(gate), steps.exit(1))
    with anyio.fail_after(60):
        async with start_process(fake) as client:
            first, second = client.query("first"), client.query("x" * 20_000_000)
            await fake.wait_received({"message": {"content": "first"}})
            gate.open()
            for run in (first, second):
                with pytest.raises(CLIExitError):
                    await run


async def test_a_result_is_not_lost_when_the_program_ends_right_after_it(start: MakeClient) -> None:
    """Thousands of lines and then the end: all of them are read first."""
    many = [frames.of_prompt(frames.assistant(f"{number}")) for number in range(3000)]
    fake = FakeCLI(steps.wait_for_prompt(), steps.emit(*many), frames.result("all"), steps.exit(1))
    with anyio.fail_after(60):
        async with start(fake) as client:
            result = await client.query("hi")
    assert len(result.messages) == 3001
    assert isinstance(result.messages[-1], ResultMessage)


async def test_the_process_is_reaped_before_anybody_closes(start_process: MakeClient) -> None:
    with anyio.fail_after(60):
        async with start_process(FakeCLI(steps.wait_for_prompt(), *CRASH)) as client:
            pid = client.pid
            with pytest.raises(CLIExitError):
                await client.query("hi")
            assert pid is not None
            assert not is_alive(pid)


async def test_a_run_whose_key_is_refused_does_not_wait_for_ten_attempts() -> None:
    def retry(attempt: int, status: int) -> dict[str, Any]:
        return frames.system("api_retry", attempt=attempt, max_retries=10, retry_delay_ms=1, error_status=status)

    retries = [retry(2, 401), retry(3, 529), retry(3, 401)]
    fake = FakeCLI(steps.wait_for_prompt(), frames.init(), *retries)
    async with Client(transport=fake.transport()) as client:
        with anyio.fail_after(60), pytest.raises(AuthenticationError, match=r"\(HTTP 401\) after 3 attempts"):
            await client.query("hi")


@pytest.mark.parametrize(("status", "did"), [(529, "answered with HTTP 529"), (None, "could not be reached")])
async def test_a_run_that_waits_for_the_api_says_so(
    status: int | None, did: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The CLI tries ten times, for minutes: the log says so, and the error of a time limit."""

    def retry(attempt: int) -> dict[str, Any]:
        return frames.system("api_retry", attempt=attempt, max_retries=10, retry_delay_ms=1, error_status=status)

    fake = FakeCLI(steps.wait_for_prompt(), frames.init(), retry(1), retry(2), retry(3))
    async with Client(transport=fake.transport()) as client:
        run = client.query("hi", timeout=0.5)
        with anyio.fail_after(60), caplog.at_level("INFO"), pytest.raises(RunTimeoutError) as caught:
            await run
    assert caught.value.waiting_for == (f"the API, which {did} (retry 3 of 10)",)
    said = [(record.levelname, record.message) for record in caplog.records]
    assert said == [
        (level, f"the API {did} (retry {attempt} of 10); the run waits")
        for attempt, level in enumerate(("INFO", "INFO", "WARNING"), 1)
    ]


async def test_a_run_without_a_login_does_not_wait_for_its_result() -> None:
    """The result may follow ten seconds after the message that says so."""
    refusal = frames.assistant("Not logged in", error="authentication_failed")
    fake = FakeCLI(steps.wait_for_prompt(), frames.init(), refusal)
    async with Client(transport=fake.transport()) as client:
        with anyio.fail_after(60), pytest.raises(AuthenticationError, match="claude auth login"):
            await client.query("hi")
