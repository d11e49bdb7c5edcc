"""The stored login of the CLI."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from claude_agent_py._base.bounded_reading import read_bytes, read_object
from claude_agent_py._base.log import logger

KEYCHAIN_SECONDS: Final = 5.0
_MOST_BYTES: Final = 16 * 1024 * 1024


def read_credentials(env: Mapping[str, str], source: Path, uid: int | None = None) -> bytes | None:
    """Return the credentials without the refresh token, or None.

    A refresh token works only once: if the CLI used the copy, the user would be logged out.
    """
    content = read_setting(source / ".credentials.json", uid, "the login in %s cannot be read: %s")
    if content is None and sys.platform == "darwin" and "CLAUDE_CONFIG_DIR" not in env:
        content = _read_keychain(env)
    parsed = read_object(content or b"")
    login = None if parsed is None else parsed.get("claudeAiOauth")
    if parsed is None or not isinstance(login, dict) or "refreshToken" not in login:
        return content
    return json.dumps(
        parsed | {"claudeAiOauth": {name: value for name, value in login.items() if name != "refreshToken"}}
    ).encode()


def _read_keychain(env: Mapping[str, str]) -> bytes | None:
    if env.get("ANTHROPIC_API_KEY") or env.get("CLAUDE_CODE_OAUTH_TOKEN"):
        return None
    account = env.get("USER") or "claude-code-user"
    command = ["security", "find-generic-password", "-a", account, "-w", "-s", "Claude Code-credentials"]
    try:
        found = subprocess.run(command, capture_output=True, timeout=KEYCHAIN_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def read_setting(path: Path, uid: int | None, warning: str) -> bytes | None:
    """Return a file of the user's configuration, or None. If it cannot be read, log its path and why."""
    try:
        return read_bytes(path, most_bytes=_MOST_BYTES, uid=uid)[0]
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning(warning, path, error)
        return None
