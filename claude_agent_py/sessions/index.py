"""List the sessions on disk, newest first.

The description of a file is cached in this process until its size or time changes, so listing again costs little more
than reading the folder. All calls block.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

from claude_agent_py._base.blocking_calls import blocking
from claude_agent_py._base.errors import OptionsError, SessionError
from claude_agent_py.sessions.files import is_archived
from claude_agent_py.sessions.folders import AnyPath, find_project_folders, find_session, id_in_file_name
from claude_agent_py.sessions.info import SessionInfo, read_info

MOST_CACHED: Final = 100_000
"""The maximum number of cached files."""


class _File(NamedTuple):
    """A transcript file, from its folder entry."""

    path: str
    session_id: str
    status: os.stat_result


@dataclass(slots=True)
class _CachedInfo:
    changed_ns: int
    size: int
    inode: int
    info: SessionInfo | None
    is_deep: bool


_cache: dict[str, _CachedInfo] = {}


@blocking
def list_sessions(
    directory: AnyPath | None = None,
    limit: int | None = None,
    offset: int = 0,
    include_worktrees: bool = True,
    *,
    archived: bool | None = None,
    config_dir: AnyPath | None = None,
) -> list[SessionInfo]:
    """Return the sessions of a project, or of all, newest first.

    Reads the beginning and the end of each transcript that is not cached; with a `limit`, only until it is reached.

    Args:
        directory: The working directory of the sessions; by default all directories.
        limit: The maximum number to return.
        offset: The number of newest sessions to skip.
        include_worktrees: Include the sessions of the other working trees of the directory's git repository.
        archived: True for archived sessions only, False for other sessions only.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        OptionsError: `limit` or `offset` is negative.
    """
    check_page(limit, offset)
    infos = _iter_newest_first(find_project_folders(config_dir, directory, include_worktrees=include_worktrees))
    chosen = (info for info in infos if archived is None or info.archived is archived)
    return list(islice(islice(chosen, offset, None), limit))


def check_page(limit: int | None, offset: int) -> None:
    """Raise OptionsError if `limit` or `offset` is negative."""
    for name, value in (("limit", limit), ("offset", offset)):
        if value is not None and value < 0:
            raise OptionsError("must not be negative", option=name)


@blocking
def get_session_info(
    session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None
) -> SessionInfo:
    """Return a session's description. Reads both ends of its transcript, and searches further back for the title.

    Takes the arguments and raises the errors of `get_session`.
    """
    return describe_session(find_session(session_id, directory, config_dir), session_id)


def describe_session(path: str, session_id: str) -> SessionInfo:
    """Return a session's description, even if the session has no prompt yet.

    Raises:
        SessionError: The transcript cannot be read.
    """
    try:
        status = os.stat(path)
        info = _load_info(_File(path, session_id, status), is_deep=True)
    except OSError as error:
        raise SessionError(
            f"the transcript {path} cannot be read: {error.strerror or error}", session_id=session_id
        ) from error
    if info is None:
        changed = status.st_mtime_ns // 1_000_000
        size = status.st_size
        info = SessionInfo(session_id=session_id, summary="", last_modified=changed, file_size=size, path=path)
    return replace(info, archived=is_archived(path))


def _iter_newest_first(folders: list[str]) -> Iterator[SessionInfo]:
    files: list[_File] = []
    with_folder: set[str] = set()
    for folder in folders:
        _scan_folder(folder, files, with_folder)
    files.sort(key=lambda file: (-file.status.st_mtime_ns, file.path))
    seen: set[str] = set()
    for file in files:
        if file.session_id in seen:
            continue
        try:
            info = _load_info(file)
        except OSError:
            # The file was deleted since, or is not readable for this user.
            continue
        if info is None:
            continue
        seen.add(file.session_id)
        if with_folder and file.path.removesuffix(".jsonl") in with_folder and is_archived(file.path):
            info = replace(info, archived=True)
        yield info


def _scan_folder(folder: str, files: list[_File], with_folder: set[str]) -> None:
    """Add a folder's transcripts to `files`, and the paths of its other entries to `with_folder`."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                session_id = id_in_file_name(entry.name)
                if session_id is None:
                    with_folder.add(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):  # it was deleted since
                        files.append(_File(entry.path, session_id, entry.stat(follow_symlinks=False)))
    except OSError:
        return


def _load_info(file: _File, *, is_deep: bool = False) -> SessionInfo | None:
    status = file.status
    known = _cache.get(file.path)
    if known is not None and known.inode == status.st_ino:
        is_same = known.size == status.st_size and known.changed_ns == status.st_mtime_ns
        if is_same and (known.is_deep or not is_deep):
            return known.info
    info, is_deep = _read_info(file, known, is_deep=is_deep)
    while len(_cache) >= MOST_CACHED:
        _cache.pop(next(iter(_cache)), None)
    size = status.st_size if info is None else info.file_size
    _cache[file.path] = _CachedInfo(status.st_mtime_ns, size, status.st_ino, info, is_deep)
    return info


def _read_info(file: _File, known: _CachedInfo | None, *, is_deep: bool) -> tuple[SessionInfo | None, bool]:
    """Read the description of a file, and return it with whether it has a title and a tag from further back."""
    status = file.status
    before = known.info if known is not None and known.inode == status.st_ino and known.size <= status.st_size else None
    if known is not None and before is not None:
        # The file has grown: read only its ends, and keep the title and tag found further back before.
        info = read_info(file.path, file.session_id, before, is_deep=is_deep and not known.is_deep)
        # A file that replaced another one may have its inode, but does not begin at the same time.
        if info is None or info.created_at == before.created_at:
            return info, is_deep or known.is_deep
    return read_info(file.path, file.session_id, is_deep=is_deep), is_deep
