"""`LaunchPlan`: the command line, environment and files of a CLI process, as plain values; and writing the files."""

import contextlib
import os
import re
import shutil
import stat
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from claude_agent_py._base.configuration import Unshown
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.locks import leftovers, lock, unlock
from claude_agent_py._base.private_files import WRITERS, check_parent, check_private, find_other, give_tree
from claude_agent_py.transport.processes import find_groups, make_folder_as

PRIVATE: Final = 0o700
PASSABLE: Final = 0o711
"""The mode of a directory that another user can pass, to files of his in it."""

CONFIG: Final = ".claude"
"""The config folder in a home."""

FORCE: Final = 5.0
"""How long ending a program by force may take, all in all, in seconds."""

STDERR_BYTES: Final = 64 * 1024
"""How much of a program's stderr is kept."""

SETTINGS_FILE: Final = "settings.json"

NEW_HOME: Final = "home"
"""The private home of a session, next to its files."""

NEW_SECONDS: Final = 60.0
"""Directories that changed within this time are not removed."""

PREFIX: Final = "claude-agent-py-"
"""The name prefix of the directories of plans."""


@dataclass(frozen=True)
class LaunchPlan:
    """How to start a CLI with the options of a session. `ClientOptions(spawn=...)` is called with it.

    `dataclasses.replace(plan, argv=[...])` makes another plan, to start the CLI through another program.
    """

    argv: Sequence[str]
    """The program and its arguments. Contains no secrets except those in `extra_args`."""
    env: Mapping[str, str]
    """The whole environment, which may contain secrets. Emptied once the CLI has started."""
    cwd: Path | None = None
    """The working directory; None means this process's."""
    initialize: Mapping[str, object] = field(default_factory=dict)
    """The fields of the first control request, which the session sends."""
    config_dir: Path | None = None
    """Where the CLI keeps sessions, transcripts and to-do lists."""
    user: str | int | None = None
    """The operating system user to start it as."""
    files: Mapping[Path, str] = field(default_factory=dict)
    """The contents of the files that the CLI reads, by the paths that `argv` names. They have been written on this
    machine, into a directory that only this user can read; a container also needs them in its `/tmp`. With a session
    that is resumed from a store, they include its private configuration folder. May contain secrets.
    """
    force: float = FORCE
    """How many seconds ending the CLI by force may take."""
    stderr_bytes: int = STDERR_BYTES
    """How many bytes of stderr to keep."""
    home: Path | None = None
    """The private home; None means the user's."""
    is_new_home: bool = False
    """Whether the home is removed with the files."""
    is_elsewhere: bool = False
    """Whether a `spawn` function starts it, in a place that this process cannot check."""
    confirmations: Mapping[str, str] = field(default_factory=dict)
    """Fields that must be true in the reply to `initialize`, each with its option."""
    owner: int = field(default_factory=os.getpid)
    """The process that owns the files: a forked copy does not remove them."""

    def __repr__(self) -> str:
        fields = ", ".join(self.initialize)
        return f"<LaunchPlan {' '.join(self.argv)} in {self.cwd or '.'}, initialize: {fields}, {len(self.files)} files>"

    def prepare(self) -> None:
        """Write the files into a new directory that only this user can read. Blocks for less than a millisecond.

        They are removed by `clean_up`, when the plan is collected, or when the interpreter exits. The files of a killed
        process are removed by the next process that writes such files (POSIX).

        Raises:
            OptionsError: The files cannot be written, or the home is not private.
        """
        if self.home is not None and not self.is_new_home and not self.is_elsewhere:
            make_home(self.home, self.user)
        scratch = self._scratch
        if scratch is None:
            return
        _sweep(scratch.parent)
        weakref.finalize(self, _remove, scratch, tuple(self.files), self.owner)
        try:
            self._fill(scratch)
        except OptionsError:
            self.clean_up()
            raise
        except OSError as error:
            self.clean_up()
            raise OptionsError(f"the files for the CLI cannot be written: {error}", option="settings") from error

    def _fill(self, scratch: Path) -> None:
        """Create the directory, the new home and the files."""
        uid = find_other(self.user)
        # It stays this user's, so that another user can neither move it nor put anything else in its place.
        scratch.mkdir(mode=PRIVATE if uid is None else PASSABLE, exist_ok=True)
        lock(scratch)
        if self.home is not None and self.is_new_home:
            make_home(self.home, self.user)
        for path, text in self.files.items():
            _write_private(path, text, uid)

    @property
    def _scratch(self) -> Path | None:
        """The directory that holds the files and the new home; None if there are neither."""
        ours = [*self.files, *([self.home] if self.home is not None and self.is_new_home else [])]
        return ours[0].parent if ours else None

    def clean_up(self) -> None:
        """Remove the files, and a new home. Idempotent; never raises."""
        scratch = self._scratch
        if scratch is not None:
            _remove(scratch, tuple(self.files), self.owner)

    def forget_environment(self) -> None:
        """Drop the environment, which a running CLI has a copy of."""
        object.__setattr__(self, "env", Unshown({}))

    def check_reply(self, reply: Mapping[str, object]) -> None:
        """Check that the CLI accepted what it only accepts at its start.

        Raises:
            OptionsError: It did not: it is too old, or a wrapper drops a flag.
        """
        for confirmation, option in self.confirmations.items():
            if reply.get(confirmation) is not True:
                raise OptionsError(
                    f"the CLI did not accept it ({confirmation} is {reply.get(confirmation)!r}): it is too old, or a "
                    "wrapper around it drops flags",
                    option=option,
                )


