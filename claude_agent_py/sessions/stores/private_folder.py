"""Private configuration folders, for resuming a session of a store or for reading it.

The CLI's folder contains the login (credentials, settings), links to the user's agents, skills and similar, and the
transcripts. Only this user can read it. It is removed when the CLI has exited. If this process is killed, the next one
removes the secrets from its folder, and the transcripts are sent to the store when their session is resumed.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from claude_agent_py._base.bounded_reading import read_object
from claude_agent_py._base.credentials import read_credentials, read_setting
from claude_agent_py._base.errors import StoreError
from claude_agent_py._base.locks import leftovers, make_locked, unlock
from claude_agent_py._base.log import logger
from claude_agent_py._base.private_files import find_other, give_tree, opened_folder, temporary_folder
from claude_agent_py.transport.processes import NOT_WRITABLE, make_folder_as

PREFIX: Final = "claude-agent-py-session-"
SETTINGS: Final = ("settings.json", "cowork_settings.json")
LINKED: Final = ("CLAUDE.md", "agents", "commands", "output-styles", "plugins", "rules", "skills")
"""The linked parts of the user's folder: files for the model, which the CLI only reads, and plugins."""
KEPT_DAYS: Final = 7
"""How many days the transcripts of a killed process are kept after their last change."""
NEW_SECONDS: Final = 60.0
_HAS_EFFECTIVE: Final = os.access in os.supports_effective_ids


class PrivateFolder:
    """A configuration folder in the system's temporary folder. Creating one blocks; raises OSError.

    Args:
        prefix: The prefix of the folder's name.
        at_exit: Called with the path when this object is collected or the interpreter exits before `remove` is called.
        mark: Ends the folder's name.
    """

    def __init__(self, prefix: str, at_exit: Callable[[Path], object], mark: str = "") -> None:
        self.path: Path = _find_parent_folder() / f"{prefix}{secrets.token_hex(8)}{mark}"
        make_locked(self.path)
        self._owner = os.getpid()
        self._at_exit = weakref.finalize(self, _clean_up, self.path, self._owner, at_exit)

    @property
    def projects(self) -> Path:
        """The folder of the transcripts."""
        return self.path / "projects"

    def remove(self, *, keep_transcripts: bool = False) -> None:
        """Remove the folder, or everything in it except the transcripts. Blocks; never raises. Idempotent."""
        if self._at_exit.detach() is not None:
            _clean_up(self.path, self._owner, _remove_private_files if keep_transcripts else remove_tree)


def _find_parent_folder() -> Path:
    return temporary_folder().resolve()


def _clean_up(path: Path, owner: int, at_exit: Callable[[Path], object]) -> None:
    if owner == os.getpid():
        at_exit(path)
        unlock(path)


def find_left_behind(prefix: str, min_age: float = 0.0) -> Iterator[Path]:
    """Yield the folders with a prefix that killed processes left behind. See `leftovers`."""
    return leftovers(_find_parent_folder(), re.compile(rf"{prefix}[0-9a-f]{{16}}(-[0-9a-f]{{8}})?"), min_age=min_age)


def mark_of(store: object) -> str:
    """Return what ends the names of the folders of a store, so that no other one gets what they keep.

    A store says where it is by its `repr`; without a `__repr__`, it is known by its class.
    """
    name = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(store))
    return f"-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"


def make_folder(env: Mapping[str, str] | None, user: str | int | None = None, *, mark: str = "") -> PrivateFolder:
    """Create a private configuration folder with the user's login. Blocks.

    Args:
        env: The environment of the CLI, which determines the user's configuration folder; None copies nothing from it.
        user: The operating system user who gets the folder; by default the user of this process. Only files owned by
            that user are copied: a link in their home could lead to files that only this process may read.
        mark: The mark of the store whose entries the folder gets.

    Raises:
        StoreError: The folder cannot be created.
    """
    _remove_leftovers()
    try:
        folder = PrivateFolder(PREFIX, _remove_private_files, mark)
    except OSError as error:
        raise StoreError(f"the private folder cannot be created: {error}") from error
    try:
        folder.projects.mkdir(mode=0o700)
        if env is not None:
            _copy_user_configuration(env, folder.path, find_other(user))
    except OSError as error:
        folder.remove()
        raise StoreError(f"the private folder cannot be filled: {error}") from error
    return folder


