"""Reading outputs: text, tails, end markers, and everything that is not a readable regular file."""

import os
import socket
import tempfile
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from folding import Port, child, intake_of, level, shell_started, track_hook, tracking
from hypothesis import example, given, strategies as st

from claude_agent_py import TaskManager
from claude_agent_py.errors import ControlRejectedError, TaskOutputError
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio
as_root = hasattr(os, "geteuid") and os.geteuid() == 0


def shell(tmp_path: Path, text: str | bytes | None, port: Port | None = None, **end: Any) -> TaskManager:
    """A shell whose output is in a file, over if `end` says how."""
    path = tmp_path / "b1.output"
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    manager = tracking(TaskManager(port), shell_started("b1", tool_use_id="toolu_1"))
    said = f"Command running in background with ID: b1. Output is being written to: {path}. You will be notified."
    structured = {"stdout": "", "stderr": "", "interrupted": False, "backgroundTaskId": "b1"}
    tracking(manager, frames.tool_result("toolu_1", said, tool_use_result=structured))
    if end:
        tracking(manager, frames.task_notification("b1", **({"output_file": str(path)} | end)))
    return manager


# The end marker


@pytest.mark.parametrize(
    ("data", "text", "exit_code"),
    [
        (b"okb 1\nokb 2\n\n[exited with code 0]\n", "okb 1\nokb 2\n", 0),
        (b"out\nboom\n\n[exited with code 3]\n", "out\nboom\n", 3),
        (b"no line break\n[exited with code 0]\n", "no line break", 0),
        (b"\n[killed]\n", "", None),
        (b"a\n\n[exited with code -1]\n", "a\n", -1),
        (b"still running\n", "still running\n", None),
        (b"", "", None),
        (b"\n[exited with code 0]\nand more", "\n[exited with code 0]\nand more", None),
        (b"x\n\n[exited with code zero]\n", "x\n\n[exited with code zero]\n", None),
        (b"[killed]\n", "[killed]\n", None),
    ],
)
async def test_the_end_marker_is_no_output_but_has_the_exit_code(
    data: bytes, text: str, exit_code: int | None, tmp_path: Path
) -> None:
    found = await shell(tmp_path, data, status="completed").output("b1")
    assert (found.text, found.exit_code) == (text, exit_code)


@given(st.text(), st.integers(0, 40))
@example("\u20ac\u20ac", 5)
def test_a_tail_never_begins_with_half_a_character(text: str, count: int) -> None:
    data = text.encode("utf-8", "replace")
    with tempfile.TemporaryDirectory() as folder:
        tail = anyio.run(partial(shell(Path(folder), data)["b1"].read_output, tail_bytes=count)).encode()
    assert len(tail) <= count
    assert len(tail) >= min(count, len(data)) - 3
    assert data.endswith(tail)


# Files


async def test_reading_the_output_of_an_ended_shell(tmp_path: Path) -> None:
    manager = shell(tmp_path, "one\ntwo\n\n[exited with code 3]\n", status="failed", summary="failed with exit code 3")
    task = manager["b1"]
    assert await task.read_output() == "one\ntwo\n"
    assert await task.read_output(tail_bytes=4) == "two\n"
    assert await task.read_output(tail_bytes=0) == ""
    assert await task.read_output(tail_bytes=1000) == "one\ntwo\n"
    assert task.exit_code == 3


async def test_reading_a_shell_that_runs(tmp_path: Path) -> None:
    manager = shell(tmp_path, "so far\n")
    assert await manager["b1"].read_output() == "so far\n"


async def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    manager = shell(tmp_path, b"caf\xc3\xa9 \xff\xfe \xe2\x82")
    assert await manager["b1"].read_output() == "café �� �"
    assert await manager["b1"].read_output(tail_bytes=3) == " �"


async def test_a_tail_of_a_large_file_reads_only_the_tail(tmp_path: Path) -> None:
    with (tmp_path / "b1.output").open("wb") as file:
        file.truncate(1 << 30)  # a GiB with nothing in it
        file.seek(0, os.SEEK_END)
        file.write(b"the end\n\n[exited with code 0]\n")
    manager = shell(tmp_path, None, status="completed")
    tracemalloc.start()
    try:
        found = await manager.output("b1", tail_bytes=8)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert (found.text, found.exit_code, found.is_truncated) == ("the end\n", 0, True)
    assert found.total_bytes == (1 << 30) + 8


