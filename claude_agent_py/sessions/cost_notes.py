"""The CLI's notes of a session's cost in its transcript, written when it exits."""

import time
from typing import Any, Final

import msgspec

from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.wire.messages.usage import ModelUsage, SessionUsage

COST_TYPE: Final = "cost-state"
_COST: Final = f'{{"type":"{COST_TYPE}"'.encode()


class CostNote(msgspec.Struct, rename="camel", gc=False):
    """The CLI's note of the session's cost so far, written when the CLI exits."""

    total_cost_usd: float | None = msgspec.field(name="totalCostUSD", default=None)
    model_usage: dict[str, ModelUsage] = {}


_decode: Final = msgspec.json.Decoder(CostNote).decode


def read_last_cost(snapshot: Snapshot) -> CostNote:
    """Return the CLI's last cost note; an empty note if there is none. Raises OSError if the file cannot be read."""
    line = find_last_cost(snapshot)
    return (None if line is None else read_cost(line)) or CostNote()


def find_last_cost(snapshot: Snapshot) -> bytes | None:
    """Return the line with the CLI's last cost note, or None. Raises OSError if the file cannot be read."""
    return next((line for _, line in snapshot.backwards() if line is not None and read_cost(line) is not None), None)


def make_cost_note(session_id: str, spent: SessionUsage) -> Any:
    """Return the CLI's note of the cost of a session so far.

    CLI 2.1.328 ignores a note that lacks one of these fields or has others.
    """
    usage = {
        model: {
            "inputTokens": used.input_tokens,
            "outputTokens": used.output_tokens,
            "cacheReadInputTokens": used.cache_read_input_tokens,
            "cacheCreationInputTokens": used.cache_creation_input_tokens,
            "webSearchRequests": used.web_search_requests,
            "costUSD": used.cost_usd,
        }
        for model, used in spent.model_usage.items()
    }
    return {
        "type": COST_TYPE,
        "sessionId": session_id,
        "totalCostUSD": spent.total_cost_usd,
        "totalAPIDuration": spent.total_api_duration_ms,
        "totalAPIDurationWithoutRetries": spent.total_api_duration_ms,
        "totalToolDuration": 0,
        "totalLinesAdded": 0,
        "totalLinesRemoved": 0,
        "totalDuration": spent.total_duration_ms,
        "startTime": int(time.time() * 1000) - int(spent.total_duration_ms),
        "modelUsage": usage,
        "hasUnknownModelCost": False,
    }


def read_cost(line: bytes) -> CostNote | None:
    """Return the cost note in a line of a transcript, or None for any other line."""
    try:
        return _decode(line) if line.startswith(_COST) else None
    except ValueError:
        return None
