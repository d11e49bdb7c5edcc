"""Workspaces: the working directory of a session, prepared on the machine that runs it.

A session prefers the machine that has its workspace while that machine has a worker. On another machine, the workspace
is created again.
"""

import os
import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Final

from claude_agent_py._base.errors import FleetError

MARK: Final = ".claude-fleet"
"""A file next to a finished workspace. If it is missing, the preparation was interrupted."""
GIT_SECONDS: Final = 300.0


class Workspace(ABC):
    """Prepares the directory of each session. The methods run in a thread, and are repeated if the worker dies."""

    is_shared: ClassVar[bool] = False
    """Whether all sessions use the same directory, so that no machine is preferred."""

    @abstractmethod
    def prepare(self, folder: Path, session_id: str) -> Path:
        """Create the workspace unless it exists, and return the working directory.

        Args:
            folder: The folder of this session on this machine. It may not exist yet.
            session_id: The id of the session.

        Raises:
            FleetError: The workspace cannot be created.
        """

    def remove(self, folder: Path, session_id: str) -> None:
        """Remove the workspace of a session that was cancelled or deleted."""
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
        """Do nothing: other sessions use the directory."""


class Copy(Workspace):
    """A copy of a directory for each session.

    Args:
        source: The directory to copy. It must exist on every machine. None creates an empty directory.
    """

    def __init__(self, source: str | os.PathLike[str] | None = None) -> None:
        self.source: Path | None = None if source is None else Path(source).expanduser().absolute()

    def prepare(self, folder: Path, session_id: str) -> Path:
        """Copy the directory, once."""
        work = folder / "work"
        mark = folder / MARK
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
        """Create the directory."""
        if self.source is None:
            work.mkdir()
        else:
            shutil.copytree(self.source, work, symlinks=True)


class GitWorktree(Workspace):
    """A git worktree for each session, on a separate branch (`fleet/<session>`).

    Args:
        repository: The repository. It must exist on every machine.
        ref: The start of the branch.
    """

    def __init__(self, repository: str | os.PathLike[str], *, ref: str = "HEAD") -> None:
        self.repository: Path = Path(repository).expanduser().absolute()
        self.ref = ref

    def prepare(self, folder: Path, session_id: str) -> Path:
        """Add the worktree, once. An existing branch is reused."""
        # The path must be absolute, because git runs in the repository.
        work = folder.absolute() / "work"
        mark = folder / MARK
        if mark.exists() and work.is_dir():
            return work
        self.remove(folder, session_id)
        folder.mkdir(parents=True, mode=0o700)
        branch = f"fleet/{safe_name(session_id)}"
        branch_exists = self._git(["rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"]).returncode == 0
        arguments = [str(work), branch] if branch_exists else ["-b", branch, str(work), self.ref]
        # Git refuses a branch that another worktree has, such as one of another fleet.
        result = self._git(["worktree", "add", *arguments])
        if result.returncode:
            reason = result.stderr.decode(errors="replace").strip()
            raise FleetError(f"the worktree {work} cannot be made: {reason}", session_id=session_id)
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


def safe_name(session_id: str) -> str:
    """Return a unique name for the files and the branch of a session."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}", session_id):
        return session_id
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", session_id)[:40].strip("-")
    return f"{readable or 'session'}-{sha256(session_id.encode()).hexdigest()[:12]}"
