"""`DirectoryStore`: sessions as files, laid out as in the CLI's configuration folder.

`<root>/projects/<project>/<session>.jsonl`, `<root>/projects/<project>/<session>/<subpath>.jsonl`, and beside them
`<root>/state/<project>/<session>.json` with the summary and the lease. A lock file per session orders the writers.
Nothing in the root may be a link: it could lead to files that are not the store's.
"""

import contextlib
import errno
import json
import os
import shutil
import stat
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote, unquote

from claude_agent_py._errors import StoreError
from claude_agent_py.sessions.files import write_whole
from claude_agent_py.sessions.folders import regular_file
from claude_agent_py.sessions.stores.blocking import (
    ChangeLease,
    Row,
    SummarisingStore,
    next_summary,
    without_known,
)
from claude_agent_py.sessions.stores.leases import LeaseState, check_epoch
from claude_agent_py.sessions.stores.protocol import Place

VERSION: Final = 1
LOCK_SECONDS: Final = 30.0
"""How long to wait for another process, which may have been stopped while writing."""
_RETRY_SECONDS: Final = 0.002
_SUFFIX: Final = ".jsonl"
_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_KNOWN: Final = 64
"""The number of transcripts whose uuids are cached."""


class _Uuids:
    """The uuids in the first bytes of a transcript."""

    def __init__(self) -> None:
        self.size = 0
        self.inode = 0
        self.uuids: set[str] = set()


