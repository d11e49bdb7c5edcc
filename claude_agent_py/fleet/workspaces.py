"""Workspaces: the directory in which a session works, made on the machine that runs it.

A session keeps to the machine that has its workspace while that machine lives. On another one, the workspace is made
anew; only an `Archive` brings along what was changed in it.
"""

import os
import re
import shutil
import subprocess
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import ClassVar, Final

from claude_agent_py._errors import FleetError

MARK: Final = ".claude-fleet"
"""Beside a finished workspace: without it, making it was cut off."""
GIT_SECONDS: Final = 300.0


class Workspace(ABC):
    """Makes the directory of each session. The methods run in a thread, and are repeated if a worker dies in them."""

    is_shared: ClassVar[bool] = False
    """Whether it is in the same place for all sessions, so that no machine is better than another."""

    @abstractmethod
    def prepare(self, folder: Path, session_id: str) -> Path:
        """Make the workspace unless it is there, and return the directory to work in.

        Args:
            folder: A folder of this session on this machine, which need not exist.
            session_id: The session.

        Raises:
            FleetError: It cannot be made.
        """

    def remove(self, folder: Path, session_id: str) -> None:
        """Remove the workspace, because the session was cancelled."""
        shutil.rmtree(folder, ignore_errors=True)


class Directory(Workspace):
    """One directory for all sessions, which must exist on every machine that runs them.

    Args:
        path: The directory.
    """

    is_shared = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path).expanduser().absolute()

    def prepare(self, folder: Path, session_id: str) -> Path:
        """Return the directory."""
        if not self.path.is_dir():
            raise FleetError(f"the workspace {self.path} is not on this machine", session_id=session_id)
        return self.path

    def remove(self, folder: Path, session_id: str) -> None:
        """Leave it: other sessions use it."""


class Copy(Workspace):
    """A copy of a directory for each session; an empty directory without one.

    Args:
        source: What to copy. It must exist on every machine.
    """

    def __init__(self, source: str | os.PathLike[str] | None = None) -> None:
        self.source: Path | None = None if source is None else Path(source).expanduser().absolute()

    def prepare(self, folder: Path, session_id: str) -> Path:
        """Copy the directory, once."""
        work, mark = folder / "work", folder / MARK
        if not mark.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, mode=0o700)
            try:
                self.fill(work)
            except OSError as error:
                raise FleetError(f"the workspace {work} cannot be made: {error}", session_id=session_id) from error
            mark.touch()
        return work

    def fill(self, work: Path) -> None:
        """Make the directory."""
        if self.source is None:
            work.mkdir()
        else:
            shutil.copytree(self.source, work, symlinks=True)


class GitWorktree(Workspace):
    """A git worktree for each session, on a branch of its own (`fleet/<session>`).

    Args:
        repository: The repository. It must exist on every machine.
        ref: From where the branch begins.
    """

    def __init__(self, repository: str | os.PathLike[str], *, ref: str = "HEAD") -> None:
        self.repository: Path = Path(repository).expanduser().absolute()
        self.ref = ref

    def prepare(self, folder: Path, session_id: str) -> Path:
        """Add the worktree, once. A branch that is there is used again."""
        work, mark = folder.absolute() / "work", folder / MARK  # git runs in the repository
        if mark.exists() and work.is_dir():
            return work
        self.remove(folder, session_id)
        folder.mkdir(parents=True, mode=0o700)
        branch = f"fleet/{safe_name(session_id)}"
        there = self._git(["rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"]).returncode == 0
        arguments = [str(work), branch] if there else ["-b", branch, str(work), self.ref]
        done = self._git(["worktree", "add", "--force", *arguments])
        if done.returncode:
            told = done.stderr.decode(errors="replace").strip()
            raise FleetError(f"the worktree {work} cannot be made: {told}", session_id=session_id)
        mark.touch()
        return work

    def remove(self, folder: Path, session_id: str) -> None:
        """Remove the worktree. Its branch stays."""
        shutil.rmtree(folder, ignore_errors=True)
        self._git(["worktree", "prune"])

    def _git(self, arguments: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
        command = ["git", "-C", str(self.repository), *arguments]
        try:
            return subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FleetError(f"git failed: {error}") from error


class Archive(Copy):
    """A copy that travels: packed into the fleet's database after every run, and unpacked where the session goes on.

    What a run had changed when its worker died is lost on other machines.

    Args:
        source: What to copy at first.
        max_bytes: The size of the packed files above which a run fails.
    """

    def __init__(self, source: str | os.PathLike[str] | None = None, *, max_bytes: int = 64 * 1024 * 1024) -> None:
        super().__init__(source)
        self.max_bytes = max_bytes

    def pack(self, folder: Path, session_id: str) -> bytes:
        """Return the packed workspace. Raises FleetError if it is too large."""
        packed = BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=3) as archive:
            archive.add(folder / "work", arcname="work")
        data = packed.getvalue()
        if len(data) > self.max_bytes:
            told = f"the packed workspace has {len(data)} bytes, more than {self.max_bytes}"
            raise FleetError(told, session_id=session_id)
        return data

    def unpack(self, folder: Path, data: bytes) -> None:
        """Replace the workspace by a packed one."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        with tarfile.open(fileobj=BytesIO(data), mode="r:gz") as archive:
            archive.extractall(folder, filter="tar")
        (folder / MARK).touch()


def safe_name(session_id: str) -> str:
    """Return a name for files and branches that no other session has."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}", session_id):
        return session_id
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", session_id)[:40].strip("-")
    return f"{readable or 'session'}-{sha256(session_id.encode()).hexdigest()[:12]}"
