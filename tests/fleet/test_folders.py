"""Workspaces are in a folder that only its user can change, apart by fleet and by session. With a stand-in CLI."""

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from fleets import LEASE, PATIENCE, fleet_url as fleet_url, until

from claude_agent_py import ClientOptions, RetryPolicy
from claude_agent_py.errors import FleetError, FleetRunError
from claude_agent_py.fleet import Copy, Fleet, Workspace
from claude_agent_py.sessions import MemoryStore
from claude_agent_py.testing import FakeCLI, steps

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
on_posix = pytest.mark.skipif(os.name != "posix", reason="modes and owners of files")


@pytest.fixture
def cli(tmp_path: Path) -> Path:
    return FakeCLI(steps.turn("ok")).install(tmp_path / "cli")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the default folder for workspaces."""
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@asynccontextmanager
async def at_work(
    url: str,
    cli: Path,
    folder: Path | None = None,
    workspace: Workspace | None = None,
    *,
    lease: float = 20.0,
    **more: Any,
) -> AsyncIterator[Fleet]:
    """Open a fleet with an agent `one`, and a worker, which removes workspaces each third of its lease."""
    async with Fleet(url, store=MemoryStore(), poll=0.1, lease=lease, **more) as fleet:
        fleet.agent("one", ClientOptions(cli_path=cli), workspace=workspace or Copy(), retry=RetryPolicy(attempts=1))
        async with fleet.worker(folder=folder):
            yield fleet


async def workspace_of(fleet: Fleet, session_id: str) -> Path:
    """Run a prompt, and return the workspace that the information about the session names."""
    session = await fleet.start("one", "hi", id=session_id)
    await session.result(timeout=PATIENCE)
    return Path((await session.info()).workspace or "none")


class Mounted(Workspace):
    """A directory that all machines have."""

    is_shared = True

    def __init__(self, path: Path) -> None:
        self._path = path

    def prepare(self, folder: Path, session_id: str) -> Path:
        return self._path


async def test_a_shared_workspace_belongs_to_no_machine(tmp_path: Path, cli: Path) -> None:
    async with at_work(f"sqlite:///{tmp_path / 'fleet.db'}", cli, tmp_path / "ws", Mounted(tmp_path)) as fleet:
        assert await workspace_of(fleet, "one") == tmp_path
        assert (await fleet.session("one").info()).machine is None
    assert not (tmp_path / "ws").exists()


async def test_two_fleets_on_one_machine_have_workspaces_apart(tmp_path: Path, cli: Path) -> None:
    async with at_work(f"sqlite:///{tmp_path / 'one.db'}", cli, tmp_path / "ws") as fleet:
        first = await workspace_of(fleet, "pr-17")
        (first / "secret").touch()
    async with at_work(f"sqlite:///{tmp_path / 'other.db'}", cli, tmp_path / "ws", lease=LEASE) as fleet:
        second = await workspace_of(fleet, "pr-17")
        assert (list(second.iterdir()), second != first) == ([], True)
        await fleet.session("pr-17").cancel()
        await until(lambda: not second.exists(), "it is removed")

        async def is_forgotten() -> bool:
            return (await fleet.session("pr-17").info()).workspace is None

        await until(is_forgotten, "its path is removed")
    assert (first / "secret").exists()
    async with at_work(f"sqlite:///{tmp_path / 'one.db'}", cli, tmp_path / "ws") as fleet:
        await fleet.session("pr-17").send("hi")
        await fleet.session("pr-17").result(timeout=PATIENCE)
        assert (first / "secret").exists()


async def test_a_database_started_afresh_takes_no_files_up(tmp_path: Path, cli: Path, state: Path) -> None:
    for _ in range(2):
        async with at_work(f"sqlite:///{tmp_path / 'fleet.db'}", cli) as fleet:
            work = await workspace_of(fleet, "pr-17")
            assert (list(work.iterdir()), work.is_relative_to(state)) == ([], True)
            (work / "stale").touch()
        for path in tmp_path.glob("fleet.db*"):
            path.unlink()


async def test_an_id_that_is_used_again_starts_at_once_in_a_new_workspace(
    fleet_url: str, tmp_path: Path, cli: Path
) -> None:
    async with at_work(fleet_url, cli, tmp_path / "ws") as fleet:
        work = await workspace_of(fleet, "pr-17")
        (work / "stale").touch()
        assert await fleet.prune(0) == 1
        assert (work / "stale").exists()
        assert await workspace_of(fleet, "pr-17") == work
        assert list(work.iterdir()) == []
        events = [event async for event in fleet.session("pr-17").events()]
        states = [event.data["state"] for event in events if event.kind == "state"]
        assert states == ["queued", "running", "idle"], "it was claimed twice"


class Stuck(Copy):
    """A workspace that cannot be removed, as one with a thousand nested folders."""

    def remove(self, folder: Path, session_id: str) -> None:
        raise RecursionError


async def test_a_workspace_that_cannot_be_removed_stops_no_other_session(
    fleet_url: str, tmp_path: Path, cli: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_work(fleet_url, cli, tmp_path / "ws", Stuck(), lease=LEASE) as fleet:
        await workspace_of(fleet, "first")
        await fleet.session("first").cancel()
        await until(lambda: "the workspace of session first could not be removed" in caplog.text)
        assert (await workspace_of(fleet, "second")).exists()


@on_posix
@pytest.mark.parametrize("planted", ["link", "mode", "owner", "parent"])
async def test_a_folder_that_others_can_change_is_refused(tmp_path: Path, cli: Path, state: Path, planted: str) -> None:
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    async with at_work(url, cli) as fleet:
        [folder] = (state / "claude-agent-py" / "fleet").iterdir()
        assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
        assert (await workspace_of(fleet, "pr-17")).is_relative_to(folder)
        if planted == "link":
            folder.rename(tmp_path / "elsewhere")
            folder.symlink_to(tmp_path / "elsewhere")
            problem = "is not a folder"
        elif planted == "owner":
            if os.geteuid() != 0:
                pytest.skip("only root can give a folder away")
            os.chown(folder, 12345, 12345)
            problem = "belongs to another user"
        elif planted == "mode":
            folder.chmod(0o770)
            problem = "is open to other users"
        else:
            (state / "claude-agent-py").chmod(0o777)
            problem = "other users can replace what is in"
        if planted != "parent":
            with pytest.raises(FleetRunError, match=problem):
                await workspace_of(fleet, "pr-18")
    with pytest.raises(FleetError, match=problem):
        async with at_work(url, cli):
            pass
    async with at_work(url, cli, tmp_path / "given") as fleet:
        assert (await workspace_of(fleet, "pr-19")).is_relative_to(tmp_path / "given")


async def test_a_fleet_without_an_address_is_in_the_folder_for_state(state: Path, cli: Path) -> None:
    async with Fleet() as fleet:
        fleet.agent("one", ClientOptions(cli_path=cli))
        await fleet.start("one", "hi", id="pr-17")
    [path] = state.rglob("fleet.db")
    assert os.name != "posix" or (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    async with Fleet(f"sqlite:///{path}", create=False) as same:
        assert [info.id for info in await same.list()] == ["pr-17"]


async def test_a_file_of_an_earlier_release_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE fleet_meta (version INTEGER NOT NULL, identity TEXT)")
        connection.execute("PRAGMA user_version = 1")
    for create in (True, False):
        async with Fleet(f"sqlite:///{path}", create=create) as fleet:
            with pytest.raises(FleetError, match="an older version of the library; start a new file"):
                await fleet.list()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("fleet_meta",)]
