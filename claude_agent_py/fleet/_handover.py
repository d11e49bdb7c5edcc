"""Handover between processes: finds a prompt that an earlier process may have sent, and its answer, in the store."""

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
"""Stop reasons of the last message of a successful turn."""


class PromptStatus(NamedTuple):
    """The state of a prompt in the stored conversation."""

    exists: bool
    """Whether the conversation has messages."""
    has_prompt: bool
    answer: str | None
    """The last answer to the prompt; None while its turn has not ended."""


async def find_prompt(store: SessionStore, session: str, prompt: str) -> PromptStatus:
    """Find a prompt in the store. Errors of the store propagate."""
    return read_prompt_status(await store.load(store_key(session)) or (), prompt)


async def import_local_session(store: SessionStore, session: str, options: ClientOptions[Any]) -> None:
    """Add entries to the store that only this machine has; nothing if it has no files of the session."""
    if options.home is True:
        return
    folder = config_directory(environment(options, os.environ))
    with contextlib.suppress(SessionNotFoundError):
        await import_session(store, session, config_dir=folder, project_key=PROJECT)


def read_prompt_status(entries: Sequence[Mapping[str, Any]], prompt: str) -> PromptStatus:
    """Return the state of a prompt in the entries of a transcript."""
    messages = [
        entry for entry in entries if entry.get("type") in ("user", "assistant") and not entry.get("isSidechain")
    ]
    at = next((i for i, entry in enumerate(messages) if entry["type"] == "user" and entry.get("uuid") == prompt), None)
    if at is None:
        return PromptStatus(exists=bool(messages), has_prompt=False, answer=None)
    after = messages[at + 1 :]
    answer = _find_answer(after) if after and _ends_turn(after[-1]) else None
    return PromptStatus(exists=True, has_prompt=True, answer=answer)


def _ends_turn(entry: Mapping[str, Any]) -> bool:
    message = entry.get("message") or {}
    is_last = message.get("stop_reason") in ENDINGS and not entry.get("isApiErrorMessage")
    return entry["type"] == "assistant" and is_last and not _select_blocks(message, "tool_use")


def _find_answer(entries: Sequence[Mapping[str, Any]]) -> str:
    texts = (
        "".join(str(block.get("text", "")) for block in _select_blocks(entry.get("message") or {}, "text"))
        for entry in reversed(entries)
        if entry["type"] == "assistant"
    )
    return next(filter(None, texts), "")


def _select_blocks(message: Mapping[str, Any], kind: Literal["text", "tool_use"]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return [block for block in blocks if isinstance(block, Mapping) and block.get("type") == kind]
