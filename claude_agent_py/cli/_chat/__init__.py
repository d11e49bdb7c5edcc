"""The `chat` command: a conversation in the terminal, with panes (textual) or as plain lines."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import anyio

from claude_agent_py._base.errors import ClaudeAgentError, SessionError
from claude_agent_py.cli.run_command import add_session_arguments, build_options, exit_code, stop_tasks
from claude_agent_py.cli.terminal import HINT, can_show_screen
from claude_agent_py.client import Client
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.sessions.index import list_sessions
from claude_agent_py.sessions.stored_session import get_session

SHOWN_MESSAGES: Final = 40
"""The number of messages of a resumed session that are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `chat`."""
    parser.add_argument("prompt", nargs="?", help="the first prompt")
    add_session_arguments(parser)
    parser.add_argument("--plain", action="store_true", help="use plain lines on stdin and stdout, even in a terminal")
    parser.add_argument("--no-history", action="store_true", help="neither load nor save prompts")


def execute(arguments: argparse.Namespace) -> int:
    """Chat until the user exits, and return the exit code."""
    try:
        options = build_options(arguments).replace(interactions=True, include_partial_messages=True)
        if can_show_screen() and not arguments.plain:
            return anyio.run(_chat_on_screen, options, arguments)
        return anyio.run(_chat_in_lines, options, arguments)
    except ClaudeAgentError as error:
        print(f"claude-agent-py: {type(error).__name__}: {displayable(str(error), 4000)}", file=sys.stderr)
        return exit_code(error)


async def _chat_in_lines(options: ClientOptions, arguments: argparse.Namespace) -> int:
    from claude_agent_py.cli._chat.lines import chat_in_lines

    if sys.stdin.isatty() and not arguments.plain:
        print(HINT, file=sys.stderr)
    return await chat_in_lines(Client(options), arguments.prompt)


async def _chat_on_screen(options: ClientOptions, arguments: argparse.Namespace) -> int:
    from claude_agent_py.cli._chat.app import ChatApp
    from claude_agent_py.cli._chat.widgets import PromptHistory, get_history_file

    earlier = await anyio.to_thread.run_sync(_load_last_messages, options)
    async with Client(options) as client:
        history = PromptHistory(None if arguments.no_history else get_history_file())
        app = ChatApp(client, history=history, first=arguments.prompt, earlier=earlier)
        await app.run_async()
        await _finish(client)
    return app.return_code or 0


async def _finish(client: Client) -> None:
    def say(text: str) -> None:
        print(text, file=sys.stderr)

    if client.is_open:
        await stop_tasks(client, say)
    if client.session_id:
        say(f"to continue: claude-agent-py chat --resume {client.session_id}")


def _load_last_messages(options: ClientOptions) -> Sequence[object]:
    """Return the last messages of the session to resume. If it is not found, return none: the CLI reports the error."""
    wanted = options.resume
    if not wanted and not options.continue_conversation:
        return ()
    with suppress(SessionError, ValueError):
        for info in list_sessions(options.cwd or os.getcwd()):
            if not wanted or wanted in (info.session_id, info.custom_title):
                return get_session(info.session_id).history[-SHOWN_MESSAGES:]
    return ()
