"""The command `timeline`: write the timeline of a session, a recording or a stored session to a file."""

import argparse
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import anyio

from claude_agent_py._errors import OptionsError
from claude_agent_py.cli.sessions import whole_id
from claude_agent_py.observe import Timeline
from claude_agent_py.sessions import DirectoryStore, SessionStore, SQLiteStore, get_session

_SQLITE: Final = b"SQLite format 3\0"
_OF_A_TRANSCRIPT: Final = (b'"parentUuid"', b'"sessionId"')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `timeline`."""
    parser.add_argument(
        "target",
        metavar="SESSION|RECORDING|STORE",
        help="the id of a session (its beginning is enough), the file of a recording or a transcript, or a store: an "
        "SQLite file or a folder",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help="the id of a session in the store")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="timeline.html",
        help="where to write it: .html, .json (Perfetto), .otlp.json, .mmd (Mermaid); default: timeline.html",
    )
    parser.add_argument("--config-dir", metavar="FOLDER", help="the CLI's configuration folder")


def execute(arguments: argparse.Namespace) -> int:
    """Write the timeline and return the exit code.

    Raises:
        OptionsError: There is no such session or file, or the output cannot be written.
        SessionError: The session is not there or cannot be read.
    """
    timeline = _read(arguments.target, arguments.session, arguments.config_dir)
    timeline.save(arguments.output)
    left_out = f", {timeline.dropped} short ones left out" if timeline.dropped else ""
    print(f"{arguments.output}: {len(timeline.spans)} spans{left_out}")
    return 0


def _read(target: str, session: str | None, config_dir: str | None) -> Timeline:
    path = Path(target)
    if path.is_dir():
        if not (path / "state" / "version").is_file():  # a store would be made there
            raise OptionsError(f"{target} is not the folder of a DirectoryStore; for a folder of the CLI: --config-dir")
        return _stored(DirectoryStore(path), target, session)
    if not path.exists():
        return Timeline.from_session(get_session(_id_of(target, config_dir), config_dir=config_dir))
    with path.open("rb") as file:
        start = file.read(64 * 1024)
    if start.startswith(_SQLITE):
        _check_is_store(path)
        return _stored(SQLiteStore(path), target, session)
    if any(mark in start.partition(b"\n")[0] for mark in _OF_A_TRANSCRIPT):
        place = path.absolute()
        if place.parent.parent.name != "projects":
            raise OptionsError(f"{target} is a transcript outside of a configuration folder: give a session's id")
        return Timeline.from_session(get_session(place.stem, config_dir=os.fspath(place.parents[2])))
    return Timeline.from_recording(path)


def _id_of(target: str, config_dir: str | None) -> str:
    """Return the id of a session, of which the beginning is enough."""
    try:
        return whole_id(target, config_dir=config_dir)
    except OptionsError as error:
        raise OptionsError(f"there is no file {target}, and {error}") from None


def _check_is_store(path: Path) -> None:
    """Refuse a database without the tables of a store, because an `SQLiteStore` would add them."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        if database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'entries'").fetchone() == (1,):
            return
    raise OptionsError(f"{path} is not a session store")


def _stored(store: SessionStore, target: str, session: str | None) -> Timeline:
    if session is None:
        raise OptionsError(f"{target} is a store: name a session of it, too")

    async def read() -> Timeline:
        return await Timeline.from_store(store, session)

    return anyio.run(read)
