"""The `timeline` command: write the timeline of a session, a recording or a stored session to a file."""

import argparse
import os
from pathlib import Path
from typing import Final

import anyio

from claude_agent_py._base.display import displayable
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.shared_sqlite import MAGIC, lacks_tables
from claude_agent_py.cli.sessions import resolve_id
from claude_agent_py.observe import Timeline
from claude_agent_py.sessions import DirectoryStore, SessionStore, SQLiteStore, get_session

_TRANSCRIPT_KEYS: Final = (b'"parentUuid"', b'"sessionId"')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `timeline`."""
    parser.add_argument(
        "target",
        metavar="SESSION|RECORDING|STORE",
        help="the id or an id prefix of a session, the file of a recording or a transcript, or a store: an SQLite file "
        "or a folder",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help="the id of a session in the store")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="timeline.html",
        help="the file to write: .html or .json (Perfetto); default: timeline.html",
    )
    parser.add_argument("--config-dir", metavar="FOLDER", help="the CLI's configuration folder")


def execute(arguments: argparse.Namespace) -> int:
    """Write the timeline and return the exit code.

    Raises:
        OptionsError: The session or file does not exist, or the output cannot be written.
        SessionError: The session does not exist or cannot be read.
    """
    timeline = _read(arguments.target, arguments.session, arguments.config_dir)
    timeline.save(arguments.output)
    dropped = f", {timeline.dropped} short spans omitted" if timeline.dropped else ""
    print(f"{displayable(arguments.output)}: {len(timeline.spans)} spans{dropped}")
    return 0


def _read(target: str, session: str | None, config_dir: str | None) -> Timeline:
    path = Path(target)
    if path.is_dir():
        # `DirectoryStore` would create a store in any other folder.
        if not (path / "state" / "version").is_file():
            raise OptionsError(f"{target} is not the folder of a DirectoryStore; use --config-dir for a CLI folder")
        return _read_store(DirectoryStore(path), target, session)
    if not path.exists():
        return Timeline.from_session(get_session(_resolve_id(target, config_dir), config_dir=config_dir))
    with path.open("rb") as file:
        start = file.read(64 * 1024)
    if start.startswith(MAGIC):
        if lacks_tables(path, "entries"):
            raise OptionsError(f"{path} is not a session store")
        return _read_store(SQLiteStore(path), target, session)
    if any(mark in start.partition(b"\n")[0] for mark in _TRANSCRIPT_KEYS):
        absolute = path.absolute()
        if absolute.parent.parent.name != "projects":
            raise OptionsError(f"{target} is a transcript outside of a configuration folder; pass a session id instead")
        return Timeline.from_session(get_session(absolute.stem, config_dir=os.fspath(absolute.parents[2])))
    return Timeline.from_recording(path)


def _resolve_id(target: str, config_dir: str | None) -> str:
    try:
        return resolve_id(target, config_dir=config_dir)
    except OptionsError as error:
        raise OptionsError(f"there is no file {target}, and {error}") from None


def _read_store(store: SessionStore, target: str, session: str | None) -> Timeline:
    if session is None:
        raise OptionsError(f"{target} is a store; also pass the id of a session in it")

    async def read() -> Timeline:
        return await Timeline.from_store(store, session)

    return anyio.run(read)
