"""Hostile files in place of the CLI's: nothing hangs, crashes, or fills memory."""

import json
import os
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from folding import HASTY, intake_of, level, shell_started, track_hook, tracking

from claude_agent_py import Client, ClientOptions, OptionsError, TaskManager, TaskStatus
from claude_agent_py.errors import TaskOutputError
from claude_agent_py.options import SandboxSettings
from claude_agent_py.tasks import TaskHistory
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = pytest.mark.anyio

DEEP = b"[" * 100_000 + b"]" * 100_000
DEEP_OBJECT = b'{"a":' * 5000 + b"1" + b"}" * 5000
GIBIBYTE = 1024**3


def said(text: str, **message: Any) -> bytes:
    """One line of a transcript."""
    content = {"role": "assistant", "content": [{"type": "text", "text": text}], **message}
    return json.dumps({"type": "assistant", "message": content, "uuid": "u"}).encode() + b"\n"


def odd_lines() -> Iterator[bytes]:
    yield b'{"type":"assistant","message":' + DEEP + b"}\n"
    yield b'{"type":"user","toolUseResult":' + DEEP_OBJECT + b',"message":{"role":"user","content":"deep"}}\n'
    yield b'{"type":"user","toolUseResult":' + b"[" * 400 + b"]" * 400 + b',"message":{"role":"user","content":"x"}}\n'
    yield b'{"type":"assistant","message":{"role":"assistant","content":"\xff\xfe"}}\n'
    yield b'{"type":"user","message":{"role":"user","content":"\xed\xa0\x80"}}\n'
    yield b'{"type":"user","timestamp":7,"message":{"role":"user","content":"x"}}\n'
    yield b'{"type":["user"],"message":{}}\n'
    yield b'{"type":"user","message":{"role":"user","content":"x"},"toolUseResult":' + b"9" * 5000 + b"}\n"
    yield b'{"type":"user","message":{"role":"user","content":"x"},"toolUseResult":NaN}\n'
    yield b"\0" * 1000 + b'"message"\n'


def agent(path: Path) -> TaskManager:
    """A live subagent with this transcript, about which the CLI only says that it stops."""
    manager = tracking(TaskManager(grace=HASTY), level("a1"), frames.task_started("a1"))
    track_hook(
        intake_of(manager), "SubagentStop", {"agent_id": "a1", "agent_type": "x", "agent_transcript_path": str(path)}
    )
    return manager


def files_of_agent(folder: Path, transcript: bytes, notes: bytes | None = None) -> Path:
    path = folder / "agent-a1.jsonl"
    path.write_bytes(transcript)
    if notes is not None:
        (folder / "agent-a1.meta.json").write_bytes(notes)
    return path


@pytest.mark.parametrize("notes", [DEEP, DEEP_OBJECT, b'{"finished":' + DEEP + b"}", b"\xff", b"\0", b"[1]", b"NaN"])
async def test_odd_notes_do_not_end_reconciling(tmp_path: Path, notes: bytes) -> None:
    """The agent is not decided by its notes; the others still are."""
    manager = agent(files_of_agent(tmp_path, b"".join(odd_lines()) + said("report", stop_reason="end_turn"), notes))
    output = tmp_path / "b1.output"
    output.write_text("\n[exited with code 2]\n")
    tracking(manager, shell_started("b1"), level("a1", {"task_id": "b1", "task_type": "local_bash"}))
    told = f"Command running in background with ID: b1. Output is being written to: {output}. You will be notified."
    tracking(manager, frames.tool_result("toolu_b1", told), level("a1"))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            intake_of(manager).reconciler.work_in(workers.start_soon)
            agent_end = await manager.wait("a1")
            shell_end = await manager.wait("b1")
            workers.cancel_scope.cancel()
        assert (agent_end.status, agent_end.summary) == (TaskStatus.COMPLETED, "report")
        assert (shell_end.status, shell_end.exit_code) == (TaskStatus.FAILED, 2)


async def test_odd_lines_of_a_transcript_are_left_out_and_half_characters_replaced(tmp_path: Path) -> None:
    half = b'{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"\\ud83d half"}]}}\n'
    whole = b'{"type":"user","message":{"role":"user","content":"\\ud83d\\ude00"}}\n'
    path = files_of_agent(tmp_path, b"".join(odd_lines()) + whole + half)
    manager = agent(path)
    messages = await manager["a1"].transcript()
    assert [message.text for message in messages] == ["\U0001f600", "\ufffd half"]
    assert await manager["a1"].read_output() == "\ufffd half"
    tracking(manager, frames.task_notification("a1", summary="\ufffd half", output_file=str(path)))
    with anyio.fail_after(30):
        assert [chunk async for chunk in manager["a1"].follow()] == ["\ufffd half\n"]
    async with TaskHistory(tmp_path / "history.db") as history:
        history.attach(manager, "s")
        assert [kept.summary for kept in await history.finished()] == ["\ufffd half"]


