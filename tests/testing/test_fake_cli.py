"""`FakeCLI` behaves the same in memory and as a program."""

import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from forks import PLAIN, Program

from claude_agent_py.testing import FakeCLI, FakeTransport, Gate, frames, steps

pytestmark = pytest.mark.anyio

PLAYER = inspect.getfile(FakeCLI).replace("fake_cli", "fake_player")
PROMPT = {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u1"}
INITIALIZE = {"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize"}}


async def read_all(transport: FakeTransport) -> bytes:
    data = b""
    while part := await transport.receive():
        data += part
    return data


def kinds(data: bytes) -> list[str]:
    return [json.loads(line)["type"] for line in data.splitlines()]


# In memory


async def test_a_session_in_memory() -> None:
    fake = FakeCLI(steps.turn("hello"), steps.stderr("warning"))
    transport = fake.transport()
    with anyio.fail_after(60):
        await transport.start()
        await transport.send(frames.encode(INITIALIZE, PROMPT))
        await transport.end_input()
        said = await read_all(transport)
    assert kinds(said) == [
        "control_response",
        "command_lifecycle",
        "system",
        "assistant",
        "result",
        "command_lifecycle",
    ]
    assert (transport.exit_code, transport.stderr_tail) == (0, "warning")
    assert fake.received == [INITIALIZE, PROMPT]
    assert fake.requests("initialize") == [{"subtype": "initialize"}]


async def test_each_step_is_a_separate_chunk() -> None:
    transport = FakeCLI(b'{"ha', b'lf"}\n', steps.emit({"a": 1}, {"b": 2})).transport()
    await transport.start()
    assert [await transport.receive() for _ in range(3)] == [b'{"ha', b'lf"}\n', b'{"a": 1}\n{"b": 2}\n']


async def test_a_reader_waits_for_input_and_for_gates() -> None:
    gate = Gate()
    transport = FakeCLI(steps.wait_for_prompt(), b"one", steps.wait_gate(gate), b"two").transport()
    heard: list[bytes] = []
    await transport.start()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as workers:

            async def read() -> None:
                heard.append(await transport.receive())
                gate.open()
                heard.append(await transport.receive())

            workers.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            assert heard == []
            await transport.send(frames.encode(PROMPT))
    assert heard == [b"one", b"two"]


async def test_a_gate_may_be_opened_from_another_thread() -> None:
    gate = Gate()
    transport = FakeCLI(steps.wait_gate(gate), b"two").transport()
    await transport.start()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as workers:
            workers.start_soon(anyio.to_thread.run_sync, gate.open)
            assert await transport.receive() == b"two"


async def test_the_end_wakes_a_reader() -> None:
    transport = FakeCLI(ignore_eof=True).transport()
    await transport.start()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as workers:

            async def read() -> None:
                assert await transport.receive() == b""

            workers.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await transport.close(grace=0)
    assert transport.exit_code == 143


async def test_writing_after_the_end_fails_like_a_pipe() -> None:
    ended = FakeCLI(steps.exit(3)).transport()
    await ended.start()
    assert await ended.receive() == b""
    assert ended.exit_code == 3
    with pytest.raises(anyio.BrokenResourceError):
        await ended.send(b"x\n")
    closed = FakeCLI().transport()
    await closed.start()
    await closed.close()
    await closed.close()
    with pytest.raises(anyio.ClosedResourceError):
        await closed.send(b"x\n")
    assert await closed.receive() == b""


async def test_the_repr_of_a_transport_tells_its_state() -> None:
    transport = FakeCLI(steps.wait_for_prompt(), steps.exit(3)).transport()
    states = [repr(transport)]
    await transport.start()
    states.append(repr(transport))
    await transport.send(frames.encode(PROMPT))
    states.append(repr(transport))
    assert states == ["<FakeTransport not started>", "<FakeTransport open>", "<FakeTransport exited 3>"]


async def test_output_that_is_closed_is_an_end_without_an_exit() -> None:
    transport = FakeCLI(b"last", steps.close_output(), b"unheard").transport()
    await transport.start()
    assert await read_all(transport) == b"last"
    assert transport.exit_code is None


async def test_each_transport_plays_from_the_start() -> None:
    fake = FakeCLI(steps.turn())
    for _ in range(2):
        transport = fake.transport()
        await transport.start()
        await transport.send(frames.encode(PROMPT))
        await transport.end_input()
        assert b'"result"' in await read_all(transport)
    assert fake.received == [PROMPT, PROMPT]


async def test_waiting_for_what_was_received() -> None:
    fake = FakeCLI()
    transport = fake.transport()
    await transport.start()
    with pytest.raises(TimeoutError, match=r"received: \[\]"):
        await fake.wait_received({"type": "user"}, timeout=0.05)
    async with anyio.create_task_group() as workers:
        workers.start_soon(transport.send, frames.encode(PROMPT))
        assert await fake.wait_received({"type": "user"}) == [PROMPT]


async def test_a_step_that_is_no_json_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        FakeCLI({"type": object()})


# As a program

program_only = pytest.mark.skipif(sys.platform == "win32", reason="the installed fake is a shell script")


