"""Messages of the conversation: what a session brings, and what goes into a prompt.

Every message class, its content blocks, the stream events and their deltas, what usage is counted in, and the unions
that signatures need (`Message`, `RunMessage`, `SessionMessage`, `SessionEvent`).
"""

from typing import TYPE_CHECKING

from claude_agent_py.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.runtime.listeners import HandlerFailed as HandlerFailed
    from claude_agent_py.runtime.message_types import (
        RunMessage as RunMessage,
        SessionEvent as SessionEvent,
        SessionMessage as SessionMessage,
    )
    from claude_agent_py.runtime.prompts import Prompt as Prompt, PromptContent as PromptContent
    from claude_agent_py.wire.content import (
        AdvisorToolResultBlock as AdvisorToolResultBlock,
        BashCodeExecutionToolResultBlock as BashCodeExecutionToolResultBlock,
        Citation as Citation,
        CodeExecutionToolResultBlock as CodeExecutionToolResultBlock,
        CompactionBlock as CompactionBlock,
        ContainerUploadBlock as ContainerUploadBlock,
        ContentBlock as ContentBlock,
        DocumentBlock as DocumentBlock,
        FallbackBlock as FallbackBlock,
        ImageBlock as ImageBlock,
        MCPToolResultBlock as MCPToolResultBlock,
        MCPToolUseBlock as MCPToolUseBlock,
        MediaSource as MediaSource,
        RedactedThinkingBlock as RedactedThinkingBlock,
        SearchResultBlock as SearchResultBlock,
        ServerToolError as ServerToolError,
        ServerToolUseBlock as ServerToolUseBlock,
        TextBlock as TextBlock,
        TextEditorCodeExecutionToolResultBlock as TextEditorCodeExecutionToolResultBlock,
        ThinkingBlock as ThinkingBlock,
        ToolReferenceBlock as ToolReferenceBlock,
        ToolResultBlock as ToolResultBlock,
        ToolSearchToolResultBlock as ToolSearchToolResultBlock,
        ToolUseBlock as ToolUseBlock,
        UnknownBlock as UnknownBlock,
        WebFetchToolResultBlock as WebFetchToolResultBlock,
        WebSearchResult as WebSearchResult,
        WebSearchToolResultBlock as WebSearchToolResultBlock,
        text_of as text_of,
    )
    from claude_agent_py.wire.frames import (
        Message as Message,
        SystemMessage as SystemMessage,
        TopLevelMessage as TopLevelMessage,
    )
    from claude_agent_py.wire.messages import (
        AssistantContent as AssistantContent,
        AssistantError as AssistantError,
        AssistantMessage as AssistantMessage,
        CommandLifecycleMessage as CommandLifecycleMessage,
        InvalidConfigFile as InvalidConfigFile,
        PermissionDecision as PermissionDecision,
        ResultMessage as ResultMessage,
        ResultSubtype as ResultSubtype,
        StartupFailureReason as StartupFailureReason,
        StopReason as StopReason,
        SubagentRetry as SubagentRetry,
        TerminalReason as TerminalReason,
        ToolProgressMessage as ToolProgressMessage,
        ToolResultMeta as ToolResultMeta,
        ToolUseMeta as ToolUseMeta,
        UserContent as UserContent,
        UserMessage as UserMessage,
    )
    from claude_agent_py.wire.notices import (
        RateLimitMessage as RateLimitMessage,
        TranscriptMirrorMessage as TranscriptMirrorMessage,
    )
    from claude_agent_py.wire.occasional import (
        ActiveGoal as ActiveGoal,
        ActiveGoalMessage as ActiveGoalMessage,
        AuthStatusMessage as AuthStatusMessage,
        AutocompactStateMessage as AutocompactStateMessage,
        CommandsChangedMessage as CommandsChangedMessage,
        ControlRequestProgressMessage as ControlRequestProgressMessage,
        ConversationResetMessage as ConversationResetMessage,
        ElicitationCompleteMessage as ElicitationCompleteMessage,
        FailedFile as FailedFile,
        FilesPersistedMessage as FilesPersistedMessage,
        HookProgressMessage as HookProgressMessage,
        HookResponseMessage as HookResponseMessage,
        HookStartedMessage as HookStartedMessage,
        LocalCommandOutputMessage as LocalCommandOutputMessage,
        MemoryRecallMessage as MemoryRecallMessage,
        MirrorErrorMessage as MirrorErrorMessage,
        MirrorKey as MirrorKey,
        ModelRefusalFallbackMessage as ModelRefusalFallbackMessage,
        NotificationMessage as NotificationMessage,
        PersistedFile as PersistedFile,
        PluginInstallMessage as PluginInstallMessage,
        PromptSuggestionMessage as PromptSuggestionMessage,
        RecalledMemory as RecalledMemory,
        SessionWritesLostMessage as SessionWritesLostMessage,
        ToolUseSummaryMessage as ToolUseSummaryMessage,
        WorkerShuttingDownMessage as WorkerShuttingDownMessage,
    )
    from claude_agent_py.wire.origin import MessageOrigin as MessageOrigin, OriginKind as OriginKind
    from claude_agent_py.wire.stream import (
        AbandonedBlocks as AbandonedBlocks,
        CitationsDelta as CitationsDelta,
        CompactionDelta as CompactionDelta,
        ContentBlockDeltaEvent as ContentBlockDeltaEvent,
        ContentBlockStartEvent as ContentBlockStartEvent,
        ContentBlockStopEvent as ContentBlockStopEvent,
        Delta as Delta,
        InputJSONDelta as InputJSONDelta,
        MessageDelta as MessageDelta,
        MessageDeltaEvent as MessageDeltaEvent,
        MessageStartEvent as MessageStartEvent,
        MessageStopEvent as MessageStopEvent,
        PingEvent as PingEvent,
        SignatureDelta as SignatureDelta,
        StreamErrorEvent as StreamErrorEvent,
        StreamEvent as StreamEvent,
        StreamEventMessage as StreamEventMessage,
        TextDelta as TextDelta,
        ThinkingDelta as ThinkingDelta,
        UnknownDelta as UnknownDelta,
        UnknownStreamEvent as UnknownStreamEvent,
    )
    from claude_agent_py.wire.system import (
        APIRetryMessage as APIRetryMessage,
        CompactBoundaryMessage as CompactBoundaryMessage,
        CompactMetadata as CompactMetadata,
        InformationalMessage as InformationalMessage,
        InitMessage as InitMessage,
        ModelRefusalNoFallbackMessage as ModelRefusalNoFallbackMessage,
        NoResponse as NoResponse,
        PermissionDeniedMessage as PermissionDeniedMessage,
        PreservedMessages as PreservedMessages,
        PreservedSegment as PreservedSegment,
        PromptSubmitOutcome as PromptSubmitOutcome,
        SessionStateChangedMessage as SessionStateChangedMessage,
        StatusMessage as StatusMessage,
        ThinkingTokensMessage as ThinkingTokensMessage,
    )
    from claude_agent_py.wire.tasks import (
        BackgroundTask as BackgroundTask,
        BackgroundTasksChangedMessage as BackgroundTasksChangedMessage,
        HandbackReport as HandbackReport,
        ResourceLink as ResourceLink,
        TaskMessage as TaskMessage,
        TaskNotificationMessage as TaskNotificationMessage,
        TaskPatch as TaskPatch,
        TaskProgressMessage as TaskProgressMessage,
        TaskStartedMessage as TaskStartedMessage,
        TaskType as TaskType,
        TaskUpdatedMessage as TaskUpdatedMessage,
        TaskUsage as TaskUsage,
    )
    from claude_agent_py.wire.unknown import MalformedFrame as MalformedFrame, UnknownMessage as UnknownMessage
    from claude_agent_py.wire.usage import (
        CacheCreation as CacheCreation,
        DeferredToolUse as DeferredToolUse,
        FastModeState as FastModeState,
        ModelUsage as ModelUsage,
        OutputTokensDetails as OutputTokensDetails,
        PermissionDenial as PermissionDenial,
        RateLimitInfo as RateLimitInfo,
        RateLimitStatus as RateLimitStatus,
        RateLimitType as RateLimitType,
        ServerToolUsage as ServerToolUsage,
        SubagentKills as SubagentKills,
        SubagentRefusals as SubagentRefusals,
        SubagentRequests as SubagentRequests,
        SubagentStats as SubagentStats,
        Usage as Usage,
    )
else:
    __getattr__, __dir__ = attach(__name__)
