"""A temporary folder that is full, or cannot be used, while messages wait: only the reader who is behind is hit."""

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from peers import read_into, start_in_memory

from claude_agent_py import AssistantMessage, Limits, ResultMessage, StreamEventMessage, Timeouts, UnknownMessage
from claude_agent_py.errors import BacklogError, RunTimeoutError
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = pytest.mark.anyio

MEBIBYTE = 1024 * 1024
LIMITS = Limits(mailbox_bytes=MEBIBYTE)


def full_file_system(folder: Path) -> Iterator[None]:
    """A file system of 256 KiB."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount one")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=False)
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield
    subprocess.run(["umount", "-l", folder], check=True)


def limited_files(folder: Path) -> Iterator[None]:
    """A limit of 256 KiB for every file of this process."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEBIBYTE // 4, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def missing_folder(folder: Path) -> Iterator[None]:
    """A folder that is not there."""
    folder.rmdir()
    yield


@pytest.fixture(params=[full_file_system, limited_files, missing_folder])
def no_room(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary files have no room."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield from request.param(folder)


def numbered(start: int, end: int) -> list[Any]:
    """Steps that send messages of a KiB each with these numbers, while no turn is under way."""
    lines = [frames.system("numbered", n=number, pad="x" * 1024) for number in range(start, end)]
    return [steps.emit(*lines[i : i + 50]) for i in range(0, len(lines), 50)]


def numbers(messages: list[Any]) -> list[int]:
    return [m.raw["n"] for m in messages if isinstance(m, UnknownMessage) and m.raw["subtype"] == "numbered"]


def open_temporary_files() -> set[str]:
    """Return the open files in this test's folder for temporary files; empty if the system does not tell."""
    folder = Path("/proc/self/fd")
    found = []
    for descriptor in folder.iterdir() if folder.exists() else ():
        with contextlib.suppress(OSError):  # the one that lists them
            found.append(os.readlink(descriptor))
    return {path for path in found if path.startswith(f"{tempfile.gettempdir()}/")}


async def find_failure(work: Awaitable[object]) -> Exception | None:
    try:
        await work
    except Exception as error:
        return error
    return None


@pytest.mark.one_backend
@pytest.mark.usefixtures("no_room", "nothing_left")
async def test_a_reader_who_is_behind_gets_what_was_kept_and_then_an_error_and_the_others_get_everything() -> None:
    batches = [[*numbered(1000 * n, 1000 * n + 1000), *steps.turn(f"turn {n}")] for n in range(6)]
    fake = FakeCLI(steps.turn("first"), *itertools.chain(*batches), steps.turn("last"))
    all_of_it: list[Any] = []
    kept: list[Any] = []
    error: Exception | None = None
    async with start_in_memory(fake, limits=LIMITS) as client, anyio.create_task_group() as group:
        with anyio.fail_after(60):
            await client.query("first")
            slow, quick = client.messages(), client.messages()
            group.start_soon(read_into, all_of_it, quick)
            for n in range(6):
                assert (await client.query("more")).text == f"turn {n}"
                while len(numbers(all_of_it)) < 1000 * n + 1000:
                    await anyio.sleep(0.01)
            before = open_temporary_files()
            error = await find_failure(read_into(kept, slow))
            assert not before or before - open_temporary_files()
            assert (await client.query("more")).text == "last"
            await client.close()
    assert isinstance(error, BacklogError)
    assert (error.limit_bytes, bool(error.reason)) == (MEBIBYTE, True)
    assert numbers(all_of_it) == list(range(6000))
    assert 1500 < len(numbers(kept)) < 6000  # the mailbox and as much again, by the length of lines
    assert numbers(kept) == list(range(len(numbers(kept))))


@pytest.mark.one_backend
@pytest.mark.usefixtures("no_room", "nothing_left")
async def test_within_the_bound_nothing_is_lost() -> None:
    fake = FakeCLI(steps.turn("one"), *numbered(0, 1500), steps.turn("two"))
    with anyio.fail_after(60):
        async with start_in_memory(fake, limits=LIMITS) as client:
            await client.query("first")
            messages = client.messages()
            await client.query("second")
            await client.close()
            seen: list[Any] = []
            await read_into(seen, messages)
    assert numbers(seen) == list(range(1500))


@pytest.mark.one_backend
@pytest.mark.usefixtures("no_room", "nothing_left")
async def test_a_run_that_takes_too_long_and_whose_messages_do_not_fit_waits_for_nothing_known() -> None:
    words = [frames.assistant("x" * 10_000)] * 600
    fake = FakeCLI(steps.wait_for_prompt(), steps.emit(frames.of_prompt(frames.init()), *words))
    with anyio.fail_after(60):
        async with start_in_memory(fake, limits=LIMITS, timeouts=Timeouts(silence=1)) as client:
            with pytest.raises(RunTimeoutError) as caught:
                await client.query("go")
            with pytest.raises(BacklogError):
                list(caught.value.result.messages)
            assert caught.value.waiting_for == ()


@pytest.mark.one_backend
@pytest.mark.usefixtures("no_room", "nothing_left")
async def test_a_run_whose_messages_do_not_fit_has_its_result_all_the_same() -> None:
    words = ["x" * 10_000] * 600
    fake = FakeCLI(steps.turn([*map(frames.assistant, words), frames.result("done")]))
    with anyio.fail_after(60):
        async with start_in_memory(fake, limits=LIMITS) as client:
            run = client.query("go")
            result = await run
            assert (result.text, result.is_error) == ("done", False)
            assert 150 < len(result.messages) < 600
            with pytest.raises(BacklogError):
                list(result.messages)
            with pytest.raises(BacklogError):
                await read_into([], run)


@pytest.mark.one_backend
@pytest.mark.usefixtures("no_room", "nothing_left")
@pytest.mark.parametrize("is_awaited", [False, True])
async def test_a_reader_of_deltas_that_were_dropped_gets_no_message_after_them(is_awaited: bool) -> None:
    said = [[*frames.text_stream(*["x" * 10_000] * 500), frames.assistant(str(number))] for number in range(3)]
    fake = FakeCLI(steps.turn([*itertools.chain(*said), frames.result("done")]))
    with anyio.fail_after(60):
        async with start_in_memory(fake, limits=LIMITS) as client:
            run, everything, seen = client.query("go"), client.messages(), list[Any]()
            async for message in everything:
                if isinstance(message, ResultMessage):
                    break
            if is_awaited:
                await run
                await read_into(seen, run)
                assert [m.text for m in seen if isinstance(m, AssistantMessage)] == ["0", "1", "2"]
                return
            for _ in range(2):
                with pytest.raises(BacklogError):
                    await read_into(seen, run)
            assert 100 < sum(isinstance(message, StreamEventMessage) for message in seen) < 500
            assert not any(isinstance(message, AssistantMessage) for message in seen)
            assert (await run).text == "done"
