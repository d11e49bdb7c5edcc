"""The entry point of `claude-agent-py`: parse the arguments and dispatch to a command.

Errors of the library and of the system are printed without a traceback, and the exit code is 1.
"""

import argparse
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from claude_agent_py._base.display import displayable
from claude_agent_py._base.errors import ClaudeAgentError, OptionsError, first_error
from claude_agent_py._version import __version__

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("run_command", "Run one prompt: live tasks on stderr, the answer on stdout."),
    "acp": ("acp", "Serve an editor that speaks the Agent Client Protocol, with your tools, hooks and guards."),
    "serve": ("serve", "Open a web page with the sessions of this machine."),
    "chat": ("_chat", "Chat in plain lines, with streaming answers, tasks and approvals."),
    "sessions": ("sessions", "List, show, search, fork, rename, delete and export conversations."),
    "watch": ("watch", "Print the sessions of this machine after each change."),
    "replay": ("replay", "Replay a recording of `run --record`."),
    "install-cli": ("install", "Download the Claude Code CLI to the cache folder."),
    "doctor": ("doctor", "Check the installation and print a fix for each problem."),
    "demo": ("demo", "Run two subagents and a shell command in the background, offline."),
    "offline": ("offline", "Run a program against a scripted model, without a key or network."),
    "inbox": ("inbox", "List and answer the open questions in an inbox file."),
    "fleet": ("fleet", "Run and manage durable sessions, on one machine or on many."),
    "timeline": ("timeline", "Write the timeline of a session as an HTML page, or in a format for a viewer."),
}
"""The module and the help text of each command.

A module defines `add_arguments` and `execute`, which returns the exit code.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    `argv` excludes the program's name and defaults to `sys.argv[1:]`.
    """
    argv = sys.argv[1:] if argv is None else argv
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="replace")  # a pipe on Windows lacks most characters
    try:
        arguments = make_parser(argv).parse_args(argv)
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except BaseException as raised:
        error = first_error(raised)
        if isinstance(error, BrokenPipeError):
            # The reader exited early, as `grep -q` and `head` do. That is no error of the command.
            _discard_output()
            return 0
        if isinstance(error, KeyboardInterrupt):
            return 130
        if not isinstance(error, ClaudeAgentError | OSError):
            raise
        print(f"claude-agent-py: {displayable(str(error) or type(error).__name__, None)}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:  # the disk that the output goes to is full
            _discard_output()
        return 1
    return code


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that the caller closed: another file would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - until the program ends


def _discard_output() -> None:
    """Redirect stdout to the null device, because the interpreter flushes it on exit and would fail again."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)


class _PrintCompletion(argparse.Action):
    """Prints the completion script for a shell and exits. Needs `shtab`, of the extra `cli`."""

    def __call__(self, parser: argparse.ArgumentParser, _space: object, shell: Any, _option: object = None) -> None:
        try:
            import shtab
        except ImportError:
            raise OptionsError("needs shtab: pip install shtab", option="--print-completion") from None
        if shell not in shtab.SUPPORTED_SHELLS:
            parser.error(f"--print-completion takes {', '.join(shtab.SUPPORTED_SHELLS)}, not {shell!r}")
        print(shtab.complete(make_parser(list(COMMANDS)), shell))
        parser.exit()


def make_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of all commands. Only modules of commands in `argv` are imported, to start faster."""
    parser = argparse.ArgumentParser(prog="claude-agent-py", description="Command line of the claude_agent_py library.")
    parser.add_argument("--version", action="version", version=f"claude_agent_py {__version__}")
    parser.add_argument(
        "--print-completion", action=_PrintCompletion, metavar="SHELL", help="print a completion script: bash, zsh, ..."
    )
    subparsers = parser.add_subparsers(required=True, metavar="command")
    for name, (module, text) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=text, description=text)
        if name in argv:
            command = importlib.import_module(f"claude_agent_py.cli.{module}")
            command.add_arguments(subparser)
            subparser.set_defaults(run=command.execute)
    return parser
