"""List the sessions on disk, newest first.

What was read from a file is cached in this process until its size or time changes, so that listing again costs little
more than reading the folder. All calls block.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from claude_agent_py._errors import OptionsError
from claude_agent_py.sessions.archive import is_archived
from claude_agent_py.sessions.folders import AnyPath, find_session, project_folders, session_id_of
from claude_agent_py.sessions.info import SessionInfo, read_info

MOST_KNOWN: Final = 100_000
"""The maximum number of cached files."""


@dataclass(slots=True)
class _File:
    """A transcript as the folder lists it."""

    path: str
    session_id: str
    changed_ns: int
    size: int
    inode: int


@dataclass(slots=True)
class _Known:
    changed_ns: int
    size: int
    inode: int
    info: SessionInfo | None
    is_deep: bool


_known: dict[str, _Known] = {}


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

    Reads the beginning and the end of each transcript that is not cached; with a `limit`, only of those returned.

    Args:
        directory: The working directory of the sessions; by default all directories.
        limit: The maximum number to return.
        offset: The number of newest sessions to skip.
        include_worktrees: Include the sessions of the other working trees of the directory's git repository.
        archived: True for archived sessions only, False for the others only.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        OptionsError: `limit` or `offset` is negative.
    """
    check_page(limit, offset)
    found: list[SessionInfo] = []
    if limit == 0:
        return found
    for info in _newest_first(project_folders(config_dir, directory, include_worktrees=include_worktrees)):
        if archived is None or info.archived is archived:
            found.append(info)
            if limit is not None and len(found) >= offset + limit:
                break
    return found[offset:]


def check_page(limit: int | None, offset: int) -> None:
    """Raise OptionsError if `limit` or `offset` is negative."""
    for name, value in (("limit", limit), ("offset", offset)):
        if value is not None and value < 0:
            raise OptionsError("must not be negative", option=name)


def get_session_info(
    session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None
) -> SessionInfo:
    """Return a session's description, from the beginning and the end of its transcript and its title from further back.

    Args:
        session_id: The session's id.
        directory: Its working directory; by default it is looked for in all projects.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: There is no such session.
        OptionsError: The id is not a uuid.
    """
    return info_of(find_session(session_id, directory, config_dir), session_id)


def info_of(path: str, session_id: str) -> SessionInfo:
    """Return a transcript's description, even if it has no prompt yet."""
    file = _file(path, session_id, os.stat(path))
    info = _info(file, is_deep=True)
    if info is None:
        changed = file.changed_ns // 1_000_000
        info = SessionInfo(session_id=session_id, summary="", last_modified=changed, file_size=file.size, path=path)
    return replace(info, archived=is_archived(path))


def _file(path: str, session_id: str, status: os.stat_result) -> _File:
    return _File(path, session_id, status.st_mtime_ns, status.st_size, status.st_ino)


def _newest_first(folders: list[str]) -> Iterator[SessionInfo]:
    files: list[_File] = []
    with_folder: set[str] = set()
    for folder in folders:
        _scan(folder, files, with_folder)
    files.sort(key=lambda file: (-file.changed_ns, file.path))
    seen: set[str] = set()
    for file in files:
        if file.session_id in seen:
            continue
        try:
            info = _info(file)
        except OSError:
            continue  # deleted meanwhile, or not ours to read
        if info is None:
            continue
        seen.add(file.session_id)
        if with_folder and file.path.removesuffix(".jsonl") in with_folder and is_archived(file.path):
            info = replace(info, archived=True)
        yield info


def _scan(folder: str, files: list[_File], with_folder: set[str]) -> None:
    """Add the transcripts in a folder, and the paths of the folders beside them."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                session_id = session_id_of(entry.name)
                if session_id is None:
                    with_folder.add(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    files.append(_file(entry.path, session_id, entry.stat(follow_symlinks=False)))
    except OSError:
        return


def _info(file: _File, *, is_deep: bool = False) -> SessionInfo | None:
    known, before = _known.get(file.path), None
    if known is not None and known.inode == file.inode:
        if known.size == file.size and known.changed_ns == file.changed_ns and (known.is_deep or not is_deep):
            return known.info
        if known.size <= file.size:
            before, is_deep = known.info, is_deep and not known.is_deep
    info = read_info(file.path, file.session_id, before, is_deep=is_deep)
    is_deep |= before is not None and known is not None and known.is_deep
    while len(_known) >= MOST_KNOWN:
        _known.pop(next(iter(_known)), None)
    size = file.size if info is None else info.file_size
    _known[file.path] = _Known(file.changed_ns, size, file.inode, info, is_deep)
    return info
