"""What the commands that send a prompt have in common: their arguments, and the options made of them."""

import argparse
import importlib
import os
import sys
from typing import Any, get_args

from claude_agent_py._errors import OptionsError
from claude_agent_py.cli.sessions import ids_beginning_with, whole_id
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.wire.settings.choices import ChosenPermissionMode


def add_prompt_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the prompt and the options of a session that answers it."""
    parser.add_argument("prompt", nargs="?", default="-", help="the prompt; `-` or nothing reads it from stdin")
    add_session_arguments(parser)
    parser.add_argument("--max-turns", type=int, metavar="N", help="end after N turns")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="end after this time")
    parser.add_argument(
        "--until",
        choices=("idle", "result"),
        default="idle",
        help="wait for background tasks (default) or only for the answer",
    )
    parser.add_argument("--output-type", metavar="MODULE:TYPE", help="answer with JSON of this Python type")


def add_session_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a session."""
    parser.add_argument("--model", help="the model or its alias")
    parser.add_argument("--system-prompt", metavar="TEXT", help="replace the system prompt")
    parser.add_argument("--cwd", metavar="DIRECTORY", help="the working directory (default: this one)")
    parser.add_argument(
        "--permission-mode", choices=get_args(ChosenPermissionMode), help="what may run without a question"
    )
    parser.add_argument(
        "--allowed-tools", action="append", default=[], metavar="RULE", help="allow without a question; repeatable"
    )
    parser.add_argument("--resume", metavar="SESSION", help="continue this session")
    parser.add_argument("--continue", dest="continue_", action="store_true", help="continue the latest session here")
    parser.add_argument("--max-budget-usd", type=float, metavar="USD", help="end when it has cost this much")


def read_prompt(arguments: argparse.Namespace) -> str:
    """Return the prompt, from stdin if the arguments say so.

    Raises:
        OptionsError: stdin is a terminal, or holds no prompt.
    """
    if arguments.prompt != "-":
        prompt: str = arguments.prompt
        return prompt
    if sys.stdin.isatty():
        raise OptionsError("pass a prompt, or pipe one to stdin", option="prompt")
    text = sys.stdin.read().strip()
    if not text:
        raise OptionsError("stdin is empty", option="prompt")
    return text


def options_of(arguments: argparse.Namespace) -> "ClientOptions[Any]":
    """Return the options that the arguments stand for. Raises OptionsError for those that do not fit."""
    output_type: str | None = getattr(arguments, "output_type", None)
    given = {
        "model": arguments.model,
        "system_prompt": arguments.system_prompt,
        "cwd": arguments.cwd,
        "permission_mode": arguments.permission_mode,
        "allowed_tools": arguments.allowed_tools,
        "resume": _session_to_resume(arguments),
        "continue_conversation": arguments.continue_,
        "max_turns": getattr(arguments, "max_turns", None),
        "max_budget_usd": arguments.max_budget_usd,
        "output_type": _type_named(output_type) if output_type else None,
    }
    return ClientOptions(**{name: value for name, value in given.items() if value or _is_zero(value)})


def _is_zero(value: object) -> bool:
    return value == 0 and value is not False


def _session_to_resume(arguments: argparse.Namespace) -> str | None:
    """Return a session's id, also for its beginning, as `sessions list` shows it."""
    wanted: str | None = arguments.resume
    if not wanted or not ids_beginning_with(wanted):
        return wanted  # perhaps a title, which the CLI looks for
    return whole_id(wanted)


def _type_named(place: str) -> Any:
    """Import `module:Type`, also from the working directory."""
    module, _, name = place.partition(":")
    if not module or not name:
        raise OptionsError(f"expected module:Type, not {place!r}", option="--output-type")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise OptionsError(f"cannot import {place}: {error}", option="--output-type") from None
    return found