async def test_a_link_in_place_of_a_shells_output_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "b1.output").symlink_to(tmp_path / "secret")
    manager = shell(tmp_path, None)
    with pytest.raises(TaskOutputError, match="not a regular file"):
        await manager["b1"].read_output()


@pytest.mark.parametrize("kind", ["fifo", "directory", "socket", "device", "link to a fifo"])
async def test_nothing_but_a_regular_file_is_read(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b1.output"
    server = socket.socket(socket.AF_UNIX)
    try:
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "directory":
            path.mkdir()
        elif kind == "socket":
            monkeypatch.chdir(tmp_path)  # the name of a socket has to be short
            server.bind("b1.output")
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            os.mkfifo(tmp_path / "pipe")
            path.symlink_to(tmp_path / "pipe")
        manager = shell(tmp_path, None)
        with anyio.fail_after(30):
            with pytest.raises(TaskOutputError) as caught:
                await manager["b1"].read_output()
        assert (caught.value.task_id, caught.value.path) == ("b1", str(path))
        assert caught.value.reason == "not a regular file"
    finally:
        server.close()


async def test_a_file_that_is_replaced_between_looking_and_opening_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regular, pipe = tmp_path / "regular", tmp_path / "b1.output"
    regular.write_text("x")
    os.mkfifo(pipe)
    facts, look = os.stat(regular), os.stat

    def stat(path: Any, **how: Any) -> os.stat_result:
        return facts if str(path) == str(pipe) else look(path, **how)  # what was there a moment ago

    monkeypatch.setattr(os, "stat", stat)
    with anyio.fail_after(30), pytest.raises(TaskOutputError, match="not a regular file"):
        await shell(tmp_path, None)["b1"].read_output()


async def test_a_missing_file_is_a_typed_error(tmp_path: Path) -> None:
    manager = shell(tmp_path, None, status="completed")
    with pytest.raises(TaskOutputError, match="No such file") as caught:
        await manager["b1"].read_output()
    assert caught.value.path == str(tmp_path / "b1.output")


async def test_an_invalid_path_is_a_typed_error(tmp_path: Path) -> None:
    path = str(tmp_path / "b1\0.output")
    manager = tracking(TaskManager(), shell_started("b1"), frames.task_started("a1"))
    tracking(manager, *(frames.task_notification(one, output_file=path, summary="") for one in ("b1", "a1")))
    stop = {"agent_id": "a1", "agent_type": "x", "agent_transcript_path": path}
    track_hook(intake_of(manager), "SubagentStop", stop)
    for read in (manager["b1"].read_output, manager["a1"].read_output, manager["a1"].transcript):
        with pytest.raises(TaskOutputError, match="not a path") as caught:
            await read()
        assert caught.value.path == path
    for task_id in ("b1", "a1"):
        with anyio.fail_after(30), pytest.raises(TaskOutputError, match="not a path"):
            async for _ in manager[task_id].follow():
                pass


async def test_a_task_without_a_known_file_is_a_typed_error() -> None:
    manager = tracking(TaskManager(), shell_started("b1"))
    with pytest.raises(TaskOutputError, match="location is unknown") as caught:
        await manager["b1"].read_output()
    assert caught.value.path == ""


@pytest.mark.skipif(as_root, reason="root may read everything")
async def test_an_unreadable_file_is_a_typed_error(tmp_path: Path) -> None:
    manager = shell(tmp_path, "secret")
    (tmp_path / "b1.output").chmod(0)
    with pytest.raises(TaskOutputError, match="denied"):
        await manager["b1"].read_output()


async def test_one_known_file_shows_where_the_others_are(tmp_path: Path) -> None:
    manager = shell(tmp_path, "known\n")
    (tmp_path / "b2.output").write_text("beside it\n")
    tracking(manager, shell_started("b2"), shell_started("../b3"))
    assert await manager["b2"].read_output() == "beside it\n"
    with pytest.raises(TaskOutputError, match="location is unknown"):
        await manager["../b3"].read_output()


# Without a file: the CLI


async def test_without_a_file_the_cli_is_asked(tmp_path: Path) -> None:
    reply = {"output": "last words\n\n[exited with code 0]\n", "total_bytes": 10_000, "truncated": True}
    port = Port(lambda subtype, fields: reply)
    manager = tracking(TaskManager(port), shell_started("b1"))
    found = await manager.output("b1", block=False)
    assert (found.text, found.exit_code, found.total_bytes, found.is_truncated) == ("last words\n", 0, 9978, True)
    assert await manager["b1"].read_output(tail_bytes=6) == "words\n"
    assert port.sent[0] == ("get_task_output", {"task_id": "b1"})


async def test_when_the_cli_knows_nothing_either_the_error_names_the_path(tmp_path: Path) -> None:
    def refuse(subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
        raise ControlRejectedError(subtype, "no shell or Monitor task with that task_id in this session")

    manager = shell(tmp_path, None, Port(refuse), status="completed")
    with pytest.raises(TaskOutputError) as caught:
        await manager["b1"].read_output()
    assert caught.value.path == str(tmp_path / "b1.output")


async def test_an_output_that_was_deleted_is_no_empty_one(tmp_path: Path) -> None:
    port = Port(lambda subtype, fields: {"output": "", "total_bytes": 0, "truncated": False})
    manager = shell(tmp_path, "", port, status="completed")
    assert await manager["b1"].read_output() == ""  # it wrote nothing
    (tmp_path / "b1.output").unlink()
    for read in (manager["b1"].read_output, lambda: manager.output("b1")):
        with pytest.raises(TaskOutputError, match="No such file") as caught:
            await read()
        assert caught.value.path == str(tmp_path / "b1.output")


async def test_an_output_that_did_not_come_yet_is_empty(tmp_path: Path) -> None:
    port = Port(lambda subtype, fields: {"output": "", "total_bytes": 0, "truncated": False})
    assert await shell(tmp_path, None, port)["b1"].read_output() == ""


async def test_subagents_are_not_asked_of_the_cli(tmp_path: Path) -> None:
    port = Port()
    manager = tracking(TaskManager(port), frames.task_started("a1"))
    with pytest.raises(TaskOutputError):
        await manager["a1"].read_output()
    assert port.sent == []


async def test_other_tasks_have_their_summary(tmp_path: Path) -> None:
    manager = tracking(TaskManager(), frames.task_started("k1", task_type="mcp_task"))
    tracking(manager, frames.task_notification("k1", summary="the tool's answer"))
    assert await manager["k1"].read_output() == "the tool's answer"


# Like the TaskOutput tool


async def test_output_of_an_ended_task(tmp_path: Path) -> None:
    manager = shell(tmp_path, "x\n\n[exited with code 3]\n", status="failed", summary="failed with exit code 3")
    found = await manager.output("b1")
    assert (found.retrieval_status, found.status.value, found.text, found.exit_code) == ("success", "failed", "x\n", 3)
    assert found.failure_reason == "failed with exit code 3"
    assert found.done
    assert str(found) == "x\n"


async def test_output_does_not_raise_when_time_runs_out(tmp_path: Path) -> None:
    manager = shell(tmp_path, "so far\n")
    found = await manager.output("b1", timeout=0.01)
    assert (found.retrieval_status, found.status.value, found.text) == ("timeout", "running", "so far\n")
    assert not found.done


async def test_output_without_waiting(tmp_path: Path) -> None:
    found = await shell(tmp_path, "so far\n").output("b1", block=False)
    assert (found.retrieval_status, found.exit_code) == ("not_ready", None)


async def test_output_of_a_task_that_wrote_nothing_yet() -> None:
    manager = tracking(TaskManager(), shell_started("b1"))
    assert (await manager.output("b1", block=False)).text == ""


async def test_output_waits_for_the_end(tmp_path: Path) -> None:
    manager = shell(tmp_path, "all\n\n[exited with code 0]\n")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as others:

            async def end() -> None:
                await anyio.wait_all_tasks_blocked()
                tracking(manager, frames.task_notification("b1", summary="completed (exit code 0)"))

            others.start_soon(end)
            found = await manager.output("b1", True, 5.0)
    assert (found.retrieval_status, found.exit_code) == ("success", 0)


async def test_output_of_a_subagent_is_its_report(tmp_path: Path) -> None:
    manager = tracking(TaskManager(), level("a1"), frames.task_started("a1"), child("a1", "thinking aloud"))
    assert (await manager.output("a1", block=False)).text == "thinking aloud"
    tracking(manager, *frames.task_end("a1", summary="the report"))
    found = await manager.output("a1")
    assert (found.text, found.total_bytes) == ("the report", None)
    assert (await manager.output("a1", tail_bytes=6)).text == "report"
