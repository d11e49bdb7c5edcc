"""Shorten reports at the end of a sentence."""

import re

from claude_agent_py.formatting.truncation import take, text_length, truncate


def shorten_report(report: str, max_chars: int | None) -> str:
    """Cut a report at the end of a sentence and note its full length; at most `max_chars` including the note.

    Cuts inside a sentence if no sentence ends in the second half of the allowed text. Shortens or omits the note if it
    does not fit. None does not cut. Lengths are counted like in the CLI (see `formatting.truncation`).
    """
    if max_chars is None or text_length(report) <= max_chars:
        return report
    total = text_length(report)
    note = f"\n\n[The report has {total:,} characters; this is its beginning.]"
    room = max_chars - text_length(note)
    if room <= 0:
        return truncate(report, max_chars)
    kept = take(report, room)
    ends = [match.end() for match in re.finditer(r"[.!?…][\"')\]]*(?=\s|\Z)|\n(?=\n)", kept)]
    whole = ends[-1] if ends and ends[-1] > len(kept) // 2 else len(kept)
    return kept[:whole].rstrip() + note