def run(program: Path, *sent: dict[str, Any], args: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([program, *args], input=frames.encode(*sent), capture_output=True, timeout=120, check=False)


def start(program: Path, *args: str) -> subprocess.Popen[bytes]:
    """Start what an installed program runs a copy of, so that the coverage of it is measured."""
    player = [sys.executable, PLAYER, str(program.parent / "claude.fake"), *args]
    pipe = subprocess.PIPE
    return Program(player, preloaded=PLAIN, stdin=pipe, stdout=pipe, stderr=pipe)


def play(program: Path, *sent: dict[str, Any], args: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    with start(program, *args) as process:
        out, err = process.communicate(frames.encode(*sent), 120)
    return subprocess.CompletedProcess(args, process.returncode, out, err)


@program_only
async def test_the_program_says_what_the_transport_says(tmp_path: Path) -> None:
    fake = FakeCLI(steps.turn("hello"), b"\xff{half", steps.stderr("oh no\n"), steps.exit(3))
    done = run(fake.install(tmp_path), INITIALIZE, PROMPT)
    transport = fake.transport()
    await transport.start()
    await transport.send(frames.encode(INITIALIZE, PROMPT))
    assert done.stdout == await read_all(transport)
    assert done.stderr.decode() == transport.stderr_tail == "oh no\n"
    assert done.returncode == transport.exit_code == 3


@program_only
async def test_the_program_writes_down_how_it_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEN", "yes")
    monkeypatch.setenv("SECRET", "no")
    fake = FakeCLI(version="9.8.7", record_env=["SEEN", "UNSET"])
    program = fake.install(tmp_path / "a folder's name")
    assert play(program, args=("--version",)).stdout.startswith(b"9.8.7 ")
    assert fake.starts == []
    play(program, PROMPT, args=("--model", "a b"))
    [started] = fake.starts
    assert (started.argv, started.cwd) == (["--model", "a b"], os.getcwd())
    assert started.environment == {"SEEN": "yes", "UNSET": None}
    assert fake.received == [PROMPT]


@program_only
async def test_the_program_waits_for_gates(tmp_path: Path) -> None:
    gate, unopened = Gate(), Gate()
    fake = FakeCLI(steps.wait_gate(gate), b"open", steps.wait_gate(unopened))
    program = fake.install(tmp_path)
    with start(program) as process:
        gate.open()
        assert process.stdout is not None
        assert process.stdout.read(4) == b"open"
        process.kill()


@program_only
async def test_a_gate_that_is_open_already_holds_no_program(tmp_path: Path) -> None:
    gate = Gate()
    gate.open()
    assert play(FakeCLI(steps.wait_gate(gate), b"open").install(tmp_path)).stdout == b"open"


@program_only
@pytest.mark.parametrize(
    ("options", "sent", "code"),
    [
        ({}, signal.SIGTERM, 143),
        ({}, signal.SIGINT, 0),
        ({"ignore_sigterm": True, "ignore_eof": True}, signal.SIGKILL, -signal.SIGKILL),
    ],
)
async def test_the_program_ends_as_the_cli_does(tmp_path: Path, options: Any, sent: int, code: int) -> None:
    program = FakeCLI(b"up", **options).install(tmp_path)
    with start(program) as process:
        assert process.stdout is not None
        assert process.stdout.read(2) == b"up"
        if options:
            process.send_signal(signal.SIGTERM)
            assert process.stdin is not None
            process.stdin.close()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
        process.send_signal(sent)
        assert process.wait(60) == code


@program_only
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_program_can_die_by_a_signal(number: int, tmp_path: Path) -> None:
    assert play(FakeCLI(steps.die(number)).install(tmp_path)).returncode == -number


@program_only
async def test_the_program_can_leave_a_child(tmp_path: Path) -> None:
    fake = FakeCLI(steps.spawn(["true"]), steps.exit(4))
    assert play(fake.install(tmp_path)).returncode == 4
    [child] = fake.spawned
    assert child > 0


@program_only
async def test_the_program_can_close_its_output_and_live_on(tmp_path: Path) -> None:
    program = FakeCLI(b"last", steps.close_output()).install(tmp_path)
    with start(program) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"last"
        assert process.poll() is None


@program_only
async def test_the_program_ends_at_input_that_is_no_json(tmp_path: Path) -> None:
    with start(FakeCLI().install(tmp_path)) as process:
        _, err = process.communicate(b"no json\n", 120)
    assert (process.returncode, err) == (1, b"Error parsing streaming input line\n")


@program_only
async def test_the_program_does_not_mind_a_reader_that_has_gone(tmp_path: Path) -> None:
    with start(FakeCLI(steps.wait_for_prompt(), b"unread", steps.exit(3)).install(tmp_path)) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stdin is not None
        process.stdin.write(frames.encode(PROMPT))
        process.stdin.flush()
        assert process.wait(60) == 3


@program_only
@pytest.mark.parametrize(
    ("args", "session_id"),
    [
        (("--session-id", "one"), "one"),
        (("--resume=two",), "two"),
        (("--resume=two", "--fork-session"), "own"),
        ((), "own"),
    ],
)
async def test_the_program_mirrors_its_turns_before_their_results(
    args: tuple[str, ...], session_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/config")
    inside = {**frames.assistant("inside"), "parent_tool_use_id": "toolu_1"}
    fake = FakeCLI(steps.wait_for_prompt(), frames.assistant("hello"), inside, frames.result("hello", session_id="own"))
    sent = [
        json.loads(line)
        for line in play(fake.install(tmp_path), PROMPT, args=("--session-mirror", *args)).stdout.splitlines()
    ]
    assert [frame["type"] for frame in sent] == ["assistant", "assistant", "transcript_mirror", "result"]
    mirrored = sent[2]
    assert mirrored["filePath"] == f"/config/projects/fake/{session_id}.jsonl"
    said = [(entry["type"], entry["uuid"], entry["parentUuid"], entry["sessionId"]) for entry in mirrored["entries"]]
    answer = sent[0]["uuid"]
    assert said == [("user", "u1", None, session_id), ("assistant", answer, "u1", session_id)]
