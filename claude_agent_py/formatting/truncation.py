"""Text that is too long: measuring and cutting it.

Owns how long a text is (the CLI counts UTF-16 code units, so an emoji counts as two) and where it may be cut: never
inside what a reader sees as one character. Knows nothing of why something is too long and what else could be done.
"""

import unicodedata
from collections.abc import Callable

INLINE_CHARS = 50_000
"""What the CLI leaves in the conversation of one tool result, all its texts together. Measured on 2.1.328."""

MAX_INLINE_CHARS = 500_000
"""The most that a tool may ask the CLI to leave in the conversation."""

ZERO_WIDTH_JOINER = "\u200d"
_CONTINUING = ("Mn", "Me", "Mc")


def text_length(text: str) -> int:
    """Give the length as the CLI counts it, in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def truncate(text: str, limit: int, *, note: Callable[[int, int], str] | None = None) -> str:
    """Cut a text so that it is at most `limit` long, with a note of how much there was.

    Lengths are those of `text_length`. `note(kept, total)` makes the note, which counts towards the limit; where the
    limit has no room for it, the text is cut without one. A cut never splits a character, combining marks and emoji
    sequences included.
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
    """Say that a text was cut."""
    return f"\n\n[truncated: the first {kept:,} of {total:,} characters]"


def take(text: str, limit: int) -> str:
    """Give the longest beginning of a text that is at most `limit` long and ends between two characters."""
    end = _index_at(text, limit)
    while 0 < end < len(text) and _joined(text, end):
        end -= 1
    return text[:end]


def _index_at(text: str, limit: int) -> int:
    if text.isascii():
        return min(limit, len(text))
    units = text[:limit].encode("utf-16-le", "surrogatepass")[: 2 * limit]
    if units and 0xD8 <= units[-1] <= 0xDB:  # the first half of a pair
        units = units[:-2]
    return len(units.decode("utf-16-le", "surrogatepass"))


def _joined(text: str, index: int) -> bool:
    """Tell whether what stands at `index` belongs to what stands before it."""
    before, after = text[index - 1], text[index]
    return (
        after == ZERO_WIDTH_JOINER
        or before == ZERO_WIDTH_JOINER
        or unicodedata.category(after) in _CONTINUING
        or (before == "\r" and after == "\n")
        or _is_skin_tone(after)
        or (_is_regional(after) and _is_regional(before) and _regionals_before(text, index) % 2 == 1)
    )


def _is_skin_tone(char: str) -> bool:
    return "\U0001f3fb" <= char <= "\U0001f3ff"


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _regionals_before(text: str, index: int) -> int:
    count = 0
    while index - count > 0 and _is_regional(text[index - count - 1]):
        count += 1
    return count
