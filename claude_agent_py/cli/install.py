"""The `install-cli` command: download the CLI unless it is installed."""

import argparse

from claude_agent_py._base.errors import ClaudeAgentError
from claude_agent_py._launch.install import install_cli, is_trusted
from claude_agent_py._launch.locate import read_version, require_version
from claude_agent_py._version import CLI_VERSION
from claude_agent_py.options import find_cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `install-cli`."""
    parser.add_argument("--version", help=f"download exactly this version (default: {CLI_VERSION})")
    parser.add_argument("--force", action="store_true", help="download the CLI even if it is installed")
    parser.add_argument("--if-missing", action="store_true", help="accept any supported version that is installed")


def execute(arguments: argparse.Namespace) -> int:
    """Download the CLI and return the exit code."""
    version = CLI_VERSION if arguments.version is None else arguments.version
    if not arguments.force and _is_installed(version, accept_other=arguments.if_missing):
        return 0
    install_cli(version, force=arguments.force, exact=arguments.version is not None)
    return 0


def _is_installed(version: str, *, accept_other: bool) -> bool:
    """Return whether the library finds this version, or any supported one. Print the program if so."""
    try:
        program = find_cli()
        if not is_trusted(program):
            return False
        found = read_version(program)
        if accept_other:
            require_version(found, program)
    except ClaudeAgentError:
        return False
    if found != version and not accept_other:
        return False
    print(f"{program} is version {found}: nothing to fetch")
    return True
