"""Workspaces: made once on a machine, kept for the next prompt, and packed where they have to travel."""

import contextlib
import io
import os
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from claude_agent_py.errors import FleetError
from claude_agent_py.fleet import Archive, Copy, Directory, GitWorktree


def test_a_copy_is_made_once_and_anew_if_making_it_was_cut_off(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("a")
    copy, folder = Copy(tmp_path / "source"), tmp_path / "ws" / "one"
    work = copy.prepare(folder, "one")
    (work / "a.txt").write_text("changed")
    assert (copy.prepare(folder, "one") / "a.txt").read_text() == "changed"
    (folder / ".claude-fleet").unlink()
    assert (copy.prepare(folder, "one") / "a.txt").read_text() == "a"
    copy.remove(folder, "one")
    assert not folder.exists()
    assert list(Copy().prepare(folder, "one").iterdir()) == []
    with pytest.raises(FleetError, match="cannot be made"):
        Copy(tmp_path / "nowhere").prepare(tmp_path / "ws" / "two", "two")
    with pytest.raises(FleetError, match="not on this machine"):
        Directory(tmp_path / "nowhere").prepare(tmp_path / "ws" / "two", "two")


def test_a_git_worktree_has_a_branch_that_outlives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]

    def git(*arguments: str, cwd: Path = repository) -> str:
        command = ["git", *who, *arguments]
        return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (repository / "a.txt").write_text("a")
    git("add", "-A")
    git("commit", "-qm", "first")
    workspace, folder = GitWorktree(repository), tmp_path / "ws" / "one"
    work = workspace.prepare(folder, "pull request 17")
    branch = git("branch", "--show-current", cwd=work)
    assert branch.startswith("fleet/pull-request-17-")
    (work / "b.txt").write_text("b")
    git("add", "-A", cwd=work)
    git("commit", "-qm", "second", cwd=work)
    with pytest.raises(FleetError, match="already"):
        workspace.prepare(tmp_path / "ws of another fleet" / "one", "pull request 17")
    workspace.remove(folder, "pull request 17")
    assert (workspace.prepare(folder, "pull request 17") / "b.txt").read_text() == "b"
    monkeypatch.chdir(tmp_path)
    assert (workspace.prepare(Path("relative"), "three") / "a.txt").is_file()
    assert (tmp_path / "relative" / "work" / "a.txt").is_file()
    with pytest.raises(FleetError, match="worktree"):
        GitWorktree(tmp_path).prepare(tmp_path / "ws" / "two", "two")


def test_packing_stops_at_the_limit(tmp_path: Path) -> None:
    workspace = Archive(max_bytes=1_000_000)
    work = workspace.prepare(tmp_path / "one", "one")
    (work / "noise").write_bytes(os.urandom(1_200_000))
    os.truncate(work / "noise", 12_000_000)  # 15 MB in total are within the limit for unpacked files
    tracemalloc.start()
    with pytest.raises(FleetError, match="packed workspace has more than 1000000 bytes") as caught:
        workspace.pack(tmp_path / "one", "one")
    assert caught.value.session_id == "one"
    (work / "noise").unlink()
    with (work / "hole").open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(FleetError, match="unpacked workspace has more than 16000000 bytes"):
        workspace.pack(tmp_path / "one", "one")
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()


def pack(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_unpacking_stops_at_the_limit(tmp_path: Path) -> None:
    zeros = bytes(15_000_000)
    large, name = tarfile.TarInfo("work/large"), tarfile.TarInfo("work/name")
    name.pax_headers = {"comment": "x" * 16_000_000}  # not a file, and read into memory
    sparse = tarfile.TarInfo("work/sparse")
    sparse.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 40)}
    workspace = Archive(max_bytes=1_000_000)
    workspace.unpack(tmp_path / "one", pack((large, zeros)))
    assert (tmp_path / "one" / "work" / "large").stat().st_size == len(zeros)
    for data in (pack((large, zeros), (large, zeros)), pack((name, b"")), pack((sparse, b"x"))):
        with pytest.raises(FleetError, match="unpacked workspace has more than 16000000 bytes"):
            workspace.unpack(tmp_path / "one", data)
        assert not (tmp_path / "one" / ".claude-fleet").exists()
        assert sum(each.stat().st_size for each in (tmp_path / "one").rglob("*") if each.is_file()) <= len(zeros)


def test_unpacking_changes_no_file_outside_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    link, written = tarfile.TarInfo("work/link"), tarfile.TarInfo("work/link")
    folder = tarfile.TarInfo("work")
    folder.type, folder.mode = tarfile.DIRTYPE, 0o755
    for kind, target in (
        (tarfile.LNKTYPE, "../mine"),
        (tarfile.LNKTYPE, "work/../../mine"),
        (tarfile.SYMTYPE, "../../mine"),
    ):
        link.type, link.linkname = kind, target
        with contextlib.suppress(tarfile.TarError):  # a symbolic link is replaced
            Archive().unpack(tmp_path / "one", pack((folder, b""), (link, b""), (written, b"theirs")))
        assert (tmp_path / "mine").read_text() == "mine", (kind, target)


def test_without_the_extra_a_fleet_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules.update(dict.fromkeys(['temporalio']))\n")
    program = "from claude_agent_py.fleet import Fleet; Fleet('temporal://host')"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert "pip install temporalio" in done.stderr.splitlines()[-1]
