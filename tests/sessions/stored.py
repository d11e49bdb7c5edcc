"""Write transcripts as the CLI does, without it."""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SESSION = "11111111-1111-4111-8111-111111111111"


class Stored:
    """A transcript that a test writes. An entry continues the one before unless it says otherwise."""

    def __init__(self, config: Path, session_id: str = SESSION, project: str = "-work") -> None:
        self.config = config
        self.id = session_id
        self.path = config / "projects" / project / f"{session_id}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._tip: str | None = None
        self._clock = 0

    def line(self, entry: dict[str, Any]) -> str:
        """Append any entry."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n")
        return str(entry.get("uuid", ""))

    def note(self, kind: str, **fields: Any) -> None:
        """Append a note of the CLI."""
        self.line({"type": kind, **fields, "sessionId": self.id})

    def entry(self, kind: str, *, after: str | None = "", **fields: Any) -> str:
        """Append an entry of the conversation and return its uuid."""
        self._clock += 1
        parent = self._tip if after == "" else after
        self._tip = str(uuid.UUID(int=self._clock))
        own = {"uuid": self._tip, "timestamp": f"2026-01-01T00:{self._clock // 60:02d}:{self._clock % 60:02d}.000Z"}
        place = {"sessionId": self.id, "cwd": "/work", "gitBranch": "main", "version": "2.1.328"}
        self.line({"parentUuid": parent, "isSidechain": False, "type": kind, **own, **place, **fields})
        return self._tip

    def user(self, content: Any, **fields: Any) -> str:
        """Append a prompt or the results of tools."""
        return self.entry("user", message={"role": "user", "content": content}, **fields)

    def assistant(self, *blocks: Any, id: str | None = None, **fields: Any) -> str:
        """Append a block of an answer; a text is a text block."""
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {
            "id": id or f"msg_{self._clock}",
            "role": "assistant",
            "model": "m",
            "content": content,
            "usage": usage,
        }
        return self.entry("assistant", message=message, **fields)

    def result(self, call: str, text: str, **fields: Any) -> str:
        """Append the result of a tool call."""
        return self.user([{"type": "tool_result", "tool_use_id": call, "content": text}], **fields)

    def agent(self, agent_id: str, texts: Sequence[str], **notes: Any) -> Path:
        """Write the transcript of a subagent, which says these texts, and the CLI's notes beside it."""
        folder = self.path.with_suffix("") / "subagents"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"agent-{agent_id}.jsonl"
        one = Stored(self.config, self.id)
        one.path = path
        for number, text in enumerate(texts):
            say = one.assistant if number else one.user
            say(text, isSidechain=True, agentId=agent_id)
        path.with_suffix(".meta.json").write_text(json.dumps(notes))
        return path


def call(call_id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    """Return a block that calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
