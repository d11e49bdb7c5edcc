"""Find the conversation among the lines of a transcript.

One line is one entry. `user`, `assistant`, `system` and `attachment` entries form the conversation: each has a uuid and
names its parent. All other entries are notes of the CLI (title, tag, cost, the requests that it sent, ...). Each entry
of a model's answer holds one content block; all entries of one answer share their `message.id`.

Entries name their parents, and the last one leads back to the first. So the file is read backwards from the newest
message. Entries off that path belong to abandoned branches (a rewind, a resumption at an earlier message), to subagents
of early versions of the CLI, or to compacted parts. It ends at the last compaction, whose summary replaces what came
before, or continues through it. Only the offsets of messages are kept: 8 bytes each.

Measured with CLI 2.1.328. An answer with several tool calls is written as one entry per call, each the parent of the
next; each result has its own call as parent, and the next prompt has only one of the results. A call that is written
after the result of an earlier one may have that result as parent. So the other calls and results of an answer on the
path also belong to the conversation. A compaction does not write the messages that it
preserves again: it lists their uuids, and the entries after it may continue either its summary or the last preserved
message.
"""

from array import array
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from claude_agent_py._base.bounded_reading import read_json
from claude_agent_py.sessions.lines import DamagedLine, Snapshot
from claude_agent_py.wire.fitting import fit

LINKED: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
"""The types of the entries that form the conversation. Early versions of the CLI wrote `progress`."""
_READ: Final = frozenset(kind.encode() for kind in (*LINKED, "last-prompt"))
_NOTE: Final = b'{"type":"'


class MessageId(msgspec.Struct, gc=False):
    """The part of a message that identifies its answer."""

    id: str | None = None


class KeptMessages(msgspec.Struct, rename="camel", gc=False):
    """The messages that a compaction kept unchanged."""

    anchor_uuid: str | None = None
    uuids: list[str] = []


class Compaction(msgspec.Struct, rename="camel", gc=False):
    """The effect of a compaction."""

    preserved_messages: KeptMessages | None = None


class EntryLinks(msgspec.Struct, rename="camel", gc=False):
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


_decode: Final = msgspec.json.Decoder(EntryLinks).decode


def read_entry(line: bytes) -> EntryLinks | None:
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
        if line[:1] == b"\0":
            return read_entry(line.lstrip(b"\0"))
        if b"\\u" not in line:
            raise
        return _read_carefully(line)  # it may have lone surrogates, which JavaScript reads and writes


def _read_carefully(line: bytes) -> EntryLinks:
    """Read an entry, dropping fields of unexpected types."""
    value = read_json(line)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return fit(EntryLinks, value, may_drop=lambda place: True)[0]


MOST_DAMAGE: Final = 1000
"""The maximum number of damaged lines to report."""
_MOST_GAPS: Final = 100
"""The maximum number of missing parents to skip; each costs another pass over the file."""
_MOST_SIDE_ENTRIES: Final = 20_000
"""The maximum number of entries off the path to remember until their answer is found."""
_BOUNDARY: Final = "compact_boundary"


@dataclass(slots=True)
class Chain:
    """The messages of a conversation, as offsets of their lines, in order."""

    offsets: "array[int]"
    damage: list[DamagedLine] = field(default_factory=list)


def find_chain(snapshot: Snapshot, *, whole: bool = False, is_subagent: bool = False) -> Chain:
    """Find the conversation in a transcript.

    Args:
        snapshot: The transcript.
        whole: Continue through compactions, to the first message.
        is_subagent: The transcript is a subagent's. The CLI marks all of its entries as sidechain entries; other
            programs may leave the mark out.

    Raises:
        OSError: The file cannot be read.
    """
    damage: dict[int, str] = {}
    gaps: set[str] = set()
    while True:
        traversal = _Traversal(whole, is_subagent, gaps)
        for offset, line in snapshot.backwards():
            entry = None
            try:
                entry = read_entry(line) if line else None
            except ValueError as error:
                is_half = offset + len(line or b"") >= snapshot.size
                damage[offset] = "not complete (yet)" if is_half else f"not an entry: {error}"
            if line is None:
                damage[offset] = "longer than any line of the CLI"
            if entry is not None and traversal.feed(entry, offset, line or b""):
                break
        missing = traversal.missing
        if missing is None or missing in gaps or len(gaps) >= _MOST_GAPS:
            break
        gaps.add(missing)
    traversal.finish()
    damage |= dict.fromkeys(traversal.gap_filled, "the parent is missing; continued with the previous entry")
    return Chain(traversal.kept, [DamagedLine(*line) for line in sorted(damage.items())[:MOST_DAMAGE]])


