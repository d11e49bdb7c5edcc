"""The `sessions` command: list, show, search, fork, rename, delete and export the conversations on disk.

A session is named by its id or an id prefix. Control characters are stripped from the output.
"""

import argparse
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from claude_agent_py._base.checks import is_uuid
from claude_agent_py._base.display import displayable, displayable_json
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.private_files import open_private
from claude_agent_py.cli.terminal import one_line, print_text
from claude_agent_py.messages import AssistantMessage, UserMessage
from claude_agent_py.sessions import (
    SessionInfo,
    StoredSession,
    delete_session,
    fork_session,
    get_session,
    list_sessions,
    rename_session,
    search_sessions,
)
from claude_agent_py.wire import JSONObject

SHOWN_CHARS: Final = 80
TASK_CHARS: Final = 120
NOTIFICATION: Final = re.compile(r"<task-notification>.*?<summary>(.*?)</summary>.*?</task-notification>", re.DOTALL)
"""The CLI's message to the model about an ended task, with its summary."""
LIMIT: Final = 20
"""The default maximum of listed sessions or search results."""


Perform: TypeAlias = Callable[[argparse.Namespace], int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    location = argparse.ArgumentParser(add_help=False)
    location.add_argument("--directory", metavar="DIR", help="only sessions of this working directory")
    location.add_argument(
        "--config-dir", metavar="DIR", help="the CLI's configuration folder (default: CLAUDE_CONFIG_DIR or ~/.claude)"
    )
    actions = parser.add_subparsers(required=True, metavar="action")

    def add_action_parser(name: str, text: str, perform: Perform) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text, parents=[location])
        sub.set_defaults(perform=perform)
        return sub

    def add_session_parser(name: str, text: str, perform: Perform) -> argparse.ArgumentParser:
        sub = add_action_parser(name, text, perform)
        sub.add_argument("session", metavar="SESSION", help="the id or an id prefix")
        return sub

    listed = add_action_parser("list", "List sessions, latest first.", _list)
    searched = add_action_parser("search", "Search for a text in conversations.", _search)
    searched.add_argument("text")
    for sub in (listed, searched):
        sub.add_argument("--limit", type=int, default=LIMIT, help=f"the maximum (default: {LIMIT}; 0: unlimited)")
    shown = add_session_parser("show", "Show a conversation with its tasks and cost.", _show)
    shown.add_argument("--last", type=int, metavar="N", help="only the last N messages")
    for sub in (listed, searched, shown):
        sub.add_argument("--json", action="store_true", help="print JSON")
    forked = add_session_parser("fork", "Copy a session and print the id of the copy.", _fork)
    forked.add_argument("--title", help="the title of the copy")
    renamed = add_session_parser("rename", "Set the title of a session.", _rename)
    renamed.add_argument("title")
    deleted = add_session_parser("delete", "Delete a session permanently.", _delete)
    deleted.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    exported = add_session_parser("export", "Write a conversation as Markdown or as Messages API messages.", _export)
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
        facts = f"{_format_time(info.last_modified)}  {_format_cost(info.cost_usd):>11}"
        _print_line(f"{info.id[:8]}  {facts}  ", info.summary, SHOWN_CHARS)
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
            _print_line(f"{hit.session_id[:8]}  {one_line(hit.session.summary, 30)}: ", hit.excerpt, 160)
    return 0 if count else 1


def _show(arguments: argparse.Namespace) -> int:
    session = _load_session(arguments)
    last: int | None = arguments.last
    messages: Sequence[Any] = session.history
    if last:
        messages = messages[max(0, len(messages) - last) :]
    if arguments.json:
        _print_json(
            {
                "info": asdict(session.info),
                "is_running": session.process is not None,
                "messages": [message.raw for message in messages],
                "tasks": _list_tasks(session),
            }
        )
        return 0
    process = f", open in process {session.process.pid}" if session.process else ""
    print(f"{_summarize(session.info)}\n{session.id}{process}\n")
    for line in render_conversation(messages):
        print(displayable(line, None))
    for task in _list_tasks(session):
        print(one_line(f"task {task['id']} {task['status']}: {task['description']}", TASK_CHARS))
    total = session.usage.total
    print(f"\n{total.input_tokens} tokens read, {total.output_tokens} written, {_format_cost(session.usage.cost_usd)}")
    return 0


def _fork(arguments: argparse.Namespace) -> int:
    source = _load_session(arguments)
    fork = fork_session(source.id, arguments.directory, title=arguments.title, config_dir=arguments.config_dir)
    print(fork.id)
    return 0


