"""Text that is safe to print in a terminal, whoever wrote it."""

from typing import Final

_KEPT: Final = frozenset("\n\t")


def displayable(text: str, limit: int | None = 2000) -> str:
    """Return text that is safe to print in a terminal: control characters replaced, cut to `limit` characters.

    None as the limit cuts nothing.
    """
    cut = text if limit is None or len(text) <= limit else f"{text[:limit]}… [+{len(text) - limit} characters]"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() or char in _KEPT else "\N{REPLACEMENT CHARACTER}" for char in cut)


def one_line(text: str, limit: int | None = None) -> str:
    """Return a text as one line that is safe to print in a terminal."""
    return displayable(" ".join(text.split()), limit)


def displayable_json(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON that is safe to print in a terminal: control characters are escaped."""
    import json  # errors, which are loaded first, do not need it

    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _KEPT else json.dumps(char)[1:-1] for char in text)
