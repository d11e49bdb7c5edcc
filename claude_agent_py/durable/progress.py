"""What became of a prompt in a stored conversation."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.sessions import LOCAL_COMMANDS, SessionStoreEntry, get_message, is_prompt
from claude_agent_py.wire import INTERRUPTED

Entry = JSONMapping

ENDINGS: Final = frozenset({"end_turn", "stop_sequence"})
"""Stop reasons of the last message of a turn."""
OUTPUT: Final = re.compile(r"<local-command-(stdout|stderr)>(?P<text>.*)</local-command-\1>", re.DOTALL)
"""What a command that the CLI ran itself has said."""


def next_uuid(uuid: str) -> str:
    """Return the uuid under which a prompt is sent again. It follows from the last one, so all calls send the same."""
    return str(uuid5(UUID(uuid), "again"))


class Progress(NamedTuple):
    """The state of a prompt in the stored conversation."""

    exists: bool
    """Whether the conversation has messages."""
    uuid: str
    """The uuid of the last attempt that the conversation has; otherwise the first."""
    unused_uuid: str
    """The uuid of the first attempt that the transcript does not have, not even in a branch that the conversation has
    left. The CLI (2.1.332) drops a prompt whose uuid it has read."""
    has_prompt: bool = False
    """Whether the conversation has the prompt."""
    is_over: bool = False
    """Whether the turn ended without an answer, because another prompt follows."""
    reached_max_turns: bool = False
    """Whether the turn ended because of the option `max_turns`."""
    was_interrupted: bool = False
    """Whether the turn was interrupted."""
    answer: str | None = None
    """The last answer to the prompt; None while its turn has not ended."""
    output: Any = None
    """The structured output of an answered prompt."""
    cut_off: frozenset[str] = frozenset()
    """The ids of the calls of tools without a result."""


def read_progress(entries: Sequence[SessionStoreEntry], prompt_id: str) -> Progress:
    """Return the state of a prompt in the entries of a transcript."""
    path = _find_path(entries)
    places = {str(entry.get("uuid")): at for at, entry in enumerate(path) if entry["type"] == "user"}
    known = {entry.get("uuid") for entry in entries}
    uuid = unused = prompt_id
    while unused in known:
        uuid = unused if unused in places else uuid
        unused = next_uuid(unused)
    if uuid not in places:
        return Progress(bool(path), uuid, unused)
    rest = path[places[uuid] + 1 :]
    turn = list(takewhile(lambda entry: not is_prompt(entry), rest))
    if turn and (said := OUTPUT.fullmatch(_read_text(turn[0]))):
        return Progress(True, uuid, unused, has_prompt=True, answer=said["text"].strip())
    after = _drop_notes(turn)
    calls, results = _list_calls(after, "tool_use", "id"), _list_calls(entries, "tool_result", "tool_use_id")
    found = Progress(True, uuid, unused, has_prompt=True, is_over=turn != rest, cut_off=frozenset(calls - results))
    if not after:
        return found
    last = after[-1]
    if last["type"] == "user" and (output := _find_output(last, after)) is not None:
        return found._replace(answer=json.dumps(output, separators=(",", ":")), output=output)
    if last["type"] == "user":
        is_full = turn == rest and _reached_max_turns(entries)
        return found._replace(was_interrupted=_read_text(last).startswith(INTERRUPTED), reached_max_turns=is_full)
    is_ending = get_message(last).get("stop_reason") in ENDINGS and not last.get("isApiErrorMessage")
    if not is_ending or select_blocks(last, "tool_use"):
        return found
    texts = (_read_text(entry) for entry in reversed(after) if entry["type"] == "assistant")
    return found._replace(answer=next(filter(None, texts), ""))


def read_noted_cost(entries: Sequence[JSONMapping]) -> float:
    """Return the cost in the last note of the CLI, in US dollars."""
    notes = (entry for entry in reversed(entries) if entry.get("type") == "cost-state")
    return float(next((note.get("totalCostUSD") for note in notes), None) or 0.0)


def _find_path(entries: Sequence[Any]) -> list[Entry]:
    """Return the messages of the main agent that lead to the current one. Other branches are left out."""
    linked: dict[str, Entry] = {}
    tip: str | None = None
    for entry in entries:
        if entry.get("type") == "last-prompt" and entry.get("explicit") is True:
            tip = entry.get("leafUuid")
        elif not entry.get("isSidechain") and isinstance(uuid := entry.get("uuid"), str):
            linked[uuid] = entry
            if _is_message(entry):
                tip = uuid
    path: list[Entry] = []
    while tip in linked:
        entry = linked.pop(tip)
        if _is_message(entry):
            path.append(entry)
        tip = entry.get("parentUuid") or entry.get("logicalParentUuid")
    return path[::-1]


def _is_message(entry: Entry) -> bool:
    """Return whether an entry is a message, or what the CLI wrote about a command that it ran itself."""
    return entry["type"] in ("user", "assistant") or entry.get("subtype") == "local_command"


def _drop_notes(turn: list[Entry]) -> list[Entry]:
    """Leave out what the CLI wrote after a turn about other commands, or when it compacted the conversation."""
    count = len(turn)
    while count and _is_note(turn[count - 1]):
        count -= 1
    return turn[:count]


def _is_note(entry: Entry) -> bool:
    is_about_command = entry["type"] == "system" or _read_text(entry).startswith(LOCAL_COMMANDS)
    return is_about_command or bool(entry.get("isCompactSummary"))


def _reached_max_turns(entries: Sequence[Any]) -> bool:
    """Return whether the CLI (2.1.332) noted after the last message that the turn had no turns left."""
    for entry in reversed(entries):
        if not entry.get("isSidechain") and entry.get("type") in ("user", "assistant"):
            return False
        if (entry.get("attachment") or {}).get("type") == "max_turns_reached":
            return True
    return False


def select_blocks(entry: Entry, kind: str) -> list[Entry]:
    """Return the content blocks of a kind, such as `tool_use`, in an entry."""
    content = get_message(entry).get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return [block for block in blocks if isinstance(block, Mapping) and block.get("type") == kind]


def _read_text(entry: Entry) -> str:
    if entry["type"] == "system":
        return str(entry.get("content") or "")
    return "".join(str(block.get("text") or "") for block in select_blocks(entry, "text"))


def _list_calls(entries: Sequence[Any], kind: str, name: str) -> set[str]:
    messages = (entry for entry in entries if not entry.get("isSidechain"))
    return {str(block.get(name)) for entry in messages for block in select_blocks(entry, kind)}


def _find_output(last: Entry, entries: Sequence[Entry]) -> Any:
    """Return the structured output that the last message accepts, which ends the turn; None if there is none."""
    accepted = {block.get("tool_use_id") for block in select_blocks(last, "tool_result") if not block.get("is_error")}
    calls = (block for entry in entries for block in select_blocks(entry, "tool_use"))
    given = (block for block in calls if block.get("name") == "StructuredOutput" and block.get("id") in accepted)
    return next((block.get("input") for block in given), None)