def _rename(arguments: argparse.Namespace) -> int:
    rename_session(_load_session(arguments).id, arguments.title, arguments.directory, config_dir=arguments.config_dir)
    return 0


def _delete(arguments: argparse.Namespace) -> int:
    session = _load_session(arguments)
    if not arguments.yes:
        if not sys.stdin.isatty():
            raise OptionsError("pass --yes to delete without confirmation", option="--yes")
        print(f"Delete {session.id} ({_summarize(session.info)})? [y/N] ", end="", flush=True)
        reply = sys.stdin.readline()  # empty after Ctrl-D
        if reply.strip().lower() not in ("y", "yes"):
            print("not deleted")
            return 1
    delete_session(session.id, arguments.directory, config_dir=arguments.config_dir)
    print(f"deleted {session.id}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    """Write a session to the output file, or as Markdown to stdout."""
    session = _load_session(arguments)
    if arguments.output:
        path = Path(arguments.output)
        text = _render(session, path)
        try:
            with open_private(path) as file:
                file.write(text + "\n")
        except OSError as error:
            raise OptionsError(f"cannot write {path}: {error.strerror or error}", option="--output") from None
        return 0
    print_text(_render_markdown(session))
    return 0


def _render(session: StoredSession, path: Path) -> str:
    """Return a session in the format of the file's suffix."""
    if path.suffix == ".json":
        return json.dumps(session.to_api_messages(), indent=2, ensure_ascii=False)
    if path.suffix == ".md":
        return _render_markdown(session)
    raise OptionsError(f"must end in .md or .json, not {path}", option="--output")


def _render_markdown(session: StoredSession) -> str:
    return "\n".join([f"# {_summarize(session.info)}", "", *render_conversation(session.history)])


# Lookup and formatting --------------------------------------------------------------------------------------------


def _load_session(arguments: argparse.Namespace) -> StoredSession:
    session_id = resolve_id(arguments.session, arguments.directory, arguments.config_dir)
    return get_session(session_id, arguments.directory, config_dir=arguments.config_dir)


def resolve_id(prefix: str, directory: str | None = None, config_dir: str | None = None) -> str:
    """Return the id of the only session with an id prefix.

    Raises:
        OptionsError: No session has this prefix, or several do.
    """
    found = find_ids(prefix, directory, config_dir)
    if len(found) != 1:
        problem = "more than one session begins with" if found else "no session begins with"
        raise OptionsError(f"{problem} {prefix!r}; `claude-agent-py sessions list --limit 0` lists all sessions")
    return found[0]


def find_ids(prefix: str, directory: str | None = None, config_dir: str | None = None) -> list[str]:
    """Return the ids of the sessions with an id prefix. A whole id is returned without a search."""
    if is_uuid(prefix):
        return [prefix.lower()]
    if not prefix:
        return []
    sessions = list_sessions(directory, config_dir=config_dir)
    return [info.id for info in sessions if info.id.startswith(prefix.lower())]


def render_conversation(messages: Sequence[object]) -> Iterator[str]:
    """Yield the lines of a conversation as Markdown."""
    for message in messages:
        if isinstance(message, AssistantMessage):
            if message.text.strip():
                yield f"**Claude:** {message.text.strip()}\n"
            for call in message.tool_uses:
                yield f"> {call.name} {json.dumps(call.input, ensure_ascii=False)}\n"
        elif isinstance(message, UserMessage) and message.text.strip() and not message.tool_results:
            if ended := NOTIFICATION.findall(message.text):
                yield f"> {' '.join(ended)}\n"
            else:
                yield f"**User:** {message.text.strip()}\n"


def _list_tasks(session: StoredSession) -> list[JSONObject]:
    return [
        {"id": task.id, "type": task.type, "description": task.description, "status": task.status.value}
        for task in session.tasks
    ]


def _summarize(info: SessionInfo) -> str:
    return one_line(info.summary, SHOWN_CHARS)


def _print_line(start: str, text: str, limit: int) -> None:
    """Print a line with at most `limit` characters of a text, cut to the width of the terminal, if it is one."""
    line = start + one_line(text, limit)
    width = shutil.get_terminal_size().columns
    print(f"{line[: width - 1]}…" if sys.stdout.isatty() and len(line) > width else line)


def _format_time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d %H:%M")


def _format_cost(usd: float | None) -> str:
    return "-" if usd is None else f"{usd:.4f} USD"


def _print_json(value: object) -> None:
    print(displayable_json(value))
