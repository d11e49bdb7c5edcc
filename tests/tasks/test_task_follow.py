"""Following outputs live: growth, creation, truncation, links, markers in pieces, large files, errors."""

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from bounds import set_bound
from folding import (
    HASTY,
    PIECE_BYTES,
    AgentDecoder,
    Lines,
    Piece,
    Record,
    ShellDecoder,
    Tail,
    TaskRun,
    intake_of,
    shell_started,
    track_hook,
    tracking,
)
from hypothesis import given, strategies as st

from claude_agent_py import TaskManager
from claude_agent_py.errors import TaskOutputError
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio


class Followed:
    """A shell that is followed while a test writes its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manager = tracking(TaskManager(grace=HASTY), shell_started("b1"))
        track_hook(intake_of(self.manager), "Stop", {})
        self.seen = ""
        self._news = anyio.Event()
        tracking(self.manager, frames.tool_result("toolu_b1", self._announcement(), tool_use_result=None))

    def _announcement(self) -> str:
        return f"Command running in background with ID: b1. Output is being written to: {self.path}. You will be told."

    def write(self, text: str | bytes) -> None:
        with self.path.open("ab") as file:
            file.write(text.encode() if isinstance(text, str) else text)

    def end(self, status: str = "completed") -> None:
        tracking(self.manager, frames.task_notification("b1", status, output_file=str(self.path)))

    async def read(self) -> None:
        async for chunk in self.manager["b1"].follow():
            assert chunk
            self.seen += chunk
            self._news.set()
            self._news = anyio.Event()

    async def until(self, is_true: Callable[[str], bool]) -> None:
        while not is_true(self.seen):
            await self._news.wait()


@pytest.fixture
def shell(tmp_path: Path) -> Followed:
    path = tmp_path / "b1.output"
    return Followed(path)


async def test_new_text_comes_while_the_shell_runs(shell: Followed) -> None:
    shell.write("one\n")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as readers:
            readers.start_soon(shell.read)
            await shell.until(lambda seen: seen == "one\n")
            shell.write("two\n")
            await shell.until(lambda seen: seen == "one\ntwo\n")
            assert not shell.manager["b1"].done
            shell.write("three\n\n[exited with code 0]\n")
            shell.end()
    assert shell.seen == "one\ntwo\nthree\n"


async def test_a_file_that_is_created_later(shell: Followed) -> None:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as readers:
            readers.start_soon(shell.read)
            await anyio.wait_all_tasks_blocked()
            shell.write("here now\n")
            await shell.until(lambda seen: seen == "here now\n")
            shell.write("\n[killed]\n")
            shell.end("stopped")
    assert shell.seen == "here now\n"


async def test_a_file_that_is_cut_is_read_from_its_beginning(shell: Followed) -> None:
    shell.write("a long first text\n")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as readers:
            readers.start_soon(shell.read)
            await shell.until(lambda seen: seen.endswith("text\n"))
            os.truncate(shell.path, 0)
            shell.write("new\n")
            await shell.until(lambda seen: seen.endswith("new\n"))
            shell.end()
    assert shell.seen == "a long first text\nnew\n"


async def test_a_file_that_is_replaced_is_read_from_its_beginning(shell: Followed, tmp_path: Path) -> None:
    shell.write("old\n")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as readers:
            readers.start_soon(shell.read)
            await shell.until(lambda seen: seen == "old\n")
            (tmp_path / "other").write_text("replaced\n")
            os.replace(tmp_path / "other", shell.path)
            await shell.until(lambda seen: seen.endswith("replaced\n"))
            shell.end()
    assert shell.seen == "old\nreplaced\n"


async def test_a_link_in_place_of_a_shells_output_is_not_followed(shell: Followed, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    shell.path.symlink_to(tmp_path / "secret")
    with anyio.fail_after(30):
        with pytest.raises(TaskOutputError, match="not a regular file"):
            await shell.read()
    assert shell.seen == ""


async def test_the_output_of_a_subagent_is_a_link_whose_transcript_may_appear_later(tmp_path: Path) -> None:
    transcript = tmp_path / "subagents" / "agent-a1.jsonl"
    transcript.parent.mkdir()
    output = tmp_path / "a1.output"
    output.symlink_to(transcript)
    manager = tracking(TaskManager(grace=HASTY), frames.task_started("a1"))
    intake_of(manager).set_path("a1", str(output))
    seen: list[str] = []

    async def read() -> None:
        seen.extend([chunk async for chunk in manager["a1"].follow()])

    with anyio.fail_after(30):
        async with anyio.create_task_group() as readers:
            readers.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            content = {"role": "assistant", "content": [{"type": "text", "text": "report"}], "stop_reason": "end_turn"}
            transcript.write_text(json.dumps({"type": "assistant", "message": content, "uuid": "u"}) + "\n")
            tracking(manager, frames.task_notification("a1", summary="report", output_file=str(output)))
    assert seen == ["report\n"]


async def test_following_an_ended_shell_gives_all_its_output_at_once(shell: Followed) -> None:
    shell.write("x" * 300_000 + "\n\n[exited with code 0]\n")
    shell.end()
    with anyio.fail_after(30):
        await shell.read()
    assert shell.seen == "x" * 300_000 + "\n"


async def test_following_ends_without_a_marker_too(shell: Followed) -> None:
    shell.write("cut off\n[")
    shell.end("stopped")
    with anyio.fail_after(30):
        await shell.read()
    assert shell.seen == "cut off\n["


async def test_following_ends_when_only_the_file_shows_the_end_of_the_shell(shell: Followed) -> None:
    shell.write("done\n\n[exited with code 0]\n")
    with anyio.fail_after(30):
        await shell.read()
    assert shell.seen == "done\n"
    assert shell.manager["b1"].done


async def test_following_ends_when_the_process_dies(shell: Followed) -> None:
    shell.write("half\n")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as readers:
            readers.start_soon(shell.read)
            await shell.until(lambda seen: seen == "half\n")
            intake_of(shell.manager).process_exited("gone")
    assert shell.seen == "half\n"


async def test_a_file_that_never_comes_is_an_error_at_the_end(shell: Followed) -> None:
    shell.end()
    with anyio.fail_after(30):
        with pytest.raises(TaskOutputError, match="No such file") as caught:
            await shell.read()
    assert caught.value.path == str(shell.path)


async def test_a_file_that_is_deleted_is_an_error(shell: Followed) -> None:
    shell.write("there\n")
    failure: list[TaskOutputError] = []

    async def read() -> None:
        try:
            await shell.read()
        except TaskOutputError as error:
            failure.append(error)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as readers:
            readers.start_soon(read)
            await shell.until(lambda seen: seen == "there\n")
            shell.path.unlink()
    assert failure[0].path == str(shell.path)
    assert not shell.manager["b1"].done  # the task itself goes on


async def test_a_pipe_is_an_error_at_once(shell: Followed) -> None:
    os.mkfifo(shell.path)
    with anyio.fail_after(30):
        with pytest.raises(TaskOutputError, match="not a regular file"):
            await shell.read()


async def test_a_place_that_is_not_known_is_an_error_at_the_end() -> None:
    manager = tracking(TaskManager(), shell_started("b1"), frames.task_notification("b1"))
    with anyio.fail_after(30):
        with pytest.raises(TaskOutputError, match="location is unknown"):
            [chunk async for chunk in manager["b1"].follow()]


async def test_stopping_early_leaves_nothing_behind(shell: Followed) -> None:
    shell.write("one\n")
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    async for chunk in shell.manager["b1"].follow():
        assert chunk == "one\n"
        break
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


async def test_several_readers_follow_independently(shell: Followed) -> None:
    shell.write("one\n")
    first, second = shell.manager["b1"].follow(), shell.manager["b1"].follow()
    with anyio.fail_after(30):
        assert await anext(aiter(first)) == "one\n"
        shell.write("two\n\n[exited with code 0]\n")
        shell.end()
        assert "".join([chunk async for chunk in second]) == "one\ntwo\n"
        assert "".join([chunk async for chunk in first]) == "two\n"


async def test_a_large_file_is_followed_in_little_memory(shell: Followed) -> None:
    size = 16 * 1024 * 1024
    with shell.path.open("wb") as file:
        file.truncate(size)
        file.seek(0, os.SEEK_END)
        file.write(b"\n[exited with code 0]\n")
    shell.end()
    total = 0
    tracemalloc.start()
    try:
        with anyio.fail_after(60):
            async for chunk in shell.manager["b1"].follow():
                total += len(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == size
    assert peak < 4 * 1024 * 1024


# Its parts


@given(st.binary(max_size=300), st.booleans(), st.data())
def test_text_is_whole_however_it_is_cut(text: bytes, killed: bool, data: st.DataObject) -> None:
    marker = b"\n[killed]\n" if killed else b"\n[exited with code 0]\n"
    whole = text + marker
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    # A cut right behind the marker's line break cannot be told from one behind a line: the CLI writes it in one go.
    cuts = [cut for cut in cuts if cut <= len(text) or cut >= len(text) + 2]
    decoder = ShellDecoder()
    pieces = [whole[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    shown = "".join(chunk for piece in pieces for chunk in decoder.feed(Piece(piece, True)))
    shown += "".join(decoder.finish())
    assert decoder.is_complete
    assert shown == text.decode("utf-8", "replace")


def test_ordinary_text_is_not_held_back() -> None:
    for text in ("line\n", "a [killed] b", "\n[info] starting\n", "\n[1/3] compiling", "x\n[exited]x"):
        shown = "".join(ShellDecoder().feed(Piece(text.encode(), is_end=False)))
        assert shown == text.removesuffix("\n")  # which begins a marker


@given(st.text(alphabet="ab\n[]"), st.sampled_from(["\n[killed]\n", "\n[exited with code 0]\n"]), st.integers(2, 30))
def test_a_part_of_an_end_marker_is_held_back(text: str, marker: str, cut: int) -> None:
    """Two characters of it are enough to tell a marker from an ordinary line break."""
    shown = "".join(ShellDecoder().feed(Piece((text + marker[:cut]).encode(), is_end=False)))
    assert text.startswith(shown)


def test_a_cut_in_a_full_piece_does_not_split_a_marker() -> None:
    decoder = ShellDecoder()
    assert decoder.feed(Piece(b"text\n", is_end=False)) == ["text"]
    assert decoder.feed(Piece(b"[killed]\n", is_end=True)) == []
    assert decoder.finish() == []


@given(st.lists(st.binary(max_size=50)))
def test_lines_are_whole_however_they_are_cut(pieces: list[bytes]) -> None:
    lines = Lines()
    found = [line for piece in pieces for line in lines.feed(piece)]
    expected = [line for line in b"".join(pieces).split(b"\n")[:-1] if line]
    assert found == expected


def test_a_line_that_is_too_long_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "LINE_BYTES", 10)
    lines = Lines()
    assert lines.feed(b"short\n" + b"x" * 50) == [b"short"]
    assert lines.feed(b"x" * 50 + b"\nnext\n") == [b"next"]


def test_a_subagents_texts_are_its_chunks(tmp_path: Path) -> None:
    decoder = AgentDecoder(Record("a1", runs=[TaskRun(started_at=0.0)]))
    entry = b'{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"hello"}]}}\n'
    assert decoder.feed(Piece(entry[:20], True)) == []
    assert decoder.feed(Piece(entry[20:] + b"not json\n{}\n", True)) == ["hello\n"]
    assert decoder.feed(Piece(entry[:20], True)) == []
    assert decoder.feed(Piece(entry, True, restarted=True)) == ["hello\n"]
    assert decoder.finish() == []


def test_a_tail_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    link = tmp_path / "link"
    link.symlink_to("file")
    with pytest.raises(OSError, match="not a regular file"):
        Tail().read(str(link))


def test_a_tail_reads_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (PIECE_BYTES + 5))
    tail = Tail()
    assert tail.read(str(path)).is_end is False
    assert tail.read(str(path)) == Piece(b"xxxxx", True)
    assert tail.read(str(path)) == Piece(b"", True)
    path.write_bytes(b"new")
    assert tail.read(str(path)) == Piece(b"new", True, restarted=True)
    inode = path.stat().st_ino
    path.write_bytes(b"another, longer one")
    assert path.stat().st_ino == inode  # as that of a file that replaced a deleted one often is
    assert tail.read(str(path)) == Piece(b"another, longer one", True, restarted=True)
    with path.open("ab") as file:
        file.write(b" that grows")
    assert tail.read(str(path)) == Piece(b" that grows", True)
