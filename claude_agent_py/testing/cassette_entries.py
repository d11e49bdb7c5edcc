"""The entries of a cassette: find the entry of a request, and describe how a request differs from the recording."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Any, Final

from claude_agent_py._errors import OptionsError
from claude_agent_py.testing.requests import RecordedRequest
from claude_agent_py.testing.script import Answer, Block, Failure, RawBlock, Reply, Text, Thinking, ToolCall, Usage
from claude_agent_py.testing.scrubbing import mask_times

FACTS: Final = ("model", "tools", "system")
SHOWN_CHARS: Final = 2000
"""The maximum length of a line in a diff."""


class CassetteMismatch(AssertionError):
    """A program made a request that differs from the recording. The text has a diff."""


@dataclass
class Entry:
    """A request and its answer. Every text has placeholders instead of secrets, paths and ids."""

    conversation: str
    """`main`, `side`, or the type and prompt of a subagent."""
    history: str
    """A digest of the model's answers so far."""
    lines: list[str]
    """The new lines of the request: prompts, results of tools, notifications."""
    facts: dict[str, Any]
    """The other compared fields, such as `model`."""
    answer: dict[str, Any] = field(default_factory=dict)
    """`{"message": ...}` of the Messages API, or `{"status": ..., "error": ...}`."""
    asked: int = 0
    """The step of the recording at which the request came, counting requests and answers."""
    answered: int = 0
    """The step at which the answer came."""


class Matching:
    """Compares requests with entries."""

    def __init__(self, match: Sequence[str], ignore: Sequence[str]) -> None:
        if unknown := set(match) - set(FACTS):
            raise OptionsError(f"must be some of {', '.join(FACTS)}, not {sorted(unknown)}", option="match")
        self._facts = [name for name in FACTS if name in match]
        self._ignored = [re.compile(pattern) for pattern in ignore]

    def facts(self, request: RecordedRequest) -> dict[str, Any]:
        """Return the fields of a request that must equal the recording, without the conversation."""
        return {name: sorted(request.tool_names) if name == "tools" else getattr(request, name) for name in self._facts}

    def normalize(self, line: str) -> str:
        """Return a line with placeholders for ignored texts and times."""
        for pattern in self._ignored:
            line = pattern.sub("<ignored>", line)
        return mask_times(line)

    def find(self, asked: Entry, entries: Sequence[Entry], played: Collection[int]) -> int | None:
        """Return the position of the matching entry, or None.

        Entries that were not played yet come first. If all were played, the request is a retry of the last one.
        """
        matching = [at for at, entry in enumerate(entries) if self._matches(asked, entry)]
        for at in matching:
            if at not in played:
                return at
        return matching[-1] if matching else None

    def _matches(self, asked: Entry, entry: Entry) -> bool:
        return (
            self.normalize(asked.conversation) == self.normalize(entry.conversation)
            and asked.history == entry.history
            and self._normalize_lines(asked) == self._normalize_lines(entry)
            and not self.find_different_facts(asked, entry)
        )

    def find_different_facts(self, asked: Entry, entry: Entry) -> list[str]:
        """Return the names of the facts that differ. Facts that the entry lacks do not count."""
        return [name for name in self._facts if name in entry.facts and entry.facts[name] != asked.facts[name]]

    def compute_similarity(self, asked: Entry, entry: Entry) -> float:
        """Return the similarity of an entry and a request, for the diff."""
        same = (entry.conversation == asked.conversation) + (entry.history == asked.history)
        return same + SequenceMatcher(None, "\n".join(asked.lines), "\n".join(entry.lines)).quick_ratio()

    def _normalize_lines(self, entry: Entry) -> list[str]:
        # Results of parallel work come in any order.
        return sorted(self.normalize(line) for line in entry.lines)


def describe_mismatch(asked: Entry, left: Sequence[Entry], matching: Matching, path: Path) -> str:
    """Describe a request that is not in the cassette as a diff from the most similar entry."""
    sender = "the main agent" if asked.conversation == "main" else asked.conversation
    head = f"{sender} sent a request that is not in {path}"
    nearest = max(left, key=lambda entry: matching.compute_similarity(asked, entry), default=None)
    if nearest is None:
        return "\n".join([f"{head}: all recorded answers were used", *_prefix_lines(asked.lines, "+ ")])
    parts = [f"{head} (- recorded, + now):"]
    parts += [
        f"  {name}: {nearest.facts[name]!r:.300} -> {asked.facts[name]!r:.300}"
        for name in matching.find_different_facts(asked, nearest)
    ]
    if nearest.conversation != asked.conversation:
        parts += _prefix_lines([nearest.conversation], "- ") + _prefix_lines([asked.conversation], "+ ")
    diff = list(unified_diff(_split_lines(nearest.lines), _split_lines(asked.lines), n=2, lineterm=""))[3:]
    parts += [line[:SHOWN_CHARS] for line in diff]
    if not diff and nearest.history != asked.history:
        parts.append("  the new messages are the same, but the conversation before them differs")
    return "\n".join([*parts, "If this change is intended, record the cassette again with --cassette-mode=all."])


def _split_lines(lines: Sequence[str]) -> list[str]:
    return [part for line in lines for part in line.splitlines()]


def _prefix_lines(lines: Sequence[str], prefix: str) -> list[str]:
    return [prefix + part[:SHOWN_CHARS] for part in _split_lines(lines)]


# Answers ----------------------------------------------------------------------------------------------------------


def build_answer(answer: Mapping[str, Any]) -> Answer:
    """Convert an answer of the Messages API to an answer of a scripted model."""
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
        [_build_block(block) for block in message["content"]],
        stop_reason=message.get("stop_reason"),
        usage=Usage(**counts),
    )


def _build_block(block: Mapping[str, Any]) -> Block:
    match block.get("type"):
        case "text" if not block.get("citations"):
            return Text(block["text"])
        case "thinking":
            return Thinking(block["thinking"], block.get("signature", ""))
        case "tool_use":
            return ToolCall(block["name"], block.get("input") or {}, block["id"])
        case _:
            return RawBlock(block)
