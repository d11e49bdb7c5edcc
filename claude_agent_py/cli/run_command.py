"""The `run` command: send one prompt, show the progress on stderr, and print the answer on stdout.

In a terminal, `rich` (extra `cli`) draws the background tasks as a live tree. Otherwise each change is a line.
"""

import argparse
import io
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Final, get_args

import anyio
from pydantic_core import to_jsonable_python

from claude_agent_py import RunResult
from claude_agent_py._base.display import displayable, displayable_json
from claude_agent_py._base.errors import MISSING_LOGIN, ClaudeAgentError, CLIError, CLIExitError, OptionsError
from claude_agent_py._base.log import logger
from claude_agent_py.cli.live_tree import create_screen
from claude_agent_py.cli.record import record_frames
from claude_agent_py.cli.screen import Screen
from claude_agent_py.cli.sessions import find_ids, resolve_id
from claude_agent_py.cli.targets import load_object
from claude_agent_py.cli.terminal import print_text
from claude_agent_py.client import Client
from claude_agent_py.errors import (
    AuthenticationError,
    BudgetExceededError,
    MaxTurnsError,
    RunTimeoutError,
    StructuredOutputError,
)
from claude_agent_py.messages import AssistantMessage, ToolUseBlock
from claude_agent_py.options import ChosenPermissionMode, ClientOptions, Timeouts
from claude_agent_py.tools import AGENT_TOOLS
from claude_agent_py.wire import JSONObject


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
    if isinstance(sys.stdin, io.TextIOWrapper):
        with suppress(io.UnsupportedOperation):  # something was read before
            sys.stdin.reconfigure(errors="replace")
    text = sys.stdin.read().strip()
    if not text:
        raise OptionsError("stdin contains no prompt", option="prompt")
    return text


def build_options(arguments: argparse.Namespace) -> "ClientOptions":
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
        "timeouts": Timeouts(idle=IDLE),
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


def _import_type(target: str) -> object:
    """Import `module:Type`. The module may be in the working directory."""
    if not all(target.partition(":")):
        raise OptionsError(f"must be module:Type, not {target!r}", option="--output-type")
    return load_object(target, option="--output-type")


FAILED: Final = 1
WRONG_ARGUMENTS: Final = 2
UNFINISHED: Final = 7

EXIT_CODES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (OptionsError, WRONG_ARGUMENTS),
    (CLIExitError, FAILED),
    (CLIError, 3),
    (AuthenticationError, 4),
    (MaxTurnsError, 5),
    (BudgetExceededError, 5),
    (RunTimeoutError, 5),
    (StructuredOutputError, 6),
)
"""The exit codes of errors. The first matching class decides; all other errors exit with `FAILED`."""

CODES_HELP: Final = (
    "exit codes: 0 answered; 1 the run failed; 2 wrong arguments; 3 the CLI is missing or did not start; 4 not logged "
    "in; 5 a limit of turns, cost or time; 6 the answer does not match --output-type; 7 unfinished tasks; "
    "130 interrupted"
)

IDLE: Final = 600.0
"""Seconds without progress of the background tasks after which a prompt ends."""
SHOWN_CHARS: Final = 200
TEXT_CHARS: Final = 4000
"""Texts of the agent are cut to this length while the run is in progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `run`."""
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
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the result as one JSON object")
    form.add_argument("--jsonl", action="store_true", help="print every message as a JSON line")
    parser.add_argument("--record", metavar="FILE", help="write all frames to a new file, for `replay` and `timeline`")
    parser.add_argument("--quiet", action="store_true", help="show no progress on stderr")
    parser.epilog = CODES_HELP


def execute(arguments: argparse.Namespace) -> int:
    """Run the prompt, print the answer, and return the exit code."""
    error: ClaudeAgentError | None = None
    result: RunResult | None = None
    try:
        prompt = read_prompt(arguments)
        options = build_options(arguments)
        view = Screen(None) if arguments.quiet else create_screen(sys.stderr)
        recording = record_frames(arguments.record) if arguments.record else nullcontext()
        with recording, _only_the_error_of_a_missing_login():
            result = anyio.run(_run, prompt, options, arguments, view)
    except ClaudeAgentError as caught:
        error = caught
        result = getattr(caught, "result", None)
    if arguments.json:
        print(displayable_json(build_report(result, error)))
    elif error is None and result is not None and not arguments.jsonl and not _is_on_screen(result, arguments):
        _print_answer(result, is_typed=bool(arguments.output_type))
    if error is not None:
        print(f"claude-agent-py: {type(error).__name__}: {_clean(str(error), 4000)}", file=sys.stderr)
        return exit_code(error)
    return UNFINISHED if result is not None and result.unfinished_tasks else 0


