"""The entries of a cassette: which one a request is, and how a request differs from what was recorded."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Any, Final

from claude_agent_py._errors import OptionsError
from claude_agent_py.testing.requests import RecordedRequest
from claude_agent_py.testing.script import Answer, Block, Failure, RawBlock, Reply, Text, Thinking, ToolCall, Usage
from claude_agent_py.testing.scrubbing import without_times

FACTS: Final = ("model", "tools", "system")
SHOWN_CHARS: Final = 2000
"""The maximum length of a line in a diff."""


class CassetteMismatch(AssertionError):
    """A program made a request that differs from the recording. The text has a diff."""


@dataclass
class Entry:
    """A request and its answer. Every text has placeholders instead of secrets, paths and ids."""

    conversation: str
    """`main`, `side`, or how a subagent was asked."""
    history: str
    """A digest of the model's answers so far."""
    lines: list[str]
    """What is new in the request: prompts, results of tools, notifications."""
    facts: dict[str, Any]
    """The compared fields besides the conversation, such as `model`."""
    answer: dict[str, Any] = field(default_factory=dict)
    """`{"message": ...}` of the Messages API, or `{"status": ..., "error": ...}`."""
    asked: int = 0
    """Which step of the recording the request was, counting requests and answers."""
    answered: int = 0


class Matching:
    """Compares requests with entries."""

    def __init__(self, match: Sequence[str], ignore: Sequence[str]) -> None:
        if unknown := set(match) - set(FACTS):
            raise OptionsError(f"expected some of {', '.join(FACTS)}, not {sorted(unknown)}", option="match")
        self._facts = [name for name in FACTS if name in match]
        self._ignored = [re.compile(pattern) for pattern in ignore]

    def facts(self, request: RecordedRequest) -> dict[str, Any]:
        """Return what has to be as recorded beside the conversation."""
        return {name: sorted(request.tool_names) if name == "tools" else getattr(request, name) for name in self._facts}

    def plain(self, line: str) -> str:
        """Return a line without what may differ."""
        for pattern in self._ignored:
            line = pattern.sub("<ignored>", line)
        return without_times(line)

    def find(self, asked: Entry, entries: Sequence[Entry], played: Collection[int]) -> int | None:
        """Return the position of the entry that a request is: one not yet played, else the last that fits."""
        fitting = [at for at, entry in enumerate(entries) if self._fits(asked, entry)]
        return next((at for at in fitting if at not in played), fitting[-1] if fitting else None)

    def _fits(self, asked: Entry, entry: Entry) -> bool:
        return (
            self.plain(asked.conversation) == self.plain(entry.conversation)
            and asked.history == entry.history
            and self._plain_lines(asked) == self._plain_lines(entry)
            and not self.different_facts(asked, entry)
        )

    def different_facts(self, asked: Entry, entry: Entry) -> list[str]:
        """Return the names of the facts that differ, of those that the entry has."""
        return [name for name in self._facts if name in entry.facts and entry.facts[name] != asked.facts[name]]

    def likeness(self, asked: Entry, entry: Entry) -> float:
        """Return how much an entry resembles a request, for the diff."""
        same = (entry.conversation == asked.conversation) + (entry.history == asked.history)
        return same + SequenceMatcher(None, "\n".join(asked.lines), "\n".join(entry.lines)).quick_ratio()

    def _plain_lines(self, entry: Entry) -> list[str]:
        """Return the lines, those that came together from parallel work in one order."""
        return sorted(self.plain(line) for line in entry.lines)


def mismatch_text(asked: Entry, left: Sequence[Entry], matching: Matching, path: Path) -> str:
    """Describe a request that the cassette does not have, beside the entry that resembles it most."""
    where = "the main agent" if asked.conversation == "main" else asked.conversation
    head = f"{where} asked the model something that is not in {path}"
    nearest = max(left, key=lambda entry: matching.likeness(asked, entry), default=None)
    if nearest is None:
        return "\n".join([f"{head}: all its answers were given", *_cut(asked.lines, "+ ")])
    parts = [f"{head} (- recorded, + now):"]
    parts += [
        f"  {name}: {nearest.facts[name]!r:.300} -> {asked.facts[name]!r:.300}"
        for name in matching.different_facts(asked, nearest)
    ]
    if nearest.conversation != asked.conversation:
        parts += _cut([nearest.conversation], "- ") + _cut([asked.conversation], "+ ")
    diff = list(unified_diff(_split(nearest.lines), _split(asked.lines), n=2, lineterm=""))[3:]
    parts += [line[:SHOWN_CHARS] for line in diff]
    if not diff and nearest.history != asked.history:
        parts.append("  the new messages are the same, but the conversation before them is another")
    return "\n".join([*parts, "Record it again with --cassette-mode=all if that is meant."])


def _split(lines: Sequence[str]) -> list[str]:
    return [part for line in lines for part in line.splitlines()]


def _cut(lines: Sequence[str], prefix: str) -> list[str]:
    return [prefix + part[:SHOWN_CHARS] for part in _split(lines)]


# Answers ----------------------------------------------------------------------------------------------------------


def as_answer_of(answer: Mapping[str, Any]) -> Answer:
    """Return an answer of the Messages API as that of a scripted model."""
    if "message" not in answer:
        error = answer.get("error") or {}
        return Failure(
            int(answer.get("status", 500)),
            str(error.get("message", "")),
            type=error.get("type"),
            retry_after=answer.get("retry_after"),
        )
    message = answer["message"]
    usage = message.get("usage") or {}
    counts = {name: int(usage.get(name) or 0) for name in Usage.__dataclass_fields__}
    return Reply(
        [_block(block) for block in message["content"]], stop_reason=message.get("stop_reason"), usage=Usage(**counts)
    )


def _block(block: Mapping[str, Any]) -> Block:
    match block.get("type"):
        case "text" if not block.get("citations"):
            return Text(block["text"])
        case "thinking":
            return Thinking(block["thinking"], block.get("signature", ""))
        case "tool_use":
            return ToolCall(block["name"], block.get("input") or {}, block["id"])
        case _:
            return RawBlock(block)
