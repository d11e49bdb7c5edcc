"""Measure and truncate text, in UTF-16 code units like the CLI, without splitting characters."""

import unicodedata
from collections.abc import Callable

INLINE_CHARS = 50_000
"""The CLI's default limit for the text of a tool result in the conversation. Measured on 2.1.328."""

MAX_INLINE_CHARS = 500_000
"""The highest limit that a tool can request."""

ZERO_WIDTH_JOINER = "\u200d"
_COMBINING_CATEGORIES = ("Mn", "Me", "Mc")


def text_length(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as the CLI counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def truncate(text: str, limit: int, *, note: Callable[[int, int], str] | None = None) -> str:
    """Truncate a text to at most `limit` UTF-16 code units and append a note.

    Combining marks and emoji sequences are not split.

    Args:
        text: The text.
        limit: The longest length of the result, including the note. If the note does not fit, it is left out.
        note: Returns the note for the kept and the total length; by default an English sentence.
    """
    total = text_length(text)
    if total <= limit:
        return text
    make = note or truncation_note
    room = limit - text_length(make(limit, total))
    if room <= 0:
        return take(text, max(limit, 0))
    kept = take(text, room)
    return kept + make(text_length(kept), total)


def truncation_note(kept: int, total: int) -> str:
    """Return the default note for a truncated text."""
    return f"\n\n[truncated: the first {kept:,} of {total:,} characters]"


def take(text: str, limit: int) -> str:
    """Return the longest prefix of at most `limit` code units that does not split a character."""
    end = _index_at(text, limit)
    while 0 < end < len(text) and _continues_character(text, end):
        end -= 1
    return text[:end]


def _index_at(text: str, limit: int) -> int:
    if text.isascii():
        return min(limit, len(text))
    units = text[:limit].encode("utf-16-le", "surrogatepass")[: 2 * limit]
    # Do not end with the first half of a surrogate pair.
    if units and 0xD8 <= units[-1] <= 0xDB:
        units = units[:-2]
    return len(units.decode("utf-16-le", "surrogatepass"))


def _continues_character(text: str, index: int) -> bool:
    """Return whether the code point at `index` continues the character before it."""
    before, after = text[index - 1], text[index]
    return (
        after == ZERO_WIDTH_JOINER
        or before == ZERO_WIDTH_JOINER
        or unicodedata.category(after) in _COMBINING_CATEGORIES
        or (before == "\r" and after == "\n")
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or (_is_regional(after) and _is_regional(before) and _count_regionals_before(text, index) % 2 == 1)
    )


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _count_regionals_before(text: str, index: int) -> int:
    count = 0
    while index - count > 0 and _is_regional(text[index - count - 1]):
        count += 1
    return count
