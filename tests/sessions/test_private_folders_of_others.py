"""A session that is resumed from a store as another user gets no file that only this process may read."""

import errno
import json
import os
import shutil
import tempfile
import uuid
from pathlib import Path

import pytest

from claude_agent_py import Client, ClientOptions
from claude_agent_py.errors import OptionsError, StoreError
from claude_agent_py.sessions import MemoryStore
from claude_agent_py.sessions.stores.private_folder import change_owner, find_write_problem, make_folder
from claude_agent_py.transport import LaunchPlan

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="users are changed on POSIX only")


def open_to_all(folder: Path) -> None:
    """Let other users pass the folders of pytest, which are private."""
    for place in (folder, *folder.parents):
        if place == Path(tempfile.gettempdir()):
            break
        place.chmod(0o755)


def test_only_files_of_the_user_itself_are_copied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = tmp_path / "home" / ".claude"
    config.mkdir(parents=True)
    secret = tmp_path / "id_rsa"
    secret.write_text("SECRET")
    for name in (".credentials.json", "settings.json"):  # planted by what the model ran as that user
        (config / name).symlink_to(secret)
    own = config.parent / ".claude.json"
    own.write_text(json.dumps({"own": True}))
    agent = os.getuid() + 1
    if os.getuid() == 0:
        os.chown(own, agent, -1)

    folder = make_folder({"HOME": str(config.parent)}, agent)
    copied = {path.name for path in folder.path.iterdir() if path.is_file()}
    folder.remove()
    assert copied == ({".claude.json"} if os.getuid() == 0 else set())
    assert f"runs without {config / 'settings.json'}" in caplog.text

    folder = make_folder({"HOME": str(config.parent)}, os.getuid())
    assert (folder.path / "settings.json").read_text() == "SECRET"  # no other user is concerned
    folder.remove()


def test_a_folder_that_cannot_be_listed_is_not_given_away_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, open_file = make_folder(None), os.open

    def refuse(path: str | os.PathLike[str], *args: int, **options: int) -> int:
        if os.fspath(path) == "projects":
            raise OSError(errno.EMFILE, "Too many open files")
        return open_file(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        change_owner(folder, os.getuid() + 1)
    assert folder.path.stat().st_uid == os.getuid()
    monkeypatch.undo()
    folder.remove()


def test_a_folder_that_cannot_be_locked_is_used_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", fail)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    folder = make_folder(None)
    assert folder.projects.is_dir()
    assert before is None or len(os.listdir("/proc/self/fd")) == before
    folder.remove()
    assert not folder.path.exists()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can act as another user")
def test_whether_a_folder_can_be_written_is_a_question_of_the_user_of_the_cli(tmp_path: Path) -> None:
    agent = 12345
    open_to_all(tmp_path)
    ours, his = tmp_path / "ours", tmp_path / "his"
    for folder in (ours, his):
        folder.mkdir(mode=0o700)
    os.chown(his, agent, agent)
    assert find_write_problem(ours / "projects") is None
    problem = find_write_problem(ours / "projects", agent)
    assert problem is not None
    assert "Permission denied" in problem
    assert find_write_problem(his / "projects" / "p", agent) is None
    assert ((his / "projects" / "p").stat().st_uid, (his / "projects").stat().st_uid) == (agent, agent)


AGENT = 12345
needs_root = pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a folder away"
)


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """A folder of root with a file, for which another user leaves links."""
    folder = tmp_path / "roots"
    (folder / "home").mkdir(parents=True, mode=0o700)
    for place in (folder / "settings.json", folder / "home" / "file"):
        place.write_text("precious")
    return folder


def is_untouched(roots: Path) -> bool:
    places = [roots, *roots.rglob("*")]
    return len(places) == 4 and all(place.stat().st_uid == 0 for place in places)


def swap(folder: Path, roots: Path) -> None:
    """Do what its owner can do in a folder for temporary files: put a link in the place of the folder."""
    folder.rename(folder.with_name(f"{folder.name}.moved"))
    folder.symlink_to(roots)


@needs_root
def test_a_folder_that_was_given_away_is_removed_without_following_links(roots: Path) -> None:
    folder = make_folder(None)
    (folder.projects / "p").mkdir()
    (folder.projects / "p" / "s.jsonl").write_text("{}")
    (folder.path / "link").symlink_to(roots / "settings.json")
    change_owner(folder, AGENT)
    assert [p.stat().st_uid for p in (folder.path, *folder.projects.rglob("*"))] == [AGENT] * 3
    assert is_untouched(roots)
    moved = folder.path.with_name(f"{folder.path.name}.moved")
    swap(folder.path, roots)
    folder.remove()
    assert is_untouched(roots)
    folder.path.unlink()
    shutil.rmtree(moved)


