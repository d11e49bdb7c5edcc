"""`DirectoryStore`: sessions as files, laid out as in the CLI's configuration folder.

`<root>/projects/<project>/<session>.jsonl`, `<root>/projects/<project>/<session>/<subpath>.jsonl`, and next to
`projects`, `<root>/state/<project>/<session>.json` with the summary and the lease. A lock file per session orders the
writers. Nothing in the root may be a link, because a link could lead to files that are not the store's.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote, unquote

from claude_agent_py._base.bounded_dict import BoundedDict
from claude_agent_py._base.errors import StoreError
from claude_agent_py._base.locks import lock_file, unlock_file
from claude_agent_py._base.private_files import append_durably
from claude_agent_py._base.streams import wait_until
from claude_agent_py._base.thread_locks import ThreadLock
from claude_agent_py.sessions.files import write_atomically
from claude_agent_py.sessions.stores.base import (
    ChangeLease,
    EntryRow,
    SummarisingStore,
    drop_known,
    parse_entry,
    read_uuid,
)
from claude_agent_py.sessions.stores.cli_folder import (
    SUFFIX,
    delete_files,
    find_files,
    list_subpaths,
    write_description,
)
from claude_agent_py.sessions.stores.protocol import LeaseState, Place, check_epoch
from claude_agent_py.sessions.summary import apply_entry
from claude_agent_py.wire.base import JSONObject

VERSION: Final = 1
VERSION_FILE: Final = "version"
"""The file in the folder `state`. No project has a folder of that name there."""
LOCK_SECONDS: Final = 30.0
"""How many seconds to wait for another process, which may have been suspended while writing."""
_RETRY_SECONDS: Final = 0.002
_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_SAFE: Final = "~@+=, "
_FOLDER_NAME: Final = 255
"""The longest name of a folder."""
_FILE_NAME: Final = 232
"""The longest name of a file without its suffix and what a draft of the file adds to its name."""
_KNOWN: Final = 64
"""The number of transcripts whose uuids are cached."""
_LAST: Final = 4096
"""How many bytes of a transcript tell it from one that replaced it."""


class _Uuids:
    """The uuids in the first `size` bytes of a transcript."""

    def __init__(self) -> None:
        self.size = 0
        self.inode = 0
        self.last = b""
        """Their end. A file that replaced another one may have its inode, but not the same entry at the same place."""
        self.uuids: set[str] = set()

    def are_of(self, file: BinaryIO) -> bool:
        """Return whether a file has what was read. Leaves its position after that, if so."""
        if os.fstat(file.fileno()).st_ino != self.inode:
            return False
        file.seek(self.size - len(self.last))
        return file.read(len(self.last)) == self.last


class DirectoryStore(SummarisingStore):
    """Keeps sessions as JSON Lines files, which `list_sessions(config_dir=root)` and the other functions can read.

    Several processes may use the folder concurrently, also over a network file system with working locks. Links in the
    folder are not followed: lists omit them, and accessing one raises an error.

    Args:
        root: The folder. A missing folder is created, readable by this user only.

    Raises:
        StoreError: The folder cannot be created, contains links, or was created by a newer version.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root: Path = Path(root).expanduser().absolute()
        self._cache_lock = ThreadLock()
        self._known_uuids: BoundedDict[Place, _Uuids] = BoundedDict(_KNOWN)
        try:
            for folder in (self.root, self._resolve("projects"), self._resolve("state")):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            version = self._resolve("state", VERSION_FILE)
            if not version.exists():
                write_atomically(str(version), [str(VERSION).encode()], replace=True)
            if int(version.read_text()) > VERSION:
                raise StoreError(f"{self.root} was created by a newer version; upgrade claude-agent-py")
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.root} cannot be used as a session store: {error}") from error

    def __repr__(self) -> str:
        return f"DirectoryStore({str(self.root)!r})"

    # Paths

    def _resolve(self, *parts: str) -> Path:
        """Return a path in the root. Raises StoreError if any part of it is a link."""
        path = self.root
        for part in parts:
            path /= part
            if path.is_symlink():
                raise StoreError(f"{path} is a link; DirectoryStore does not follow links")
        return path

    def _transcript_path(self, place: Place) -> Path:
        parts = [place.project, place.session, *(place.subpath.split("/") if place.subpath else ())]
        if "" in parts[2:]:
            raise StoreError(f"the parts of a subpath must not be empty: {place.subpath!r}")
        *folders, name = map(_encode_name, parts[1:])
        return self._resolve("projects", _encode_project(place.project), *folders, name + SUFFIX)

    def _subagent_folder(self, place: Place) -> Path:
        """Return the folder of the transcripts of a session's subagents."""
        return self._resolve("projects", _encode_project(place.project), _encode_name(place.session))

    def _state_path(self, place: Place, suffix: str) -> Path:
        project = _encode_project(place.project)
        if project.lower() == VERSION_FILE:
            project = f"%{ord(project[0]):02X}{project[1:]}"
        return self._resolve("state", project, _encode_name(place.session) + suffix)

    @contextlib.contextmanager
    def _hold_lock(self, place: Place) -> Iterator[None]:
        """Hold the lock of a session, which excludes other threads and processes."""
        path = self._state_path(place, ".lock")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _open_for_writing(path) as file:
            if not wait_until(lambda: _try_lock(file), LOCK_SECONDS, _RETRY_SECONDS):
                raise StoreError(f"another process has held the lock {path} for more than {LOCK_SECONDS:g} s")
            try:
                yield
            finally:
                unlock_file(file.fileno())

    def _read_state(self, place: Place) -> JSONObject:
        path = self._state_path(place, ".json")
        try:
            with _open_for_reading(path) as file:
                state = json.loads(file.read())
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{path} is damaged ({error}); without the file, the session has no lease") from error
        return state if isinstance(state, dict) else {}

    def _write_state(self, place: Place, state: JSONObject) -> None:
        write_atomically(str(self._state_path(place, ".json")), [json.dumps(state).encode()], replace=True)

    # Writing and reading

    def _append(self, place: Place, rows: list[EntryRow], epoch: int | None) -> None:
        path = self._transcript_path(place)
        with self._hold_lock(place):
            state = self._read_state(place)
            check_epoch(LeaseState(*state.get("lease", ())), place, epoch)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _open_for_writing(path) as file:
                known = self._load_uuids(place, file)
                new = drop_known(rows, known.uuids)
                data = "".join(f"{row.text}\n" for row in new).encode("ascii")
                before = known.size
                append_durably(file.fileno(), data)
                known.size += len(data)
                known.last = (known.last + data)[-_LAST:]
                known.uuids.update(row.uuid for row in new if row.uuid is not None)
            write_description(str(path), [row.entry for row in new])
            if not place.subpath:
                is_covered = state.get("summarised_bytes", 0) == before
                state["summary"] = self._summarise(place, state.get("summary", {}) if is_covered else None, new)
                state["summarised_bytes"] = known.size
                self._write_state(place, state)

    def _summarise(self, place: Place, before: JSONObject | None, new: list[EntryRow]) -> JSONObject:
        """Return the summary with the new rows. Reads the transcript if there is none that covers all rows before."""
        summary: JSONObject = before or {}
        for batch in self.iter_batches(place) if before is None else [[row.entry for row in new]]:
            for entry in batch:
                apply_entry(summary, entry)
        return summary

    def _load_uuids(self, place: Place, file: BinaryIO) -> _Uuids:
        """Return the uuids of a transcript. Reads only its new part, and truncates an incomplete last line."""
        with self._cache_lock:
            known = self._known_uuids.pop(place, None) or _Uuids()
        if not known.are_of(file):
            known = _Uuids()
        known.inode = os.fstat(file.fileno()).st_ino
        file.seek(known.size)
        for line in file:
            # The writer died before the batch was acknowledged, so it will be sent again.
            if not line.endswith(b"\n"):
                file.truncate(known.size)
                break
            known.size += len(line)
            known.last = line[-_LAST:]
            if (entry := parse_entry(line)) is not None and (uuid := read_uuid(entry)) is not None:
                known.uuids.add(uuid)
        with self._cache_lock:
            self._known_uuids.put(place, known)
        return known

    def _load(self, place: Place) -> Iterator[bytes]:
        with contextlib.suppress(FileNotFoundError), _open_for_reading(self._transcript_path(place)) as file:
            yield from (line for line in file if line.endswith(b"\n") and line != b"\n")

    def _list_sessions(self, project: str) -> dict[str, int]:
        found = self._find_transcripts(project).items()
        return {unquote(path.name.removesuffix(SUFFIX)): _to_mtime(status) for path, status in found}

    def _find_transcripts(self, project: str) -> dict[Path, os.stat_result]:
        return find_files(self._resolve("projects", _encode_project(project)), f"*{SUFFIX}")

    def _list_summaries(self, project: str) -> list[tuple[str, int, str | bytes]]:
        found: list[tuple[str, int, str | bytes]] = []
        for path, status in self._find_transcripts(project).items():
            session = unquote(path.name.removesuffix(SUFFIX))
            with contextlib.suppress(StoreError):  # without a summary, the session is read
                state = self._read_state(Place(project, session))
                # A writer that dies, or cannot write the state, leaves rows that the summary lacks.
                if state.get("summarised_bytes") == status.st_size:
                    found.append((session, _to_mtime(status), json.dumps(state["summary"])))
        return found

    def _list_subpaths(self, place: Place) -> list[str]:
        return list(map(unquote, list_subpaths(self._subagent_folder(place))))

    def _delete(self, place: Place) -> None:
        with self._hold_lock(place):
            self._subagent_folder(place)
            delete_files(str(self._transcript_path(place)), place)
            state = self._read_state(place)
            if not place.subpath and state.pop("summary", None) is not None:
                state.pop("summarised_bytes", None)
                self._write_state(place, state)

    def _find_projects(self, session: str) -> list[str]:
        found = find_files(self._resolve("projects"), f"*/{_encode_name(session)}{SUFFIX}")
        return [unquote(path.parent.name) for path in found if not path.parent.is_symlink()]

    def _read_lease(self, place: Place) -> tuple[LeaseState, float]:
        return LeaseState(*self._read_state(place).get("lease", ())), time.time()

    def _change_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        with self._hold_lock(place):
            state = self._read_state(place)
            lease = change(LeaseState(*state.get("lease", ())), time.time())
            self._write_state(place, state | {"lease": list(lease)})
            return lease


