"""The `install-cli` command: download the CLI unless it is installed."""

import argparse

from claude_agent_py._version import CLI_VERSION
from claude_agent_py.options import find_installed, install_cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `install-cli`."""
    parser.add_argument("--version", help=f"download exactly this version (default: {CLI_VERSION})")
    parser.add_argument("--force", action="store_true", help="download the CLI even if it is installed")
    parser.add_argument("--if-missing", action="store_true", help="accept any supported version that is installed")


def execute(arguments: argparse.Namespace) -> int:
    """Download the CLI and return the exit code."""
    version = CLI_VERSION if arguments.version is None else arguments.version
    if arguments.force or find_installed(version, accept_other=arguments.if_missing) is None:
        install_cli(version, force=arguments.force, exact=arguments.version is not None)
    return 0
