"""The entry point of `claude-agent-py`: parse the arguments and dispatch to a command.

An error of the library is printed without a traceback and exits with 1.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from claude_agent_py._errors import ClaudeAgentError
from claude_agent_py._launch.install import install_cli
from claude_agent_py._launch.locate import find_cli, read_version, require_version
from claude_agent_py._version import CLI_VERSION, __version__


class Command(NamedTuple):
    """A subcommand."""

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    """Returns the exit code."""


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
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.help, description=command.help)
        if command.name in argv:
            command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


# install-cli ------------------------------------------------------------------------------------------------------


def _install_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", help=f"fetch exactly this version (default: {CLI_VERSION})")
    parser.add_argument("--force", action="store_true", help="fetch it even if it is installed")
    parser.add_argument("--if-missing", action="store_true", help="accept any installed version that is new enough")


def _install(arguments: argparse.Namespace) -> int:
    version = CLI_VERSION if arguments.version is None else arguments.version
    if not arguments.force and _is_there(version, or_newer=arguments.if_missing):
        return 0
    install_cli(version, force=arguments.force, exact=arguments.version is not None)
    return 0


def _is_there(version: str, *, or_newer: bool) -> bool:
    """Return whether the CLI that the library finds is recent enough, and print it if so."""
    try:
        program = find_cli()
        found = read_version(program)
        if or_newer:
            require_version(found, program)
    except ClaudeAgentError:
        return False
    if found != version and not or_newer:
        return False
    print(f"{program} is version {found}: nothing to fetch")
    return True


# doctor -----------------------------------------------------------------------------------------------------------


def _doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print all checks and fixes as JSON")
    parser.add_argument("--fix", action="store_true", help="install the CLI and protect the credentials if needed")


def _doctor(arguments: argparse.Namespace) -> int:
    from claude_agent_py.cli.doctor import examine

    return examine(as_json=arguments.json, fix=arguments.fix)


# demo -------------------------------------------------------------------------------------------------------------


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--live", action="store_true", help="use the real model; needs ANTHROPIC_API_KEY")


def _demo(arguments: argparse.Namespace) -> int:
    from claude_agent_py.cli.demo import demo

    return demo(live=arguments.live)


# offline ----------------------------------------------------------------------------------------------------------


def _offline_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--script",
        metavar="FILE",
        help="a Python file that defines `script`, and optionally `agents` and the other arguments of ScriptedModel "
        "(default: echo the prompt)",
    )
    parser.add_argument("program", help="a .py file, or any command")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")


def _offline(arguments: argparse.Namespace) -> int:
    from claude_agent_py.cli.offline import run_offline

    return run_offline([arguments.program, *arguments.arguments], arguments.script)


# interactions and answer ------------------------------------------------------------------------------------------


def _inbox_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--inbox",
        metavar="FILE",
        default=os.environ.get("CLAUDE_AGENT_INBOX"),
        help="the file of the SQLiteInbox (default: the variable CLAUDE_AGENT_INBOX)",
    )


def _interactions_arguments(parser: argparse.ArgumentParser) -> None:
    _inbox_argument(parser)
    parser.add_argument("--full", action="store_true", help="do not cut long values")


def _answer_arguments(parser: argparse.ArgumentParser) -> None:
    _inbox_argument(parser)
    parser.add_argument("id", help="the id that `interactions` shows, or the id of the task that asks")
    parser.add_argument("--by", default="", metavar="NAME", help="who answers, for records (default: the user)")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the answer: allow, deny [why], a number, ...")


def _interactions(arguments: argparse.Namespace) -> int:
    from claude_agent_py.cli.interactions import list_interactions

    return list_interactions(arguments.inbox, full=arguments.full)


def _answer(arguments: argparse.Namespace) -> int:
    from claude_agent_py.cli.interactions import answer_interaction

    return answer_interaction(arguments.inbox, arguments.id, arguments.words, by=arguments.by)


# tasks ------------------------------------------------------------------------------------------------------------


def _tasks_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="FILE|SESSION",
        help="the file of a TaskHistory, or the id of a session in the history that the variable CLAUDE_AGENT_HISTORY "
        "names",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this session of the file")
    parser.add_argument("--at", type=int, metavar="NUMBER", help="the tree as it was at this record")


def _tasks(arguments: argparse.Namespace) -> int:
    from claude_agent_py.cli.tasks import draw_tasks

    return draw_tasks(arguments.target, arguments.session, at=arguments.at)


# timeline ---------------------------------------------------------------------------------------------------------


def _timeline_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="SESSION|RECORDING|STORE",
        help="the id of a session (its beginning is enough), the file of a recording or a transcript, or a store: an "
        "SQLite file or a folder",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help="the id of a session in the store")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="timeline.html",
        help="where to write it: .html, .json (Perfetto), .otlp.json, .mmd (Mermaid); default: timeline.html",
    )
    parser.add_argument("--config-dir", metavar="FOLDER", help="the CLI's configuration folder")


def _timeline(arguments: argparse.Namespace) -> int:
    from claude_agent_py.cli.timeline import write_timeline

    return write_timeline(arguments.target, arguments.session, arguments.output, config_dir=arguments.config_dir)


# Commands in modules of their own ---------------------------------------------------------------------------------


def _command(name: str, text: str, module: str, add: str = "add_arguments", execute: str = "execute") -> Command:
    """Return a command whose module is loaded when it is used, with the names of its two functions there."""

    def call(function: str, argument: Any) -> Any:
        return getattr(importlib.import_module(f"claude_agent_py.cli.{module}"), function)(argument)

    return Command(name, text, lambda parser: call(add, parser), lambda arguments: call(execute, arguments))


COMMANDS = (
    _command("run", "Run one prompt: tasks live on stderr, the answer on stdout.", "run_command"),
    _command("chat", "Talk in the terminal: answers, tasks, approvals.", "_chat"),
    _command("sessions", "List, show, search, fork, rename, delete and export conversations.", "sessions"),
    _command("watch", "Show every session that runs on this machine, live.", "watch"),
    _command("record", "Run a prompt and record it.", "recordings", "add_record_arguments", "record"),
    _command("replay", "Show a recording.", "recordings", "add_replay_arguments", "replay"),
    _command("completion", "Print a script that completes commands in a shell.", "completion"),
    Command("install-cli", "Fetch the Claude Code CLI into the cache folder.", _install_arguments, _install),
    Command("doctor", "Check the installation and print a fix for each problem.", _doctor_arguments, _doctor),
    Command("demo", "Watch two subagents and a shell command in the background, offline.", _demo_arguments, _demo),
    Command("offline", "Run a program against a scripted model: no key, no network.", _offline_arguments, _offline),
    Command("interactions", "List the pending interactions in an inbox file.", _interactions_arguments, _interactions),
    Command("answer", "Answer a pending interaction in an inbox file.", _answer_arguments, _answer),
    Command("tasks", "Draw the tasks of a history, or of one of its sessions.", _tasks_arguments, _tasks),
    _command("fleet", "Durable sessions on many machines: workers, start, list, answer.", "fleet", execute="run_fleet"),
    Command("timeline", "Write what happened in a session as a page, or for a viewer.", _timeline_arguments, _timeline),
)