class _Traversal:
    """The path back from the newest message. `kept` is in reverse order."""

    def __init__(self, whole: bool, is_subagent: bool, gaps: set[str]) -> None:
        self.kept: array[int] = array("Q")
        self.gap_filled: list[int] = []
        """The entries whose parents are missing."""
        self._last = 0
        self._uuid: str | None = None
        """The last entry on the path. The CLI may have written it twice."""
        self._whole = whole
        self._is_subagent = is_subagent
        self._gaps = gaps
        self._has_begun = False
        self._is_rewound = False
        self._wanted: str | None = None
        """The uuid of the next entry on the path."""
        self._side_entries = _SideEntries()
        self._answer: str | None = None
        """The id of the last answer on the path."""
        self._first = 0
        self._low = 0
        """The blocks of the last answer are `kept[_first:]`, the results of its calls `kept[_low:_first]`."""
        self._results: list[str] = []
        """The uuids of the consecutive tool results at the end of `kept`."""
        self._summary: tuple[str, int] | None = None
        """The uuid of the last summary on the path, and its index in `kept`."""
        self._summaries: dict[str, int] = {}
        """The offsets of summaries off the path."""
        self._to_preserve: set[str] | None = None
        """The messages preserved by a compaction that have not been found yet; None before such a compaction."""
        self._after_preserved: list[int] = []
        """The summary, which precedes the preserved messages."""

    @property
    def missing(self) -> str | None:
        """The uuid that was still wanted at the beginning of the file."""
        return self._wanted if self._to_preserve is None else None

    def feed(self, entry: EntryLinks, offset: int, line: bytes) -> bool:
        """Process the next entry. Return True after the first entry of the conversation."""
        if not entry.is_linked:
            self._apply_rewind(entry)
            return False
        # Early versions of the CLI wrote the entries of subagents into the main transcript.
        if entry.is_sidechain is not None and entry.is_sidechain is not self._is_subagent:
            return False
        if self._to_preserve is not None:
            self._collect_preserved(entry, offset, self._to_preserve)
            return not self._to_preserve
        if not self._has_begun:
            if not self._is_start(entry):
                return False
            self._has_begun = True
        elif entry.uuid != self._wanted:
            if self._wanted not in self._gaps:
                self._handle_off_path(entry, offset, line)
                return False
            # An earlier pass did not find the wanted parent, so continue with the previous entry of the file.
            self.gap_filled.append(self._last)
        self._last = offset
        self._uuid = entry.uuid
        self._keep_entry(entry, offset, line)
        if entry.subtype == _BOUNDARY and not self._whole:
            preserved = _read_preserved(entry)
            if preserved is not None and preserved.uuids:
                self._start_preserved(preserved)
                return False
        self._wanted = entry.parent_uuid or (entry.logical_parent_uuid if self._whole else None)
        return self._wanted is None

    def _is_start(self, entry: EntryLinks) -> bool:
        """Return whether the path starts at an entry: the newest message, unless a rewind named another one."""
        return entry.is_message if self._wanted is None else entry.uuid == self._wanted

    def _apply_rewind(self, entry: EntryLinks) -> None:
        """Start at the message that a rewind made the current one.

        A rewind that is not followed by a prompt leaves a note with the uuid of that message. The last note counts.
        """
        if self._has_begun or self._is_rewound or not entry.explicit or entry.leaf_uuid is UNSET:
            return
        self._is_rewound = True
        if isinstance(entry.leaf_uuid, str) and entry.leaf_uuid not in self._gaps:
            self._wanted = entry.leaf_uuid

    def _keep_entry(self, entry: EntryLinks, offset: int, line: bytes) -> None:
        """Keep an entry on the path, with the rest of its answer."""
        if not entry.is_shown:
            return
        if entry.type == "assistant":
            self._keep_block(entry, offset)
            return
        if entry.is_compact_summary and entry.uuid:
            self._summary = entry.uuid, len(self.kept)
        self._answer = None
        if b'"tool_result"' in line:
            self._results.append(entry.uuid or "")
        else:
            self._results = []
        self.kept.append(offset)

    def _keep_block(self, entry: EntryLinks, offset: int) -> None:
        """Keep a block of an answer, with the blocks and results off the path that continue it."""
        answer = entry.message.id if entry.message else None
        if answer is None or answer != self._answer:
            self._answer = answer
            self._first = len(self.kept)
            self._low = self._first - len(self._results)
        blocks, results = self._side_entries.take([entry.uuid or "", *self._results], answer)
        for block in (offset, *blocks):
            self._insert(block, self._first, len(self.kept))
        for result in results:
            self._insert(result, self._low, self._first)
            self._first += 1
        self._results = []

    def _insert(self, offset: int, low: int, high: int) -> None:
        """Put a block or a result of an answer among the others, in the order of the file."""
        place = high
        while place > low and self.kept[place - 1] < offset:
            place -= 1
        self.kept.insert(place, offset)

    def _handle_off_path(self, entry: EntryLinks, offset: int, line: bytes) -> None:
        """Remember an entry off the path that may still belong to the conversation."""
        if entry.subtype == _BOUNDARY:
            preserved = _read_preserved(entry)
            if preserved is not None and self._wanted in preserved.uuids:
                self._continue_preserved(preserved)
        elif entry.is_compact_summary and entry.uuid:
            self._summaries[entry.uuid] = offset
        elif entry.is_shown and entry.parent_uuid and entry.uuid and entry.uuid != self._uuid:
            answer = entry.message.id if entry.message and entry.type == "assistant" else None
            if answer is not None or b'"tool_result"' in line:
                self._side_entries.add(entry.parent_uuid, offset, entry.uuid, answer)

    # Compactions that preserved messages

    def _start_preserved(self, preserved: KeptMessages) -> None:
        """Collect the messages that a compaction on the path preserved."""
        if self._summary is not None and self._summary[0] == preserved.anchor_uuid:
            self._after_preserved = list(self.kept[self._summary[1] :])
            del self.kept[self._summary[1] :]
        self._to_preserve = set(preserved.uuids)

    def _continue_preserved(self, preserved: KeptMessages) -> None:
        """Collect the preserved messages when the path bypasses the summary and leads to one of them."""
        summary = self._summaries.get(preserved.anchor_uuid or "")
        if self._whole:
            if summary is not None:
                self.kept.append(summary)
            return
        self._after_preserved = [] if summary is None else [summary]
        self._to_preserve = set(preserved.uuids)

    def _collect_preserved(self, entry: EntryLinks, offset: int, left: set[str]) -> None:
        if entry.uuid in left:
            left.discard(entry.uuid)
            if entry.is_shown:
                self.kept.append(offset)

    def finish(self) -> None:
        """Put the messages in order."""
        self.kept.extend(self._after_preserved)
        self.kept.reverse()


