"""Read the CLI's to-do list from its files: one JSON object for each item, `<config dir>/tasks/<list id>/<id>.json`.

The files are never written, because the CLI locks the list. All calls block. Measured with CLI 2.1.328: the list's id
is the session's unless `CLAUDE_CODE_TASK_LIST_ID` is set, other characters than `[A-Za-z0-9_-]` become hyphens, and
deleting an item deletes its file.
"""

import os
import re
from typing import Final, TypeVar

from claude_agent_py._base.bounded_reading import read_bytes, read_json
from claude_agent_py.wire.fitting import fit
from claude_agent_py.wire.tools.task_list import TaskDetails

_NOT_IN_NAME: Final = r"[^A-Za-z0-9_-]"
_ITEM_FILE: Final = r"(?P<id>[A-Za-z0-9_-]+)\.json"
_MAX_ITEM_BYTES: Final = 16 * 1024 * 1024
_MAX_LIST_BYTES: Final = 64 * 1024 * 1024
_MAX_ITEMS: Final = 10_000

ItemT = TypeVar("ItemT", bound=TaskDetails)


def get_directory(config_dir: str, list_id: str) -> str:
    """Return the directory of a list."""
    return os.path.join(config_dir, "tasks", re.sub(_NOT_IN_NAME, "-", list_id))


def read_items(directory: str, model: type[ItemT]) -> tuple[dict[str, ItemT], set[str]]:
    """Return the items of a list by id, and the ids of the items whose files cannot be read."""
    items: dict[str, ItemT] = {}
    unreadable: set[str] = set()
    room = _MAX_LIST_BYTES
    for item_id in _list_item_ids(directory):
        try:
            data, size = read_bytes(os.path.join(directory, f"{item_id}.json"), most_bytes=min(room, _MAX_ITEM_BYTES))
            room -= size
            item, _ = fit(model, read_json(data))
        except (OSError, ValueError):
            # The CLI is writing the file, another version wrote it, or it exceeds the limit.
            unreadable.add(item_id)
        else:
            items[item.id] = item
    return items, unreadable


def _list_item_ids(directory: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except (OSError, ValueError):
        # The CLI has not created the directory yet.
        return []
    return [found["id"] for name in sorted(names) if (found := re.fullmatch(_ITEM_FILE, name))][:_MAX_ITEMS]
