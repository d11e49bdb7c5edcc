"""The entry point of `claude-agent-py`: parse the arguments and dispatch to a command.

An error of the library is printed without a traceback and exits with 1.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from claude_agent_py._errors import ClaudeAgentError
from claude_agent_py._version import __version__

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("run_command", "Run one prompt: tasks live on stderr, the answer on stdout."),
    "chat": ("_chat", "Talk in the terminal: answers, tasks, approvals."),
    "sessions": ("sessions", "List, show, search, fork, rename, delete and export conversations."),
    "watch": ("watch", "Show every session that runs on this machine, live."),
    "record": ("record", "Run a prompt and record it."),
    "replay": ("replay", "Show a recording."),
    "completion": ("completion", "Print a script that completes commands in a shell."),
    "install-cli": ("install", "Fetch the Claude Code CLI into the cache folder."),
    "doctor": ("doctor", "Check the installation and print a fix for each problem."),
    "demo": ("demo", "Watch two subagents and a shell command in the background, offline."),
    "offline": ("offline", "Run a program against a scripted model: no key, no network."),
    "interactions": ("interactions", "List the pending interactions in an inbox file."),
    "answer": ("answer", "Answer a pending interaction in an inbox file."),
    "tasks": ("tasks", "Draw the tasks of a history, or of one of its sessions."),
    "fleet": ("fleet", "Durable sessions on many machines: workers, start, list, answer."),
    "timeline": ("timeline", "Write what happened in a session as a page, or for a viewer."),
}
"""The module and the help of each command. A module has `add_arguments` and `execute`, which returns the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    `argv` excludes the program's name and defaults to `sys.argv[1:]`.
    """
    argv = sys.argv[1:] if argv is None else argv
    arguments = make_parser(argv).parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except ClaudeAgentError as error:
        print(f"claude-agent-py: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # of a reader like `grep -q`, which has seen enough
        _drop_output()
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def _drop_output() -> None:
    """Let what is still buffered go nowhere, so that the interpreter does not fail to write it when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def make_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of all commands, with the arguments of those that `argv` names."""
    parser = argparse.ArgumentParser(prog="claude-agent-py", description="Tools around the claude_agent_py library.")
    parser.add_argument("--version", action="version", version=f"claude_agent_py {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="command")
    for name, (module, text) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=text, description=text)
        if name in argv:
            command = importlib.import_module(f"claude_agent_py.cli.{module}")
            command.add_arguments(subparser)
            subparser.set_defaults(run=command.execute)
    return parser
