"""The changes of a file that a tool call makes, as the lines of a diff."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from claude_agent_py._base.bounded_reading import read_bytes
from claude_agent_py._base.display import displayable

FILE_BYTES: Final = 1_000_000
"""Larger files are not compared. All lines of the new content are shown."""
COMPARED_LINES: Final = 4000
"""Longer texts are shown as removed and added, because comparing takes quadratic time."""
LINE_CHARS: Final = 400
SHOWN_LINES: Final = 400


def build_diff(tool_name: str, tool_input: Mapping[str, object]) -> list[str]:
    """Return the changes of an Edit, Write or NotebookEdit call; empty for other tools.

    Lines begin with `-`, `+`, a blank or `@@`, and contain no control characters. Reads the file on disk.
    """
    make = _DIFFS.get(tool_name)
    if make is None:
        return []
    lines = [displayable(line, LINE_CHARS).replace("\t", "    ").replace("\n", " ") for line in make(tool_input)]
    return shorten(lines, SHOWN_LINES)


def shorten(lines: Sequence[str], limit: int) -> list[str]:
    """Return the first `limit` lines, and a line with the number of omitted ones."""
    if len(lines) <= limit:
        return list(lines)
    return [*lines[:limit], f"@@ {len(lines) - limit} more lines @@"]


def _diff_edit(tool_input: Mapping[str, object]) -> Iterator[str]:
    """Yield the diff of an edit to a file. If it does not match the file, compare only the texts of the edit."""
    old = _get_text(tool_input, "old_string")
    new = _get_text(tool_input, "new_string")
    before = _read_text(_get_text(tool_input, "file_path"))
    if old and old in before:
        yield from _compare(before, before.replace(old, new, -1 if tool_input.get("replace_all") else 1))
    else:
        yield "@@ not at these lines @@"
        yield from _compare(old, new)


def _diff_write(tool_input: Mapping[str, object]) -> Iterator[str]:
    yield from _compare(_read_text(_get_text(tool_input, "file_path")), _get_text(tool_input, "content"))


def _diff_notebook(tool_input: Mapping[str, object]) -> Iterator[str]:
    yield f"@@ {tool_input.get('edit_mode') or 'replace'} cell {tool_input.get('cell_id') or ''} @@"
    yield from _compare("", _get_text(tool_input, "new_source"))


_DIFFS: Final = {
    "Edit": _diff_edit,
    "Write": _diff_write,
    "NotebookEdit": _diff_notebook,
}


def _get_text(tool_input: Mapping[str, object], name: str) -> str:
    value = tool_input.get(name)
    return value if isinstance(value, str) else ""


def _read_text(path: str) -> str:
    """Return the content of a text file; empty if it cannot be read."""
    try:
        return read_bytes(path, most_bytes=FILE_BYTES)[0].decode("utf-8", errors="replace")
    except OSError:
        return ""


def _compare(old: str, new: str) -> Iterator[str]:
    before = old.splitlines()
    after = new.splitlines()
    if len(before) + len(after) > COMPARED_LINES:
        yield from (f"-{line}" for line in before)
        yield from (f"+{line}" for line in after)
        return
    # The first two lines are the names of the files.
    yield from islice(difflib.unified_diff(before, after, lineterm="", n=2), 2, None)
