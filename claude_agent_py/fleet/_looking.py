"""Look into a session store: what became of a prompt that an earlier process may have sent."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from claude_agent_py._errors import SessionNotFoundError
from claude_agent_py._launch.environment import config_directory, environment
from claude_agent_py.fleet._store import PROJECT, store_key
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.sessions.stores.copies import import_session
from claude_agent_py.sessions.stores.protocol import SessionStore

ENDINGS: frozenset[str] = frozenset({"end_turn", "stop_sequence"})
"""Why the model stops at the end of a turn that succeeded."""


class Found(NamedTuple):
    """What is known of a conversation and a prompt."""

    exists: bool
    """Whether there is such a conversation."""
    has_prompt: bool
    answer: str | None
    """The last answer to the prompt, if its turn is over; otherwise None."""


async def look(store: SessionStore, session: str, prompt: str) -> Found:
    """Look for a prompt in the store. Raises what the store raises."""
    return judge(await store.load(store_key(session)) or (), prompt)


async def bring(store: SessionStore, session: str, options: ClientOptions[Any]) -> None:
    """Bring a session to the store that only this machine has, if it has it."""
    if options.home is True:
        return
    folder = config_directory(environment(options, os.environ))
    with contextlib.suppress(SessionNotFoundError):
        await import_session(store, session, config_dir=folder, project_key=PROJECT)


def judge(entries: Sequence[Mapping[str, Any]], prompt: str) -> Found:
    """Return what the entries of a transcript tell of a prompt."""
    said = [entry for entry in entries if entry.get("type") in ("user", "assistant") and not entry.get("isSidechain")]
    at = next((i for i, entry in enumerate(said) if entry["type"] == "user" and entry.get("uuid") == prompt), None)
    if at is None:
        return Found(bool(said), False, None)
    after = said[at + 1 :]
    return Found(True, True, _answer(after) if after and _is_end(after[-1]) else None)


def _is_end(entry: Mapping[str, Any]) -> bool:
    message = entry.get("message") or {}
    is_last = message.get("stop_reason") in ENDINGS and not entry.get("isApiErrorMessage")
    return entry["type"] == "assistant" and is_last and not _blocks(message, "tool_use")


def _answer(entries: Sequence[Mapping[str, Any]]) -> str:
    texts = (
        "".join(str(block.get("text", "")) for block in _blocks(entry.get("message") or {}, "text"))
        for entry in reversed(entries)
        if entry["type"] == "assistant"
    )
    return next(filter(None, texts), "")


def _blocks(message: Mapping[str, Any], kind: Literal["text", "tool_use"]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return [block for block in blocks if isinstance(block, Mapping) and block.get("type") == kind]
