"""`StoredSession`: a conversation on disk, as a value.

Reading a session needs no process and is safe while the CLI has it open: a `StoredSession` shows its files at the
moment of its creation. All calls block.
"""

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf
from typing import Any, NamedTuple

from claude_agent_py._base.blocking_calls import blocking
from claude_agent_py._base.errors import SessionError
from claude_agent_py._journal.facts import MAIN, CallEnded, CallStarted, Fact, Tokens
from claude_agent_py._journal.fold import Journal, ProcessEnd, TimedFrame, TurnStopped, fold_frames
from claude_agent_py._journal.tasks.record import Record
from claude_agent_py._journal.tasks.spending import Counts, Spending, sum_counts, to_tokens
from claude_agent_py._journal.tool_calls import ToolCallRecord
from claude_agent_py._journal.turns import TurnCount
from claude_agent_py.formatting.api_messages import to_api_messages
from claude_agent_py.sessions.cost_notes import CostNote, read_last_cost
from claude_agent_py.sessions.entries import stored_frames
from claude_agent_py.sessions.folders import AnyPath, find_session
from claude_agent_py.sessions.index import describe_session
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.processes import RunningProcess, find_process
from claude_agent_py.sessions.stored_tasks import StoredTask, build_task, infer_ends
from claude_agent_py.sessions.stores.protocol import Lease
from claude_agent_py.sessions.transcript import StoredSubagent, Transcript, find_subagents, read_start_time
from claude_agent_py.tasks.files.transcript import TranscriptMessage
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.frames import Message
from claude_agent_py.wire.messages.conversation import AssistantMessage
from claude_agent_py.wire.messages.usage import TOKEN_FIELDS, ModelUsage, Usage
from claude_agent_py.wire.timestamps import seconds


@dataclass(frozen=True, slots=True)
class SessionUsage:
    """The tokens and the cost of a session."""

    by_model: Mapping[str, Usage] = field(default_factory=dict)
    """The tokens of the messages of the main agent and its subagents, by model. Excludes the CLI's own requests, for
    example for summaries."""
    cost_usd: float | None = None
    """The CLI's estimate when it last exited, including its own requests; None if it has not exited yet."""
    reported: Mapping[str, ModelUsage] = field(default_factory=dict)
    """The CLI's count by model when it last exited."""

    @property
    def total(self) -> Usage:
        """The tokens of all models."""
        counts: Any = {name: sum(getattr(used, name) or 0 for used in self.by_model.values()) for name in TOKEN_FIELDS}
        return Usage(**counts)


class Totals(NamedTuple):
    """What a pass over the frames leaves."""

    records: Sequence[Record]
    """The tasks with a launch or a transcript, in launch order."""
    spent: Mapping[str, Counts]
    """The tokens by model."""
    turns: TurnCount


