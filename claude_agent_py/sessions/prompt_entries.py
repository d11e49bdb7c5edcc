"""Which entries of a transcript are prompts."""

from collections.abc import Mapping
from typing import Final

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.wire.base import INTERRUPTED

LOCAL_COMMANDS: Final = ("<local-command-", "<bash-")
"""The first characters of entries about a command that the CLI ran itself."""


def is_prompt(entry: JSONMapping) -> bool:
    """Return whether an entry is a prompt or a command of the user (CLI 2.1.332).

    The CLI writes user entries of its own: results of tools, its text to continue a turn, notes about interruptions,
    finished tasks and local commands, and the summary of a compaction. An entry of a command has no `promptSource`.
    """
    source, origin = entry.get("promptSource"), entry.get("origin")
    is_from_user = not isinstance(origin, Mapping) or origin.get("kind", "human") == "human"
    if entry.get("type") != "user" or entry.get("isMeta") or not is_from_user:
        return False
    if source is not None or entry.get("isCompactSummary"):
        return source not in (None, "system")
    content, blocks = get_message(entry).get("content"), get_blocks(entry)
    if any(block.get("type") == "tool_result" for block in blocks):
        return False
    text = content if isinstance(content, str) else next((str(block.get("text")) for block in blocks), "")
    return bool(text) and not text.startswith((INTERRUPTED, *LOCAL_COMMANDS))


def list_merged(entry: JSONMapping) -> list[str]:
    """Return the uuids of the earlier prompts that the CLI sent to the model with a prompt, as one (CLI 2.1.332).

    Their texts are at the beginning of its text.
    """
    found = entry.get("mergedSendUuids")
    return [uuid for uuid in found if isinstance(uuid, str)] if isinstance(found, list) else []


def get_message(entry: JSONMapping) -> JSONMapping:
    """Return the message in an entry; an empty one if it has none."""
    message = entry.get("message")
    return message if isinstance(message, Mapping) else {}


def get_blocks(entry: JSONMapping) -> list[JSONMapping]:
    """Return the content blocks of a user entry; none of a text, or of another entry."""
    content = get_message(entry).get("content") if entry["type"] == "user" else None
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
