"""What is on the pipe: models of every frame, and the codec between lines and models.

Owns the shapes and nothing else: no I/O, no state, no meaning beyond the frame itself. `decode` gives a model for a
line and `encode` the line for a model. The models of the built-in tools are in `tools`, of hooks in `hooks`, of
permissions in `permissions`, of MCP servers in `mcp`.

All public names of the modules named below are available here; a module is imported when one of its names is first
asked for.
"""

from typing import TYPE_CHECKING

from claude_agent_py.lazy_names import loader

if TYPE_CHECKING:
    from claude_agent_py.wire.asks import *  # noqa: F403
    from claude_agent_py.wire.catalog import *  # noqa: F403
    from claude_agent_py.wire.codec import *  # noqa: F403
    from claude_agent_py.wire.content import *  # noqa: F403
    from claude_agent_py.wire.control import *  # noqa: F403
    from claude_agent_py.wire.frames import *  # noqa: F403
    from claude_agent_py.wire.initialize import *  # noqa: F403
    from claude_agent_py.wire.messages import *  # noqa: F403
    from claude_agent_py.wire.notices import *  # noqa: F403
    from claude_agent_py.wire.occasional import *  # noqa: F403
    from claude_agent_py.wire.origin import *  # noqa: F403
    from claude_agent_py.wire.replies import *  # noqa: F403
    from claude_agent_py.wire.requests import *  # noqa: F403
    from claude_agent_py.wire.stream import *  # noqa: F403
    from claude_agent_py.wire.system import *  # noqa: F403
    from claude_agent_py.wire.tasks import *  # noqa: F403
    from claude_agent_py.wire.unknown import *  # noqa: F403
    from claude_agent_py.wire.usage import *  # noqa: F403
    from claude_agent_py.wire.usage_reports import *  # noqa: F403

