"""`StoredSubagent`: a subagent of a session on disk. All calls block."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import msgspec

from claude_agent_py._errors import SessionError
from claude_agent_py._untrusted import read_json
from claude_agent_py.sessions.folders import regular_file
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.transcript import Transcript
from claude_agent_py.tasks.files.transcript import Notes, read_notes

_AGENT: Final = re.compile(r"agent-(?P<id>[\w.-]+)\.jsonl", re.ASCII)


@dataclass(frozen=True)
class StoredSubagent:
    """A subagent of a session on disk."""

    agent_id: str
    """The id, which is also the id of its task."""
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
    owner: object = field(default=None, repr=False, compare=False)
    """Keeps temporary files in existence. Internal to this package."""

    @cached_property
    def messages(self) -> Transcript:
        """Its messages."""
        return Transcript(
            take_snapshot(self.path, self.session_id, self.owner),
            self.session_id,
            agent_id=self.agent_id,
            parent_tool_use_id=self.tool_use_id,
        )


def take_snapshot(path: str, session_id: str, owner: object = None) -> Snapshot:
    """Return a snapshot of a transcript. Raises SessionError if the file does not exist."""
    status = regular_file(path)
    if status is None:
        raise SessionError(f"the transcript {path} cannot be read: no such file", session_id=session_id)
    return Snapshot(path, status.st_size, owner)


def find_agent_files(folder: str) -> Iterator[str]:
    """Yield the transcripts of subagents in a session's folder. Links are not followed."""
    root = os.path.join(folder, "subagents")
    if os.path.islink(folder) or os.path.islink(root):
        return
    for where, _, names in os.walk(root):
        paths = (os.path.join(where, name) for name in names if _AGENT.fullmatch(name))
        yield from (path for path in paths if regular_file(path) is not None)


def read_subagent(path: str, session_id: str, owner: object = None) -> StoredSubagent:
    """Return the subagent of a transcript."""
    named = _AGENT.fullmatch(os.path.basename(path))
    agent_id = named["id"] if named else ""
    notes = msgspec.structs.asdict(read_notes(path) or Notes())
    return StoredSubagent(agent_id=agent_id, path=path, session_id=session_id, owner=owner, **notes)


def read_start_time(agent: StoredSubagent) -> str:
    """Return the time of a subagent's first entry; empty if there is no entry or it cannot be read."""
    try:
        _, line = next(take_snapshot(agent.path, agent.session_id).forwards(), (0, None))
        return str(read_json(line or b"{}").get("timestamp") or "")
    except (OSError, SessionError, ValueError, AttributeError):
        return ""
