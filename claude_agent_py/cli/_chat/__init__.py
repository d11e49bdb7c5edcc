"""The `chat` command: a conversation in plain lines on stdin and stdout."""

import argparse
import sys

import anyio

from claude_agent_py._base.display import displayable
from claude_agent_py._base.errors import ClaudeAgentError
from claude_agent_py.cli._chat.lines import chat_in_lines
from claude_agent_py.cli.run_command import add_session_arguments, build_options, exit_code
from claude_agent_py.client import Client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `chat`."""
    parser.add_argument("prompt", nargs="?", help="the first prompt")
    add_session_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Chat until the user exits, and return the exit code."""
    try:
        options = build_options(arguments).replace(interactions=True, include_partial_messages=True)
        return anyio.run(chat_in_lines, Client(options), arguments.prompt)
    except ClaudeAgentError as error:
        print(f"claude-agent-py: {type(error).__name__}: {displayable(str(error), 4000)}", file=sys.stderr)
        return exit_code(error)
