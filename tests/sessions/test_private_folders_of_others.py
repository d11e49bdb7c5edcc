"""A session that is resumed from a store as another user gets no file that only this process may read."""

import json
import os
from pathlib import Path

import pytest

from claude_agent_py.sessions.stores.private_folder import find_write_problem, make_folder

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="users are changed on POSIX only")


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


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can act as another user")
def test_whether_a_folder_can_be_written_is_a_question_of_the_user_of_the_cli(tmp_path: Path) -> None:
    agent = 12345
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(0o755)
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