def sparse(path: Path, size: int, end: bytes) -> None:
    """A sparse file of a given size."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(size - len(end))
        file.write(end)


async def peak_of(work: Callable[[], Any]) -> int:
    """Return the peak memory of a piece of work, even if it fails."""
    tracemalloc.start()
    try:
        await work()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@pytest.mark.one_backend
async def test_a_line_of_two_hundred_megabytes_is_skipped_without_being_held(tmp_path: Path) -> None:
    path = files_of_agent(tmp_path, said("first"))
    sparse(path, GIBIBYTE // 5, b"\n" + said("last"))
    found: list[str] = []

    async def read() -> None:
        found.extend(message.text for message in await agent(path)["a1"].transcript())

    assert await peak_of(read) < 64 * 1024 * 1024
    assert found == ["first", "last"]


async def test_files_of_ten_gigabytes_are_an_error_as_a_whole_and_have_a_tail(tmp_path: Path) -> None:
    transcript = files_of_agent(tmp_path, said("first"))
    sparse(transcript, 10 * GIBIBYTE, b"\n" + said("last"))
    output = tmp_path / "b1.output"
    sparse(output, 10 * GIBIBYTE, b"the end")
    manager = tracking(agent(transcript), shell_started("b1"))
    tracking(manager, frames.task_notification("b1", output_file=str(output)))

    async def read() -> None:
        with pytest.raises(TaskOutputError, match="exceed the limit"):
            await manager["b1"].read_output()
        with pytest.raises(TaskOutputError, match="exceed the limit"):
            await manager["a1"].transcript()
        assert await manager["b1"].read_output(tail_bytes=7) == "the end"
        assert await manager["a1"].read_output() == "last"

    with anyio.fail_after(30):
        assert await peak_of(read) < 16 * 1024 * 1024


@pytest.mark.parametrize("path", ["/tmp/a\0b.output", "/tmp/\ud800.output", "a" * 100_000])
async def test_a_path_that_is_none_is_a_typed_error(path: str) -> None:
    manager = tracking(TaskManager(), shell_started("b1"), frames.task_started("a1"))
    for task_id in ("a1", "b1"):
        tracking(manager, frames.task_notification(task_id, output_file=path))
    with pytest.raises(TaskOutputError):
        await manager["b1"].read_output()
    with pytest.raises(TaskOutputError):
        await manager["a1"].transcript()
    with pytest.raises(TaskOutputError), anyio.fail_after(30):
        await manager["b1"].follow().__anext__()


async def test_an_exit_code_of_thousands_of_digits_is_none() -> None:
    manager = tracking(TaskManager(), shell_started("b1"))
    tracking(manager, frames.task_notification("b1", "failed", f"failed with exit code {'9' * 5000}"))
    assert (manager["b1"].status, manager["b1"].exit_code) == (TaskStatus.FAILED, None)


BOMB = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))])


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("hooks: " + "[" * 2000 + "]" * 2000, "agent.md, line"),
        ("hooks: " + "[" * 300 + "]" * 300, "agent.md, line"),
        (BOMB, "too many parts"),
        ("hooks: &a [*a]", "agent.md, line"),
        ("name: \0", "agent.md, line"),
    ],
)
def test_hostile_front_matter_is_refused(tmp_path: Path, header: str, says: str) -> None:
    from claude_agent_py.agents import load_agents

    (tmp_path / "agent.md").write_text(f"---\nname: x\ndescription: y\n{header}\n---\nprompt\n")
    with pytest.raises(OptionsError, match=says) as caught:
        load_agents(tmp_path)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", ["agent.md", "README.md"])
def test_agents_in_pipes_devices_and_huge_files_are_refused(tmp_path: Path, name: str) -> None:
    from claude_agent_py.agents import load_agents

    path = tmp_path / name
    for kind in ("pipe", "device", "huge"):
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            sparse(path, 10 * GIBIBYTE, b"---")
        with pytest.raises(OptionsError, match="cannot be read"):
            load_agents(tmp_path)
        path.unlink()


async def test_hostile_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    for content in (DEEP, b'{"a":NaN}', b"\xff"):
        path.write_bytes(content)
        with pytest.raises(OptionsError, match="cannot be read"):
            await Client(ClientOptions(settings=path, sandbox=SandboxSettings(), cli_path=sys.executable)).connect()
    with pytest.raises(OptionsError):
        ClientOptions(settings='{"a":' + DEEP.decode() + "}")


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can start programs as another user"
)
async def test_a_cli_that_runs_as_another_user_shows_only_files_of_that_user(tmp_path: Path) -> None:
    his = 12345
    secret = tmp_path / "secret"
    secret.write_bytes(said("precious"))
    for name in ("b1", "a1"):
        (tmp_path / f"{name}.output").hardlink_to(secret)
    fake = FakeCLI(
        steps.turn(
            [
                frames.task_started("b1", task_type="local_bash"),
                frames.task_notification("b1", output_file=str(tmp_path / "b1.output")),
                frames.task_started("a1"),
                frames.task_notification("a1", summary="", output_file=str(tmp_path / "a1.output")),
                frames.assistant("Done."),
            ]
        )
    )
    options = ClientOptions(user=his, env={"CLAUDE_CONFIG_DIR": str(tmp_path)})
    async with Client(options, transport=fake.transport()) as client:
        await client.query("go")
        shell, agent = client.tasks["b1"], client.tasks["a1"]
        with anyio.fail_after(60):
            with pytest.raises(TaskOutputError, match=f"not of the user {his}"):
                await shell.read_output()
            with pytest.raises(TaskOutputError):
                await agent.transcript()
            with pytest.raises(TaskOutputError, match=f"not of the user {his}"):
                await anext(shell.follow())
            os.chown(secret, his, his)
            assert "precious" in await shell.read_output()
            assert [message.text for message in await agent.transcript()] == ["precious"]
