"""Control requests in both directions, their replies, and the types that replies contain."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._base.errors import (
        ConnectionClosedError as ConnectionClosedError,
        ControlError as ControlError,
        ControlRejectedError as ControlRejectedError,
        ControlTimeoutError as ControlTimeoutError,
        MCPNotReadyError as MCPNotReadyError,
    )
    from claude_agent_py.wire.control.asks import *
    from claude_agent_py.wire.control.frames import (
        ControlCancelRequest as ControlCancelRequest,
        ControlFailure as ControlFailure,
        ControlFrame as ControlFrame,
        ControlRequest as ControlRequest,
        ControlResponse as ControlResponse,
        ControlSuccess as ControlSuccess,
        KeepAlive as KeepAlive,
        RequestFromCLI as RequestFromCLI,
        UnknownControlRequest as UnknownControlRequest,
    )
    from claude_agent_py.wire.control.initialize import InitializeReply as InitializeReply
    from claude_agent_py.wire.control.replies import *
    from claude_agent_py.wire.control.requests import *
    from claude_agent_py.wire.messages.catalog import *
    from claude_agent_py.wire.messages.usage import (
        ContextAgent as ContextAgent,
        ContextCategory as ContextCategory,
        ContextMCPTool as ContextMCPTool,
        ContextMemoryFile as ContextMemoryFile,
        ContextOverLimit as ContextOverLimit,
        ContextSkill as ContextSkill,
        ContextUsage as ContextUsage,
        ExtraUsage as ExtraUsage,
        SessionUsage as SessionUsage,
        UsageLimit as UsageLimit,
        UsageLimits as UsageLimits,
        UsageReport as UsageReport,
    )
else:
    _NAMES = {
        "claude_agent_py._base.errors": """
            ConnectionClosedError ControlError ControlRejectedError ControlTimeoutError MCPNotReadyError
        """,
        "claude_agent_py.wire.control.asks": """
            MCPServerProvenance MatchedAskRule CanUseToolRequest HookCallbackRequest MCPMessageRequest
            ElicitationRequest UserDialogRequest
        """,
        "claude_agent_py.wire.control.frames": """
            ControlCancelRequest ControlFailure ControlFrame ControlRequest ControlResponse ControlSuccess KeepAlive
            RequestFromCLI UnknownControlRequest
        """,
        "claude_agent_py.wire.control.initialize": "InitializeReply",
        "claude_agent_py.wire.control.replies": """
            InterruptReply CancelAsyncMessageReply RewindFilesReply SideQuestionReply GenerateSessionTitleReply
            ExportConversationReply SetModelReply SetPermissionModeReply ListModelsReply PermissionRuleDescription
            PermissionRuleEntry WorkspaceDirectory PermissionRulesState ListPermissionRulesReply SettingsOfSource
            AppliedSettings GetSettingsReply HookEventInfo HookListing HooksPolicy GetHooksListingReply
            ContextUsageCategory NamedTokens MCPToolTokens MCPInstructionTokens MemoryFileTokens AgentTokens
            SlashCommandTokens SkillTokens SkillsTokens ToolCallTokens MessageBreakdown ContextUsageReply
            GetSessionCostReply UsageWindow ModelUsageWindow SubscriptionLimits GetUsageReply GetBinaryVersionReply
            StatusRow StatusSection GetStatusReply GetPlanReply MCPStatusReply MCPSetServersReply MCPCallReply
            MCPAuthenticateReply MCPResourceContent MCPReadResourceReply ReadFileReply FileSuggestion
            FileSuggestionsReply RegisterRepoRootReply SetCwdReply CacheImpact ReloadPluginsReply ReloadSkillsReply
            ReloadOutputStylesReply
        """,
        "claude_agent_py.wire.control.requests": """
            InterruptRequest EndSessionRequest RenameSessionRequest CancelAsyncMessageRequest RewindFilesRequest
            SideQuestionRequest GenerateSessionTitleRequest ExportConversationRequest SetModelRequest
            SetPermissionModeRequest SetMaxThinkingTokensRequest ListModelsRequest ListPermissionRulesRequest
            ApplyFlagSettingsRequest GetSettingsRequest UpdateSettingsRequest GetHooksListingRequest
            SetMCPPermissionModeOverrideRequest GetContextUsageRequest GetSessionCostRequest GetUsageRequest
            GetBinaryVersionRequest GetStatusRequest GetPlanRequest GetWorkspaceDiffRequest MCPStatusRequest
            MCPSetServersRequest MCPReconnectRequest MCPToggleRequest MCPCallRequest MCPReadResourceRequest
            MCPAuthenticateRequest MCPOAuthCallbackURLRequest MCPClearAuthRequest ReadFileRequest FileSuggestionsRequest
            SeedReadStateRequest RegisterRepoRootRequest SetCwdRequest ReloadPluginsRequest ReloadSkillsRequest
            ReloadOutputStylesRequest
        """,
        "claude_agent_py.wire.messages.catalog": """
            EffortLevel APIKeySource MCPServerState SlashCommand AgentInfo ModelInfo AccountInfo PluginInfo PluginLock
            PluginError MCPServerSummary MCPServerVersion MCPToolAnnotations MCPToolInfo MCPServerStatus SettingsError
        """,
        "claude_agent_py.wire.messages.usage": """
            ContextAgent ContextCategory ContextMCPTool ContextMemoryFile ContextOverLimit ContextSkill ContextUsage
            ExtraUsage SessionUsage UsageLimit UsageLimits UsageReport
        """,
    }
    __all__, __getattr__, __dir__ = attach(__name__, _NAMES)
