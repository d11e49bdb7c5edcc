"""`Session`: a conversation on disk, as a value.

Reading it needs no process, and is safe while the CLI is at work on it: a session shows its files as they were when it
was made. All calls block.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from claude_agent_py._untrusted import read_bytes, read_json
from claude_agent_py.errors import SessionError
from claude_agent_py.sessions.folders import AnyPath, config_folder, find_session, regular_file
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.listing import info_of
from claude_agent_py.sessions.running import RunningProcess, process_on
from claude_agent_py.sessions.spent import SessionUsage, usage_of
from claude_agent_py.sessions.stored_tasks import StoredTask, tasks_in
from claude_agent_py.sessions.transcript import Transcript
from claude_agent_py.tasks.files.transcript import TranscriptMessage
from claude_agent_py.tools.traffic import ToolCallRecord, ToolTraffic

_AGENT: Final = re.compile(r"agent-(?P<id>[\w.-]+)\.jsonl", re.ASCII)
_MOST_NOTES: Final = 1024 * 1024


class _Notes(msgspec.Struct, rename="camel", gc=False):
    """The CLI's file beside the transcript of a subagent."""

    agent_type: str | None = None
    description: str = ""
    tool_use_id: str | None = None
    model: str | None = None
    spawn_depth: int | None = None
    finished: bool = False
    stopped_by_user: bool = False


@dataclass(frozen=True)
class StoredSubagent:
    """A subagent of a session on disk."""

    agent_id: str
    """Its id, which is its task's."""
    path: str
    """Its transcript."""
    agent_type: str | None = None
    description: str = ""
    tool_use_id: str | None = None
    """The call that launched it."""
    model: str | None = None
    spawn_depth: int | None = None
    """1 for a subagent of the main agent."""
    is_finished: bool = False
    was_stopped: bool = False
    session_id: str = ""

    @cached_property
    def messages(self) -> Transcript:
        """Its messages."""
        return Transcript(
            _snapshot(self.path, self.session_id),
            self.session_id,
            agent_id=self.agent_id,
            parent_tool_use_id=self.tool_use_id,
        )


class Session:
    """A conversation on disk, as it was when this was made. Get one with `get_session`."""

    def __init__(self, info: SessionInfo, *, config_dir: AnyPath | None = None) -> None:
        """Make a session of what `list_sessions` returned."""
        self.info: SessionInfo = info
        self._snapshot = Snapshot(info.path, info.file_size)
        self._config_dir = config_dir

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.info.summary[:60]!r}, {self.info.file_size} bytes>"

    @property
    def id(self) -> str:
        """The session's id, for the option `resume`."""
        return self.info.session_id

    @cached_property
    def messages(self) -> Transcript:
        """The conversation as the model sees it: after a compaction, its summary and what followed."""
        return Transcript(self._snapshot, self.id)

    @cached_property
    def history(self) -> Transcript:
        """The conversation from the first message, with what was compacted away."""
        return Transcript(self._snapshot, self.id, whole=True)

    @cached_property
    def subagents(self) -> Sequence[StoredSubagent]:
        """The subagents, those of subagents and workflows included, in the order in which they were started."""
        found = [_subagent(path, self.id) for path in _agent_files(self.info.path.removesuffix(".jsonl"))]
        return [agent for _, agent in sorted(found, key=lambda one: (one[0], one[1].agent_id))]

    @cached_property
    def tool_calls(self) -> Sequence[ToolCallRecord]:
        """Every tool call of the main agent with its result, from the first message on."""
        traffic = ToolTraffic()
        for message in self.history:
            traffic.fold(message)
        return traffic.calls

    @cached_property
    def tasks(self) -> Sequence[StoredTask]:
        """The background tasks, in the order in which they were launched. Those that a process left are stopped."""
        return tasks_in(self._snapshot, self.id, self.subagents, is_running=self.process is not None)

    @cached_property
    def usage(self) -> SessionUsage:
        """The tokens by model and the cost."""
        return usage_of(self._snapshot, self.history, self.subagents)

    @property
    def process(self) -> RunningProcess | None:
        """The process that is at work on the session now, or None."""
        config = self._config_dir or os.path.dirname(os.path.dirname(os.path.dirname(self.info.path)))
        return process_on(config_folder(config), self.id)