_NAMES = {
    "codec": """
        decode encode encode_json prepare
    """,
    "frames": """
        SystemMessage TopLevelMessage Message Frame
    """,
    "unknown": """
        UnknownMessage MalformedFrame
    """,
    "messages": """
        AssistantError StopReason ResultSubtype TerminalReason StartupFailureReason UserContent
        PermissionDecision ToolResultMeta UserMessage AssistantContent ToolUseMeta AssistantMessage
        InvalidConfigFile ResultMessage CommandLifecycleMessage SubagentRetry ToolProgressMessage
    """,
    "origin": """
        OriginKind MessageOrigin
    """,
    "content": """
        Citation MediaSource ServerToolError WebSearchResult TextBlock
        ThinkingBlock RedactedThinkingBlock ToolUseBlock ToolResultBlock ToolReferenceBlock ImageBlock
        DocumentBlock SearchResultBlock ContainerUploadBlock CompactionBlock FallbackBlock
        ServerToolUseBlock WebSearchToolResultBlock WebFetchToolResultBlock CodeExecutionToolResultBlock
        BashCodeExecutionToolResultBlock TextEditorCodeExecutionToolResultBlock ToolSearchToolResultBlock
        AdvisorToolResultBlock MCPToolUseBlock MCPToolResultBlock UnknownBlock ContentBlock
        text_of
    """,
    "stream": """
        TextDelta InputJSONDelta ThinkingDelta SignatureDelta CitationsDelta CompactionDelta
        UnknownDelta Delta MessageStartEvent ContentBlockStartEvent ContentBlockDeltaEvent
        ContentBlockStopEvent MessageDelta MessageDeltaEvent MessageStopEvent PingEvent StreamErrorEvent
        UnknownStreamEvent StreamEvent AbandonedBlocks
        StreamEventMessage
    """,
    "tasks": """
        TaskType TaskStatus TaskUsage ResourceLink HandbackReport TaskStartedMessage TaskProgressMessage
        TaskPatch TaskUpdatedMessage TaskNotificationMessage BackgroundTask BackgroundTasksChangedMessage
        TaskMessage
    """,
    "system": """
        InitMessage StatusMessage SessionStateChangedMessage PreservedSegment PreservedMessages
        CompactMetadata CompactBoundaryMessage NoResponse APIRetryMessage ThinkingTokensMessage
        ModelRefusalNoFallbackMessage PromptSubmitOutcome InformationalMessage PermissionDeniedMessage
    """,
    "notices": """
        RateLimitMessage TranscriptMirrorMessage
    """,
    "occasional": """
        CommandsChangedMessage WorkerShuttingDownMessage SessionWritesLostMessage MirrorKey
        MirrorErrorMessage ModelRefusalFallbackMessage ControlRequestProgressMessage NotificationMessage
        LocalCommandOutputMessage HookStartedMessage HookProgressMessage HookResponseMessage
        ElicitationCompleteMessage PersistedFile FailedFile FilesPersistedMessage RecalledMemory
        MemoryRecallMessage PluginInstallMessage ToolUseSummaryMessage AuthStatusMessage
        PromptSuggestionMessage ConversationResetMessage ActiveGoal ActiveGoalMessage
        AutocompactStateMessage
    """,
    "usage": """
        FastModeState RateLimitStatus RateLimitType CacheCreation ServerToolUsage OutputTokensDetails Usage
        ModelUsage SubagentRequests SubagentKills SubagentRefusals SubagentStats RateLimitInfo
        PermissionDenial DeferredToolUse
    """,
    "usage_reports": """
        ContextCategory ContextOverLimit ContextMCPTool ContextMemoryFile ContextAgent ContextSkill
        ContextUsage SessionUsage UsageLimit ExtraUsage UsageLimits UsageReport
    """,
    "catalog": """
        EffortLevel APIKeySource MCPServerState SlashCommand AgentInfo ModelInfo AccountInfo PluginInfo
        PluginLock PluginError MCPServerSummary MCPServerVersion MCPToolAnnotations MCPToolInfo
        MCPServerStatus SettingsError
    """,
    "control": """
        RequestFromCLI UnknownControlRequest ControlRequest ControlSuccess ControlFailure
        ControlResponse ControlCancelRequest KeepAlive UpdateEnvironmentVariables ControlFrame
    """,
    "requests": """
        HookCallbackMatcher InitializeRequest InterruptRequest EndSessionRequest RenameSessionRequest
        SetColorRequest SetHasSubscribersRequest CancelAsyncMessageRequest RewindFilesRequest
        SideQuestionRequest GenerateSessionTitleRequest ExportConversationRequest ClaimSessionRequest
        StopTaskRequest BackgroundTasksRequest GetTaskOutputRequest StartShellTaskRequest SetModelRequest
        SetPermissionModeRequest SetMaxThinkingTokensRequest ListModelsRequest ListPermissionRulesRequest
        ApplyFlagSettingsRequest GetSettingsRequest UpdateSettingsRequest GetHooksListingRequest
        SetMCPPermissionModeOverrideRequest GetContextUsageRequest GetSessionCostRequest GetUsageRequest
        GetBinaryVersionRequest GetStatusRequest GetPlanRequest GetWorkspaceDiffRequest MCPStatusRequest
        MCPSetServersRequest MCPReconnectRequest MCPToggleRequest MCPCallRequest MCPReadResourceRequest
        MCPAuthenticateRequest ReadFileRequest ListDirectoryRequest FileSuggestionsRequest
        SeedReadStateRequest RegisterRepoRootRequest SetCwdRequest ReloadPluginsRequest ReloadSkillsRequest
        ReloadOutputStylesRequest ReloadConnectorsRequest
    """,
    "asks": """
        MCPServerProvenance MatchedAskRule CanUseToolRequest HookCallbackRequest MCPMessageRequest
        ElicitationRequest UserDialogRequest OAuthTokenRefreshRequest HostAuthTokenRefreshRequest
    """,
    "initialize": """
        InitializeReply
    """,
    "replies": """
        InterruptReply CancelAsyncMessageReply RewindFilesReply SideQuestionReply
        GenerateSessionTitleReply ExportConversationReply BackgroundTasksReply GetTaskOutputReply
        StartShellTaskReply SetModelReply SetPermissionModeReply ListModelsReply PermissionRuleDescription
        PermissionRuleEntry WorkspaceDirectory PermissionRulesState ListPermissionRulesReply
        SettingsOfSource AppliedSettings GetSettingsReply HookEventInfo HookListing HooksPolicy
        GetHooksListingReply ContextUsageCategory GridSquare NamedTokens MCPToolTokens MCPInstructionTokens
        MemoryFileTokens AgentTokens SlashCommandTokens SkillTokens SkillsTokens ToolCallTokens
        MessageBreakdown ContextUsageReply GetSessionCostReply UsageWindow ModelUsageWindow
        SubscriptionLimits GetUsageReply GetBinaryVersionReply StatusRow StatusSection GetStatusReply
        GetPlanReply MCPStatusReply MCPSetServersReply MCPCallReply MCPResourceContent MCPReadResourceReply
        ReadFileReply DirectoryEntry ListDirectoryReply FileSuggestion FileSuggestionsReply
        RegisterRepoRootReply SetCwdReply CacheImpact ReloadPluginsReply ReloadSkillsReply
        ReloadOutputStylesReply REPLIES
    """,
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


if not TYPE_CHECKING:  # type checkers would take every name for one that exists
    __getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
