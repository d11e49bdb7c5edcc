"""Find the files of tasks, from paths that the CLI sends and from its directory layout. No I/O.

The CLI reports the output file of a shell in the tool result, and of a subagent at its end. All output files of a
session are in one directory, so one known path implies the others. The transcripts of subagents are in `subagents/`,
next to the transcript of the session.
"""

import os
import re
from collections.abc import Mapping

from claude_agent_py._journal.tasks.record import Record
from claude_agent_py.tasks.files.task_file import SUBAGENTS, TaskFile, transcript_name

_NOT_IN_SLUG = r"[^A-Za-z0-9]"
_BEYOND_UTF16 = "[\U00010000-\U0010ffff]"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
SLUG_CHARS = 200
"""A longer slug is cut, and a hash is appended."""
_FILE_NAME = r"[\w.-]+"


def project_slug(cwd: str) -> str:
    """Return the name of the CLI's directory for the sessions of a working directory, which must be a real path.

    Measured with CLI 2.1.328: characters are UTF-16 code units.
    """
    slug = re.sub(_NOT_IN_SLUG, "-", re.sub(_BEYOND_UTF16, "--", cwd))
    return slug if len(slug) <= SLUG_CHARS else f"{slug[:SLUG_CHARS]}-{_hash(cwd)}"


def _hash(text: str) -> str:
    """Return the CLI's hash of a path."""
    value = 0
    data = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(data[::2], data[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >> 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


class Paths:
    """The known directories of the session."""

    def __init__(self, config_dir: str | os.PathLike[str] | None = None) -> None:
        self.config_dir: str | os.PathLike[str] | None = config_dir
        self.uid: int | None = None
        """The user of the CLI, if it is another one than that of this program. Files have to be his."""
        self._outputs: str | None = None
        self._subagents: str | None = None

    def record_init(self, cwd: str | None, session_id: str | None) -> None:
        """Record the directory and session from `system/init`."""
        if self._subagents is None and self.config_dir and cwd and session_id:
            self._subagents = os.path.join(self.config_dir, "projects", project_slug(cwd), session_id, SUBAGENTS)

    def record_hook(self, data: Mapping[str, object]) -> None:
        """Record the paths in a hook's input."""
        own = data.get("transcript_path")
        agents = data.get("agent_transcript_path")
        if isinstance(agents, str) and agents:
            self._subagents = os.path.dirname(agents)
        elif isinstance(own, str) and own.endswith(".jsonl"):
            self._subagents = f"{own.removesuffix('.jsonl')}{os.sep}{SUBAGENTS}"

    def record_output(self, task_id: str, path: str) -> None:
        """Record the output path of a task."""
        directory, name = os.path.split(path)
        if name == f"{task_id}.output":
            self._outputs = directory

    def list_candidates(self, record: Record) -> list[TaskFile]:
        """Return the possible files of a subagent's transcript, or of the text of another task, most likely first."""
        sibling = _join(self._outputs, record.id, f"{record.id}.output")
        outputs = (record.run.output_file, record.output_file, sibling)
        if not record.is_agent:
            return self._list_files(None, *outputs)
        transcript = _join(self._subagents, record.id, transcript_name(record.id))
        return self._list_files(record.id, record.transcript_path, transcript, *outputs)

    def _list_files(self, agent_id: str | None, *paths: str | None) -> list[TaskFile]:
        return [TaskFile(path, self.uid, agent_id) for path in dict.fromkeys(paths) if path]


def _join(directory: str | None, task_id: str, name: str) -> str | None:
    """Join a path, unless the id could lead out of the directory."""
    if directory and re.fullmatch(_FILE_NAME, task_id):
        return os.path.join(directory, name)
    return None
