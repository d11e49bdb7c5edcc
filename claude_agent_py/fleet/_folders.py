"""`open_folder`: the private folder of a fleet for workspaces. `SessionFolder`: the folder of a session in it.

A mark, a file next to the folder of a session, names the fleet and the conversation: a later session with the same id
gets a new workspace, and no session removes the workspace of another one.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

from claude_agent_py._base.errors import FleetError
from claude_agent_py._base.private_files import check_parent, check_private
from claude_agent_py.fleet.workspaces import Workspace
from claude_agent_py.options import user_folder

PRIVATE: Final = 0o700


def find_own_file() -> Path:
    """Return the file of this user's fleet, in the folder for state, which is created.

    Raises:
        FleetError: The folder cannot be created, or other users can change it.
    """
    try:
        return _open_own_folder() / "fleet.db"
    except (OSError, RuntimeError) as error:
        raise FleetError(
            f"the folder for state cannot be used: {error}; name a file: Fleet('sqlite:///...')"
        ) from error


def _open_own_folder() -> Path:
    own = user_folder(os.environ, "XDG_STATE_HOME", macos="Library/Application Support", other=".local/state")
    own.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    folder = own.resolve() / "fleet"
    folder.mkdir(mode=PRIVATE, exist_ok=True)
    check_private(folder)
    for parent in folder.parents:
        check_parent(parent)
    return folder


def open_folder(given: Path | None, fleet: str) -> Path:
    """Return the folder for the workspaces of a fleet, by default below the user's folder for state. Creates it.

    Raises:
        FleetError: The folder cannot be created, or other users can change it.
    """
    try:
        if given is None:
            given = _open_own_folder()
        given.mkdir(parents=True, exist_ok=True)
        folder = given / fleet
        folder.mkdir(mode=PRIVATE, exist_ok=True)
        check_private(folder)
    except (OSError, RuntimeError) as error:
        raise FleetError(
            f"the folder for workspaces cannot be used: {error}; name another: worker(folder=...)"
        ) from error
    return folder


class SessionFolder(NamedTuple):
    """The folder of a session on this machine."""

    path: Path
    owner: str
    """The fleet and the conversation. No other session has the same, not even one with the same id."""

    def take(self, workspace: Workspace, session_id: str) -> None:
        """Mark the folder for this session. The workspace of an earlier session with the same id is removed.

        Raises:
            FleetError: Other users can change the folder, or the earlier workspace cannot be removed.
        """
        try:
            check_private(self.path.parent)
            if self._read_mark() == self.owner:
                return
            if os.path.lexists(self.path):
                workspace.remove(self.path, session_id)
            if os.path.lexists(self.path):
                raise FileExistsError("it belongs to another session")
            self._mark.write_text(self.owner)
        except OSError as error:
            raise FleetError(f"the workspace {self.path} cannot be made: {error}", session_id=session_id) from error

    def free(self, workspace: Workspace, session_id: str) -> None:
        """Remove the workspace, unless the folder belongs to another session. Raises OSError or FleetError."""
        if self._read_mark() == self.owner:
            workspace.remove(self.path, session_id)
            self._mark.unlink(missing_ok=True)

    @property
    def _mark(self) -> Path:
        # The name of no folder contains a dot.
        return self.path.with_name(f"{self.path.name}.owner")

    def _read_mark(self) -> str | None:
        try:
            return self._mark.read_text()
        except FileNotFoundError:
            return None
