"""The `demo` command: run two subagents and a shell command in the background, and print their output.

Defines the prompt and the scripted replies; `live_tree` draws the tasks.
"""

import argparse
import os
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from claude_agent_py import RunResult
from claude_agent_py._base.errors import OptionsError
from claude_agent_py.agents import AgentDefinition
from claude_agent_py.cli.live_tree import create_screen
from claude_agent_py.cli.screen import Screen
from claude_agent_py.client import Client
from claude_agent_py.options import ClientOptions
from claude_agent_py.testing import Reply, ScriptedModel, text, tool_use

PROMPT: Final = (
    "Do three things concurrently, each in the background: have the agent `reviewer` review the authentication, have "
    "it review the billing, and run the test suite in the shell with "
    '`for i in 1 2 3 4 5 6; do echo "test $i ok"; sleep 0.5; done`. '
    "When all three are done, sum up in two sentences."
)

AGENTS: Final = {
    "reviewer": AgentDefinition(
        description="Reviews one part of a program",
        prompt="You review the part of the program that you are asked about. Be brief.",
    )
}


# Replies of the scripted model

AUTH: Final = (
    Reply(tool_use("Bash", {"command": "sleep 0.7; echo 214 lines", "description": "Count the lines of auth.py"})),
    Reply(tool_use("Bash", {"command": "sleep 0.9; echo 2 matches", "description": "Look for plain-text secrets"})),
    Reply(text("Auth: tokens are compared in constant time; one secret is logged in auth.py line 88."), delay=0.6),
)
BILLING: Final = (
    Reply(tool_use("Bash", {"command": "sleep 1.2; echo 98 lines", "description": "Read the invoice code"})),
    Reply(tool_use("Bash", {"command": "sleep 1.4; echo ok", "description": "Recompute last month"})),
    Reply(text("Billing: rounding is right; amounts are floats and should be decimals."), delay=0.4),
)
MAIN: Final = (
    Reply(
        [
            tool_use(
                "Agent",
                {"description": "Review auth", "prompt": "Review the authentication", "subagent_type": "reviewer"},
            ),
            tool_use(
                "Agent",
                {"description": "Review billing", "prompt": "Review the billing", "subagent_type": "reviewer"},
            ),
            tool_use(
                "Bash",
                {
                    "command": 'for i in 1 2 3 4 5 6; do echo "test $i ok"; sleep 0.5; done',
                    "description": "Run the tests",
                    "run_in_background": True,
                },
            ),
        ]
    ),
    text("All three are running in the background."),
)
SUMMARY: Final = text("Auth is sound but logs a secret, billing should use decimals, and all six tests pass.")


@contextmanager
def _open_options(*, live: bool) -> Iterator[ClientOptions]:
    """Yield options for the real model, or run the scripted model and yield options for it."""
    if live:
        if not os.environ.get("ANTHROPIC_API_KEY"):
            raise OptionsError("must be set to run the demo on the real model", option="ANTHROPIC_API_KEY")
        yield ClientOptions(agents=AGENTS, permission_mode="bypassPermissions")
        return
    subagents = {"Review the authentication": AUTH, "Review the billing": BILLING}
    with ScriptedModel(MAIN, agents=subagents, on_exhausted=Reply(SUMMARY)) as model:
        yield model.options(agents=AGENTS)


async def _run_prompt(client: Client, view: Screen) -> RunResult:
    """Run the prompt while the view shows its tasks."""
    run = client.query(PROMPT, until="idle", timeout=600)
    async with anyio.create_task_group() as group:
        group.start_soon(view.watch, client.tasks)
        await run.result()
        group.cancel_scope.cancel()
    return await run


async def _run_demo(options: ClientOptions, view: Screen) -> RunResult:
    async with Client(options) as client:
        view.say(f"Claude Code {client.info.claude_code_version or ''} is running (pid {client.pid}).")
        view.say(f"> {PROMPT}")
        result = await _run_prompt(client, view)
        view.finish(client.tasks)
        for task in client.tasks.roots:
            outcome = await task.wait(timeout=60)
            output = (await task.read_output()).strip()
            view.say(f"\n{task.description}: {outcome.status}\n{textwrap.indent(output, '    ')}")
    view.say(f"\nAnswer: {result.text}")
    return result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `demo`."""
    parser.add_argument("--live", action="store_true", help="use the real model; needs ANTHROPIC_API_KEY")


def execute(arguments: argparse.Namespace) -> int:
    """Run the demo and return the exit code."""
    view = create_screen(sys.stdout)
    with _open_options(live=arguments.live) as options:
        result = anyio.run(_run_demo, options, view)
    view.say(
        f"\n{len(result.tasks)} tasks, {len(result.results)} turns, {len(result.messages)} messages, "
        f"{len(result.tool_calls)} tool calls; the process has exited."
    )
    return 1 if result.is_error or result.unfinished_tasks else 0
