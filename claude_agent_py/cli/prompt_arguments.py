"""Arguments shared by the commands that send prompts, and the options built from them."""

import argparse
import importlib
import os
import sys
from typing import Any, get_args

from claude_agent_py._errors import OptionsError
from claude_agent_py.cli.sessions import find_ids, resolve_id
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.wire.settings.choices import ChosenPermissionMode


def add_prompt_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the prompt and the options of its session."""
    parser.add_argument("prompt", nargs="?", default="-", help="the prompt; if omitted or `-`, read from stdin")
    add_session_arguments(parser)
    parser.add_argument("--max-turns", type=int, metavar="N", help="stop after N turns")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="stop after this time")
    parser.add_argument(
        "--until",
        choices=("idle", "result"),
        default="idle",
        help="wait for background tasks (default), or only for the answer",
    )
    parser.add_argument("--output-type", metavar="MODULE:TYPE", help="a Python type for the answer, printed as JSON")


def add_session_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a session."""
    parser.add_argument("--model", help="the model or its alias")
    parser.add_argument("--system-prompt", metavar="TEXT", help="replace the system prompt")
    parser.add_argument("--cwd", metavar="DIRECTORY", help="the working directory (default: the current one)")
    parser.add_argument(
        "--permission-mode", choices=get_args(ChosenPermissionMode), help="which tool calls are allowed without asking"
    )
    parser.add_argument(
        "--allowed-tools",
        action="append",
        default=[],
        metavar="RULE",
        help="allow matching tool calls; repeatable",
    )
    parser.add_argument("--resume", metavar="SESSION", help="resume this session")
    parser.add_argument("--continue", dest="continue_", action="store_true", help="resume the latest session here")
    parser.add_argument("--max-budget-usd", type=float, metavar="USD", help="stop when the session has cost this much")


def read_prompt(arguments: argparse.Namespace) -> str:
    """Return the prompt, from the arguments or from stdin.

    Raises:
        OptionsError: The prompt would come from stdin, which is a terminal or is empty.
    """
    if arguments.prompt != "-":
        prompt: str = arguments.prompt
        return prompt
    if sys.stdin.isatty():
        raise OptionsError("pass a prompt, or pipe one to stdin", option="prompt")
    text = sys.stdin.read().strip()
    if not text:
        raise OptionsError("stdin contains no prompt", option="prompt")
    return text


def build_options(arguments: argparse.Namespace) -> "ClientOptions[Any]":
    """Return the client options for the arguments.

    Raises:
        OptionsError: An argument is invalid.
    """
    output_type: str | None = getattr(arguments, "output_type", None)
    values = {
        "model": arguments.model,
        "system_prompt": arguments.system_prompt,
        "cwd": arguments.cwd,
        "permission_mode": arguments.permission_mode,
        "allowed_tools": arguments.allowed_tools,
        "resume": _resolve_session(arguments.resume),
        "continue_conversation": arguments.continue_,
        "max_turns": getattr(arguments, "max_turns", None),
        "max_budget_usd": arguments.max_budget_usd,
        "output_type": _import_type(output_type) if output_type else None,
    }
    return ClientOptions(**{name: value for name, value in values.items() if _is_given(value)})


def _is_given(value: object) -> bool:
    """Return whether the user passed an argument. 0 is a value, unlike None, False and empty texts and lists."""
    return bool(value) or (value == 0 and value is not False)


def _resolve_session(wanted: str | None) -> str | None:
    """Return the id of the session with this id prefix, as shown by `sessions list`."""
    # Text that is not an id prefix may be a title, which the CLI looks up.
    if not wanted or not find_ids(wanted):
        return wanted
    return resolve_id(wanted)


def _import_type(target: str) -> Any:
    """Import `module:Type`. The module may be in the working directory."""
    module, _, name = target.partition(":")
    if not module or not name:
        raise OptionsError(f"must be module:Type, not {target!r}", option="--output-type")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise OptionsError(f"cannot import {target}: {error}", option="--output-type") from None
    return found