def _encode_project(project: str) -> str:
    return _encode_name(project, _FOLDER_NAME)


def _encode_name(part: str, most: int = _FILE_NAME) -> str:
    """Return a part of a key as a file name, percent-encoded except letters, digits, `_.-~@+=,` and spaces.

    A name that is too long ends with a hash instead. Decoded, it is another name of the same file.
    """
    name = quote(part, safe=_SAFE)
    if part.endswith(SUFFIX):  # the folder of such a session would be the transcript of another one
        name = f"{name.removesuffix(SUFFIX)}%2Ejsonl"
    elif not part.strip("."):
        name = name.replace(".", "%2E")
    if len(name) <= most:
        return name
    digest = hashlib.blake2b(part.encode(), digest_size=16).hexdigest()
    whole = re.sub("%.?$", "", name[: most - 1 - len(digest)])
    return f"{quote(unquote(whole, errors='ignore'), safe=_SAFE)}~{digest}"


def _to_mtime(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000


def _open_for_writing(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, stat.S_IRUSR | stat.S_IWUSR), "r+b")


def _open_for_reading(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | _FLAGS), "rb")


def _try_lock(file: BinaryIO) -> bool:
    """Lock a file. Return False if another process or thread holds the lock."""
    try:
        lock_file(file.fileno())
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True
