"""Fenced code blocks of Markdown."""

import re
from collections.abc import Iterator

FENCE = re.compile(r" {0,3}(?P<run>`{3,}|~{3,})(?P<info>.*)", re.DOTALL)


def mark_code_lines(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line and whether it is part of a fenced code block. Fences that are never closed are ignored."""
    closable = _longest_closers(lines)
    fence: str | None = None
    for index, line in enumerate(lines):
        if fence is not None:
            yield line, True
            if closes(line, fence):
                fence = None
            continue
        opener = find_opener(line)
        if opener is not None and closable[index].get(opener[0], 0) >= len(opener):
            fence = opener
        yield line, fence is not None


def find_opener(line: str) -> str | None:
    """Return the backticks or tildes that open a code block at this line, or None."""
    match = FENCE.fullmatch(line)
    if match is None or (match["run"][0] == "`" and "`" in match["info"]):
        return None
    return match["run"]


def closes(line: str, fence: str) -> bool:
    """Return whether a line closes the code block that `fence` opened."""
    run = _match_closer(line)
    return run is not None and run[0] == fence[0] and len(run) >= len(fence)


def _match_closer(line: str) -> str | None:
    match = FENCE.fullmatch(line)
    return match["run"] if match and not match["info"].strip(" \t") else None


def _longest_closers(lines: list[str]) -> list[dict[str, int]]:
    """Return, for each line, the lengths of the longest closing fences after it, by fence character."""
    after: list[dict[str, int]] = []
    longest: dict[str, int] = {}
    for line in reversed(lines):
        after.append(longest)
        run = _match_closer(line)
        if run is not None and len(run) > longest.get(run[0], 0):
            longest = {**longest, run[0]: len(run)}
    return after[::-1]
