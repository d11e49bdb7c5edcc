"""Control requests and their replies, and the catalogues that replies hold.

What a session is asked beside prompts (`InterruptRequest`, ...), what it answers (`InterruptReply`, ...), what the CLI
asks (`CanUseToolRequest`, ...), and the models, commands, agents, servers and accounts that replies name.
"""

from claude_agent_py.lazy_names import LazyNames

# fmt: off
with LazyNames(globals()):
    from claude_agent_py.wire.catalog import (
        APIKeySource as APIKeySource, AccountInfo as AccountInfo, AgentInfo as AgentInfo,
        MCPServerState as MCPServerState, MCPServerStatus as MCPServerStatus, MCPServerSummary as MCPServerSummary,
        MCPServerVersion as MCPServerVersion, MCPToolAnnotations as MCPToolAnnotations, MCPToolInfo as MCPToolInfo,
        ModelInfo as ModelInfo, PluginError as PluginError, PluginInfo as PluginInfo, PluginLock as PluginLock,
        SettingsError as SettingsError, SlashCommand as SlashCommand,
    )
    from claude_agent_py.wire.control import (
        ControlCancelRequest as ControlCancelRequest, ControlFailure as ControlFailure, ControlFrame as ControlFrame,
        ControlRequest as ControlRequest, ControlResponse as ControlResponse, ControlSuccess as ControlSuccess,
        KeepAlive as KeepAlive, RequestFromCLI as RequestFromCLI, UnknownControlRequest as UnknownControlRequest,
        UpdateEnvironmentVariables as UpdateEnvironmentVariables,
    )
    from claude_agent_py.wire.requests import (
        ApplyFlagSettingsRequest as ApplyFlagSettingsRequest, BackgroundTasksRequest as BackgroundTasksRequest,
        CancelAsyncMessageRequest as CancelAsyncMessageRequest, ClaimSessionRequest as ClaimSessionRequest,
        EndSessionRequest as EndSessionRequest, ExportConversationRequest as ExportConversationRequest,
        FileSuggestionsRequest as FileSuggestionsRequest, GenerateSessionTitleRequest as GenerateSessionTitleRequest,
        GetBinaryVersionRequest as GetBinaryVersionRequest, GetContextUsageRequest as GetContextUsageRequest,
        GetHooksListingRequest as GetHooksListingRequest, GetPlanRequest as GetPlanRequest,
        GetSessionCostRequest as GetSessionCostRequest, GetSettingsRequest as GetSettingsRequest,
        GetStatusRequest as GetStatusRequest, GetTaskOutputRequest as GetTaskOutputRequest,
        GetUsageRequest as GetUsageRequest, GetWorkspaceDiffRequest as GetWorkspaceDiffRequest,
        HookCallbackMatcher as HookCallbackMatcher, InitializeRequest as InitializeRequest,
        InterruptRequest as InterruptRequest, ListDirectoryRequest as ListDirectoryRequest,
        ListModelsRequest as ListModelsRequest, ListPermissionRulesRequest as ListPermissionRulesRequest,
        MCPAuthenticateRequest as MCPAuthenticateRequest, MCPCallRequest as MCPCallRequest,
        MCPReadResourceRequest as MCPReadResourceRequest, MCPReconnectRequest as MCPReconnectRequest,
        MCPSetServersRequest as MCPSetServersRequest, MCPStatusRequest as MCPStatusRequest,
        MCPToggleRequest as MCPToggleRequest, ReadFileRequest as ReadFileRequest,
        RegisterRepoRootRequest as RegisterRepoRootRequest, ReloadConnectorsRequest as ReloadConnectorsRequest,
        ReloadOutputStylesRequest as ReloadOutputStylesRequest, ReloadPluginsRequest as ReloadPluginsRequest,
        ReloadSkillsRequest as ReloadSkillsRequest, RenameSessionRequest as RenameSessionRequest,
        RewindFilesRequest as RewindFilesRequest, SeedReadStateRequest as SeedReadStateRequest,
        SetColorRequest as SetColorRequest, SetCwdRequest as SetCwdRequest,
        SetHasSubscribersRequest as SetHasSubscribersRequest,
        SetMCPPermissionModeOverrideRequest as SetMCPPermissionModeOverrideRequest,
        SetMaxThinkingTokensRequest as SetMaxThinkingTokensRequest, SetModelRequest as SetModelRequest,
        SetPermissionModeRequest as SetPermissionModeRequest, SideQuestionRequest as SideQuestionRequest,
        StartShellTaskRequest as StartShellTaskRequest, StopTaskRequest as StopTaskRequest,
        UpdateSettingsRequest as UpdateSettingsRequest,
    )
    from claude_agent_py.wire.asks import (
        CanUseToolRequest as CanUseToolRequest, ElicitationRequest as ElicitationRequest,
        HookCallbackRequest as HookCallbackRequest, HostAuthTokenRefreshRequest as HostAuthTokenRefreshRequest,
        MCPMessageRequest as MCPMessageRequest, MCPServerProvenance as MCPServerProvenance,
        MatchedAskRule as MatchedAskRule, OAuthTokenRefreshRequest as OAuthTokenRefreshRequest,
        UserDialogRequest as UserDialogRequest,
    )
    from claude_agent_py.wire.initialize import InitializeReply as InitializeReply
    from claude_agent_py.wire.replies import (
        AgentTokens as AgentTokens, AppliedSettings as AppliedSettings, BackgroundTasksReply as BackgroundTasksReply,
        CacheImpact as CacheImpact, CancelAsyncMessageReply as CancelAsyncMessageReply,
        ContextUsageCategory as ContextUsageCategory, ContextUsageReply as ContextUsageReply,
        DirectoryEntry as DirectoryEntry, ExportConversationReply as ExportConversationReply,
        FileSuggestion as FileSuggestion, FileSuggestionsReply as FileSuggestionsReply,
        GenerateSessionTitleReply as GenerateSessionTitleReply, GetBinaryVersionReply as GetBinaryVersionReply,
        GetHooksListingReply as GetHooksListingReply, GetPlanReply as GetPlanReply,
        GetSessionCostReply as GetSessionCostReply, GetSettingsReply as GetSettingsReply,
        GetStatusReply as GetStatusReply, GetTaskOutputReply as GetTaskOutputReply, GetUsageReply as GetUsageReply,
        GridSquare as GridSquare, HookEventInfo as HookEventInfo, HookListing as HookListing,
        HooksPolicy as HooksPolicy, InterruptReply as InterruptReply, ListDirectoryReply as ListDirectoryReply,
        ListModelsReply as ListModelsReply, ListPermissionRulesReply as ListPermissionRulesReply,
        MCPCallReply as MCPCallReply, MCPInstructionTokens as MCPInstructionTokens,
        MCPReadResourceReply as MCPReadResourceReply, MCPResourceContent as MCPResourceContent,
        MCPSetServersReply as MCPSetServersReply, MCPStatusReply as MCPStatusReply, MCPToolTokens as MCPToolTokens,
        MemoryFileTokens as MemoryFileTokens, MessageBreakdown as MessageBreakdown,
        ModelUsageWindow as ModelUsageWindow, NamedTokens as NamedTokens,
        PermissionRuleDescription as PermissionRuleDescription, PermissionRuleEntry as PermissionRuleEntry,
        PermissionRulesState as PermissionRulesState, ReadFileReply as ReadFileReply,
        RegisterRepoRootReply as RegisterRepoRootReply, ReloadOutputStylesReply as ReloadOutputStylesReply,
        ReloadPluginsReply as ReloadPluginsReply, ReloadSkillsReply as ReloadSkillsReply,
        RewindFilesReply as RewindFilesReply, SetCwdReply as SetCwdReply, SetModelReply as SetModelReply,
        SetPermissionModeReply as SetPermissionModeReply, SettingsOfSource as SettingsOfSource,
        SideQuestionReply as SideQuestionReply, SkillTokens as SkillTokens, SkillsTokens as SkillsTokens,
        SlashCommandTokens as SlashCommandTokens, StartShellTaskReply as StartShellTaskReply, StatusRow as StatusRow,
        StatusSection as StatusSection, SubscriptionLimits as SubscriptionLimits, ToolCallTokens as ToolCallTokens,
        UsageWindow as UsageWindow, WorkspaceDirectory as WorkspaceDirectory,
    )
    from claude_agent_py.wire.usage_reports import (
        ContextAgent as ContextAgent, ContextCategory as ContextCategory, ContextMCPTool as ContextMCPTool,
        ContextMemoryFile as ContextMemoryFile, ContextOverLimit as ContextOverLimit, ContextSkill as ContextSkill,
        ContextUsage as ContextUsage, ExtraUsage as ExtraUsage, SessionUsage as SessionUsage, UsageLimit as UsageLimit,
        UsageLimits as UsageLimits, UsageReport as UsageReport,
    )
