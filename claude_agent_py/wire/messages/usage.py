"""Token usage, costs, rate limits and other statistics.

Costs are estimates in US dollars. `model_usage` and `total_cost_usd` of a result are running totals of the session: use
the latest, do not add them up.
"""

from typing import Final, Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import CamelModel, JSONObject, Number, Open, WireModel

TOKEN_FIELDS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
"""The fields of `Usage` and `ModelUsage` that count tokens; together they are all tokens."""

FastModeState: TypeAlias = Open[Literal["off", "cooldown", "on"]]
"""Whether fast mode is on."""
RateLimitStatus: TypeAlias = Open[Literal["allowed", "allowed_warning", "rejected"]]
"""Whether requests pass a rate limit."""
RateLimitType: TypeAlias = Open[
    Literal[
        "five_hour",
        "seven_day",
        "seven_day_opus",
        "seven_day_sonnet",
        "seven_day_overage_included",
        "overage",
    ]
]
"""The window of a rate limit."""


class CacheCreation(WireModel):
    """Tokens written to the prompt cache, by lifetime."""

    ephemeral_5m_input_tokens: Number = 0
    ephemeral_1h_input_tokens: Number = 0


class ServerToolUsage(WireModel):
    """Numbers of server tool calls."""

    web_search_requests: Number = 0
    web_fetch_requests: Number = 0


class OutputTokensDetails(WireModel):
    """A breakdown of the output tokens."""

    thinking_tokens: Number = 0


class Usage(WireModel):
    """Tokens of an API message or, on a result, of the main loop of the turn."""

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
    fallback_credit: JSONObject | None = None

    @property
    def total_tokens(self) -> int | float:
        """The sum of input, output, cache creation and cache read tokens."""
        total: int | float = sum(getattr(self, name) or 0 for name in TOKEN_FIELDS)
        return total


class ModelUsage(CamelModel):
    """Running totals of a model over the session, including subagents and internal calls."""

    input_tokens: Number = 0
    output_tokens: Number = 0
    thinking_tokens: Number | None = None
    cache_read_input_tokens: Number = 0
    cache_creation_input_tokens: Number = 0
    cache_creation_ephemeral_5m_input_tokens: Number | None = field(
        default=None, name="cacheCreationEphemeral5mInputTokens"
    )
    cache_creation_ephemeral_1h_input_tokens: Number | None = field(
        default=None, name="cacheCreationEphemeral1hInputTokens"
    )
    web_search_requests: Number = 0
    cost_usd: Number = field(default=0, name="costUSD")
    context_window: Number = 0
    max_output_tokens: Number = 0
    canonical_model: str | None = None
    provider: str | None = None
    cost_basis: Open[Literal["list", "managed", "unknown"]] | None = None


class SubagentRequests(WireModel):
    """Numbers of requested subagents by mode. Those in `unset` also run in the background."""

    background: Number = 0
    foreground: Number = 0
    unset: Number = 0


class SubagentKills(WireModel):
    """Numbers of stopped subagents, by who stopped them: the model (`parent`), the user, the CLI (`system`)."""

    parent: Number = 0
    user: Number = 0
    system: Number = 0


class SubagentRefusals(WireModel):
    """Numbers of subagents that were not started, by reason."""

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
    """The state of a subscription's rate limit."""

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
    limit_scope: Open[Literal["service", "channel", "group_pool"]] | None = None
    error_code: Open[Literal["credits_required"]] | None = None
    can_user_purchase_credits: bool | None = None
    has_chargeable_saved_payment_method: bool | None = None


class PermissionDenial(WireModel):
    """A tool call of the turn that was denied by a rule, a hook, the mode or the user."""

    tool_name: str
    tool_use_id: str = ""
    tool_input: JSONObject = field(default_factory=dict)


class DeferredToolUse(WireModel):
    """A tool call that a hook deferred, which ended the turn."""

    id: str
    name: str
    input: JSONObject = field(default_factory=dict)


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