@needs_root
def test_a_folder_is_given_away_from_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the folder itself is theirs, other users cannot enter it, so that no name in it changes."""
    folder, seen = make_folder(None), list[tuple[int, int]]()
    inner = folder.projects / "p"
    inner.mkdir()
    give = os.fchown

    def fchown(descriptor: int, uid: int, gid: int) -> None:
        seen.append((os.fstat(descriptor).st_ino, folder.path.stat().st_uid))
        give(descriptor, uid, gid)

    monkeypatch.setattr(os, "fchown", fchown)
    change_owner(folder, AGENT)
    assert seen == [(place.stat().st_ino, 0) for place in (inner, folder.projects, folder.path)]
    folder.remove()


@needs_root
def test_a_folder_of_this_user_is_given_to_nobody() -> None:
    folder = make_folder(None)
    before = {path: path.stat() for path in folder.path.rglob("*")}
    change_owner(folder, os.getuid())
    assert {path: path.stat() for path in folder.path.rglob("*")} == before
    folder.remove()


def test_the_folder_of_a_plan_stays_with_its_maker(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    files = {scratch / "settings.json": "{}"}
    plan = LaunchPlan(["claude"], {}, user=AGENT, files=files, home=scratch / "home", is_new_home=True)
    plan.prepare()
    owners = {place.name: place.stat().st_uid for place in (scratch, *scratch.rglob("*"))}
    assert owners == {"scratch": 0, "settings.json": AGENT, "home": AGENT, ".claude": AGENT}
    modes = {place.name: place.stat().st_mode & 0o777 for place in (scratch, *scratch.rglob("*"))}
    assert modes == {"scratch": 0o711, "settings.json": 0o600, "home": 0o700, ".claude": 0o700}
    plan.clean_up()
    assert not scratch.exists()


@needs_root
def test_links_of_another_user_do_not_lead_to_a_home_elsewhere(tmp_path: Path, roots: Path) -> None:
    his = tmp_path / "his"
    his.mkdir(mode=0o700)
    (his / "homes").symlink_to(roots)
    (his / ".claude").symlink_to(roots / "settings.json")
    open_to_all(tmp_path)
    os.chown(his, AGENT, AGENT)
    for home in (his / "homes" / "one", his):
        with pytest.raises(OptionsError, match="home"):
            LaunchPlan(["claude"], {}, user=AGENT, home=home).prepare()
        assert is_untouched(roots)
    LaunchPlan(["claude"], {}, user=AGENT, home=his / "a" / "b").prepare()
    assert [(his / place).stat().st_uid for place in ("a", "a/b", "a/b/.claude")] == [AGENT] * 3
    ours = tmp_path / "ours" / "b"
    LaunchPlan(["claude"], {}, user=AGENT, home=ours).prepare()
    assert [place.stat().st_uid for place in (ours.parent, ours, ours / ".claude")] == [0, AGENT, AGENT]


@needs_root
def test_no_home_is_made_where_a_group_of_the_user_can_exchange_folders(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    shared = tmp_path / "shared"
    (shared / "ours").mkdir(parents=True)
    os.chown(shared, 0, AGENT)
    shared.chmod(0o775)
    with pytest.raises(OptionsError, match="can replace what is in"):
        LaunchPlan(["claude"], {}, user=AGENT, home=shared / "ours" / "home").prepare()
    assert list((shared / "ours").iterdir()) == []
    os.chown(shared, 0, 0)
    LaunchPlan(["claude"], {}, user=AGENT, home=shared / "ours" / "home").prepare()


@needs_root
@pytest.mark.anyio
async def test_a_session_that_another_user_put_in_his_home_is_not_sent_to_the_store(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    home, ours, session = tmp_path / "his", tmp_path / "ours.jsonl", str(uuid.uuid4())
    ours.write_text(json.dumps({"type": "user", "uuid": "u", "message": {"role": "user", "content": "SECRET"}}) + "\n")
    project = home / ".claude" / "projects" / "-p"
    project.mkdir(parents=True)
    os.link(ours, project / f"{session}.jsonl")
    for folder in (home, *(place for place in home.rglob("*") if place.is_dir())):
        os.chown(folder, AGENT, -1)
        folder.chmod(0o700)
    store = MemoryStore()
    options = ClientOptions(cli_path="/bin/true", user=AGENT, home=home, session_store=store, resume=session)
    with pytest.raises(StoreError, match=f"it is not of the user {AGENT}"):
        async with Client(options):
            pytest.fail("the session started")
    assert await store.find_session(session) == []
