"""A session that is resumed from a store as another user gets no file that only this process may read."""

import json
import os
from pathlib import Path

import pytest

from claude_agent_py.sessions.stores.private_folder import make_folder

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
