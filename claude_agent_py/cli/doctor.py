"""`claude-agent-py doctor`: what is installed, where the CLI was found, what is missing.

Owns the report. Prints names of variables and never their values, so that the report can be pasted into an issue.
"""

import importlib.metadata
import os
import platform
import shutil
import sys

from claude_agent_py._version import CLI_VERSION, MINIMUM_CLI_VERSION, __version__
from claude_agent_py.errors import ClaudeAgentError, CLINotFoundError
from claude_agent_py.launch.install import platform_name
from claude_agent_py.launch.locate import cache_folder, find_cli, read_version, require_version, search

DEPENDENCIES = ("anyio", "pydantic", "typing-extensions")
EXTRAS = {"trio": "trio", "rich": "cli", "mcp": "mcp", "pyyaml": "tools"}
"""Distributions that make more possible, and the extra that brings each."""

VARIABLES = (
    "CLAUDE_AGENT_CLI",
    "CLAUDE_AGENT_CACHE_DIR",
    "CLAUDE_CONFIG_DIR",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
)


def examine() -> int:
    """Print the report. Gives 0 if a usable CLI was found, else 1."""
    _section("Package")
    _row("claude_agent_py", __version__)
    _row("Python", f"{platform.python_version()} at {sys.executable}")
    _row("platform", platform_name())
    for name in DEPENDENCIES:
        _row(name, _installed(name) or "MISSING")
    for name, extra in EXTRAS.items():
        _row(name, _installed(name) or f"not installed (extra `{extra}`)")
    _section("Environment")
    for variable in VARIABLES:
        _row(variable, "set" if os.environ.get(variable) else "-")
    _row("npm", shutil.which("npm") or "-")
    _row("cache folder", str(cache_folder()))
    _section("Claude Code CLI")
    _row("tested with", f"{CLI_VERSION} (needs at least {MINIMUM_CLI_VERSION})")
    for candidate in search():
        _row(candidate.place, f"{candidate.path}: {candidate.problem or 'found'}")
    return _verdict()


def _verdict() -> int:
    try:
        program = find_cli()
        version = read_version(program)
        require_version(version, program)
    except CLINotFoundError as error:
        print(f"\n{error}")
        return 1
    except ClaudeAgentError as error:
        print(f"\nNot usable: {error}")
        return 1
    print(f"\nIn use: {program}, version {version}")
    return 0


def _section(title: str) -> None:
    print(f"\n{title}")


def _row(name: str, value: str) -> None:
    print(f"  {name:<24} {value}")


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
