"""Reports of what a session uses, as single messages carry them: its context, its totals, its limits.

Owns what `usage` leaves out: no message has to have one, so it is loaded when the first comes. Knows no message.
"""

from typing import Literal

from msgspec import field

from claude_agent_py.wire.base import JSONObject, Number, Open, WireModel
from claude_agent_py.wire.usage import ModelUsage


class ContextCategory(WireModel):
    """One part of the context window."""

    name: str
    tokens: Number = 0
    kind: Open[Literal["used", "free", "buffer", "deferred"]] | None = None


class ContextOverLimit(WireModel):
    """By how much the context is too large."""

    tokens_over: Number = 0
    kind: Open[Literal["hard_limit", "compaction_window"]] | None = None


class ContextMCPTool(WireModel):
    """An MCP tool's share of the context."""

    name: str
    server_name: str = ""
    tokens: Number = 0


class ContextMemoryFile(WireModel):
    """A memory file's share of the context."""

    path: str
    type: str = ""
    tokens: Number = 0


class ContextAgent(WireModel):
    """An agent definition's share of the context."""

    agent_type: str
    source: str = ""
    tokens: Number = 0


class ContextSkill(WireModel):
    """A skill's share of the context."""

    name: str
    source: str = ""
    plugin_name: str | None = None
    tokens: Number = 0


class ContextUsage(WireModel):
    """How full the context window is, as assistant messages carry it."""

    model: str = ""
    total_tokens: Number = 0
    raw_max_tokens: Number = 0
    percentage: Number = 0
    """0 to 100."""
    over_limit: ContextOverLimit | None = None
    categories: list[ContextCategory] = field(default_factory=list)
    mcp_tools: list[ContextMCPTool] = field(default_factory=list)
    memory_files: list[ContextMemoryFile] = field(default_factory=list)
    agents: list[ContextAgent] = field(default_factory=list)
    skills: list[ContextSkill] | None = None


class SessionUsage(WireModel):
    """What the session consumed so far."""

    total_cost_usd: Number = 0
    total_api_duration_ms: Number = 0
    total_duration_ms: Number = 0
    total_lines_added: Number = 0
    total_lines_removed: Number = 0
    model_usage: dict[str, ModelUsage] = field(default_factory=dict)


class UsageLimit(WireModel):
    """One limit of a subscription."""

    kind: str
    group: str = ""
    percent: Number = 0
    resets_at: str | None = None
    """ISO 8601."""
    scope: JSONObject | None = None
    severity: str = ""
    is_active: bool = False


class ExtraUsage(WireModel):
    """Paid usage beyond a subscription."""

    is_enabled: bool = False
    monthly_limit: Number | None = None
    used_credits: Number | None = None
    utilization: Number | None = None
    currency: str | None = None


class UsageLimits(WireModel):
    """The limits of a subscription."""

    limits: list[UsageLimit] | None = None
    extra_usage: ExtraUsage | None = None


class UsageReport(WireModel):
    """Session totals and limits, as assistant messages carry them."""

    session: SessionUsage
    rate_limits: UsageLimits | None = None
