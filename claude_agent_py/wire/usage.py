"""What things cost: tokens, money, context, rate limits.

Owns the small value objects that several messages and control replies carry. Knows no message.

Money is an estimate in US dollars, not a bill. `model_usage` and `total_cost_usd` of a result are running totals of
the session: read the latest, never sum them.
"""

from typing import Literal, TypeAlias

from pydantic import Field

from claude_agent_py.wire.base import CamelModel, JSONObject, Number, WireModel

FastModeState: TypeAlias = Literal["off", "cooldown", "on"] | str
RateLimitStatus: TypeAlias = Literal["allowed", "allowed_warning", "rejected"] | str
RateLimitType: TypeAlias = (
    Literal[
        "five_hour",
        "seven_day",
        "seven_day_opus",
        "seven_day_sonnet",
        "seven_day_overage_included",
        "overage",
    ]
    | str
)


class CacheCreation(WireModel):
    """Tokens written to the prompt cache, by how long they live there."""

    ephemeral_5m_input_tokens: Number = 0
    ephemeral_1h_input_tokens: Number = 0


class ServerToolUsage(WireModel):
    """How often the API ran tools of its own."""

    web_search_requests: Number = 0
    web_fetch_requests: Number = 0


class OutputTokensDetails(WireModel):
    """What the output tokens went to."""

    thinking_tokens: Number = 0


class Usage(WireModel):
    """Tokens of one API message, or (on a result) of the main loop of one turn."""

    input_tokens: Number | None = None
    output_tokens: Number | None = None
    cache_creation_input_tokens: Number | None = None
    cache_read_input_tokens: Number | None = None
    cache_creation: CacheCreation | None = None
    output_tokens_details: OutputTokensDetails | None = None
    server_tool_use: ServerToolUsage | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None
    iterations: list[JSONObject] | None = None

    @property
    def total_tokens(self) -> int | float:
        """All tokens: fresh, cached and written."""
        return (
            (self.input_tokens or 0)
            + (self.output_tokens or 0)
            + (self.cache_creation_input_tokens or 0)
            + (self.cache_read_input_tokens or 0)
        )


class ModelUsage(CamelModel):
    """Running total of one model over the session, subagents and internal calls included."""

    input_tokens: Number = 0
    output_tokens: Number = 0
    thinking_tokens: Number | None = None
    cache_read_input_tokens: Number = 0
    cache_creation_input_tokens: Number = 0
    cache_creation_ephemeral_5m_input_tokens: Number | None = Field(
        default=None, alias="cacheCreationEphemeral5mInputTokens"
    )
    cache_creation_ephemeral_1h_input_tokens: Number | None = Field(
        default=None, alias="cacheCreationEphemeral1hInputTokens"
    )
    web_search_requests: Number = 0
    cost_usd: Number = Field(default=0, alias="costUSD")
    context_window: Number = 0
    max_output_tokens: Number = 0
    canonical_model: str | None = None
    provider: str | None = None
    cost_basis: Literal["list", "managed", "unknown"] | str | None = None


class SubagentRequests(WireModel):
    """How the model asked for its subagents. `unset` runs in the background too."""

    background: Number = 0
    foreground: Number = 0
    unset: Number = 0


class SubagentKills(WireModel):
    """Who stopped subagents: the model (`parent`), you (`user`), the CLI (`system`)."""

    parent: Number = 0
    user: Number = 0
    system: Number = 0


class SubagentRefusals(WireModel):
    """Why subagents were not started."""

    depth_limit: Number = 0
    concurrency_limit: Number = 0
    budget: Number = 0


class SubagentStats(WireModel):
    """Running totals of the session's subagents."""

    spawned: Number = 0
    requested: SubagentRequests | None = None
    started_in_background: Number = 0
    by_type: dict[str, Number] | None = None
    max_depth: Number = 0
    spawned_by_subagents: Number = 0
    completed: Number = 0
    failed: Number = 0
    killed: SubagentKills | None = None
    refused: SubagentRefusals | None = None


class RateLimitInfo(CamelModel):
    """Where a subscription stands with its limits."""

    status: RateLimitStatus
    resets_at: Number | None = None
    """When the limit resets, in seconds since the epoch."""
    rate_limit_type: RateLimitType | None = None
    utilization: Number | None = None
    """Between 0 and 1."""
    surpassed_threshold: Number | None = None
    overage_status: RateLimitStatus | None = None
    overage_resets_at: Number | None = None
    """Seconds since the epoch."""
    overage_disabled_reason: str | None = None
    is_using_overage: bool | None = None
    overage_in_use: bool | None = None
    overage_enabled: bool | None = None
    limit_scope: Literal["service", "channel", "group_pool"] | str | None = None
    error_code: Literal["credits_required"] | str | None = None
    can_user_purchase_credits: bool | None = None
    has_chargeable_saved_payment_method: bool | None = None

    @property
    def is_rejected(self) -> bool:
        """Whether requests are refused for now."""
        return self.status == "rejected"


class ContextCategory(WireModel):
    """One part of the context window."""

    name: str
    tokens: Number = 0
    kind: Literal["used", "free", "buffer", "deferred"] | str | None = None


class ContextOverLimit(WireModel):
    """By how much the context is too large."""

    tokens_over: Number = 0
    kind: Literal["hard_limit", "compaction_window"] | str | None = None


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
    categories: list[ContextCategory] = Field(default_factory=list)
    mcp_tools: list[ContextMCPTool] = Field(default_factory=list)
    memory_files: list[ContextMemoryFile] = Field(default_factory=list)
    agents: list[ContextAgent] = Field(default_factory=list)
    skills: list[ContextSkill] | None = None


class SessionUsage(WireModel):
    """What the session consumed so far."""

    total_cost_usd: Number = 0
    total_api_duration_ms: Number = 0
    total_duration_ms: Number = 0
    total_lines_added: Number = 0
    total_lines_removed: Number = 0
    model_usage: dict[str, ModelUsage] = Field(default_factory=dict)


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


class PermissionDenial(WireModel):
    """A tool call of the turn that was not allowed, whoever said no."""

    tool_name: str
    tool_use_id: str = ""
    tool_input: JSONObject = Field(default_factory=dict)


class DeferredToolUse(WireModel):
    """A tool call that a hook deferred; the turn ended there."""

    id: str
    name: str
    input: JSONObject = Field(default_factory=dict)