class StoredSession:
    """A conversation on disk, at the moment of creation. `get_session` returns one."""

    def __init__(
        self,
        info: SessionInfo,
        *,
        config_dir: AnyPath | None = None,
        owner: object = None,
        lease: Lease | None = None,
    ) -> None:
        """Create a session from an item of `list_sessions`. `owner` keeps temporary files alive."""
        self.info: SessionInfo = info
        self.lease: Lease | None = lease
        """The lease of the process that was writing to it in its store. None if none was, or the store cannot tell."""
        self.snapshot: Snapshot = Snapshot(info.path, info.file_size, owner)
        """The transcript's lines. Internal to this package."""
        self.is_left: bool = False
        """Whether its process has ended, even if one has the session open. Internal to this package."""
        self._config_dir = config_dir
        self._totals: Totals | None = None

    def __repr__(self) -> str:
        return f"<StoredSession {self.id} {self.info.summary[:60]!r}, {self.info.file_size} bytes>"

    @property
    def id(self) -> str:
        """The session's id, for the option `resume`."""
        return self.info.id

    @property
    def session_id(self) -> str:
        """Deprecated: use `id`."""
        return self.id

    @cached_property
    def messages(self) -> Transcript:
        """The conversation as the model sees it: after a compaction, the summary and the later messages."""
        return Transcript(self.snapshot, self.id)

    @cached_property
    def history(self) -> Transcript:
        """The conversation from the first message on, including compacted parts."""
        return Transcript(self.snapshot, self.id, whole=True)

    def to_api_messages(self) -> list[JSONObject]:
        """Return `messages` in the form of the Messages API, without the messages that the CLI adds for the model only.

        To continue the conversation, append a user message. `to_api_messages` in `claude_agent_py.messages` documents
        the omitted content.
        """
        return to_api_messages(self.messages)

    @cached_property
    def subagents(self) -> Sequence[StoredSubagent]:
        """The subagents in start order, including subagents of subagents and of workflows."""
        found = find_subagents(self.info.path.removesuffix(".jsonl"), self.id, self.snapshot.owner)
        return sorted(found, key=lambda agent: (read_start_time(agent), agent.agent_id))

    def journal(self, *, until: float = inf) -> Iterator["Fact"]:
        """Iterate over the facts of the session in the order of their times. Blocks.

        Args:
            until: A time in seconds since the epoch: they are those of the session as it was then.

        Raises:
            SessionError: The transcript cannot be read.
        """
        return (fact for _, facts in fold_frames(partial(self._read, until=until)) for fact in facts)

    def events(self) -> Iterator["Message | Fact"]:
        """Iterate over the messages of the session with the facts of each, as `Client.events(facts=True)` does. Blocks.

        Raises:
            SessionError: The transcript cannot be read.
        """
        for timed, facts in fold_frames(self._read):
            if timed is not None and not isinstance(timed[0], list | ProcessEnd | TurnStopped):
                yield timed[0]
            yield from facts

    def _read(self, journal: Journal, until: float = inf) -> Iterator[TimedFrame]:
        """Yield the frames, and keep their totals if they are all."""
        ledger = journal.ledger
        ledger.prices.derive(self._cost.model_usage)
        main = Spending()
        for timed in stored_frames(self.id, self.history, self.subagents):
            message, at, _ = timed
            if at is not None and at >= until:
                break
            if isinstance(message, AssistantMessage) and message.agent_id is None:
                main.add_message(message)
            yield timed
        begun = [agent for agent in self.subagents if (seconds(read_start_time(agent)) or 0.0) < until]
        yield from infer_ends(ledger, begun)
        if self.is_left or (self.lease is None and self.process is None):
            yield ProcessEnd(), None, False
        if until < inf:
            return
        parts = (main, *(run.spent for record in ledger.records.values() for run in record.runs))
        spent = sum_counts(item for part in parts for item in part.by_model.items())
        # Of other tasks, there is only a notification.
        records = [record for record in ledger.records.values() if record.type is not None]
        self._totals = Totals(records, spent, journal.turns.count)

    @property
    def totals(self) -> Totals:
        """The totals of the frames, from an earlier pass over them if there was one. Internal to this package."""
        if self._totals is None:
            deque(self.journal(), maxlen=0)
        assert self._totals is not None  # noqa: S101
        return self._totals

    @cached_property
    def _cost(self) -> CostNote:
        try:
            return read_last_cost(self.snapshot)
        except OSError:  # reading the messages reports it
            return CostNote()

    @cached_property
    def tool_calls(self) -> Sequence[ToolCallRecord]:
        """Every tool call of the main agent with its result, from the first message on."""
        calls = (fact for fact in self.journal() if isinstance(fact, CallStarted | CallEnded) and fact.agent == MAIN)
        return list({fact.id: ToolCallRecord.of(fact) for fact in calls}.values())

    @cached_property
    def tasks(self) -> Sequence[StoredTask]:
        """The background tasks, in launch order. Tasks left running by a process that has ended count as stopped."""
        agents = {agent.agent_id: agent for agent in self.subagents}
        return [build_task(record, agents.get(record.id)) for record in self.totals.records]

    @cached_property
    def usage(self) -> SessionUsage:
        """The tokens by model and the cost."""
        by_model = {model: _to_usage(to_tokens(counts)) for model, counts in self.totals.spent.items() if any(counts)}
        return SessionUsage(by_model, self._cost.total_cost_usd, self._cost.model_usage)

    @property
    def process(self) -> RunningProcess | None:
        """The process that has the session open now, or None."""
        config = self._config_dir or os.path.dirname(os.path.dirname(os.path.dirname(self.info.path)))
        return find_process(config, self.id)


def _to_usage(tokens: Tokens) -> Usage:
    return Usage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_creation_input_tokens=tokens.cache_write,
        cache_read_input_tokens=tokens.cache_read,
    )


@blocking
def get_session(
    session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None
) -> StoredSession:
    """Return a session on disk.

    Args:
        session_id: The session's id.
        directory: The session's working directory; by default all projects are searched.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: The session does not exist.
        OptionsError: The id is not a UUID.
    """
    path = find_session(session_id, directory, config_dir)
    return StoredSession(describe_session(path, session_id), config_dir=config_dir)


@blocking
def get_session_messages(
    session_id: str,
    directory: AnyPath | None = None,
    limit: int | None = None,
    offset: int = 0,
    *,
    config_dir: AnyPath | None = None,
) -> list[TranscriptMessage]:
    """Return a page of a session's messages: `get_session(...).messages[offset : offset + limit]`."""
    return _slice(get_session(session_id, directory, config_dir=config_dir).messages, limit, offset)


@blocking
def list_subagents(
    session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None
) -> list[str]:
    """Return the ids of a session's subagents; `Session.subagents` has their details."""
    return [agent.agent_id for agent in get_session(session_id, directory, config_dir=config_dir).subagents]


@blocking
def get_subagent_messages(
    session_id: str,
    agent_id: str,
    directory: AnyPath | None = None,
    limit: int | None = None,
    offset: int = 0,
    *,
    config_dir: AnyPath | None = None,
) -> list[TranscriptMessage]:
    """Return a page of a subagent's messages. Raises SessionError if the session does not have the subagent."""
    session = get_session(session_id, directory, config_dir=config_dir)
    agent = next((agent for agent in session.subagents if agent.agent_id == agent_id), None)
    if agent is None:
        raise SessionError(f"session {session.id} has no subagent {agent_id!r}", session_id=session.id)
    return _slice(agent.messages, limit, offset)


def _slice(messages: Transcript, limit: int | None, offset: int) -> list[TranscriptMessage]:
    """Return at most `limit` messages, after the first `offset`."""
    start = max(0, offset)
    return messages[start : None if limit is None else start + max(0, limit)]
