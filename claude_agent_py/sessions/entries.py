"""The entries of a transcript and their links.

One line is one entry. `user`, `assistant`, `system` and `attachment` entries form the conversation: each has a uuid and
names its parent. All other entries are notes of the CLI (title, tag, cost, the requests that it sent, ...). Each entry
of a model's answer holds one content block; all entries of one answer share their `message.id`.
"""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from claude_agent_py._untrusted import read_json
from claude_agent_py.wire.fitting import fit

LINKED: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
"""The types of the entries that form the conversation. Early versions of the CLI wrote `progress`."""
_READ: Final = frozenset(kind.encode() for kind in (*LINKED, "last-prompt"))
_NOTE: Final = b'{"type":"'


class MessageId(msgspec.Struct, gc=False):
    """The part of a message that identifies its answer."""

    id: str | None = None


class PreservedMessages(msgspec.Struct, rename="camel", gc=False):
    """The messages that a compaction kept unchanged."""

    anchor_uuid: str | None = None
    uuids: list[str] = []


class Compaction(msgspec.Struct, rename="camel", gc=False):
    """The effect of a compaction."""

    preserved_messages: PreservedMessages | None = None


class Entry(msgspec.Struct, rename="camel", gc=False):
    """An entry's links to the rest of the conversation."""

    type: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    """At a compaction: the last message before it."""
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    team_name: str | None = None
    is_compact_summary: bool | None = None
    subtype: str | None = None
    message: MessageId | None = None
    compact_metadata: Compaction | None = None
    leaf_uuid: str | UnsetType | None = UNSET
    explicit: bool | None = None

    @property
    def is_linked(self) -> bool:
        """Whether the entry is part of a conversation."""
        return self.uuid is not None and self.type in LINKED

    @property
    def is_message(self) -> bool:
        """Whether the entry is a message of the user, the model or a tool."""
        return self.type == "user" or self.type == "assistant"

    @property
    def is_shown(self) -> bool:
        """Whether the entry is a message for people, not one for the model only or from a teammate."""
        return self.is_message and not self.is_meta and not self.team_name


_decode: Final = msgspec.json.Decoder(Entry).decode


def read_entry(line: bytes) -> Entry | None:
    """Return the entry in a line, or None for a note unrelated to the conversation.

    Raises:
        ValueError: The line is not a JSON object.
    """
    if line.startswith(_NOTE) and line[len(_NOTE) : line.find(b'"', len(_NOTE))] not in _READ:
        return None
    try:
        return _decode(line)
    except (msgspec.ValidationError, RecursionError):
        return _read_carefully(line)
    except msgspec.DecodeError:
        # A crash of the machine can leave a hole of zeros in the file.
        if line[:1] != b"\0":
            raise
        return read_entry(line.lstrip(b"\0"))


def _read_carefully(line: bytes) -> Entry:
    """Read an entry, dropping fields of unexpected types."""
    value = read_json(line)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return fit(Entry, value, may_drop=lambda place: True)[0]
