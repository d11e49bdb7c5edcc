"""A place for a CLI under test: a temporary home, a temporary working directory, and a clean environment.

Owns the directories and the variables of `claude_agent_py.testing`. Knows nothing of models and scripts. Nothing of
the caller's own configuration, sessions and credentials is visible from inside.
"""

import os
import shutil
import tempfile
from pathlib import Path

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "IS_SANDBOX": "1",  # lets root bypass permissions
    "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1",  # says in a header of each request why it is made
}
"""What keeps the CLI from talking to anyone but the model, and makes it say who asks."""

INHERITED = (
    "PATH", "LANG", "LC_ALL", "TZ", "TERM", "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "WINDIR",
    "CLAUDE_CODE_GIT_BASH_PATH",
)  # fmt: skip
"""What a program needs of the surrounding environment, and what says nothing about its user."""


class Sandbox:
    """Temporary directories for one or more CLIs. Remove it when their processes are gone."""

    def __init__(self) -> None:
        self.root: Path = Path(tempfile.mkdtemp(prefix="claude-agent-py-")).resolve()
        self.home: Path = self.root / "home"
        self.cwd: Path = self.root / "work"
        self.config_dir: Path = self.home / ".claude"
        self.temp: Path = self.root / "tmp"
        for directory in (self.home, self.cwd, self.config_dir, self.temp):
            directory.mkdir()

    def environment(self, base_url: str) -> dict[str, str]:
        """Give the whole environment for a CLI that talks to the Messages API at `base_url`."""
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {
            **inherited,
            **QUIET,
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.config_dir),
            "CLAUDE_CODE_TMPDIR": str(self.temp),
            "TMPDIR": str(self.temp),
            "TEMP": str(self.temp),
            "TMP": str(self.temp),
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_API_KEY": "sk-ant-scripted",
        }

    def remove(self) -> None:
        """Delete everything. A CLI that still writes may leave something behind; that is no error."""
        shutil.rmtree(self.root, ignore_errors=True)