def change_owner(folder: PrivateFolder, user: str | int) -> None:
    """Make another user the owner of the folder and its files. Blocks."""
    uid = find_other(user)
    if uid is not None:
        give_tree(folder.path, uid)


def find_write_problem(folder: Path, user: str | int | None = None) -> str | None:
    """Return why a user (by default the one of this process) cannot write to a folder, or None. Makes it. Blocks."""
    if find_other(user) is not None:
        return make_folder_as(user, folder)
    try:
        for place in (*reversed(folder.parents), folder):
            place.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        return str(error)
    return None if os.access(folder, os.W_OK | os.X_OK, effective_ids=_HAS_EFFECTIVE) else NOT_WRITABLE


def _copy_user_configuration(env: Mapping[str, str], target: Path, uid: int | None) -> None:
    home = Path(env.get("HOME") or env.get("USERPROFILE") or Path.home())
    given = env.get("CLAUDE_CONFIG_DIR")
    source = Path(given) if given else home / ".claude"
    _write_private_file(target / ".credentials.json", read_credentials(env, source, uid))
    _write_private_file(
        target / ".claude.json", _read_file(source / ".claude.json" if given else home / ".claude.json", uid)
    )
    for name in LINKED:
        if (source / name).exists():
            try:
                (target / name).symlink_to((source / name).resolve(), target_is_directory=(source / name).is_dir())
            except OSError as error:
                # Windows permits symbolic links to few users.
                logger.warning("a session resumed from a store runs without %s of %s: %s", name, source, error)
    has_plugins = (target / "plugins").exists()
    for name in SETTINGS:
        _write_private_file(target / name, _filter_settings(_read_file(source / name, uid), has_plugins=has_plugins))


def _write_private_file(path: Path, content: bytes | None) -> None:
    if content is not None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)


def _read_file(path: Path, uid: int | None) -> bytes | None:
    return read_setting(path, uid, "a session resumed from a store runs without %s: %s")


def _filter_settings(content: bytes | None, *, has_plugins: bool) -> bytes | None:
    """Return the user's settings without the ones that point outside the folder or install plugins into it."""
    parsed = read_object(content or b"")
    if parsed is None:
        return content
    if not has_plugins:
        parsed.pop("enabledPlugins", None)
        parsed.pop("extraKnownMarketplaces", None)
    if isinstance(parsed.get("env"), dict):
        parsed["env"].pop("CLAUDE_CONFIG_DIR", None)
    return json.dumps(parsed).encode()


# Removal -------------------------------------------------------------------------------------------------------


def _remove_leftovers() -> None:
    """Remove the secrets from folders of killed processes. Old folders, and those without transcripts, go entirely."""
    for path in find_left_behind(PREFIX, min_age=NEW_SECONDS):
        with contextlib.suppress(FileNotFoundError):  # another process delivers it, and removes it meanwhile
            kept = [*path.glob("projects/**/*.jsonl")]
            # The folder itself does not change while a transcript in it grows.
            last = max(each.lstat().st_mtime for each in (path, *kept))
            if not kept or time.time() - last > KEPT_DAYS * 24 * 3600:
                remove_tree(path)
            else:
                _remove_private_files(path)


def _remove_private_files(path: Path) -> None:
    """Remove everything except the transcripts. Follows no link: the folder may be another user's by now."""
    with contextlib.suppress(OSError), opened_folder(path) as folder:
        for name in os.listdir(path if folder is None else folder):
            if name == "projects":
                continue
            place: str | Path = path / name if folder is None else name
            try:
                os.unlink(place, dir_fd=folder)
            except OSError:  # a folder
                shutil.rmtree(place, ignore_errors=True, dir_fd=folder)


def remove_tree(path: Path) -> None:
    """Remove a folder. Retries, because programs that the CLI started may still write into it for a moment."""
    _remove_private_files(path)
    for _ in range(5):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(0.05)
    logger.warning("the folder %s cannot be removed", path)
