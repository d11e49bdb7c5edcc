"""What the spans of one session have in common, whatever they were made from."""

from collections.abc import Iterable
from typing import Any

from claude_agent_py.observe import Span

COMMON = ("run", "turn", "model", "tool", "subagent", "task")
"""Kinds that every source has. Only some see hooks and questions."""


def common(spans: Iterable[Span]) -> dict[str, tuple[Any, ...]]:
    """Return what has to be equal: all but the times and costs that only some sources know.

    The CLI does not forward all answers of subagents, so that only those of the main agent count.
    """
    return {
        span.id: (span.kind, span.parent, span.agent, span.status, span.links, span.name, own_times(span))
        for span in spans
        if span.kind in COMMON and (span.kind != "model" or not span.agent)
    }


def own_times(span: Span) -> tuple[float | None, ...]:
    """Return the times that the CLI itself tells, with each message: when calls begin and end, and answers end."""
    if span.kind == "tool":
        return (span.start, None if span.status == "cancelled" else span.end)  # it may have been cut off
    return (span.end,) if span.kind == "model" else ()