def _read_preserved(entry: EntryLinks) -> KeptMessages | None:
    return entry.compact_metadata.preserved_messages if entry.compact_metadata else None


class _SideEntries:
    """Entries off the path that may continue an answer on it: its other blocks, and the results of its calls."""

    def __init__(self) -> None:
        self._by_parent: dict[str, list[tuple[int, str, str | None]]] = {}
        """The offset, the uuid and the answer of each; None for a result. The newest come first."""

    def add(self, parent: str, offset: int, uuid: str, answer: str | None) -> None:
        known = self._by_parent.setdefault(parent, [])
        if not any(own == uuid for _, own, _ in known):
            known.append((offset, uuid, answer))
        while len(self._by_parent) > _MOST_SIDE_ENTRIES:
            # The file is read backwards, so the first one added is the farthest away.
            self._by_parent.pop(next(iter(self._by_parent)))

    def take(self, parents: list[str], answer: str | None) -> tuple[list[int], list[int]]:
        """Remove and return the blocks of an answer that continue these entries, and their results."""
        blocks: list[int] = []
        results: list[int] = []
        while parents:
            children = self._by_parent.pop(parents.pop(), ())
            for offset, child_uuid, child_answer in children:
                if child_answer is None:
                    results.append(offset)
                elif child_answer == answer:
                    blocks.append(offset)
                else:
                    continue
                parents.append(child_uuid)
        return blocks, results
