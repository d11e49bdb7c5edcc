"""The archive record of a session: `<session id>/archived.json` next to the transcript.

The CLI reads and writes the same record: a prompt to an archived session unarchives it. All calls block.
"""

import errno
import json
import os
from datetime import UTC, datetime
from typing import Final

from claude_agent_py._untrusted import read_bytes, read_json
from claude_agent_py.sessions.files import write_atomically

_NAME: Final = "archived.json"
_MOST_BYTES: Final = 4096


def is_archived(transcript: str) -> bool:
    """Return whether a session is archived."""
    try:
        record = read_json(read_bytes(_record_path(transcript), most_bytes=_MOST_BYTES)[0])
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("archived") is True


def set_archived(transcript: str, archived: bool) -> None:
    """Write the record. Raises OSError if the record cannot be written or the session's folder is a link."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    path = _record_path(transcript)
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.path.islink(folder):
        raise NotADirectoryError(errno.ENOTDIR, "the session's folder is a link", folder)
    write_atomically(path, [json.dumps({"archived": archived, "at": now, "by": "sdk"}).encode()], replace=True)


def _record_path(transcript: str) -> str:
    return os.path.join(transcript.removesuffix(".jsonl"), _NAME)
