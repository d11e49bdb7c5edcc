"""Find the conversation among the lines of a transcript.

Entries name their parents, and the last one leads back to the first. So the file is read backwards from the newest
message. Entries off that path belong to abandoned branches (a rewind, a resumption at an earlier message), to subagents
of early versions of the CLI, or to compacted parts. It ends at the last compaction, whose summary replaces what came
before, or continues through it. Only the offsets of messages are kept: 8 bytes each.

Measured with CLI 2.1.328. An answer with several tool calls is written as one entry per call, each the parent of the
next; each result has its own call as parent, and the next prompt has only one of the results. So the other calls and
results of an answer on the path belong to the conversation, too. Messages that a compaction keeps are not written
again: it lists their uuids, and the entries after it may continue either its summary or the last one kept.
"""

from array import array
from dataclasses import dataclass, field
from typing import Final

from msgspec import UNSET

from claude_agent_py.sessions.entries import Entry, read_entry
from claude_agent_py.sessions.lines import DamagedLine, Snapshot

MOST_DAMAGE: Final = 1000
"""The maximum number of damaged lines to report."""
_MOST_GAPS: Final = 100
"""The maximum number of missing parents to bridge; each costs another pass over the file."""
_MOST_ASIDE: Final = 20_000
"""The maximum number of entries off the path to remember until the answer they belong to is found."""
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
        is_subagent: The transcript is a subagent's. All of its entries are marked as sidechain entries.

    Raises:
        OSError: The file cannot be read.
    """
    damage: dict[int, str] = {}
    gaps: set[str] = set()
    while True:
        walk = _Walk(whole, is_subagent, gaps)
        for offset, line in snapshot.backwards():
            entry = None
            try:
                entry = read_entry(line) if line else None
            except ValueError as error:
                is_half = offset + len(line or b"") >= snapshot.size
                damage[offset] = "not complete (yet)" if is_half else f"not an entry: {error}"
            if line is None:
                damage[offset] = "longer than any line of the CLI"
            if entry is not None and walk.is_over(entry, offset, line or b""):
                break
        missing = walk.missing
        if missing is None or missing in gaps or len(gaps) >= _MOST_GAPS:
            break
        gaps.add(missing)
    walk.finish()
    damage |= dict.fromkeys(walk.bridged, "its parent is missing; continued with the entry before it")
    return Chain(walk.kept, [DamagedLine(*line) for line in sorted(damage.items())[:MOST_DAMAGE]])


class _Walk:
    """The path back from the newest message. `kept` is in reverse order."""

    def __init__(self, whole: bool, is_subagent: bool, gaps: set[str]) -> None:
        self.kept: array[int] = array("Q")
        self.bridged: list[int] = []
        """The entries whose parents are missing."""
        self._last = 0
        self._uuid: str | None = None
        """The last entry on the path, which may have been written twice."""
        self._whole = whole
        self._is_subagent = is_subagent
        self._gaps = gaps
        self._has_begun = self._is_rewound = False
        self._wanted: str | None = None
        """The uuid of the next entry on the path."""
        self._aside = _Aside()
        self._answer: str | None = None
        """The id of the last answer on the path."""
        self._first = self._low = 0
        """Its blocks are `kept[_first:]`, its results `kept[_low:_first]`."""
        self._results = 0
        """How many tool results were kept last."""
        self._summary: tuple[str, int] | None = None
        """The uuid of the summary that was last kept, and its index."""
        self._summaries: dict[str, int] = {}
        """The offsets of summaries off the path."""
        self._to_keep: set[str] | None = None
        """Messages that a compaction kept and that have not been found yet."""
        self._after: list[int] = []
        """The summary, which comes before the kept messages."""

    @property
    def missing(self) -> str | None:
        """The entry that was missing when the beginning of the file was reached."""
        return self._wanted if self._to_keep is None else None

    def is_over(self, entry: Entry, offset: int, line: bytes) -> bool:
        """Process the next entry, and return whether it was the last."""
        if not entry.is_linked:
            self._note(entry)
            return False
        if bool(entry.is_sidechain) is not self._is_subagent:
            return False
        if self._to_keep is not None:
            return self._keep_listed(entry, offset)
        if not self._has_begun:
            if self._wanted is None and not entry.is_message:
                return False
            if self._wanted is not None and entry.uuid != self._wanted:
                return False
            self._has_begun = True
        elif entry.uuid != self._wanted:
            if self._wanted not in self._gaps:
                return self._pass_by(entry, offset, line)
            self.bridged.append(self._last)
        self._last, self._uuid = offset, entry.uuid
        self._step(entry, offset, line)
        if entry.subtype == _BOUNDARY and self._compacted(entry):
            return False
        self._wanted = entry.parent_uuid or (entry.logical_parent_uuid if self._whole else None)
        return self._wanted is None

    def _note(self, entry: Entry) -> None:
        """A rewind that is not followed by a prompt leaves a note of the conversation's current message.

        The last note counts.
        """
        if self._has_begun or self._is_rewound or not entry.explicit or entry.leaf_uuid is UNSET:
            return
        self._is_rewound = True
        if isinstance(entry.leaf_uuid, str) and entry.leaf_uuid not in self._gaps:
            self._wanted = entry.leaf_uuid

    def _step(self, entry: Entry, offset: int, line: bytes) -> None:
        """Keep an entry on the path, with the rest of its answer."""
        if not entry.is_shown:
            return
        if entry.type == "assistant":
            self._keep_block(entry, offset)
            return
        if entry.is_compact_summary and entry.uuid:
            self._summary = entry.uuid, len(self.kept)
        self._answer = None
        self._results = self._results + 1 if b'"tool_result"' in line else 0
        self.kept.append(offset)

    def _keep_block(self, entry: Entry, offset: int) -> None:
        """Keep a block of an answer, with the blocks and results off the path that continue it."""
        answer = entry.message.id if entry.message else None
        is_last = answer is None or answer != self._answer
        if is_last:
            self._answer = answer
            self._first = len(self.kept)
            self._low = self._first - self._results
        blocks, results = self._aside.take(entry.uuid or "", answer if is_last else None)
        self.kept.extend(blocks)
        self.kept.append(offset)
        for result in results:
            self._insert_result(result)
        self._results = 0

    def _insert_result(self, offset: int) -> None:
        """Put a result after the blocks of its answer, among the other results in the order of the file."""
        place = self._first
        while place > self._low and self.kept[place - 1] < offset:
            place -= 1
        self.kept.insert(place, offset)
        self._first += 1

    def _pass_by(self, entry: Entry, offset: int, line: bytes) -> bool:
        """Process an entry off the path; return whether the path ends here."""
        if entry.subtype == _BOUNDARY:
            kept = entry.compact_metadata.preserved_messages if entry.compact_metadata else None
            if kept is not None and self._wanted in kept.uuids:
                return self._continue_kept(kept.anchor_uuid, kept.uuids)
        elif entry.is_compact_summary and entry.uuid:
            self._summaries[entry.uuid] = offset
        elif entry.is_shown and entry.parent_uuid and entry.uuid and entry.uuid != self._uuid:
            answer = entry.message.id if entry.message and entry.type == "assistant" else None
            if answer is not None or b'"tool_result"' in line:
                self._aside.add(entry.parent_uuid, offset, entry.uuid, answer)
        return False

    # Compactions that kept messages

    def _compacted(self, entry: Entry) -> bool:
        """Process the end of a compacted part on the path; return whether it kept messages."""
        kept = entry.compact_metadata.preserved_messages if entry.compact_metadata else None
        if kept is None or not kept.uuids or self._whole:
            return False
        if self._summary is not None and self._summary[0] == kept.anchor_uuid:
            self._after = list(self.kept[self._summary[1] :])
            del self.kept[self._summary[1] :]
        self._to_keep = set(kept.uuids)
        return True

    def _continue_kept(self, anchor: str | None, uuids: list[str]) -> bool:
        """The path leads past the summary to a message that the compaction kept."""
        summary = self._summaries.get(anchor or "")
        if self._whole:
            if summary is not None:
                self.kept.append(summary)
            return False
        self._after = [] if summary is None else [summary]
        self._to_keep = set(uuids)
        return False

    def _keep_listed(self, entry: Entry, offset: int) -> bool:
        assert self._to_keep is not None  # noqa: S101 - the caller checked
        if entry.uuid in self._to_keep:
            self._to_keep.discard(entry.uuid)
            if entry.is_shown:
                self.kept.append(offset)
        return not self._to_keep

    def finish(self) -> None:
        """Put the messages in order."""
        self.kept.extend(self._after)
        self.kept.reverse()


class _Aside:
    """Entries off the path that may continue an answer on it: its other blocks, and the results of its calls."""

    def __init__(self) -> None:
        self._by_parent: dict[str, list[tuple[int, str, str | None]]] = {}
        """The offset, the uuid and the answer of each; None for a result. The newest come first."""

    def add(self, parent: str, offset: int, uuid: str, answer: str | None) -> None:
        known = self._by_parent.setdefault(parent, [])
        if not any(own == uuid for _, own, _ in known):
            known.append((offset, uuid, answer))
        while len(self._by_parent) > _MOST_ASIDE:
            self._by_parent.pop(next(iter(self._by_parent)))  # read first, so farthest from here

    def take(self, uuid: str, answer: str | None) -> tuple[list[int], list[int]]:
        """Remove and return the blocks of an answer that continue an entry, and their results, last first."""
        blocks: list[int] = []
        results: list[int] = []
        parents = [uuid]
        while parents:
            for offset, own, of in self._by_parent.pop(parents.pop(), ()):
                if of is None:
                    results.append(offset)
                elif of == answer:
                    blocks.append(offset)
                    parents.append(own)
        return sorted(blocks, reverse=True), results
