"""The `sessions` command: list, show, search, fork, rename, delete and export the conversations on disk.

A session is named by its id or by the beginning of it. Control characters are stripped from what is shown.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from claude_agent_py._errors import OptionsError
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.sessions.changes import delete_session, rename_session
from claude_agent_py.sessions.fork import fork_session
from claude_agent_py.sessions.index import list_sessions
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.search import search_sessions
from claude_agent_py.sessions.session import Session, get_session
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage

SHOWN_CHARS: Final = 80
ENDED: Final = re.compile(r"<task-notification>.*?<summary>(.*?)</summary>.*?</task-notification>", re.DOTALL)
"""What the CLI tells the model when a task ended."""
LIMIT: Final = 20
"""How many sessions or places are listed by default."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    places = argparse.ArgumentParser(add_help=False)
    places.add_argument("--directory", metavar="DIR", help="only sessions of this working directory")
    places.add_argument("--config-dir", metavar="DIR", help="the CLI's folder (default: CLAUDE_CONFIG_DIR, ~/.claude)")
    actions = parser.add_subparsers(required=True, metavar="action")

    def action(name: str, text: str, perform: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text, parents=[places])
        sub.set_defaults(perform=perform)
        return sub

    def on_one(name: str, text: str, perform: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        sub = action(name, text, perform)
        sub.add_argument("session", metavar="SESSION", help="the id, or the beginning of it")
        return sub

    listed = action("list", "List sessions, the latest first.", _list)
    found = action("search", "Find a text in conversations.", _search)
    found.add_argument("text")
    for sub in (listed, found):
        sub.add_argument("--limit", type=int, default=LIMIT, help=f"at most so many (default: {LIMIT}; 0: all)")
    shown = on_one("show", "Show a conversation with its tasks and what it cost.", _show)
    shown.add_argument("--last", type=int, metavar="N", help="only the last N messages")
    for sub in (listed, found, shown):
        sub.add_argument("--json", action="store_true", help="print JSON")
    on_one("fork", "Copy a session and print the id of the copy.", _fork).add_argument("--title", help="of the copy")
    on_one("rename", "Set the title of a session.", _rename).add_argument("title")
    on_one("delete", "Delete a session for good.", _delete).add_argument(
        "--yes", action="store_true", help="do not ask"
    )
    exported = on_one("export", "Write a conversation as Markdown, or as messages of the Messages API.", _export)
    exported.add_argument("-o", "--output", metavar="FILE", help="*.md or *.json (default: Markdown on stdout)")


def execute(arguments: argparse.Namespace) -> int:
    """Perform the action and return the exit code."""
    code: int = arguments.perform(arguments)
    return code


# Actions ----------------------------------------------------------------------------------------------------------


def _list(arguments: argparse.Namespace) -> int:
    found = list_sessions(arguments.directory, arguments.limit or None, config_dir=arguments.config_dir)
    if arguments.json:
        _print_json([asdict(info) for info in found])
        return 0
    for info in found:
        facts = f"{_when(info.last_modified)}  {_costs(info.cost_usd):>9}"
        print(f"{info.session_id[:8]}  {facts}  {_summary(info)}")
    if not found:
        print("no sessions")
    return 0


def _search(arguments: argparse.Namespace) -> int:
    hits = search_sessions(
        arguments.text, arguments.directory, arguments.limit or None, config_dir=arguments.config_dir
    )
    count = 0
    for count, hit in enumerate(hits, 1):  # noqa: B007 - counted
        if arguments.json:
            print(json.dumps({"session_id": hit.session_id, "uuid": hit.message.uuid, "excerpt": hit.excerpt}))
        else:
            print(f"{hit.session_id[:8]}  {one_line(hit.session.summary, 30)}: {one_line(hit.excerpt, 160)}")
    return 0 if count else 1


def _show(arguments: argparse.Namespace) -> int:
    session = _session(arguments)
    last: int | None = arguments.last
    messages = session.history[max(0, len(session.history) - last) :] if last else session.history
    if arguments.json:
        facts = {"info": asdict(session.info), "is_running": session.process is not None}
        _print_json({**facts, "messages": [message.raw for message in messages], "tasks": _tasks(session)})
        return 0
    process = f", open in process {session.process.pid}" if session.process else ""
    print(f"{_summary(session.info)}\n{session.id}{process}\n")
    for line in conversation_lines(messages):
        print(displayable(line, len(line)))
    for task in _tasks(session):
        print(f"task {task['id']} {task['status']}: {one_line(str(task['description']), SHOWN_CHARS)}")
    total = session.usage.total
    print(f"\n{total.input_tokens} tokens read, {total.output_tokens} written, {_costs(session.usage.cost_usd)}")
    return 0


def _fork(arguments: argparse.Namespace) -> int:
    source = _session(arguments)
    print(
        fork_session(source.id, arguments.directory, title=arguments.title, config_dir=arguments.config_dir).session_id
    )
    return 0


def _rename(arguments: argparse.Namespace) -> int:
    rename_session(_session(arguments).id, arguments.title, arguments.directory, config_dir=arguments.config_dir)
    return 0


def _delete(arguments: argparse.Namespace) -> int:
    session = _session(arguments)
    if not arguments.yes:
        if not sys.stdin.isatty():
            raise OptionsError("pass --yes to delete without being asked", option="--yes")
        told = input(f"Delete {session.id} ({_summary(session.info)})? [y/N] ")
        if told.strip().lower() not in ("y", "yes"):
            print("not deleted")
            return 1
    delete_session(session.id, arguments.directory, config_dir=arguments.config_dir)
    print(f"deleted {session.id}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    session = _session(arguments)
    path = Path(arguments.output) if arguments.output else None
    if path is not None and path.suffix not in (".md", ".json"):
        raise OptionsError(f"expected a file that ends in .md or .json, not {path}", option="--output")
    if path is not None and path.suffix == ".json":
        text = json.dumps(session.to_api_messages(), indent=2, ensure_ascii=False)
    else:
        text = "\n".join([f"# {_summary(session.info)}", "", *conversation_lines(session.history)])
    if path is None:
        print(displayable(text, len(text)) if sys.stdout.isatty() else text)
    else:
        path.write_text(text + "\n", encoding="utf-8")
    return 0


# Finding and showing ----------------------------------------------------------------------------------------------


def _session(arguments: argparse.Namespace) -> Session:
    wanted = whole_id(arguments.session, arguments.directory, arguments.config_dir)
    return get_session(wanted, arguments.directory, config_dir=arguments.config_dir)


def whole_id(wanted: str, directory: str | None = None, config_dir: str | None = None) -> str:
    """Return the id of the only session whose id begins so.

    Raises:
        OptionsError: There is none, or more than one.
    """
    fitting = ids_beginning_with(wanted, directory, config_dir)
    if len(fitting) != 1:
        problem = "more than one session begins with" if fitting else "no session begins with"
        raise OptionsError(f"{problem} {wanted!r}; `claude-agent-py sessions list --limit 0` has all")
    return fitting[0]


def ids_beginning_with(start: str, directory: str | None = None, config_dir: str | None = None) -> list[str]:
    """Return the ids of the sessions that begin so; a whole id without looking."""
    if _is_uuid(start):
        return [start]
    known = list_sessions(directory, config_dir=config_dir)
    return [info.session_id for info in known if start and info.session_id.startswith(start.lower())]


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def conversation_lines(messages: Sequence[Any]) -> Iterator[str]:
    """Yield the lines of a conversation as Markdown."""
    for message in messages:
        if isinstance(message, AssistantMessage):
            if message.text.strip():
                yield f"**Claude:** {message.text.strip()}\n"
            for call in message.tool_uses:
                yield f"> {call.name} {json.dumps(call.input, ensure_ascii=False)}\n"
        elif isinstance(message, UserMessage) and message.text.strip() and not message.tool_results:
            ended = ENDED.findall(message.text)
            yield f"> {' '.join(ended)}\n" if ended else f"**User:** {message.text.strip()}\n"


def _tasks(session: Session) -> list[dict[str, Any]]:
    return [
        {"id": task.id, "type": task.type, "description": task.description, "status": task.status.value}
        for task in session.tasks
    ]


def _summary(info: SessionInfo) -> str:
    return one_line(info.summary, SHOWN_CHARS)


def _when(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d %H:%M")


def _costs(usd: float | None) -> str:
    return "-" if usd is None else f"{usd:.4f} $"


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False))
