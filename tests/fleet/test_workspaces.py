"""Workspaces: made once on a machine, kept for the next prompt, and packed where they have to travel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from claude_agent_py.errors import FleetError
from claude_agent_py.fleet import Copy, Directory, GitWorktree


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


def test_without_the_extra_a_fleet_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules.update(dict.fromkeys(['temporalio']))\n")
    program = "from claude_agent_py.fleet import Fleet; Fleet('temporal://host')"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert "pip install temporalio" in done.stderr.splitlines()[-1]
