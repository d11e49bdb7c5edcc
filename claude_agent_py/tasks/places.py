"""Where the files of tasks are.

Owns the paths: those that the CLI names, and those that follow from the layout it uses. Pure, nothing is opened here.
The CLI names a shell's output file in the result of the tool and an agent's at its end; all of a session lie beside one
another, so that one known path tells the others. Transcripts of subagents lie in `subagents/` beside the session's own.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from claude_agent_py.tasks.entry import Entry

_NOT_IN_SLUG = re.compile(r"[^A-Za-z0-9]")
_FILE_NAME = re.compile(r"[\w.-]+")


def project_slug(cwd: str) -> str:
    """Give the name of the directory in which the CLI keeps the sessions of a working directory."""
    return _NOT_IN_SLUG.sub("-", cwd)


class Places:
    """The directories of the session, as far as they are known."""

    def __init__(self, config_dir: str | os.PathLike[str] | None = None) -> None:
        self.config_dir: str | None = None if config_dir is None else os.fspath(config_dir)
        self.session_id: str | None = None
        self._outputs: str | None = None
        self._subagents: str | None = None

    def take_over(self, other: "Places") -> None:
        """Know what another one knows."""
        self.__dict__.update(other.__dict__)

    def note_init(self, cwd: str | None, session_id: str | None) -> None:
        """Note what `system/init` says: where the session runs and what it is called."""
        self.session_id = session_id or self.session_id
        if self._subagents is None and self.config_dir and cwd and session_id:
            self._subagents = os.path.join(self.config_dir, "projects", project_slug(cwd), session_id, "subagents")

    def note_hook(self, data: Mapping[str, Any]) -> None:
        """Note the paths in the input of a hook."""
        own, agents = data.get("transcript_path"), data.get("agent_transcript_path")
        if isinstance(agents, str) and agents:
            self._subagents = os.path.dirname(agents)
        elif isinstance(own, str) and own.endswith(".jsonl"):
            self._subagents = os.path.join(own.removesuffix(".jsonl"), "subagents")

    def note_output(self, task_id: str, path: str) -> None:
        """Note where one task writes to."""
        if os.path.basename(path) == f"{task_id}.output":
            self._outputs = os.path.dirname(path)

    def output_of(self, entry: Entry) -> list[str]:
        """Give where the output of a task may be, the likeliest place first."""
        beside = _join(self._outputs, entry.id, f"{entry.id}.output")
        return _distinct(entry.run.output_file, entry.output_file, beside)

    def transcript_of(self, entry: Entry) -> list[str]:
        """Give where the transcript of a subagent may be, the likeliest place first."""
        beside = _join(self._subagents, entry.id, f"agent-{entry.id}.jsonl")
        return _distinct(entry.transcript_path, beside, *self.output_of(entry))


def _join(directory: str | None, task_id: str, name: str) -> str | None:
    """Make a path, unless the id is one that could lead out of the directory."""
    return os.path.join(directory, name) if directory and _FILE_NAME.fullmatch(task_id) else None


def _distinct(*paths: str | None) -> list[str]:
    return list(dict.fromkeys(path for path in paths if path))
