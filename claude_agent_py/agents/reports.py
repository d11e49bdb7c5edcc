"""Reports that are too long: cut where a sentence ends.

Owns the place of the cut and the note. What counts as a character is `formatting.truncation`'s; who has a report in
hand calls this (`children/`).
"""

import re

from claude_agent_py.formatting.truncation import take, text_length, truncate


def shorten_report(report: str, max_chars: int | None) -> str:
    """Cut a report at the end of a sentence, with a note of its whole length; at most `max_chars` with the note.

    None leaves it as it is. Lengths are counted as the CLI counts them (see `formatting.truncation`).
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
