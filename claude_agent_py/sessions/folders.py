"""The CLI's session folders, and how to find a session.

`<config>/projects/<key of the directory>/<session id>.jsonl` is a transcript. `<session id>/` next to it contains
the subagents' transcripts. This module checks ids and links, so that nothing outside the projects folder is read or
changed. All calls block.
"""

import os
import stat
import unicodedata
from pathlib import Path
from typing import Final, TypeAlias

from claude_agent_py._base.bounded_reading import read_bytes
from claude_agent_py._base.checks import is_uuid
from claude_agent_py._base.errors import OptionsError, SessionNotFoundError
from claude_agent_py.tasks.files.paths import SLUG_CHARS, project_slug

AnyPath: TypeAlias = str | os.PathLike[str]

_SUFFIX: Final = ".jsonl"
_ID_CHARS: Final = 36
_MOST_POINTER: Final = 64 * 1024


def check_id(session_id: str) -> str:
    """Return a session id. Raises OptionsError if it is not a UUID."""
    if not is_uuid(session_id):
        raise OptionsError(f"must be a UUID, not {session_id!r}", option="session_id")
    return session_id


def config_folder(config_dir: AnyPath | None = None) -> str:
    """Return the CLI's configuration folder: the given one, `CLAUDE_CONFIG_DIR`, or `~/.claude`."""
    folder = config_dir or os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude"
    return unicodedata.normalize("NFC", os.fspath(folder))


def project_key_for_directory(directory: AnyPath | None = None) -> str:
    """Return the name of the CLI's project folder for the sessions of a directory.

    Links are resolved, every character except ASCII letters and digits becomes `-`, and a long name is truncated and
    extended with a hash.

    Args:
        directory: The working directory; by default the current one.
    """
    real = unicodedata.normalize("NFC", os.path.realpath(os.curdir if directory is None else directory))
    return project_slug(real)


def projects_folder(config_dir: AnyPath | None) -> str:
    """Return the folder of all projects."""
    return os.path.join(config_folder(config_dir), "projects")


def find_project_folders(
    config_dir: AnyPath | None, directory: AnyPath | None = None, *, include_worktrees: bool = True
) -> list[str]:
    """Return the project folders of a directory and its repository's other working trees, or all of them."""
    root = projects_folder(config_dir)
    if directory is None:
        return [os.path.join(root, name) for name in _list_folders(root)]
    trees = [os.fspath(directory)]
    if include_worktrees:
        trees += list_worktrees(directory)
    keys = dict.fromkeys(map(project_key_for_directory, trees))
    if all(len(key) <= SLUG_CHARS for key in keys):
        found = [key for key in keys if _is_inside(root, key)]
    else:
        # Earlier versions of the CLI used a different hash, so compare the truncated names without it.
        cut = {key[: SLUG_CHARS + 1] for key in keys if len(key) > SLUG_CHARS}
        found = [name for name in _list_folders(root) if name in keys or name[: SLUG_CHARS + 1] in cut]
    return [os.path.join(root, key) for key in found]


def _list_folders(root: str) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return [entry.name for entry in entries if entry.is_dir() and _is_inside(root, entry.name)]
    except OSError:
        return []


def _is_inside(root: str, name: str) -> bool:
    """Return whether the root contains a folder with this name. A link must not lead out of the root."""
    path = os.path.join(root, name)
    if not os.path.isdir(path):
        return False
    return not os.path.islink(path) or os.path.dirname(os.path.realpath(path)) == os.path.realpath(root)


def find_session(session_id: str, directory: AnyPath | None, config_dir: AnyPath | None) -> str:
    """Return the path of a session's transcript, the newest one if there are several.

    Raises:
        OptionsError: The id is not a UUID.
        SessionNotFoundError: The session does not exist.
    """
    name = check_id(session_id) + _SUFFIX
    found = []
    for folder in find_project_folders(config_dir, directory):
        path = os.path.join(folder, name)
        status = regular_file(path)
        if status is not None and status.st_size:
            found.append((status.st_mtime_ns, path))
    if not found:
        where = projects_folder(config_dir) if directory is None else f"the project of {os.fspath(directory)}"
        raise SessionNotFoundError(f"session {session_id} does not exist in {where}", session_id=session_id)
    return max(found)[1]


def regular_file(path: str) -> os.stat_result | None:
    """Return the status of a regular file, or None for a missing file, a link or any other kind."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def id_in_file_name(name: str) -> str | None:
    """Return the session id in a transcript's file name, or None for other files."""
    stem = name[:_ID_CHARS]
    return stem if name[_ID_CHARS:] == _SUFFIX and is_uuid(stem) else None


# Working trees of a repository -----------------------------------------------------------------------------------


def list_worktrees(directory: AnyPath) -> list[str]:
    """Return the working trees of a directory's git repository, from git's files, without running git."""
    common = _find_git_folder(os.path.realpath(directory))
    if common is None:
        return []
    trees = []
    # A bare repository has no main working tree.
    if os.path.basename(common) == ".git":
        trees.append(os.path.dirname(common))
    pointers = sorted(Path(common).glob("worktrees/*/gitdir"))
    return [*trees, *(os.path.dirname(tree) for tree in map(_read_pointer, pointers) if tree is not None)]


def _find_git_folder(directory: str) -> str | None:
    """Return the git folder shared by the working trees of the repository, or None outside a repository."""
    for folder in map(str, [Path(directory), *Path(directory).parents]):
        dot_git = os.path.join(folder, ".git")
        if os.path.isdir(dot_git):
            return dot_git
        target = _read_pointer(dot_git)
        if target is not None:
            # `.git` is a file in an additional working tree, and points to that tree's part of the git folder.
            git_folder = os.path.normpath(os.path.join(folder, target.removeprefix("gitdir:").strip()))
            common = _read_pointer(os.path.join(git_folder, "commondir"))
            if common is None:
                return git_folder
            return os.path.normpath(os.path.join(git_folder, common))
    return None


def _read_pointer(path: AnyPath) -> str | None:
    """Return the path stored in a file of git, or None if the file does not exist."""
    try:
        return os.fsdecode(read_bytes(path, most_bytes=_MOST_POINTER)[0]).strip() or None
    except OSError:
        return None