class DirectoryStore(SummarisingStore):
    """Keeps sessions as JSON Lines files, which `list_sessions(config_dir=root)` and the other functions can read.

    Several processes may use it at once, also over a network file system whose locks work. Links in the folder are not
    followed: they are left out of lists, and using one raises an error.

    Args:
        root: The folder; created if missing, readable by this user only.

    Raises:
        StoreError: The folder cannot be made, has links in the wrong place, or was made by a newer version.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root: Path = Path(root).expanduser().absolute()
        self._threads = threading.Lock()
        self._read: OrderedDict[Place, _Uuids] = OrderedDict()
        try:
            for folder in (self.root, self._below("projects"), self._below("state")):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            version = self._below("state", "version")
            if not version.exists():
                write_whole(str(version), [str(VERSION).encode()], replace=True)
            if int(version.read_text()) > VERSION:
                raise StoreError(f"{self.root} was made by a newer version")
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.root} cannot be used as a session store: {error}") from error

    def __repr__(self) -> str:
        return f"DirectoryStore({str(self.root)!r})"

    # Where things are

    def _below(self, *parts: str) -> Path:
        """Return a path in the root. Raises StoreError if any part of it is a link."""
        path = self.root
        for part in parts:
            path /= part
            if path.is_symlink():
                raise StoreError(f"{path} is a link, and this store does not follow links")
        return path

    def _path(self, place: Place) -> Path:
        parts = [place.project, place.session, *(place.subpath.split("/") if place.subpath else ())]
        if "" in parts[2:]:
            raise StoreError(f"{place.subpath!r} is not a subpath")
        *folders, name = map(_name, parts)
        return self._below("projects", *folders, name + _SUFFIX)

    def _folder(self, place: Place) -> Path:
        """Return the folder of the transcripts of a session's subagents."""
        return self._below("projects", _name(place.project), _name(place.session))

    def _notes(self, place: Place, suffix: str) -> Path:
        return self._below("state", _name(place.project), _name(place.session) + suffix)

    @contextlib.contextmanager
    def _locked(self, place: Place) -> Iterator[None]:
        """Hold the lock of a session, in this process and among others."""
        path = self._notes(place, ".lock")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(path) as file:
            deadline = time.monotonic() + LOCK_SECONDS
            while not _lock(file):
                if time.monotonic() > deadline:
                    raise StoreError(f"another process has {path} locked for more than {LOCK_SECONDS:g} s")
                time.sleep(_RETRY_SECONDS)
            yield  # closing the file unlocks it

    def _noted(self, place: Place) -> dict[str, Any]:
        try:
            noted = json.loads(_content(self._notes(place, ".json")))
        except FileNotFoundError:
            return {}
        return noted if isinstance(noted, dict) else {}

    def _note(self, place: Place, noted: dict[str, Any]) -> None:
        write_whole(str(self._notes(place, ".json")), [json.dumps(noted).encode()], replace=True)

    # Writing and reading

    def _append(self, place: Place, rows: list[Row], epoch: int | None) -> None:
        path = self._path(place)
        with self._locked(place):
            noted = self._noted(place)
            check_epoch(LeaseState(*noted.get("lease", ())), place.key, epoch)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _opened(path) as file:
                known = self._uuids(place, file)
                new = without_known(rows, known.uuids)
                data = "".join(f"{row.text}\n" for row in new).encode("ascii")
                _write(file, data)
                known.size += len(data)
                known.uuids.update(row.uuid for row in new if row.uuid is not None)
            if not place.subpath:
                before = noted.get("summary")
                text = None if before is None else json.dumps(before)
                noted["summary"] = json.loads(next_summary(text, place, new))
                self._note(place, noted)

    def _uuids(self, place: Place, file: BinaryIO) -> _Uuids:
        """Return the uuids of a transcript, reading only its new part. Cuts off an incomplete last line."""
        with self._threads:
            known = self._read.pop(place, None) or _Uuids()
        status = os.fstat(file.fileno())
        if status.st_size < known.size or status.st_ino != known.inode:
            known = _Uuids()
        known.inode = status.st_ino
        file.seek(known.size)
        for line in file:
            if not line.endswith(b"\n"):  # its writer died, and its batch was not acknowledged
                file.truncate(known.size)
                break
            known.size += len(line)
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and entry.get("uuid") is not None:
                    known.uuids.add(str(entry["uuid"]))
        with self._threads:
            self._read[place] = known
            while len(self._read) > _KNOWN:
                self._read.popitem(last=False)
        return known

    def _load(self, place: Place) -> list[bytes]:
        try:
            data = _content(self._path(place))
        except FileNotFoundError:
            return []
        return [line for line in data[: data.rfind(b"\n") + 1].split(b"\n") if line]

    def _list(self, project: str) -> dict[str, int]:
        return {unquote(path.name.removesuffix(_SUFFIX)): _mtime(path) for path in self._transcripts(project)}

    def _transcripts(self, project: str) -> list[Path]:
        return _regular(self._below("projects", _name(project)).glob(f"*{_SUFFIX}"))

    def _summaries(self, project: str) -> list[tuple[str, int, str | bytes]]:
        found: list[tuple[str, int, str | bytes]] = []
        for path in self._transcripts(project):
            session = unquote(path.name.removesuffix(_SUFFIX))
            summary = self._noted(Place(project, session)).get("summary")
            if summary is not None:
                found.append((session, _mtime(path), json.dumps(summary)))
        return found

    def _subpaths(self, place: Place) -> list[str]:
        folder = self._folder(place)
        paths = (path.relative_to(folder).as_posix() for path in _regular(folder.rglob(f"*{_SUFFIX}")))
        return [unquote(path.removesuffix(_SUFFIX)) for path in paths]

    def _delete(self, place: Place) -> None:
        with self._locked(place):
            path, folder = self._path(place), self._folder(place)
            path.unlink(missing_ok=True)
            if place.subpath:
                return
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(folder)
            noted = self._noted(place)
            if noted.pop("summary", None) is not None:
                self._note(place, noted)

    def _find(self, session: str) -> list[str]:
        found = _regular(self._below("projects").glob(f"*/{_name(session)}{_SUFFIX}"))
        return [unquote(path.parent.name) for path in found if not path.parent.is_symlink()]

    def _change_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        with self._locked(place):
            noted = self._noted(place)
            state = change(LeaseState(*noted.get("lease", ())), time.time())
            self._note(place, noted | {"lease": list(state)})
            return state


def _name(part: str) -> str:
    """Return a part of a key as a file name. Letters, digits and some punctuation are kept."""
    name = quote(part, safe="~@+=, ")
    return name.replace(".", "%2E") if not part.strip(".") else name


def _mtime(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000


def _regular(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if regular_file(str(path)) is not None]


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, stat.S_IRUSR | stat.S_IWUSR), "r+b")


def _content(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | _FLAGS), "rb") as file:
        return file.read()


def _write(file: BinaryIO, data: bytes) -> None:
    """Append data and wait until it is on disk. On failure, restore the file."""
    start = file.seek(0, os.SEEK_END)
    try:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(file.fileno(), start)
        raise


def _lock(file: BinaryIO) -> bool:
    """Lock a file, and return False if another process, or another thread, has it locked."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True