def make_home(home: Path, user: str | int | None) -> None:
    """Create a home and its config folder, which only this user, or the user of the CLI, can read.

    Raises:
        OptionsError: The directory exists and is a link, belongs to another user or can be read by others, or it cannot
            be created.
    """
    uid = find_other(user)
    try:
        if uid is None:
            _make_new_home(home, None)
        else:
            _make_home_of(home, user, uid)
    except (OSError, ValueError) as error:  # ValueError: a NUL or half a character
        raise OptionsError(f"cannot be created: {error}", option="home") from error


def _make_home_of(home: Path, user: str | int | None, uid: int) -> None:
    """Make the home of another user as that user, or for him in a directory that he cannot change."""
    is_there = home.is_dir()
    if is_there or home.is_symlink():
        _check_home(home, uid)
    problem = make_folder_as(user, Path(CONFIG), cwd=home) if is_there else make_folder_as(user, home / CONFIG)
    if problem is None:
        _check_home(home, uid)
        return
    if is_there:
        raise OptionsError(f"the user {user} cannot use it: {problem}", option="home")
    groups = find_groups(user)
    ids = {groups.get("group"), *groups.get("extra_groups", ())}
    for given in (home.parent.absolute(), home.parent.resolve()):
        for folder in (given, *given.parents):
            if folder.exists():
                check_parent(folder, writers=WRITERS if folder.stat().st_gid in ids else stat.S_IWOTH)
    _make_new_home(home, uid)


def _make_new_home(home: Path, uid: int | None) -> None:
    is_new = not home.is_dir()
    if is_new:
        home.mkdir(mode=PRIVATE, parents=True)
    _check_home(home, None)
    (home / CONFIG).mkdir(mode=PRIVATE, exist_ok=True)
    if uid is not None:
        give_tree(home, uid)


def _check_home(home: Path, uid: int | None) -> None:
    try:
        check_private(home, uid=uid)
    except PermissionError as error:
        raise OptionsError(f"{error}, or name a directory that does not exist yet", option="home") from error


def _write_private(path: Path, text: str, uid: int | None) -> None:
    """Write a new file that only this user can read, or another one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        if uid is not None and sys.platform != "win32":
            os.fchown(descriptor, uid, -1)


def _remove(scratch: Path, paths: tuple[Path, ...], owner: int) -> None:
    if owner != os.getpid():
        return
    shutil.rmtree(scratch / NEW_HOME, ignore_errors=True)
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError):
        scratch.rmdir()
    unlock(scratch)


def _sweep(folder: Path) -> None:
    """Remove the directories that killed processes of this user left."""
    for directory in leftovers(folder, re.compile(rf"{PREFIX}[0-9a-f]{{16}}"), min_age=NEW_SECONDS):
        shutil.rmtree(directory / NEW_HOME, ignore_errors=True)
        with contextlib.suppress(OSError):
            (directory / SETTINGS_FILE).unlink(missing_ok=True)
            directory.rmdir()
