"""`Session`: a conversation on disk, as a value.

Reading it needs no process and is safe while the CLI has it open: a session shows its files as they were when it was
created. All calls block.
"""

import os
from collections.abc import Sequence
from functools import cached_property

from claude_agent_py._errors import SessionError
from claude_agent_py.formatting.api_messages import to_api_messages
from claude_agent_py.sessions.folders import AnyPath, config_folder, find_session
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.listing import info_of
from claude_agent_py.sessions.running import RunningProcess, process_on
from claude_agent_py.sessions.spent import SessionUsage, usage_of
from claude_agent_py.sessions.stored_tasks import StoredTask, tasks_in
from claude_agent_py.sessions.subagent import StoredSubagent, agent_files, read_subagent, started_at
from claude_agent_py.sessions.transcript import Transcript
from claude_agent_py.tasks.files.transcript import TranscriptMessage
from claude_agent_py.tools.traffic import ToolCallRecord, ToolTraffic
from claude_agent_py.wire.base import JSONObject


class Session:
    """A conversation on disk at the time of creation. Get one with `get_session`."""

    def __init__(self, info: SessionInfo, *, config_dir: AnyPath | None = None, owner: object = None) -> None:
        """Create a session from an item of `list_sessions`. `owner` keeps temporary files in existence."""
        self.info: SessionInfo = info
        self.snapshot: Snapshot = Snapshot(info.path, info.file_size, owner)
        """The transcript's lines. Internal to this package."""
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
        return Transcript(self.snapshot, self.id)

    @cached_property
    def history(self) -> Transcript:
        """The conversation from the first message on, including compacted parts."""
        return Transcript(self.snapshot, self.id, whole=True)

    def to_api_messages(self) -> list[JSONObject]:
        """Return `messages` in the form of the Messages API, without those that the CLI adds for the model only.

        The list can be continued: append a user message. See `to_api_messages` in `claude_agent_py.messages` for what
        is left out.
        """
        return to_api_messages(self.messages)

    @cached_property
    def subagents(self) -> Sequence[StoredSubagent]:
        """The subagents, including those of subagents and workflows, in the order of their starts."""
        files, owner = agent_files(self.info.path.removesuffix(".jsonl")), self.snapshot.owner
        found = [read_subagent(path, self.id, owner) for path in files]
        return sorted(found, key=lambda agent: (started_at(agent), agent.agent_id))

    @cached_property
    def tool_calls(self) -> Sequence[ToolCallRecord]:
        """Every tool call of the main agent with its result, from the first message on."""
        traffic = ToolTraffic()
        for message in self.history:
            traffic.fold(message)
        return traffic.calls

    @cached_property
    def tasks(self) -> Sequence[StoredTask]:
        """The background tasks, in the order of their launches. Tasks left by a process that ended count as stopped."""
        return tasks_in(self.snapshot, self.id, self.subagents, is_running=self.process is not None)

    def tasks_of_ended_process(self) -> Sequence[StoredTask]:
        """Return `tasks`, all of them over, because the process that has the session open did not launch them."""
        return tasks_in(self.snapshot, self.id, self.subagents, is_running=False)

    @cached_property
    def usage(self) -> SessionUsage:
        """The tokens by model and the cost."""
        return usage_of(self.snapshot, self.history, self.subagents)

    @property
    def process(self) -> RunningProcess | None:
        """The process that has the session open now, or None."""
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
    return page(get_session(session_id, directory, config_dir=config_dir).messages, limit, offset)


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
    return page(subagent_in(session, agent_id).messages, limit, offset)


def subagent_in(session: Session, agent_id: str) -> StoredSubagent:
    """Return a subagent of a session. Raises SessionError if there is none with this id."""
    agent = next((agent for agent in session.subagents if agent.agent_id == agent_id), None)
    if agent is None:
        raise SessionError(f"session {session.id} has no subagent {agent_id!r}", session_id=session.id)
    return agent


def page(messages: Transcript, limit: int | None, offset: int) -> list[TranscriptMessage]:
    """Return some of the messages: `limit` at most, without the first `offset`."""
    start = max(0, offset)
    return messages[start : None if limit is None else start + max(0, limit)]
