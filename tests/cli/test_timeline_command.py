"""The command `timeline`: from a session, a transcript, a recording and a store."""

import sqlite3
from pathlib import Path

import anyio
import pytest
import recordings_loader as recordings
from stored import Stored, call

from claude_agent_py.cli import main
from claude_agent_py.sessions import DirectoryStore, SessionStore, SQLiteStore, import_session


@pytest.fixture
def session(tmp_path: Path) -> Stored:
    stored = Stored(tmp_path / "config")
    stored.user("Say hello")
    stored.assistant(call("t1", command="echo hello"))
    stored.result("t1", "hello")
    stored.assistant("Done.")
    return stored


def fill(store: SessionStore, stored: Stored) -> None:
    async def copy() -> None:
        await import_session(store, stored.id, config_dir=stored.config, project_key="p")

    anyio.run(copy)


def written(arguments: list[object], path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command and return what it wrote."""
    assert main(["timeline", *map(str, arguments), "-o", str(path)]) == 0
    assert "spans" in capsys.readouterr().out
    return path.read_text(encoding="utf-8")


def test_a_timeline_is_written_from_every_source(
    session: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_id = written([session.id, "--config-dir", session.config], tmp_path / "a.html", capsys)
    assert "Say hello" in by_id
    assert written([session.id[:8], "--config-dir", session.config], tmp_path / "a.html", capsys) == by_id
    assert written([session.path], tmp_path / "b.html", capsys) == by_id
    fill(SQLiteStore(tmp_path / "s.db"), session)
    fill(DirectoryStore(tmp_path / "folder"), session)
    for number, target in enumerate((tmp_path / "s.db", tmp_path / "folder")):
        page = written([target, session.id], tmp_path / f"c{number}.html", capsys)
        assert page == by_id.replace('"source":"transcript"', '"source":"store"')
    recording = recordings.FOLDER / "turns" / "two_shells.jsonl"
    assert "traceEvents" in written([recording], tmp_path / "d.json", capsys)


def test_a_store_needs_the_id_of_a_session(session: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(SQLiteStore(tmp_path / "s.db"), session)
    assert main(["timeline", str(tmp_path / "s.db")]) == 1
    assert "is a store; also pass the id of a session in it" in capsys.readouterr().err


def test_an_invalid_source_is_refused_and_unchanged(
    session: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE things (id)")
    database.close()
    before = other.read_bytes()
    empty = tmp_path / "empty"
    empty.mkdir()
    text = tmp_path / "text.txt"
    text.write_text("hello\n")
    moved = tmp_path / "moved.jsonl"
    moved.write_bytes(session.path.read_bytes())
    problems: list[tuple[list[object], str]] = [
        ([other, session.id], "not a session store"),
        ([empty, session.id], "not the folder of a DirectoryStore"),
        ([text], "not a recording"),
        ([moved], "outside of a configuration folder"),
        (["nope"], "no file nope, and no session begins with 'nope'"),
    ]
    for arguments, problem in problems:
        assert main(["timeline", *map(str, arguments), "-o", str(tmp_path / "x.html")]) == 1
        assert problem in capsys.readouterr().err
    assert other.read_bytes() == before
    assert list(empty.iterdir()) == []
    assert not (tmp_path / "x.html").exists()
