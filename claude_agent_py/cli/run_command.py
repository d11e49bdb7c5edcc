"""The `run` command: send one prompt, show the progress on stderr, and print the answer on stdout.

In a terminal, `rich` (extra `cli`) draws the background tasks as a live tree. Otherwise each change is a line.
"""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio
from pydantic_core import to_json, to_jsonable_python

from claude_agent_py._errors import ClaudeAgentError, CLIError, CLIExitError, OptionsError
from claude_agent_py._runtime.runs.result import (
    AuthenticationError,
    BudgetExceededError,
    MaxTurnsError,
    RunResult,
    RunTimeoutError,
    StructuredOutputError,
)
from claude_agent_py.cli.live_tree import Screen, create_screen
from claude_agent_py.cli.prompt_arguments import add_prompt_arguments, build_options, read_prompt
from claude_agent_py.client import Client
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.wire.messages.content import ToolUseBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage

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

LAUNCHES: Final = ("Agent", "Task")
SHOWN_CHARS: Final = 200
TEXT_CHARS: Final = 4000
"""Texts of the agent are cut to this length while the run is in progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `run`."""
    add_prompt_arguments(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the result as one JSON object")
    form.add_argument("--jsonl", action="store_true", help="print every message as a JSON line")
    parser.add_argument("--quiet", action="store_true", help="show no progress on stderr")
    parser.epilog = CODES_HELP


def execute(arguments: argparse.Namespace) -> int:
    """Run the prompt, print the answer, and return the exit code."""
    error: ClaudeAgentError | None = None
    result: RunResult[Any] | None = None
    try:
        prompt = read_prompt(arguments)
        options = build_options(arguments)
        view = Screen(None) if arguments.quiet else create_screen(sys.stderr)
        result = anyio.run(_run, prompt, options, arguments, view)
    except ClaudeAgentError as caught:
        error = caught
        result = getattr(caught, "result", None)
    if arguments.json:
        print(json.dumps(build_report(result, error), ensure_ascii=False))
    elif error is None and result is not None and not arguments.jsonl and not _is_on_screen(result, arguments):
        _print_answer(result, is_typed=bool(arguments.output_type))
    if error is not None:
        print(f"claude-agent-py: {type(error).__name__}: {_clean(str(error), 4000)}", file=sys.stderr)
        return exit_code(error)
    return UNFINISHED if result is not None and result.unfinished_tasks else 0


def exit_code(error: Exception) -> int:
    """Return the exit code of an error."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), FAILED)


async def _run(prompt: str, options: ClientOptions[Any], arguments: argparse.Namespace, view: Screen) -> RunResult[Any]:
    async with Client(options) as client:
        run = client.query(prompt, until=arguments.until, timeout=arguments.timeout)
        began = anyio.current_time()
        error: ClaudeAgentError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(view.watch, client.tasks)
            try:
                async for message in run:
                    if arguments.jsonl:
                        print(json.dumps(message.raw, ensure_ascii=False), flush=True)
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


async def stop_tasks(client: Client[Any], say: Callable[[str], object]) -> None:
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


def show(message: Any, view: Screen) -> None:
    """Show the texts and tool calls of the main agent. The task tree shows the subagents."""
    if isinstance(message, AssistantMessage) and not message.is_subagent:
        if message.text.strip():
            view.say(_clean(message.text, TEXT_CHARS))
        for call in message.tool_uses:
            view.say(f"→ {describe_call(call)}")


def describe_call(call: ToolUseBlock) -> str:
    """Return a tool call in one line, without control characters. A launched agent is shown by its description."""
    values = [call.input.get("description")] if call.name in LAUNCHES else call.input.values()
    text = " ".join(value for value in values if isinstance(value, str))
    return f"{_clean(call.name)} {_clean(' '.join(text.split()))}"


# Output -----------------------------------------------------------------------------------------------------------


def _is_on_screen(result: RunResult[Any], arguments: argparse.Namespace) -> bool:
    """Return whether the terminal already shows the whole answer, as the agent's last text."""
    if arguments.output_type or arguments.quiet or not (sys.stdout.isatty() and sys.stderr.isatty()):
        return False
    texts = [
        message.text
        for message in result.messages
        if isinstance(message, AssistantMessage) and not message.is_subagent and message.text.strip()
    ]
    return bool(texts) and texts[-1] == result.text and len(result.text) <= TEXT_CHARS


def _print_answer(result: RunResult[Any], *, is_typed: bool) -> None:
    if is_typed:
        print(to_json(result.output, indent=2).decode())
    elif sys.stdout.isatty():
        print(displayable(result.text, len(result.text)))
    else:
        print(result.text)


def build_report(result: RunResult[Any] | None, error: Exception | None) -> dict[str, Any]:
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
