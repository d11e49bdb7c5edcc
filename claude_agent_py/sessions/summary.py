"""The summary of a session: what its entries say about it, folded one entry after the other."""

import re
from collections.abc import Mapping
from typing import Final

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.sessions.prompt_entries import get_blocks, get_message
from claude_agent_py.wire.base import JSONObject
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
"""The prompts that no person typed, as in the official SDK."""
_NOT_TYPED_ON_DISK: Final = re.compile(rf"{_NOT_TYPED.pattern}|<local-command-caveat>|<task-notification>")
_MOST_CHARS: Final = 200


def apply_entry(data: JSONObject, entry: Mapping[str, object], *, is_on_disk: bool = False) -> None:
    """Add an entry to the `data` of a summary.

    Args:
        data: The summary of the entries before.
        entry: The entry.
        is_on_disk: Round the time, write the first prompt with single spaces, and pass over the CLI's own prompts. The
            summary of a session in a store equals the official SDK's.
    """
    data.setdefault("is_sidechain", entry.get("isSidechain") is True)
    if "created_at" not in data and (created := seconds(entry.get("timestamp"))) is not None:
        data["created_at"] = (round if is_on_disk else int)(created * 1000)
    if isinstance(cwd := entry.get("cwd"), str) and cwd:
        data.setdefault("cwd", cwd)
    if not data.get("first_prompt_locked"):
        _apply_prompt(data, entry, is_on_disk)
    for source, name in _LAST.items():
        if isinstance(value := entry.get(source), str):
            data[name] = value
    if entry.get("type") == "tag":
        tag = entry.get("tag")
        if isinstance(tag, str) and tag:
            data["tag"] = tag
        else:
            data.pop("tag", None)


def _apply_prompt(data: JSONObject, entry: Mapping[str, object], is_on_disk: bool) -> None:
    """Record the first prompt typed by a person and, as a fallback, the first command."""
    if entry.get("type") != "user" or entry.get("isMeta") is True or entry.get("isCompactSummary") is True:
        return
    for text in _extract_texts(entry):
        line = " ".join(text.split()) if is_on_disk else text.replace("\n", " ").strip()
        if not line:
            continue
        if command := _COMMAND.search(line):
            data["command_fallback"] = data.get("command_fallback") or command[1]
        elif not (_NOT_TYPED_ON_DISK if is_on_disk else _NOT_TYPED).match(line):
            data["first_prompt"] = line if len(line) <= _MOST_CHARS else line[:_MOST_CHARS].rstrip() + "…"
            data["first_prompt_locked"] = True
            return


def _extract_texts(entry: JSONMapping) -> list[str]:
    content, blocks = get_message(entry).get("content"), get_blocks(entry)
    if isinstance(content, str):
        return [content]
    if any(block.get("type") == "tool_result" for block in blocks):
        return []
    return [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]
