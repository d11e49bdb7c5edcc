"""The usage of a session: tokens from its messages, the cost from the CLI's note. All calls block."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import msgspec

from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.subagent import StoredSubagent
from claude_agent_py.tasks.files.transcript import TranscriptMessage
from claude_agent_py.wire.messages.conversation import SYNTHETIC_MODEL, AssistantMessage
from claude_agent_py.wire.messages.usage import TOKEN_FIELDS, ModelUsage, Usage

_COST: Final = b'{"type":"cost-state"'


@dataclass(frozen=True, slots=True)
class SessionUsage:
    """The tokens and the cost of a session."""

    by_model: Mapping[str, Usage] = field(default_factory=dict)
    """The tokens of the messages of the main agent and its subagents, by model. Excludes the CLI's own requests, for
    example for summaries."""
    cost_usd: float | None = None
    """The CLI's estimate when it last exited, including its own requests; None if it has not exited yet."""
    reported: Mapping[str, ModelUsage] = field(default_factory=dict)
    """The CLI's count by model when it last exited."""

    @property
    def total(self) -> Usage:
        """The tokens of all models."""
        return _add_up(self.by_model.values())


class CostNote(msgspec.Struct, rename="camel", gc=False):
    """The CLI's note of the session's cost so far, written when the CLI exits."""

    total_cost_usd: float | None = msgspec.field(name="totalCostUSD", default=None)
    model_usage: dict[str, ModelUsage] = {}
    has_unknown_model_cost: bool = False
    """Whether the cost of a model is a guess."""


_decode: Final = msgspec.json.Decoder(CostNote).decode


def compute_usage(
    snapshot: Snapshot, history: Iterable[TranscriptMessage], subagents: Sequence[StoredSubagent]
) -> SessionUsage:
    """Return the tokens and the cost of a session."""
    cost = read_last_cost(snapshot)
    spent: dict[str, Usage] = {}
    for messages in (history, *(agent.messages for agent in subagents)):
        for model, usage in _iter_answers(messages):
            spent[model] = _add_up([spent.get(model, Usage()), usage])
    return SessionUsage(spent, cost.total_cost_usd, cost.model_usage)


def _iter_answers(messages: Iterable[TranscriptMessage]) -> Iterable[tuple[str, Usage]]:
    """Yield the model and the usage of each answer. Each of its blocks has a usage; the last one counts."""
    last: AssistantMessage | None = None
    for message in chain(messages, (None,)):
        if isinstance(message, AssistantMessage) and last is not None and message.message_id == last.message_id:
            if message.usage is not None:
                last = message
            continue
        if last is not None and (message is None or isinstance(message, AssistantMessage)):
            if last.usage is not None and last.model != SYNTHETIC_MODEL:
                yield last.model, last.usage
            last = None
        if isinstance(message, AssistantMessage):
            last = message


def _add_up(all_usage: Iterable[Usage]) -> Usage:
    every = list(all_usage)
    counted: dict[str, Any] = {name: sum(getattr(usage, name) or 0 for usage in every) for name in TOKEN_FIELDS}
    return Usage(**counted)


def read_last_cost(snapshot: Snapshot) -> CostNote:
    """Return the CLI's last cost note; an empty note if there is none. Raises OSError if the file cannot be read."""
    for _, line in snapshot.backwards():
        if line is not None and (cost := read_cost(line)) is not None:
            return cost
    return CostNote()


def read_cost(line: bytes) -> CostNote | None:
    """Return the cost note in a line of a transcript, or None for any other line."""
    try:
        return _decode(line) if line.startswith(_COST) else None
    except ValueError:
        return None
