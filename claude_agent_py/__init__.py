"""The Python SDK for Claude Code in which background work is first-class.

Start with `Client` (a session that lives on), or with `run` and `query` (one prompt). What a session can be told stands
in `ClientOptions`, what it brings in the messages, and `client.tasks` has its background tasks. To test agents without
a model: `claude_agent_py.testing`.

All public names are here, by topic; a module is loaded when one of its names is first asked for, so that the import
costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from claude_agent_py.agents import (
        AgentDefinition as AgentDefinition,
    )
    from claude_agent_py.agents import (
        AgentMCPServerSpec as AgentMCPServerSpec,
    )
    from claude_agent_py.agents import (
        AgentModel as AgentModel,
    )
    from claude_agent_py.agents import (
        DelegationGuide as DelegationGuide,
    )
    from claude_agent_py.agents import (
        load_agents as load_agents,
    )
    from claude_agent_py.children import (
        ChildAgent as ChildAgent,
    )
    from claude_agent_py.children import (
        ChildReport as ChildReport,
    )
    from claude_agent_py.children import (
        SubTaskStatus as SubTaskStatus,
    )
    from claude_agent_py.children import (
        child_tool as child_tool,
    )
    from claude_agent_py.client import (
        Client as Client,
    )
    from claude_agent_py.client import (
        current_client as current_client,
    )
    from claude_agent_py.errors import (
        AuthenticationError as AuthenticationError,
    )
    from claude_agent_py.errors import (
        BillingError as BillingError,
    )
    from claude_agent_py.errors import (
        BudgetExceededError as BudgetExceededError,
    )
    from claude_agent_py.errors import (
        ClaudeAgentError as ClaudeAgentError,
    )
    from claude_agent_py.errors import (
        CLIError as CLIError,
    )
    from claude_agent_py.errors import (
        CLIExitError as CLIExitError,
    )
    from claude_agent_py.errors import (
        CLIInstallError as CLIInstallError,
    )
    from claude_agent_py.errors import (
        CLINotFoundError as CLINotFoundError,
    )
    from claude_agent_py.errors import (
        CLIStartError as CLIStartError,
    )
    from claude_agent_py.errors import (
        CLIVersionError as CLIVersionError,
    )
    from claude_agent_py.errors import (
        ConnectionClosedError as ConnectionClosedError,
    )
    from claude_agent_py.errors import (
        ControlError as ControlError,
    )
    from claude_agent_py.errors import (
        ControlRejectedError as ControlRejectedError,
    )
    from claude_agent_py.errors import (
        ControlTimeoutError as ControlTimeoutError,
    )
    from claude_agent_py.errors import (
        HandlerError as HandlerError,
    )
    from claude_agent_py.errors import (
        HookStoppedError as HookStoppedError,
    )
    from claude_agent_py.errors import (
        InterruptedRunError as InterruptedRunError,
    )
    from claude_agent_py.errors import (
        InvalidRequestError as InvalidRequestError,
    )
    from claude_agent_py.errors import (
        LocalProtocolError as LocalProtocolError,
    )
    from claude_agent_py.errors import (
        MaxOutputTokensError as MaxOutputTokensError,
    )
    from claude_agent_py.errors import (
        MaxTurnsError as MaxTurnsError,
    )
    from claude_agent_py.errors import (
        MCPNotReadyError as MCPNotReadyError,
    )
    from claude_agent_py.errors import (
        ModelNotFoundError as ModelNotFoundError,
    )
    from claude_agent_py.errors import (
        OptionsError as OptionsError,
    )
    from claude_agent_py.errors import (
        OverloadedError as OverloadedError,
    )
    from claude_agent_py.errors import (
        PromptCancelledError as PromptCancelledError,
    )
    from claude_agent_py.errors import (
        PromptTooLongError as PromptTooLongError,
    )
    from claude_agent_py.errors import (
        ProtocolError as ProtocolError,
    )
    from claude_agent_py.errors import (
        RateLimitedError as RateLimitedError,
    )
    from claude_agent_py.errors import (
        RefusalError as RefusalError,
    )
    from claude_agent_py.errors import (
        RemoteProtocolError as RemoteProtocolError,
    )
    from claude_agent_py.errors import (
        RunError as RunError,
    )
    from claude_agent_py.errors import (
        RunTimeoutError as RunTimeoutError,
    )
    from claude_agent_py.errors import (
        ServerError as ServerError,
    )
    from claude_agent_py.errors import (
        SessionError as SessionError,
    )
    from claude_agent_py.errors import (
        StructuredOutputError as StructuredOutputError,
    )
    from claude_agent_py.errors import (
        TaskError as TaskError,
    )
    from claude_agent_py.errors import (
        TaskNotFoundError as TaskNotFoundError,
    )
    from claude_agent_py.errors import (
        TaskOutputError as TaskOutputError,
    )
    from claude_agent_py.errors import (
        TaskTimeoutError as TaskTimeoutError,
    )
    from claude_agent_py.errors import (
        ToolError as ToolError,
    )
    from claude_agent_py.errors import (
        ToolInputError as ToolInputError,
    )
    from claude_agent_py.errors import (
        ToolTimeoutError as ToolTimeoutError,
    )
    from claude_agent_py.formatting import (
        Audio as Audio,
    )
    from claude_agent_py.formatting import (
        Encoder as Encoder,
    )
    from claude_agent_py.formatting import (
        File as File,
    )
    from claude_agent_py.formatting import (
        Image as Image,
    )
    from claude_agent_py.formatting import (
        JSONEncoder as JSONEncoder,
    )
    from claude_agent_py.formatting import (
        MarkdownFormat as MarkdownFormat,
    )
    from claude_agent_py.formatting import (
        ResourceLink as ResourceLink,
    )
    from claude_agent_py.formatting import (
        TextFormat as TextFormat,
    )
    from claude_agent_py.formatting import (
        XMLFormat as XMLFormat,
    )
    from claude_agent_py.formatting import (
        YAMLEncoder as YAMLEncoder,
    )
    from claude_agent_py.hooks import (
        HookContext as HookContext,
    )
    from claude_agent_py.hooks import (
        HookMatcher as HookMatcher,
    )
    from claude_agent_py.hooks import (
        Hooks as Hooks,
    )
    from claude_agent_py.hooks import (
        HookWarning as HookWarning,
    )
    from claude_agent_py.options import (
        ClientOptions as ClientOptions,
    )
    from claude_agent_py.options.values import (
        Limits as Limits,
    )
    from claude_agent_py.options.values import (
        PluginConfig as PluginConfig,
    )
    from claude_agent_py.options.values import (
        SystemPromptFile as SystemPromptFile,
    )
    from claude_agent_py.options.values import (
        SystemPromptPreset as SystemPromptPreset,
    )
    from claude_agent_py.options.values import (
        SystemPromptText as SystemPromptText,
    )
    from claude_agent_py.options.values import (
        ThinkingAdaptive as ThinkingAdaptive,
    )
    from claude_agent_py.options.values import (
        ThinkingDisabled as ThinkingDisabled,
    )
    from claude_agent_py.options.values import (
        ThinkingEnabled as ThinkingEnabled,
    )
    from claude_agent_py.options.values import (
        Timeouts as Timeouts,
    )
    from claude_agent_py.permissions import (
        Accept as Accept,
    )
    from claude_agent_py.permissions import (
        Allow as Allow,
    )
    from claude_agent_py.permissions import (
        Answers as Answers,
    )
    from claude_agent_py.permissions import (
        Cancel as Cancel,
    )
    from claude_agent_py.permissions import (
        Completed as Completed,
    )
    from claude_agent_py.permissions import (
        Decision as Decision,
    )
    from claude_agent_py.permissions import (
        Decline as Decline,
    )
    from claude_agent_py.permissions import (
        Deny as Deny,
    )
    from claude_agent_py.permissions import (
        Dismissed as Dismissed,
    )
    from claude_agent_py.permissions import (
        ElicitationRequest as ElicitationRequest,
    )
    from claude_agent_py.permissions import (
        Form as Form,
    )
    from claude_agent_py.permissions import (
        FormError as FormError,
    )
    from claude_agent_py.permissions import (
        FormField as FormField,
    )
    from claude_agent_py.permissions import (
        Inbox as Inbox,
    )
    from claude_agent_py.permissions import (
        Interaction as Interaction,
    )
    from claude_agent_py.permissions import (
        Option as Option,
    )
    from claude_agent_py.permissions import (
        PendingInteractions as PendingInteractions,
    )
    from claude_agent_py.permissions import (
        PermissionContext as PermissionContext,
    )
    from claude_agent_py.permissions import (
        PermissionRequest as PermissionRequest,
    )
    from claude_agent_py.permissions import (
        Plan as Plan,
    )
    from claude_agent_py.permissions import (
        Policy as Policy,
    )
    from claude_agent_py.permissions import (
        Question as Question,
    )
    from claude_agent_py.permissions import (
        SQLiteInbox as SQLiteInbox,
    )
    from claude_agent_py.permissions import (
        allow_tools as allow_tools,
    )
    from claude_agent_py.permissions import (
        ask as ask,
    )
    from claude_agent_py.permissions import (
        bash_commands as bash_commands,
    )
    from claude_agent_py.permissions import (
        deny_tools as deny_tools,
    )
    from claude_agent_py.permissions import (
        first_of as first_of,
    )
    from claude_agent_py.permissions import (
        read_only as read_only,
    )
    from claude_agent_py.permissions import (
        within as within,
    )
    from claude_agent_py.runs import (
        query as query,
    )
    from claude_agent_py.runs import (
        run as run,
    )
    from claude_agent_py.runs import (
        run_sync as run_sync,
    )
    from claude_agent_py.runtime.listeners import (
        HandlerFailed as HandlerFailed,
    )
    from claude_agent_py.runtime.prompts import (
        Prompt as Prompt,
    )
    from claude_agent_py.runtime.prompts import (
        PromptContent as PromptContent,
    )
    from claude_agent_py.runtime.result import (
        RunResult as RunResult,
    )
    from claude_agent_py.runtime.run import (
        InterruptReceipt as InterruptReceipt,
    )
    from claude_agent_py.runtime.run import (
        Run as Run,
    )
    from claude_agent_py.tasks import (
        Evidence as Evidence,
    )
    from claude_agent_py.tasks import (
        FinishedTask as FinishedTask,
    )
    from claude_agent_py.tasks import (
        Grace as Grace,
    )
    from claude_agent_py.tasks import (
        MessageGap as MessageGap,
    )
    from claude_agent_py.tasks import (
        RecordKind as RecordKind,
    )
    from claude_agent_py.tasks import (
        Task as Task,
    )
    from claude_agent_py.tasks import (
        TaskBackgrounded as TaskBackgrounded,
    )
    from claude_agent_py.tasks import (
        TaskEvent as TaskEvent,
    )
    from claude_agent_py.tasks import (
        TaskFinished as TaskFinished,
    )
    from claude_agent_py.tasks import (
        TaskHistory as TaskHistory,
    )
    from claude_agent_py.tasks import (
        TaskList as TaskList,
    )
    from claude_agent_py.tasks import (
        TaskListChange as TaskListChange,
    )
    from claude_agent_py.tasks import (
        TaskListItem as TaskListItem,
    )
    from claude_agent_py.tasks import (
        TaskManager as TaskManager,
    )
    from claude_agent_py.tasks import (
        TaskNode as TaskNode,
    )
    from claude_agent_py.tasks import (
        TaskOutcome as TaskOutcome,
    )
    from claude_agent_py.tasks import (
        TaskOutput as TaskOutput,
    )
    from claude_agent_py.tasks import (
        TaskOutputAvailable as TaskOutputAvailable,
    )
    from claude_agent_py.tasks import (
        TaskProgressed as TaskProgressed,
    )
    from claude_agent_py.tasks import (
        TaskRecord as TaskRecord,
    )
    from claude_agent_py.tasks import (
        TaskReopened as TaskReopened,
    )
    from claude_agent_py.tasks import (
        TaskRevised as TaskRevised,
    )
    from claude_agent_py.tasks import (
        TaskStarted as TaskStarted,
    )
    from claude_agent_py.tasks import (
        TaskStatusChanged as TaskStatusChanged,
    )
    from claude_agent_py.tasks import (
        TaskTree as TaskTree,
    )
    from claude_agent_py.tools import (
        Tool as Tool,
    )
    from claude_agent_py.tools import (
        ToolAnnotations as ToolAnnotations,
    )
    from claude_agent_py.tools import (
        ToolCallRecord as ToolCallRecord,
    )
    from claude_agent_py.tools import (
        ToolChain as ToolChain,
    )
    from claude_agent_py.tools import (
        ToolChainResult as ToolChainResult,
    )
    from claude_agent_py.tools import (
        ToolContext as ToolContext,
    )
    from claude_agent_py.tools import (
        ToolResult as ToolResult,
    )
    from claude_agent_py.tools import (
        ToolServer as ToolServer,
    )
    from claude_agent_py.tools import (
        mcp_tool_name as mcp_tool_name,
    )
    from claude_agent_py.tools import (
        tool as tool,
    )
    from claude_agent_py.transport import (
        SubprocessTransport as SubprocessTransport,
    )
    from claude_agent_py.transport import (
        Transport as Transport,
    )
    from claude_agent_py.wire.codec import (
        decode as decode,
    )
    from claude_agent_py.wire.codec import (
        encode as encode,
    )
    from claude_agent_py.wire.content import (
        AdvisorToolResultBlock as AdvisorToolResultBlock,
    )
    from claude_agent_py.wire.content import (
        BashCodeExecutionToolResultBlock as BashCodeExecutionToolResultBlock,
    )
    from claude_agent_py.wire.content import (
        Block as Block,
    )
    from claude_agent_py.wire.content import (
        CodeExecutionToolResultBlock as CodeExecutionToolResultBlock,
    )
    from claude_agent_py.wire.content import (
        CompactionBlock as CompactionBlock,
    )
    from claude_agent_py.wire.content import (
        ContainerUploadBlock as ContainerUploadBlock,
    )
    from claude_agent_py.wire.content import (
        DocumentBlock as DocumentBlock,
    )
    from claude_agent_py.wire.content import (
        FallbackBlock as FallbackBlock,
    )
    from claude_agent_py.wire.content import (
        ImageBlock as ImageBlock,
    )
    from claude_agent_py.wire.content import (
        MCPToolResultBlock as MCPToolResultBlock,
    )
    from claude_agent_py.wire.content import (
        MCPToolUseBlock as MCPToolUseBlock,
    )
    from claude_agent_py.wire.content import (
        RedactedThinkingBlock as RedactedThinkingBlock,
    )
    from claude_agent_py.wire.content import (
        SearchResultBlock as SearchResultBlock,
    )
    from claude_agent_py.wire.content import (
        ServerToolUseBlock as ServerToolUseBlock,
    )
    from claude_agent_py.wire.content import (
        TextBlock as TextBlock,
    )
    from claude_agent_py.wire.content import (
        TextEditorCodeExecutionToolResultBlock as TextEditorCodeExecutionToolResultBlock,
    )
    from claude_agent_py.wire.content import (
        ThinkingBlock as ThinkingBlock,
    )
    from claude_agent_py.wire.content import (
        ToolReferenceBlock as ToolReferenceBlock,
    )
    from claude_agent_py.wire.content import (
        ToolResultBlock as ToolResultBlock,
    )
    from claude_agent_py.wire.content import (
        ToolSearchToolResultBlock as ToolSearchToolResultBlock,
    )
    from claude_agent_py.wire.content import (
        ToolUseBlock as ToolUseBlock,
    )
    from claude_agent_py.wire.content import (
        UnknownBlock as UnknownBlock,
    )
    from claude_agent_py.wire.content import (
        WebFetchToolResultBlock as WebFetchToolResultBlock,
    )
    from claude_agent_py.wire.content import (
        WebSearchToolResultBlock as WebSearchToolResultBlock,
    )
    from claude_agent_py.wire.frames import (
        Frame as Frame,
    )
    from claude_agent_py.wire.frames import (
        Message as Message,
    )
    from claude_agent_py.wire.hooks.inputs import (
        ConfigChangeInput as ConfigChangeInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        CwdChangedInput as CwdChangedInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        DirectoryAddedInput as DirectoryAddedInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        ElicitationInput as ElicitationInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        ElicitationResultInput as ElicitationResultInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        FileChangedInput as FileChangedInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        HookInput as HookInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        InstructionsLoadedInput as InstructionsLoadedInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        MessageDisplayInput as MessageDisplayInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        NotificationInput as NotificationInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        PermissionDeniedInput as PermissionDeniedInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        PermissionRequestInput as PermissionRequestInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        PostCompactInput as PostCompactInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        PostModelSwitchInput as PostModelSwitchInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        PostToolBatchInput as PostToolBatchInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        PostToolUseFailureInput as PostToolUseFailureInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        PostToolUseInput as PostToolUseInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        PreCompactInput as PreCompactInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        PreModelSwitchInput as PreModelSwitchInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        PreToolUseInput as PreToolUseInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        SessionEndInput as SessionEndInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        SessionStartInput as SessionStartInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        SetupInput as SetupInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        StopFailureInput as StopFailureInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        StopInput as StopInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        SubagentStartInput as SubagentStartInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        SubagentStopInput as SubagentStopInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        TaskCompletedInput as TaskCompletedInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        TaskCreatedInput as TaskCreatedInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        TeammateIdleInput as TeammateIdleInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        UnknownHookInput as UnknownHookInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        UserPromptExpansionInput as UserPromptExpansionInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        UserPromptSubmitInput as UserPromptSubmitInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        WorktreeCreateInput as WorktreeCreateInput,
    )
    from claude_agent_py.wire.hooks.inputs import (
        WorktreeRemoveInput as WorktreeRemoveInput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        AsyncHookOutput as AsyncHookOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        ConfigChangeOutput as ConfigChangeOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        CwdChangedOutput as CwdChangedOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        ElicitationOutput as ElicitationOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        ElicitationResultOutput as ElicitationResultOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        FileChangedOutput as FileChangedOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        HookOutput as HookOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        MessageDisplayOutput as MessageDisplayOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        NotificationOutput as NotificationOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        PermissionDeniedOutput as PermissionDeniedOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        PermissionRequestOutput as PermissionRequestOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        PostModelSwitchOutput as PostModelSwitchOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        PostToolBatchOutput as PostToolBatchOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        PostToolUseFailureOutput as PostToolUseFailureOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        PostToolUseOutput as PostToolUseOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        PreCompactOutput as PreCompactOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        PreModelSwitchOutput as PreModelSwitchOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        PreToolUseOutput as PreToolUseOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        SessionStartOutput as SessionStartOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        SetupOutput as SetupOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        StopOutput as StopOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        SubagentStartOutput as SubagentStartOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        SubagentStopOutput as SubagentStopOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        TaskCompletedOutput as TaskCompletedOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        TaskCreatedOutput as TaskCreatedOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        TeammateIdleOutput as TeammateIdleOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        UserPromptExpansionOutput as UserPromptExpansionOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        UserPromptSubmitOutput as UserPromptSubmitOutput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        WorktreeCreateOutput as WorktreeCreateOutput,
    )
    from claude_agent_py.wire.mcp import (
        MCPHTTPServer as MCPHTTPServer,
    )
    from claude_agent_py.wire.mcp import (
        MCPSSEServer as MCPSSEServer,
    )
    from claude_agent_py.wire.mcp import (
        MCPStdioServer as MCPStdioServer,
    )
    from claude_agent_py.wire.mcp import (
        MCPToolPolicy as MCPToolPolicy,
    )
    from claude_agent_py.wire.messages import (
        AssistantMessage as AssistantMessage,
    )
    from claude_agent_py.wire.messages import (
        CommandLifecycleMessage as CommandLifecycleMessage,
    )
    from claude_agent_py.wire.messages import (
        ResultMessage as ResultMessage,
    )
    from claude_agent_py.wire.messages import (
        ToolProgressMessage as ToolProgressMessage,
    )
    from claude_agent_py.wire.messages import (
        UserContent as UserContent,
    )
    from claude_agent_py.wire.messages import (
        UserMessage as UserMessage,
    )
    from claude_agent_py.wire.notices import (
        ActiveGoalMessage as ActiveGoalMessage,
    )
    from claude_agent_py.wire.notices import (
        AuthStatusMessage as AuthStatusMessage,
    )
    from claude_agent_py.wire.notices import (
        AutocompactStateMessage as AutocompactStateMessage,
    )
    from claude_agent_py.wire.notices import (
        ConversationResetMessage as ConversationResetMessage,
    )
    from claude_agent_py.wire.notices import (
        PromptSuggestionMessage as PromptSuggestionMessage,
    )
    from claude_agent_py.wire.notices import (
        RateLimitMessage as RateLimitMessage,
    )
    from claude_agent_py.wire.notices import (
        ToolUseSummaryMessage as ToolUseSummaryMessage,
    )
    from claude_agent_py.wire.notices import (
        TranscriptMirrorMessage as TranscriptMirrorMessage,
    )
    from claude_agent_py.wire.permissions import (
        AddDirectories as AddDirectories,
    )
    from claude_agent_py.wire.permissions import (
        AddRules as AddRules,
    )
    from claude_agent_py.wire.permissions import (
        PermissionRuleValue as PermissionRuleValue,
    )
    from claude_agent_py.wire.permissions import (
        RemoveDirectories as RemoveDirectories,
    )
    from claude_agent_py.wire.permissions import (
        RemoveRules as RemoveRules,
    )
    from claude_agent_py.wire.permissions import (
        ReplaceRules as ReplaceRules,
    )
    from claude_agent_py.wire.permissions import (
        SetMode as SetMode,
    )
    from claude_agent_py.wire.permissions import (
        UnknownPermissionUpdate as UnknownPermissionUpdate,
    )
    from claude_agent_py.wire.sandbox import (
        SandboxSettings as SandboxSettings,
    )
    from claude_agent_py.wire.stream import (
        StreamEventMessage as StreamEventMessage,
    )
    from claude_agent_py.wire.system import (
        APIRetryMessage as APIRetryMessage,
    )
    from claude_agent_py.wire.system import (
        CommandsChangedMessage as CommandsChangedMessage,
    )
    from claude_agent_py.wire.system import (
        CompactBoundaryMessage as CompactBoundaryMessage,
    )
    from claude_agent_py.wire.system import (
        ControlRequestProgressMessage as ControlRequestProgressMessage,
    )
    from claude_agent_py.wire.system import (
        ElicitationCompleteMessage as ElicitationCompleteMessage,
    )
    from claude_agent_py.wire.system import (
        FilesPersistedMessage as FilesPersistedMessage,
    )
    from claude_agent_py.wire.system import (
        HookProgressMessage as HookProgressMessage,
    )
    from claude_agent_py.wire.system import (
        HookResponseMessage as HookResponseMessage,
    )
    from claude_agent_py.wire.system import (
        HookStartedMessage as HookStartedMessage,
    )
    from claude_agent_py.wire.system import (
        InformationalMessage as InformationalMessage,
    )
    from claude_agent_py.wire.system import (
        InitMessage as InitMessage,
    )
    from claude_agent_py.wire.system import (
        LocalCommandOutputMessage as LocalCommandOutputMessage,
    )
    from claude_agent_py.wire.system import (
        MemoryRecallMessage as MemoryRecallMessage,
    )
    from claude_agent_py.wire.system import (
        MirrorErrorMessage as MirrorErrorMessage,
    )
    from claude_agent_py.wire.system import (
        ModelRefusalFallbackMessage as ModelRefusalFallbackMessage,
    )
    from claude_agent_py.wire.system import (
        ModelRefusalNoFallbackMessage as ModelRefusalNoFallbackMessage,
    )
    from claude_agent_py.wire.system import (
        NotificationMessage as NotificationMessage,
    )
    from claude_agent_py.wire.system import (
        PermissionDeniedMessage as PermissionDeniedMessage,
    )
    from claude_agent_py.wire.system import (
        PluginInstallMessage as PluginInstallMessage,
    )
    from claude_agent_py.wire.system import (
        SessionStateChangedMessage as SessionStateChangedMessage,
    )
    from claude_agent_py.wire.system import (
        SessionWritesLostMessage as SessionWritesLostMessage,
    )
    from claude_agent_py.wire.system import (
        StatusMessage as StatusMessage,
    )
    from claude_agent_py.wire.system import (
        ThinkingTokensMessage as ThinkingTokensMessage,
    )
    from claude_agent_py.wire.system import (
        WorkerShuttingDownMessage as WorkerShuttingDownMessage,
    )
    from claude_agent_py.wire.tasks import (
        BackgroundTasksChangedMessage as BackgroundTasksChangedMessage,
    )
    from claude_agent_py.wire.tasks import (
        TaskNotificationMessage as TaskNotificationMessage,
    )
    from claude_agent_py.wire.tasks import (
        TaskProgressMessage as TaskProgressMessage,
    )
    from claude_agent_py.wire.tasks import (
        TaskStartedMessage as TaskStartedMessage,
    )
    from claude_agent_py.wire.tasks import (
        TaskStatus as TaskStatus,
    )
    from claude_agent_py.wire.tasks import (
        TaskUpdatedMessage as TaskUpdatedMessage,
    )
    from claude_agent_py.wire.tasks import (
        TaskUsage as TaskUsage,
    )
    from claude_agent_py.wire.tools.agent import (
        AgentAsyncLaunchedOutput as AgentAsyncLaunchedOutput,
    )
    from claude_agent_py.wire.tools.agent import (
        AgentCompletedOutput as AgentCompletedOutput,
    )
    from claude_agent_py.wire.tools.agent import (
        AgentInput as AgentInput,
    )
    from claude_agent_py.wire.tools.agent import (
        AgentRemoteLaunchedOutput as AgentRemoteLaunchedOutput,
    )
    from claude_agent_py.wire.tools.agent import (
        ListAgentsInput as ListAgentsInput,
    )
    from claude_agent_py.wire.tools.agent import (
        ListAgentsOutput as ListAgentsOutput,
    )
    from claude_agent_py.wire.tools.agent import (
        SendMessageInput as SendMessageInput,
    )
    from claude_agent_py.wire.tools.agent import (
        SendMessageOutput as SendMessageOutput,
    )
    from claude_agent_py.wire.tools.agent import (
        SkillInput as SkillInput,
    )
    from claude_agent_py.wire.tools.agent import (
        SubagentHandbackInput as SubagentHandbackInput,
    )
    from claude_agent_py.wire.tools.agent import (
        TaskInput as TaskInput,
    )
    from claude_agent_py.wire.tools.agent import (
        WorkflowInput as WorkflowInput,
    )
    from claude_agent_py.wire.tools.agent import (
        WorkflowOutput as WorkflowOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactAssetDeleteOutput as ArtifactAssetDeleteOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactAssetListOutput as ArtifactAssetListOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactAssetReadOutput as ArtifactAssetReadOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactAssetUploadOutput as ArtifactAssetUploadOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactAssetUploadsOutput as ArtifactAssetUploadsOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactInput as ArtifactInput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactListOutput as ArtifactListOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactPinOutput as ArtifactPinOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactPublishOutput as ArtifactPublishOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactReadOutput as ArtifactReadOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactStatusOutput as ArtifactStatusOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactUnwatchOutput as ArtifactUnwatchOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactWatchOutput as ArtifactWatchOutput,
    )
    from claude_agent_py.wire.tools.background import (
        MonitorInput as MonitorInput,
    )
    from claude_agent_py.wire.tools.background import (
        MonitorOutput as MonitorOutput,
    )
    from claude_agent_py.wire.tools.background import (
        TaskOutputInput as TaskOutputInput,
    )
    from claude_agent_py.wire.tools.background import (
        TaskOutputOutput as TaskOutputOutput,
    )
    from claude_agent_py.wire.tools.background import (
        TaskStopInput as TaskStopInput,
    )
    from claude_agent_py.wire.tools.background import (
        TaskStopOutput as TaskStopOutput,
    )
    from claude_agent_py.wire.tools.bash import (
        BashInput as BashInput,
    )
    from claude_agent_py.wire.tools.bash import (
        BashOutput as BashOutput,
    )
    from claude_agent_py.wire.tools.bash import (
        PowerShellInput as PowerShellInput,
    )
    from claude_agent_py.wire.tools.bash import (
        PowerShellOutput as PowerShellOutput,
    )
    from claude_agent_py.wire.tools.feedback import (
        EndConversationInput as EndConversationInput,
    )
    from claude_agent_py.wire.tools.feedback import (
        OfferChromeSetupInput as OfferChromeSetupInput,
    )
    from claude_agent_py.wire.tools.feedback import (
        OfferChromeSetupOutput as OfferChromeSetupOutput,
    )
    from claude_agent_py.wire.tools.feedback import (
        ProposeSkillsInput as ProposeSkillsInput,
    )
    from claude_agent_py.wire.tools.feedback import (
        ProposeSkillsOutput as ProposeSkillsOutput,
    )
    from claude_agent_py.wire.tools.feedback import (
        ReportFindingsInput as ReportFindingsInput,
    )
    from claude_agent_py.wire.tools.feedback import (
        ReportFindingsOutput as ReportFindingsOutput,
    )
    from claude_agent_py.wire.tools.feedback import (
        SendFeedbackInput as SendFeedbackInput,
    )
    from claude_agent_py.wire.tools.feedback import (
        SendFeedbackOutput as SendFeedbackOutput,
    )
    from claude_agent_py.wire.tools.feedback import (
        ShareOnboardingGuideInput as ShareOnboardingGuideInput,
    )
    from claude_agent_py.wire.tools.feedback import (
        ShowOnboardingRolePickerInput as ShowOnboardingRolePickerInput,
    )
    from claude_agent_py.wire.tools.feedback import (
        ShowOnboardingRolePickerOutput as ShowOnboardingRolePickerOutput,
    )
    from claude_agent_py.wire.tools.files import (
        FileEditInput as FileEditInput,
    )
    from claude_agent_py.wire.tools.files import (
        FileEditOutput as FileEditOutput,
    )
    from claude_agent_py.wire.tools.files import (
        FileReadImageOutput as FileReadImageOutput,
    )
    from claude_agent_py.wire.tools.files import (
        FileReadInput as FileReadInput,
    )
    from claude_agent_py.wire.tools.files import (
        FileReadNotebookOutput as FileReadNotebookOutput,
    )
    from claude_agent_py.wire.tools.files import (
        FileReadPartsOutput as FileReadPartsOutput,
    )
    from claude_agent_py.wire.tools.files import (
        FileReadPDFOutput as FileReadPDFOutput,
    )
    from claude_agent_py.wire.tools.files import (
        FileReadTextOutput as FileReadTextOutput,
    )
    from claude_agent_py.wire.tools.files import (
        FileWriteInput as FileWriteInput,
    )
    from claude_agent_py.wire.tools.files import (
        FileWriteOutput as FileWriteOutput,
    )
    from claude_agent_py.wire.tools.files import (
        NotebookEditInput as NotebookEditInput,
    )
    from claude_agent_py.wire.tools.files import (
        NotebookEditOutput as NotebookEditOutput,
    )
    from claude_agent_py.wire.tools.mcp import (
        ListMCPResourcesInput as ListMCPResourcesInput,
    )
    from claude_agent_py.wire.tools.mcp import (
        MCPInput as MCPInput,
    )
    from claude_agent_py.wire.tools.mcp import (
        ReadMCPResourceDirInput as ReadMCPResourceDirInput,
    )
    from claude_agent_py.wire.tools.mcp import (
        ReadMCPResourceDirOutput as ReadMCPResourceDirOutput,
    )
    from claude_agent_py.wire.tools.mcp import (
        ReadMCPResourceInput as ReadMCPResourceInput,
    )
    from claude_agent_py.wire.tools.mcp import (
        ReadMCPResourceOutput as ReadMCPResourceOutput,
    )
    from claude_agent_py.wire.tools.mcp import (
        RefreshMCPToolsInput as RefreshMCPToolsInput,
    )
    from claude_agent_py.wire.tools.mcp import (
        WaitForMCPServersInput as WaitForMCPServersInput,
    )
    from claude_agent_py.wire.tools.planning import (
        EnterPlanModeInput as EnterPlanModeInput,
    )
    from claude_agent_py.wire.tools.planning import (
        EnterPlanModeOutput as EnterPlanModeOutput,
    )
    from claude_agent_py.wire.tools.planning import (
        EnterWorktreeInput as EnterWorktreeInput,
    )
    from claude_agent_py.wire.tools.planning import (
        EnterWorktreeOutput as EnterWorktreeOutput,
    )
    from claude_agent_py.wire.tools.planning import (
        ExitPlanModeInput as ExitPlanModeInput,
    )
    from claude_agent_py.wire.tools.planning import (
        ExitPlanModeOutput as ExitPlanModeOutput,
    )
    from claude_agent_py.wire.tools.planning import (
        ExitWorktreeInput as ExitWorktreeInput,
    )
    from claude_agent_py.wire.tools.planning import (
        ExitWorktreeOutput as ExitWorktreeOutput,
    )
    from claude_agent_py.wire.tools.planning import (
        ProposeGoalInput as ProposeGoalInput,
    )
    from claude_agent_py.wire.tools.planning import (
        ProposeGoalOutput as ProposeGoalOutput,
    )
    from claude_agent_py.wire.tools.projects import (
        ClaudeDesignInput as ClaudeDesignInput,
    )
    from claude_agent_py.wire.tools.projects import (
        ClaudeDesignOutput as ClaudeDesignOutput,
    )
    from claude_agent_py.wire.tools.projects import (
        ProjectsInput as ProjectsInput,
    )
    from claude_agent_py.wire.tools.projects import (
        ProjectsOutput as ProjectsOutput,
    )
    from claude_agent_py.wire.tools.questions import (
        AskUserQuestionInput as AskUserQuestionInput,
    )
    from claude_agent_py.wire.tools.questions import (
        AskUserQuestionOutput as AskUserQuestionOutput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        CronCreateInput as CronCreateInput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        CronCreateOutput as CronCreateOutput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        CronDeleteInput as CronDeleteInput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        CronDeleteOutput as CronDeleteOutput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        CronListInput as CronListInput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        CronListOutput as CronListOutput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        PushNotificationInput as PushNotificationInput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        PushNotificationOutput as PushNotificationOutput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        ReadNotificationsInput as ReadNotificationsInput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        ReadNotificationsOutput as ReadNotificationsOutput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        RemoteTriggerInput as RemoteTriggerInput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        RemoteTriggerOutput as RemoteTriggerOutput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        ScheduleWakeupInput as ScheduleWakeupInput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        ScheduleWakeupOutput as ScheduleWakeupOutput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        SendUserFileInput as SendUserFileInput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        SendUserMessageInput as SendUserMessageInput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        SendUserMessageOutput as SendUserMessageOutput,
    )
    from claude_agent_py.wire.tools.search import (
        GlobInput as GlobInput,
    )
    from claude_agent_py.wire.tools.search import (
        GlobOutput as GlobOutput,
    )
    from claude_agent_py.wire.tools.search import (
        GrepInput as GrepInput,
    )
    from claude_agent_py.wire.tools.search import (
        GrepOutput as GrepOutput,
    )
    from claude_agent_py.wire.tools.search import (
        LSPInput as LSPInput,
    )
    from claude_agent_py.wire.tools.search import (
        ToolSearchInput as ToolSearchInput,
    )
    from claude_agent_py.wire.tools.search import (
        ToolSearchOutput as ToolSearchOutput,
    )
    from claude_agent_py.wire.tools.task_list import (
        TaskCreateInput as TaskCreateInput,
    )
    from claude_agent_py.wire.tools.task_list import (
        TaskCreateOutput as TaskCreateOutput,
    )
    from claude_agent_py.wire.tools.task_list import (
        TaskGetInput as TaskGetInput,
    )
    from claude_agent_py.wire.tools.task_list import (
        TaskGetOutput as TaskGetOutput,
    )
    from claude_agent_py.wire.tools.task_list import (
        TaskListInput as TaskListInput,
    )
    from claude_agent_py.wire.tools.task_list import (
        TaskListOutput as TaskListOutput,
    )
    from claude_agent_py.wire.tools.task_list import (
        TaskUpdateInput as TaskUpdateInput,
    )
    from claude_agent_py.wire.tools.task_list import (
        TaskUpdateOutput as TaskUpdateOutput,
    )
    from claude_agent_py.wire.tools.task_list import (
        TodoWriteInput as TodoWriteInput,
    )
    from claude_agent_py.wire.tools.task_list import (
        TodoWriteOutput as TodoWriteOutput,
    )
    from claude_agent_py.wire.tools.web import (
        WebFetchInput as WebFetchInput,
    )
    from claude_agent_py.wire.tools.web import (
        WebFetchOutput as WebFetchOutput,
    )
    from claude_agent_py.wire.tools.web import (
        WebSearchInput as WebSearchInput,
    )
    from claude_agent_py.wire.tools.web import (
        WebSearchOutput as WebSearchOutput,
    )
    from claude_agent_py.wire.unknown import (
        MalformedFrame as MalformedFrame,
    )
    from claude_agent_py.wire.unknown import (
        UnknownMessage as UnknownMessage,
    )

from claude_agent_py._version import __version__

_NAMES = {
    # Sessions and runs
    "client": """
        Client current_client
    """,
    "runs": """
        query run run_sync
    """,
    "runtime.run": """
        InterruptReceipt Run
    """,
    "runtime.result": """
        RunResult
    """,
    "runtime.prompts": """
        Prompt PromptContent
    """,
    "runtime.listeners": """
        HandlerFailed
    """,
    # Options
    "options": """
        ClientOptions
    """,
    "options.values": """
        Limits PluginConfig SystemPromptFile SystemPromptPreset SystemPromptText ThinkingAdaptive
        ThinkingDisabled ThinkingEnabled Timeouts
    """,
    "wire.sandbox": """
        SandboxSettings
    """,
    "wire.mcp": """
        MCPHTTPServer MCPSSEServer MCPStdioServer MCPToolPolicy
    """,
    # Agents
    "agents": """
        AgentDefinition AgentMCPServerSpec AgentModel DelegationGuide load_agents
    """,
    # Background tasks
    "tasks": """
        Evidence FinishedTask Grace MessageGap RecordKind Task TaskBackgrounded TaskEvent
        TaskFinished TaskHistory TaskList TaskListChange TaskListItem TaskManager TaskNode
        TaskOutcome TaskOutput TaskOutputAvailable TaskProgressed TaskRecord TaskReopened
        TaskRevised TaskStarted TaskStatusChanged TaskTree
    """,
    # Hooks
    "hooks": """
        HookContext HookMatcher HookWarning Hooks
    """,
    "wire.hooks.inputs": """
        ConfigChangeInput CwdChangedInput DirectoryAddedInput ElicitationInput
        ElicitationResultInput FileChangedInput HookInput InstructionsLoadedInput
        MessageDisplayInput NotificationInput PermissionDeniedInput PermissionRequestInput
        PostCompactInput PostModelSwitchInput PostToolBatchInput PostToolUseFailureInput
        PostToolUseInput PreCompactInput PreModelSwitchInput PreToolUseInput SessionEndInput
        SessionStartInput SetupInput StopFailureInput StopInput SubagentStartInput SubagentStopInput
        TaskCompletedInput TaskCreatedInput TeammateIdleInput UnknownHookInput
        UserPromptExpansionInput UserPromptSubmitInput WorktreeCreateInput WorktreeRemoveInput
    """,
    "wire.hooks.outputs": """
        AsyncHookOutput ConfigChangeOutput CwdChangedOutput ElicitationOutput
        ElicitationResultOutput FileChangedOutput HookOutput MessageDisplayOutput NotificationOutput
        PermissionDeniedOutput PermissionRequestOutput PostModelSwitchOutput PostToolBatchOutput
        PostToolUseFailureOutput PostToolUseOutput PreCompactOutput PreModelSwitchOutput
        PreToolUseOutput SessionStartOutput SetupOutput StopOutput SubagentStartOutput
        SubagentStopOutput TaskCompletedOutput TaskCreatedOutput TeammateIdleOutput
        UserPromptExpansionOutput UserPromptSubmitOutput WorktreeCreateOutput
    """,
    # Permissions, questions, approvals
    "permissions": """
        Accept Allow Answers Cancel Completed Decision Decline Deny Dismissed ElicitationRequest
        Form FormError FormField Inbox Interaction Option PendingInteractions PermissionContext
        PermissionRequest Plan Policy Question SQLiteInbox allow_tools ask bash_commands deny_tools
        first_of read_only within
    """,
    # Child agents
    "children": """
        ChildAgent ChildReport SubTaskStatus child_tool
    """,
    # Permission rules
    "wire.permissions": """
        AddDirectories AddRules PermissionRuleValue RemoveDirectories RemoveRules ReplaceRules
        SetMode UnknownPermissionUpdate
    """,
    # Tools
    "tools": """
        Tool ToolAnnotations ToolCallRecord ToolChain ToolChainResult ToolContext ToolResult
        ToolServer mcp_tool_name tool
    """,
    "formatting": """
        Audio Encoder File Image JSONEncoder MarkdownFormat ResourceLink TextFormat XMLFormat
        YAMLEncoder
    """,
    # Inputs and outputs of built-in tools
    "wire.tools.agent": """
        AgentAsyncLaunchedOutput AgentCompletedOutput AgentInput AgentRemoteLaunchedOutput
        ListAgentsInput ListAgentsOutput SendMessageInput SendMessageOutput SkillInput
        SubagentHandbackInput TaskInput WorkflowInput WorkflowOutput
    """,
    "wire.tools.artifacts": """
        ArtifactAssetDeleteOutput ArtifactAssetListOutput ArtifactAssetReadOutput
        ArtifactAssetUploadOutput ArtifactAssetUploadsOutput ArtifactInput ArtifactListOutput
        ArtifactPinOutput ArtifactPublishOutput ArtifactReadOutput ArtifactStatusOutput
        ArtifactUnwatchOutput ArtifactWatchOutput
    """,
    "wire.tools.background": """
        MonitorInput MonitorOutput TaskOutputInput TaskOutputOutput TaskStopInput TaskStopOutput
    """,
    "wire.tools.bash": """
        BashInput BashOutput PowerShellInput PowerShellOutput
    """,
    "wire.tools.feedback": """
        EndConversationInput OfferChromeSetupInput OfferChromeSetupOutput ProposeSkillsInput
        ProposeSkillsOutput ReportFindingsInput ReportFindingsOutput SendFeedbackInput
        SendFeedbackOutput ShareOnboardingGuideInput ShowOnboardingRolePickerInput
        ShowOnboardingRolePickerOutput
    """,
    "wire.tools.files": """
        FileEditInput FileEditOutput FileReadImageOutput FileReadInput FileReadNotebookOutput
        FileReadPDFOutput FileReadPartsOutput FileReadTextOutput FileWriteInput FileWriteOutput
        NotebookEditInput NotebookEditOutput
    """,
    "wire.tools.mcp": """
        ListMCPResourcesInput MCPInput ReadMCPResourceDirInput ReadMCPResourceDirOutput
        ReadMCPResourceInput ReadMCPResourceOutput RefreshMCPToolsInput WaitForMCPServersInput
    """,
    "wire.tools.planning": """
        EnterPlanModeInput EnterPlanModeOutput EnterWorktreeInput EnterWorktreeOutput
        ExitPlanModeInput ExitPlanModeOutput ExitWorktreeInput ExitWorktreeOutput ProposeGoalInput
        ProposeGoalOutput
    """,
    "wire.tools.projects": """
        ClaudeDesignInput ClaudeDesignOutput ProjectsInput ProjectsOutput
    """,
    "wire.tools.questions": """
        AskUserQuestionInput AskUserQuestionOutput
    """,
    "wire.tools.scheduling": """
        CronCreateInput CronCreateOutput CronDeleteInput CronDeleteOutput CronListInput
        CronListOutput PushNotificationInput PushNotificationOutput ReadNotificationsInput
        ReadNotificationsOutput RemoteTriggerInput RemoteTriggerOutput ScheduleWakeupInput
        ScheduleWakeupOutput SendUserFileInput SendUserMessageInput SendUserMessageOutput
    """,
    "wire.tools.search": """
        GlobInput GlobOutput GrepInput GrepOutput LSPInput ToolSearchInput ToolSearchOutput
    """,
    "wire.tools.task_list": """
        TaskCreateInput TaskCreateOutput TaskGetInput TaskGetOutput TaskListInput TaskListOutput
        TaskUpdateInput TaskUpdateOutput TodoWriteInput TodoWriteOutput
    """,
    "wire.tools.web": """
        WebFetchInput WebFetchOutput WebSearchInput WebSearchOutput
    """,
    # Messages: messages
    "wire.messages": """
        AssistantMessage CommandLifecycleMessage ResultMessage ToolProgressMessage UserContent
        UserMessage
    """,
    # Messages: stream
    "wire.stream": """
        StreamEventMessage
    """,
    # Messages: system
    "wire.system": """
        APIRetryMessage CommandsChangedMessage CompactBoundaryMessage ControlRequestProgressMessage
        ElicitationCompleteMessage FilesPersistedMessage HookProgressMessage HookResponseMessage
        HookStartedMessage InformationalMessage InitMessage LocalCommandOutputMessage
        MemoryRecallMessage MirrorErrorMessage ModelRefusalFallbackMessage
        ModelRefusalNoFallbackMessage NotificationMessage PermissionDeniedMessage
        PluginInstallMessage SessionStateChangedMessage SessionWritesLostMessage StatusMessage
        ThinkingTokensMessage WorkerShuttingDownMessage
    """,
    # Messages: notices
    "wire.notices": """
        ActiveGoalMessage AuthStatusMessage AutocompactStateMessage ConversationResetMessage
        PromptSuggestionMessage RateLimitMessage ToolUseSummaryMessage TranscriptMirrorMessage
    """,
    # Messages: tasks
    "wire.tasks": """
        BackgroundTasksChangedMessage TaskNotificationMessage TaskProgressMessage TaskStartedMessage
        TaskStatus TaskUpdatedMessage TaskUsage
    """,
    # Messages: content
    "wire.content": """
        AdvisorToolResultBlock BashCodeExecutionToolResultBlock Block CodeExecutionToolResultBlock
        CompactionBlock ContainerUploadBlock DocumentBlock FallbackBlock ImageBlock
        MCPToolResultBlock MCPToolUseBlock RedactedThinkingBlock SearchResultBlock
        ServerToolUseBlock TextBlock TextEditorCodeExecutionToolResultBlock ThinkingBlock
        ToolReferenceBlock ToolResultBlock ToolSearchToolResultBlock ToolUseBlock UnknownBlock
        WebFetchToolResultBlock WebSearchToolResultBlock
    """,
    # Messages: unknown
    "wire.unknown": """
        MalformedFrame UnknownMessage
    """,
    # Messages: all of them
    "wire.frames": """
        Frame Message
    """,
    "wire.codec": """
        decode encode
    """,
    # Errors
    "errors": """
        AuthenticationError BillingError BudgetExceededError CLIError CLIExitError CLIInstallError
        CLINotFoundError CLIStartError CLIVersionError ClaudeAgentError ConnectionClosedError
        ControlError ControlRejectedError ControlTimeoutError HandlerError HookStoppedError
        InterruptedRunError InvalidRequestError LocalProtocolError MCPNotReadyError
        MaxOutputTokensError MaxTurnsError ModelNotFoundError OptionsError OverloadedError
        PromptCancelledError PromptTooLongError ProtocolError RateLimitedError RefusalError
        RemoteProtocolError RunError RunTimeoutError ServerError SessionError StructuredOutputError
        TaskError TaskNotFoundError TaskOutputError TaskTimeoutError ToolError ToolInputError
        ToolTimeoutError
    """,
    # Transports
    "transport": """
        SubprocessTransport Transport
    """,
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *_HOME]  # pyright: ignore[reportUnsupportedDunderAll]


if not TYPE_CHECKING:  # type checkers would take every name for one that exists

    def __getattr__(name: str) -> Any:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
