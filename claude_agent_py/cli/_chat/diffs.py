"""Changes of files as the lines of a diff, to look at before and after they are made."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from claude_agent_py._untrusted import read_bytes
from claude_agent_py.permissions.requests import displayable

FILE_BYTES: Final = 1_000_000
"""Larger files are not compared: all lines of the new content are shown."""
COMPARED_LINES: Final = 4000
"""Longer texts are shown as removed and added, since comparing takes time by the square of the lines."""
LINE_CHARS: Final = 400
SHOWN_LINES: Final = 400


def diff_of(tool_name: str, given: Mapping[str, Any]) -> list[str]:
    """Return what a call of Edit, MultiEdit, Write or NotebookEdit changes; empty for other tools.

    Lines begin with `-`, `+`, a blank, or `@@`. They hold no control characters. Reads the file that Write replaces.
    """
    make = _DIFFS.get(tool_name)
    if make is None:
        return []
    lines = [displayable(line, LINE_CHARS).replace("\t", "    ").replace("\n", " ") for line in make(given)]
    return shortened(lines, SHOWN_LINES)


def shortened(lines: Sequence[str], most: int) -> list[str]:
    """Return at most so many lines, and how many are left out."""
    return list(lines) if len(lines) <= most else [*lines[:most], f"@@ {len(lines) - most} more lines @@"]


def _edit(given: Mapping[str, Any]) -> Iterator[str]:
    yield from _edits(_text(given, "file_path"), [given])


def _multi_edit(given: Mapping[str, Any]) -> Iterator[str]:
    edits = given.get("edits")
    yield from _edits(_text(given, "file_path"), edits if isinstance(edits, list) else [])


def _edits(path: str, edits: Sequence[Any]) -> Iterator[str]:
    """Yield what edits do to a file; the texts alone if they do not fit it."""
    pairs = [(_text(edit, "old_string"), _text(edit, "new_string")) for edit in edits if isinstance(edit, Mapping)]
    everywhere = [bool(edit.get("replace_all")) for edit in edits if isinstance(edit, Mapping)]
    before = after = _content(path)
    for (old, new), is_everywhere in zip(pairs, everywhere, strict=True):
        if not old or old not in after:
            before, after = "\n".join(old for old, _ in pairs), "\n".join(new for _, new in pairs)
            yield "@@ not at these lines @@"
            break
        after = after.replace(old, new, -1 if is_everywhere else 1)
    yield from _compared(before, after)


def _write(given: Mapping[str, Any]) -> Iterator[str]:
    yield from _compared(_content(_text(given, "file_path")), _text(given, "content"))


def _notebook(given: Mapping[str, Any]) -> Iterator[str]:
    yield f"@@ {given.get('edit_mode') or 'replace'} cell {given.get('cell_id') or ''} @@"
    yield from _compared("", _text(given, "new_source"))


_DIFFS: Final = {"Edit": _edit, "MultiEdit": _multi_edit, "Write": _write, "NotebookEdit": _notebook}


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""


def _content(path: str) -> str:
    """Return the content of a text file; empty if there is none."""
    try:
        return read_bytes(path, most_bytes=FILE_BYTES)[0].decode("utf-8", errors="replace")
    except OSError:
        return ""


def _compared(old: str, new: str) -> Iterator[str]:
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > COMPARED_LINES:
        yield from (f"-{line}" for line in before)
        yield from (f"+{line}" for line in after)
        return
    yield from islice(difflib.unified_diff(before, after, lineterm="", n=2), 2, None)  # without the names of the files
