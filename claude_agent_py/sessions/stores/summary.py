"""`fold_session_summary`: the summary of a session, kept up to date batch by batch.

The result equals the result of the official Python SDK (0.2.187), so that both can read a store.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from claude_agent_py.sessions.stores.protocol import SessionKey, SessionStoreEntry, SessionSummaryEntry
from claude_agent_py.wire.timestamps import seconds

_LAST: Final[Mapping[str, str]] = {
    "customTitle": "custom_title",
    "aiTitle": "ai_title",
    "lastPrompt": "last_prompt",
    "summary": "summary_hint",
    "gitBranch": "git_branch",
}
"""The entry fields whose last value counts, with their names in the summary."""
_COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>")
_NOT_TYPED: Final = re.compile(
    r"^(?:<local-command-stdout>|<session-start-hook>|<tick>|<goal>|"
    r"\[Request interrupted by user[^\]]*\]|"
    r"\s*<ide_opened_file>[\s\S]*</ide_opened_file>\s*$|"
    r"\s*<ide_selection>[\s\S]*</ide_selection>\s*$)"
)
_MOST_CHARS: Final = 200


def fold_session_summary(
    prev: SessionSummaryEntry | None, key: SessionKey, entries: Iterable[SessionStoreEntry]
) -> SessionSummaryEntry:
    """Return the summary of a session after a batch of entries. Stores call this in `append`, except for subagents.

    Args:
        prev: The summary before the batch; None for a new session.
        key: The session.
        entries: The batch.

    `mtime` is unchanged: the store sets it to the time of its write.
    """
    data: dict[str, Any] = dict(prev["data"]) if prev is not None else {}
    for entry in entries:
        _apply_entry(data, entry)
    before = prev["mtime"] if prev is not None else 0
    return {"session_id": key["session_id"], "mtime": before, "data": data}


def _apply_entry(data: dict[str, Any], entry: Mapping[str, Any]) -> None:
    data.setdefault("is_sidechain", entry.get("isSidechain") is True)
    created = _to_milliseconds(entry.get("timestamp"))
    if created is not None:
        data.setdefault("created_at", created)
    if isinstance(cwd := entry.get("cwd"), str) and cwd:
        data.setdefault("cwd", cwd)
    if not data.get("first_prompt_locked"):
        _apply_prompt(data, entry)
    for source, name in _LAST.items():
        if isinstance(value := entry.get(source), str):
            data[name] = value
    if entry.get("type") == "tag":
        tag = entry.get("tag")
        if isinstance(tag, str) and tag:
            data["tag"] = tag
        else:
            data.pop("tag", None)


def _apply_prompt(data: dict[str, Any], entry: Mapping[str, Any]) -> None:
    """Record the first prompt typed by a person and, as a fallback, the first command."""
    if entry.get("type") != "user" or entry.get("isMeta") is True or entry.get("isCompactSummary") is True:
        return
    message = entry.get("message")
    for text in _extract_texts(message.get("content") if isinstance(message, dict) else None):
        line = text.replace("\n", " ").strip()
        if not line:
            continue
        if command := _COMMAND.search(line):
            data["command_fallback"] = data.get("command_fallback") or command[1]
        elif not _NOT_TYPED.match(line):
            data["first_prompt"] = line if len(line) <= _MOST_CHARS else line[:_MOST_CHARS].rstrip() + "…"
            data["first_prompt_locked"] = True
            return


def _extract_texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    if any(block.get("type") == "tool_result" for block in blocks):
        return []
    return [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]


def _to_milliseconds(timestamp: object) -> int | None:
    at = seconds(timestamp)
    return None if at is None else int(at * 1000)
