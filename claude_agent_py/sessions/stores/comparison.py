"""`Comparison`: which entries does a transcript lack, and does another one continue its conversation."""

from collections import Counter
from pathlib import PurePath
from typing import Final, cast

from claude_agent_py.sessions.folders import id_in_file_name
from claude_agent_py.sessions.stores.base import encode_entry, read_uuid
from claude_agent_py.sessions.stores.cli_folder import METADATA, SUFFIX
from claude_agent_py.sessions.stores.protocol import Place, SessionStoreEntry
from claude_agent_py.wire.base import JSONObject

TIP: Final = "last-prompt"
"""The type of the entry that can name the current message of the conversation."""


def parse_place(path: str, project: str) -> Place | None:
    """Return the place of a transcript file in a project of the store, or None for other files.

    A transcript is `<config>/projects/<any>/<session>.jsonl` or `.../<session>/<subpath>.jsonl`.
    """
    parts = PurePath(path).parts
    for start in range(len(parts) - 3, -1, -1):
        if parts[start] != "projects" or not path.endswith(SUFFIX):
            continue
        below = parts[start + 2 :]
        session = id_in_file_name(below[0] if len(below) == 1 else below[0] + SUFFIX)
        if session is not None:
            return Place(project, session, "/".join(below[1:]).removesuffix(SUFFIX))
    return None


class Comparison:
    """What a stored transcript has, as far as it tells what another one has beyond it.

    Keeps the uuids of its entries, the texts of those without one, and what names its current message.
    """

    def __init__(self) -> None:
        self._uuids: set[str] = set()
        self._notes: Counter[str] = Counter()
        self._described: SessionStoreEntry | None = None
        """The last description of the subagent, and below the other transcript's."""
        self._description: SessionStoreEntry | None = None
        self._tip: str | None = None
        """The conversation's current message; None if there are no messages."""
        self._newest: list[str] = []
        """The uuids of that message and of the entries after it, for example attachments."""
        self._last_prompt: object = None

    @property
    def is_empty(self) -> bool:
        """Whether the stored transcript has no messages."""
        return not self._uuids

    def add(self, stored: list[SessionStoreEntry]) -> None:
        """Add the next entries of the stored transcript. Raises StoreError if one is not JSON."""
        for entry in stored:
            uuid = read_uuid(entry)
            fields = cast("JSONObject", entry)
            if uuid is None:
                self._notes[encode_entry(entry, sort_keys=True)] += 1
            else:
                self._uuids.add(uuid)
            if entry["type"] == METADATA:
                self._described = entry
            if entry["type"] == TIP:
                self._last_prompt = fields.get("lastPrompt")
            if entry["type"] == TIP and fields.get("explicit") is True and isinstance(fields.get("leafUuid"), str):
                self._tip = fields["leafUuid"]
                self._newest = [fields["leafUuid"]]
            elif uuid is not None and entry["type"] in ("user", "assistant"):
                self._tip = None if fields.get("isSidechain") is True else uuid
                self._newest = [uuid]
            elif uuid is not None:
                self._newest.append(uuid)

    def find_missing(self, entries: list[SessionStoreEntry]) -> list[SessionStoreEntry]:
        """Return those of the next entries of the other transcript that the stored one lacks.

        Each stored entry without a uuid matches one entry with the same content. For descriptions of a subagent, see
        `missing_description`.

        Raises:
            StoreError: An entry is not JSON.
        """
        missing = []
        for entry in entries:
            uuid = read_uuid(entry)
            if uuid is not None:
                is_known = uuid in self._uuids
            elif entry["type"] == METADATA:
                self._description, is_known = entry, True
            else:
                text = encode_entry(entry, sort_keys=True)
                is_known = self._notes[text] > 0
                self._notes[text] -= is_known
            if not is_known:
                missing.append(entry)
        return missing

    @property
    def missing_description(self) -> list[SessionStoreEntry]:
        """The description of the subagent, if the stored transcript's differs. The last one of each counts."""
        return [] if self._description is None or self._description == self._described else [self._description]

    def is_continued_by(self, entries: list[SessionStoreEntry]) -> bool:
        """Return whether one of these entries is the current message or continues it, or there is none."""
        return self._tip is None or any(map(self._continues, cast("list[JSONObject]", entries)))

    def _continues(self, entry: JSONObject) -> bool:
        parents = (entry.get("parentUuid"), entry.get("logicalParentUuid"))
        return entry.get("uuid") == self._tip or any(parent in self._newest for parent in parents)

    def build_tip(self, session: str) -> SessionStoreEntry:
        """Return a note that names the current message of the stored conversation."""
        note = {
            "type": TIP,
            "lastPrompt": self._last_prompt,
            "leafUuid": self._tip,
            "explicit": True,
            "sessionId": session,
        }
        return cast("SessionStoreEntry", {name: value for name, value in note.items() if value})