def exit_code(error: Exception) -> int:
    """Return the exit code of an error."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), FAILED)


@contextmanager
def _only_the_error_of_a_missing_login() -> Iterator[None]:
    """Leave out the warning that follows the start of a CLI without a login: the error of the run says the same."""

    def is_shown(record: logging.LogRecord) -> bool:
        return record.msg != MISSING_LOGIN

    logger.addFilter(is_shown)
    try:
        yield
    finally:
        logger.removeFilter(is_shown)


async def _run(prompt: str, options: ClientOptions, arguments: argparse.Namespace, view: Screen) -> RunResult:
    async with Client(options) as client:
        client.connection.shutdown.advice = "the command ended before they did"
        run = client.query(prompt, until=arguments.until, timeout=arguments.timeout)
        began = anyio.current_time()
        error: ClaudeAgentError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(view.watch, client.tasks)
            try:
                async for message in run:
                    if arguments.jsonl:
                        print(displayable_json(message.raw), flush=True)
                    if not (isinstance(message, AssistantMessage) and message.error):  # the error itself follows
                        show(message, view)
            except ClaudeAgentError as caught:
                # Raised after the task group, which would wrap it in an exception group.
                error = caught
            group.cancel_scope.cancel()
        await stop_tasks(client, view.say)
        view.finish(client.tasks)
        if error is not None:
            raise error
        result = await run
    if result.permission_denials:
        denied = ", ".join(dict.fromkeys(denial.tool_name for denial in result.permission_denials))
        view.say(f"denied: {_clean(denied)}; allow with --allowed-tools or --permission-mode")
    turns = "1 turn" if result.num_turns == 1 else f"{result.num_turns} turns"
    view.say(f"{result.session_id}: {turns}, {anyio.current_time() - began:.1f} s, {result.cost_usd:.4f} USD")
    return result


async def stop_tasks(client: Client, say: Callable[[str], object]) -> None:
    """Stop the running tasks and report them.

    `Client.close` would stop them as well, with a warning that is meant for programmers.
    """
    running = [task for task in client.tasks.running if not task.is_ambient]
    if not running:
        return
    say(f"stopped: {', '.join(_clean(task.description or task.id) for task in running)}")
    # Tasks that cannot be stopped end when the client closes.
    with suppress(ClaudeAgentError):
        await client.tasks.stop_all()


def show(message: object, view: Screen) -> None:
    """Show the texts and tool calls of the main agent. The task tree shows the subagents."""
    if isinstance(message, AssistantMessage) and not message.is_subagent:
        if message.text.strip():
            view.say(_clean(message.text, TEXT_CHARS))
        for call in message.tool_uses:
            view.say(f"→ {describe_call(call)}")


def describe_call(call: ToolUseBlock) -> str:
    """Return a tool call in one line, without control characters. A launched agent is shown by its description."""
    values = [call.input.get("description")] if call.name in AGENT_TOOLS else call.input.values()
    text = " ".join(value for value in values if isinstance(value, str))
    return f"{_clean(call.name)} {_clean(' '.join(text.split()))}"


# Output -----------------------------------------------------------------------------------------------------------


def _is_on_screen(result: RunResult, arguments: argparse.Namespace) -> bool:
    """Return whether the reader of stdout has already seen the whole answer, as the agent's last text on stderr."""
    if arguments.output_type or arguments.quiet or not _is_same_output():
        return False
    texts = [
        message.text
        for message in result.messages
        if isinstance(message, AssistantMessage) and not message.is_subagent and message.text.strip()
    ]
    return bool(texts) and texts[-1] == result.text and len(result.text) <= TEXT_CHARS


def _is_same_output() -> bool:
    """Return whether stdout and stderr are one: a terminal, or the same pipe or file (`2>&1`)."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        return True
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return False  # a stream without a file


def _print_answer(result: RunResult, *, is_typed: bool) -> None:
    if is_typed:
        print(displayable_json(to_jsonable_python(result.output), indent=2))
    else:
        print_text(result.text)


def build_report(result: RunResult | None, error: Exception | None) -> JSONObject:
    """Return the output of `--json`."""
    problem = None if error is None else {"type": type(error).__name__, "message": str(error)}
    if result is None:
        return {"is_error": True, "error": problem}
    return {
        "is_error": error is not None,
        "error": problem,
        "text": result.text,
        "output": to_jsonable_python(result.output),
        "session_id": result.session_id,
        "stop_reason": result.stop_reason,
        "num_turns": result.num_turns,
        "duration_seconds": result.duration,
        "cost_usd": result.cost_usd,
        "models": list(result.usage_by_model),
        "tasks": [
            {
                "id": task.id,
                "description": task.description,
                "agent": task.subagent_type,
                "status": task.status.value,
                "summary": task.summary,
            }
            for task in result.tasks
        ],
        "tool_calls": [
            {"name": call.name, "input": call.input, "status": call.status.value, "agent_id": call.agent_id}
            for call in result.tool_calls
        ],
        "denied_tools": [denial.tool_name for denial in result.permission_denials],
    }


def _clean(text: str, limit: int = SHOWN_CHARS) -> str:
    return displayable(text, limit)