def get_session(session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None) -> Session:
    """Return a session.

    Args:
        session_id: The session's id.
        directory: Its working directory; by default it is looked for in all projects.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: There is no such session.
        OptionsError: The id is not a uuid.
    """
    path = find_session(session_id, directory, config_dir)
    try:
        return Session(info_of(path, session_id), config_dir=config_dir)
    except OSError as error:
        raise SessionError(
            f"the transcript {path} cannot be read: {error.strerror or error}", session_id=session_id
        ) from error


def get_session_messages(
    session_id: str,
    directory: AnyPath | None = None,
    limit: int | None = None,
    offset: int = 0,
    *,
    config_dir: AnyPath | None = None,
) -> list[TranscriptMessage]:
    """Return a page of a session's messages: `get_session(...).messages[offset : offset + limit]`."""
    return _page(get_session(session_id, directory, config_dir=config_dir).messages, limit, offset)


def list_subagents(
    session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None
) -> list[str]:
    """Return the ids of a session's subagents; `Session.subagents` has more."""
    return [agent.agent_id for agent in get_session(session_id, directory, config_dir=config_dir).subagents]


def get_subagent_messages(
    session_id: str,
    agent_id: str,
    directory: AnyPath | None = None,
    limit: int | None = None,
    offset: int = 0,
    *,
    config_dir: AnyPath | None = None,
) -> list[TranscriptMessage]:
    """Return a page of a subagent's messages. Raises SessionError if the session has no such subagent."""
    session = get_session(session_id, directory, config_dir=config_dir)
    agent = next((agent for agent in session.subagents if agent.agent_id == agent_id), None)
    if agent is None:
        raise SessionError(f"session {session_id} has no subagent {agent_id!r}", session_id=session_id)
    return _page(agent.messages, limit, offset)


def _page(messages: Transcript, limit: int | None, offset: int) -> list[TranscriptMessage]:
    start = max(0, offset)
    return messages[start : None if limit is None else start + max(0, limit)]


def _snapshot(path: str, session_id: str) -> Snapshot:
    status = regular_file(path)
    if status is None:
        raise SessionError(f"the transcript {path} cannot be read: no such file", session_id=session_id)
    return Snapshot(path, status.st_size)


def _agent_files(folder: str) -> Iterator[str]:
    """Yield the transcripts of subagents in a session's folder. Links are not followed."""
    root = os.path.join(folder, "subagents")
    if os.path.islink(folder) or os.path.islink(root):
        return
    for where, _, names in os.walk(root):
        yield from (os.path.join(where, name) for name in names if _AGENT.fullmatch(name))


def _subagent(path: str, session_id: str) -> tuple[str, StoredSubagent]:
    """Return a subagent and when it was started."""
    named = _AGENT.fullmatch(os.path.basename(path))
    notes = _notes(path.removesuffix(".jsonl") + ".meta.json")
    return _begun(path), StoredSubagent(
        agent_id=named["id"] if named else "",
        path=path,
        agent_type=notes.agent_type,
        description=notes.description,
        tool_use_id=notes.tool_use_id,
        model=notes.model,
        spawn_depth=notes.spawn_depth,
        is_finished=notes.finished,
        was_stopped=notes.stopped_by_user,
        session_id=session_id,
    )


def _notes(path: str) -> _Notes:
    try:
        return msgspec.convert(read_json(read_bytes(path, most_bytes=_MOST_NOTES)[0]), _Notes)
    except (OSError, ValueError):
        return _Notes()


def _begun(path: str) -> str:
    """Return the time of the first entry in a transcript; empty if it has none or cannot be read."""
    try:
        status = regular_file(path)
        lines = Snapshot(path, status.st_size if status else 0).forwards()
        first = next(lines, (0, None))[1]
        return str(read_json(first or b"{}").get("timestamp") or "")
    except (OSError, ValueError, AttributeError):
        return ""
