"""Optional reports in messages: the context window, session totals and subscription limits."""

from typing import Literal

from msgspec import field

from claude_agent_py.wire.base import JSONObject, Number, Open, WireModel
from claude_agent_py.wire.messages.usage import ModelUsage


class ContextCategory(WireModel):
    """A category of content in the context window."""

    name: str
    tokens: Number = 0
    kind: Open[Literal["used", "free", "buffer", "deferred"]] | None = None


class ContextOverLimit(WireModel):
    """How far the context exceeds its limit."""

    tokens_over: Number = 0
    kind: Open[Literal["hard_limit", "compaction_window"]] | None = None


class ContextMCPTool(WireModel):
    """The token count of an MCP tool."""

    name: str
    server_name: str = ""
    tokens: Number = 0


class ContextMemoryFile(WireModel):
    """The token count of a memory file."""

    path: str
    type: str = ""
    tokens: Number = 0


class ContextAgent(WireModel):
    """The token count of an agent definition."""

    agent_type: str
    source: str = ""
    tokens: Number = 0


class ContextSkill(WireModel):
    """The token count of a skill."""

    name: str
    source: str = ""
    plugin_name: str | None = None
    tokens: Number = 0


class ContextUsage(WireModel):
    """The content of the context window, as reported in assistant messages."""

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
    """Running totals of the session."""

    total_cost_usd: Number = 0
    total_api_duration_ms: Number = 0
    total_duration_ms: Number = 0
    total_lines_added: Number = 0
    total_lines_removed: Number = 0
    model_usage: dict[str, ModelUsage] = field(default_factory=dict)


class UsageLimit(WireModel):
    """A limit of a subscription."""

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
    """Session totals and limits, as reported in assistant messages."""

    session: SessionUsage
    rate_limits: UsageLimits | None = None
