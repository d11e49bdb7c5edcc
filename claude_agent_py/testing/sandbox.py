"""`Sandbox`: a temporary home, working directory and clean environment for a CLI under test.

The user's own configuration, sessions and credentials are not visible inside.
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
    # Lets root bypass permissions.
    "IS_SANDBOX": "1",
    # Adds the class of each request as a header.
    "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1",
}
"""Variables that limit the CLI's traffic to the model, and make it label its requests."""

INHERITED = (
    "PATH", "LANG", "LC_ALL", "TZ", "TERM", "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "WINDIR",
    "CLAUDE_CODE_GIT_BASH_PATH",
)  # fmt: skip
"""Inherited variables: programs need them, and they reveal nothing about the user."""


class Sandbox:
    """Temporary directories for one or more CLIs. Call `remove` after their processes have ended."""

    def __init__(self) -> None:
        self.root: Path = Path(tempfile.mkdtemp(prefix="claude-agent-py-")).resolve()
        self.home: Path = self.root / "home"
        self.cwd: Path = self.root / "work"
        self.config_dir: Path = self.home / ".claude"
        self.temp: Path = self.root / "tmp"
        for directory in (self.home, self.cwd, self.config_dir, self.temp):
            directory.mkdir()

    def environment(self, base_url: str) -> dict[str, str]:
        """Return the complete environment for a CLI that uses the Messages API at `base_url`."""
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
        """Delete the directories. Errors are ignored: a CLI that is still running may recreate files."""
        shutil.rmtree(self.root, ignore_errors=True)
