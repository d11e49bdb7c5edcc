"""The Python SDK for Claude Code in which background work is first-class.

Start with `Client` (a session that lives on), or with `run` and `query` (one prompt). What a session can be told stands
in `ClientOptions`, what it brings in the messages, and `client.tasks` has its background tasks. To test agents without
a model: `claude_agent_py.testing`.

All public names are here, by topic; a module is loaded when one of its names is first asked for, so that the import
costs next to nothing.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

# fmt: off
if TYPE_CHECKING:
    from claude_agent_py.agents import (
        AgentDefinition as AgentDefinition, AgentMCPServerSpec as AgentMCPServerSpec, AgentModel as AgentModel,
        DelegationGuide as DelegationGuide, load_agents as load_agents,
    )
    from claude_agent_py.children import (
        ChildAgent as ChildAgent, ChildReport as ChildReport, SubTaskStatus as SubTaskStatus,
        child_tool as child_tool,
    )
    from claude_agent_py.client import (
        Client as Client, current_client as current_client,
    )
    from claude_agent_py.errors import (
        AuthenticationError as AuthenticationError, BacklogError as BacklogError, BillingError as BillingError,
        BudgetExceededError as BudgetExceededError, CLIError as CLIError, CLIExitError as CLIExitError,
        CLIInstallError as CLIInstallError, CLINotFoundError as CLINotFoundError, CLIStartError as CLIStartError,
        CLIVersionError as CLIVersionError, ClaudeAgentError as ClaudeAgentError,
        ConnectionClosedError as ConnectionClosedError, ControlError as ControlError,
        ControlRejectedError as ControlRejectedError, ControlTimeoutError as ControlTimeoutError,
        HandlerError as HandlerError, HookStoppedError as HookStoppedError,
        InterruptedRunError as InterruptedRunError, InvalidRequestError as InvalidRequestError,
        LocalProtocolError as LocalProtocolError, MCPNotReadyError as MCPNotReadyError,
        MaxOutputTokensError as MaxOutputTokensError, MaxTurnsError as MaxTurnsError,
        ModelNotFoundError as ModelNotFoundError, OptionsError as OptionsError, OverloadedError as OverloadedError,
        PromptCancelledError as PromptCancelledError, PromptTooLongError as PromptTooLongError,
        ProtocolError as ProtocolError, RateLimitedError as RateLimitedError, RefusalError as RefusalError,
        RemoteProtocolError as RemoteProtocolError, RunError as RunError, RunFailed as RunFailed,
        RunTimeoutError as RunTimeoutError, ServerError as ServerError, SessionError as SessionError,
        SessionInUseError as SessionInUseError, SessionNotFoundError as SessionNotFoundError,
        StructuredOutputError as StructuredOutputError,
        TaskError as TaskError, TaskNotFoundError as TaskNotFoundError, TaskOutputError as TaskOutputError,
        TaskTimeoutError as TaskTimeoutError, ToolError as ToolError, ToolInputError as ToolInputError,
        ToolTimeoutError as ToolTimeoutError,
    )
    from claude_agent_py.formatting import (
        Audio as Audio, Encoder as Encoder, File as File, Image as Image, JSONEncoder as JSONEncoder,
        MarkdownFormat as MarkdownFormat, ResourceLink as ResourceLink, TextFormat as TextFormat,
        XMLFormat as XMLFormat, YAMLEncoder as YAMLEncoder,
    )
    from claude_agent_py.guards import (
        guard as guard,
    )
    from claude_agent_py.hooks import (
        HookContext as HookContext, HookMatcher as HookMatcher, HookRun as HookRun, HookWarning as HookWarning,
        Hooks as Hooks, LiveHooks as LiveHooks,
    )
    from claude_agent_py.options import (
        ClientOptions as ClientOptions,
    )
    from claude_agent_py.options.values import (
        Limits as Limits, PluginConfig as PluginConfig, SystemPromptFile as SystemPromptFile,
        SystemPromptPreset as SystemPromptPreset, SystemPromptText as SystemPromptText,
        ThinkingAdaptive as ThinkingAdaptive, ThinkingDisabled as ThinkingDisabled,
        ThinkingEnabled as ThinkingEnabled, Timeouts as Timeouts,
    )
    from claude_agent_py.permissions import (
        Accept as Accept, Allow as Allow, Answers as Answers, Cancel as Cancel, Completed as Completed,
        Decision as Decision, Decline as Decline, Deny as Deny, Dismissed as Dismissed,
        ElicitationRequest as ElicitationRequest, Form as Form, FormError as FormError, FormField as FormField,
        Inbox as Inbox, Interaction as Interaction, InteractionOpened as InteractionOpened,
        InteractionSettled as InteractionSettled, Option as Option, PendingInteractions as PendingInteractions,
        PermissionContext as PermissionContext, PermissionRequest as PermissionRequest, Plan as Plan,
        Policy as Policy, Question as Question, SQLiteInbox as SQLiteInbox, allow_tools as allow_tools, ask as ask,
        bash_commands as bash_commands, deny_tools as deny_tools, first_of as first_of, read_only as read_only,
        within as within,
    )
    from claude_agent_py.retrying import (
        RetryPolicy as RetryPolicy,
    )
    from claude_agent_py.runs import (
        query as query, run as run, run_sync as run_sync,
    )
    from claude_agent_py.runtime.listeners import (
        HandlerFailed as HandlerFailed,
    )
    from claude_agent_py.runtime.message_types import (
        RunMessage as RunMessage, SessionMessage as SessionMessage,
    )
    from claude_agent_py.runtime.prompts import (
        Prompt as Prompt, PromptContent as PromptContent,
    )
    from claude_agent_py.runtime.result import (
        RunResult as RunResult,
    )
    from claude_agent_py.runtime.run import (
        InterruptReceipt as InterruptReceipt, Run as Run,
    )
    from claude_agent_py.runtime.subagents import (
        Subagent as Subagent,
    )
    from claude_agent_py.tasks import (
        Evidence as Evidence, FinishedTask as FinishedTask, Grace as Grace, MessageGap as MessageGap,
        RecordKind as RecordKind, RecordedTask as RecordedTask, RecordedTree as RecordedTree, Task as Task,
        TaskBackgrounded as TaskBackgrounded, TaskEvent as TaskEvent, TaskFinished as TaskFinished,
        TaskHistory as TaskHistory, TaskList as TaskList, TaskListChange as TaskListChange,
        TaskListItem as TaskListItem, TaskManager as TaskManager, TaskNode as TaskNode, TaskOutcome as TaskOutcome,
        TaskOutput as TaskOutput, TaskOutputAvailable as TaskOutputAvailable, TaskProgressed as TaskProgressed,
        TaskRecord as TaskRecord, TaskReopened as TaskReopened, TaskRevised as TaskRevised,
        TaskStarted as TaskStarted, TaskStatusChanged as TaskStatusChanged, TaskTree as TaskTree,
    )
    from claude_agent_py.tools import (
        Resource as Resource, Tool as Tool, ToolAnnotations as ToolAnnotations, ToolCallRecord as ToolCallRecord,
        ToolChain as ToolChain, ToolChainResult as ToolChainResult, ToolContext as ToolContext,
        ToolResult as ToolResult, ToolServer as ToolServer, ToolTraffic as ToolTraffic,
        mcp_server_name as mcp_server_name, mcp_tool_name as mcp_tool_name, tool as tool,
    )
    from claude_agent_py.transport import (
        SubprocessTransport as SubprocessTransport, Transport as Transport,
    )
    from claude_agent_py.wire.codec import (
        decode as decode, encode as encode,
    )
    from claude_agent_py.wire.content import (
        AdvisorToolResultBlock as AdvisorToolResultBlock,
        BashCodeExecutionToolResultBlock as BashCodeExecutionToolResultBlock, Block as Block,
        CodeExecutionToolResultBlock as CodeExecutionToolResultBlock, CompactionBlock as CompactionBlock,
        ContainerUploadBlock as ContainerUploadBlock, DocumentBlock as DocumentBlock,
        FallbackBlock as FallbackBlock, ImageBlock as ImageBlock, MCPToolResultBlock as MCPToolResultBlock,
        MCPToolUseBlock as MCPToolUseBlock, RedactedThinkingBlock as RedactedThinkingBlock,
        SearchResultBlock as SearchResultBlock, ServerToolUseBlock as ServerToolUseBlock, TextBlock as TextBlock,
        TextEditorCodeExecutionToolResultBlock as TextEditorCodeExecutionToolResultBlock,
        ThinkingBlock as ThinkingBlock, ToolReferenceBlock as ToolReferenceBlock,
        ToolResultBlock as ToolResultBlock, ToolSearchToolResultBlock as ToolSearchToolResultBlock,
        ToolUseBlock as ToolUseBlock, UnknownBlock as UnknownBlock,
        WebFetchToolResultBlock as WebFetchToolResultBlock, WebSearchToolResultBlock as WebSearchToolResultBlock,
    )
    from claude_agent_py.wire.frames import (
        Frame as Frame, Message as Message,
    )
    from claude_agent_py.wire.hooks.inputs import (
        ConfigChangeInput as ConfigChangeInput, CwdChangedInput as CwdChangedInput,
        DirectoryAddedInput as DirectoryAddedInput, ElicitationInput as ElicitationInput,
        ElicitationResultInput as ElicitationResultInput, FileChangedInput as FileChangedInput,
        HookInput as HookInput, InstructionsLoadedInput as InstructionsLoadedInput,
        MessageDisplayInput as MessageDisplayInput, NotificationInput as NotificationInput,
        PermissionDeniedInput as PermissionDeniedInput, PermissionRequestInput as PermissionRequestInput,
        PostCompactInput as PostCompactInput, PostModelSwitchInput as PostModelSwitchInput,
        PostToolBatchInput as PostToolBatchInput, PostToolUseFailureInput as PostToolUseFailureInput,
        PostToolUseInput as PostToolUseInput, PreCompactInput as PreCompactInput,
        PreModelSwitchInput as PreModelSwitchInput, PreToolUseInput as PreToolUseInput,
        SessionEndInput as SessionEndInput, SessionStartInput as SessionStartInput, SetupInput as SetupInput,
        StopFailureInput as StopFailureInput, StopInput as StopInput, SubagentStartInput as SubagentStartInput,
        SubagentStopInput as SubagentStopInput, TaskCompletedInput as TaskCompletedInput,
        TaskCreatedInput as TaskCreatedInput, TeammateIdleInput as TeammateIdleInput,
        UnknownHookInput as UnknownHookInput, UserPromptExpansionInput as UserPromptExpansionInput,
        UserPromptSubmitInput as UserPromptSubmitInput, WorktreeCreateInput as WorktreeCreateInput,
        WorktreeRemoveInput as WorktreeRemoveInput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        AsyncHookOutput as AsyncHookOutput, ConfigChangeOutput as ConfigChangeOutput,
        CwdChangedOutput as CwdChangedOutput, ElicitationOutput as ElicitationOutput,
        ElicitationResultOutput as ElicitationResultOutput, FileChangedOutput as FileChangedOutput,
        HookOutput as HookOutput, MessageDisplayOutput as MessageDisplayOutput,
        NotificationOutput as NotificationOutput, PermissionDeniedOutput as PermissionDeniedOutput,
        PermissionRequestOutput as PermissionRequestOutput, PostModelSwitchOutput as PostModelSwitchOutput,
        PostToolBatchOutput as PostToolBatchOutput, PostToolUseFailureOutput as PostToolUseFailureOutput,
        PostToolUseOutput as PostToolUseOutput, PreCompactOutput as PreCompactOutput,
        PreModelSwitchOutput as PreModelSwitchOutput, PreToolUseOutput as PreToolUseOutput,
        SessionStartOutput as SessionStartOutput, SetupOutput as SetupOutput, StopOutput as StopOutput,
        SubagentStartOutput as SubagentStartOutput, SubagentStopOutput as SubagentStopOutput,
        TaskCompletedOutput as TaskCompletedOutput, TaskCreatedOutput as TaskCreatedOutput,
        TeammateIdleOutput as TeammateIdleOutput, UserPromptExpansionOutput as UserPromptExpansionOutput,
        UserPromptSubmitOutput as UserPromptSubmitOutput, WorktreeCreateOutput as WorktreeCreateOutput,
    )
    from claude_agent_py.wire.mcp import (
        MCPHTTPServer as MCPHTTPServer, MCPSSEServer as MCPSSEServer, MCPStdioServer as MCPStdioServer,
        MCPToolPolicy as MCPToolPolicy,
    )
    from claude_agent_py.wire.messages import (
        AssistantMessage as AssistantMessage, CommandLifecycleMessage as CommandLifecycleMessage,
        ResultMessage as ResultMessage, ToolProgressMessage as ToolProgressMessage, UserContent as UserContent,
        UserMessage as UserMessage,
    )
    from claude_agent_py.wire.notices import (
        RateLimitMessage as RateLimitMessage, TranscriptMirrorMessage as TranscriptMirrorMessage,
    )
    from claude_agent_py.wire.occasional import (
        ActiveGoalMessage as ActiveGoalMessage, AuthStatusMessage as AuthStatusMessage,
        AutocompactStateMessage as AutocompactStateMessage, CommandsChangedMessage as CommandsChangedMessage,
        ControlRequestProgressMessage as ControlRequestProgressMessage,
        ConversationResetMessage as ConversationResetMessage, ElicitationCompleteMessage as ElicitationCompleteMessage,
        FilesPersistedMessage as FilesPersistedMessage, HookProgressMessage as HookProgressMessage,
        HookResponseMessage as HookResponseMessage, HookStartedMessage as HookStartedMessage,
        LocalCommandOutputMessage as LocalCommandOutputMessage, MemoryRecallMessage as MemoryRecallMessage,
        MirrorErrorMessage as MirrorErrorMessage, ModelRefusalFallbackMessage as ModelRefusalFallbackMessage,
        NotificationMessage as NotificationMessage, PluginInstallMessage as PluginInstallMessage,
        PromptSuggestionMessage as PromptSuggestionMessage, SessionWritesLostMessage as SessionWritesLostMessage,
        ToolUseSummaryMessage as ToolUseSummaryMessage, WorkerShuttingDownMessage as WorkerShuttingDownMessage,
    )
    from claude_agent_py.wire.permissions import (
        AddDirectories as AddDirectories, AddRules as AddRules, PermissionRuleValue as PermissionRuleValue,
        PermissionUpdate as PermissionUpdate, RemoveDirectories as RemoveDirectories, RemoveRules as RemoveRules,
        ReplaceRules as ReplaceRules, SetMode as SetMode, UnknownPermissionUpdate as UnknownPermissionUpdate,
    )
    from claude_agent_py.wire.sandbox import (
        SandboxSettings as SandboxSettings,
    )
    from claude_agent_py.wire.stream import (
        StreamEventMessage as StreamEventMessage,
    )
    from claude_agent_py.wire.system import (
        APIRetryMessage as APIRetryMessage, CompactBoundaryMessage as CompactBoundaryMessage,
        InformationalMessage as InformationalMessage, InitMessage as InitMessage,
        ModelRefusalNoFallbackMessage as ModelRefusalNoFallbackMessage,
        PermissionDeniedMessage as PermissionDeniedMessage, SessionStateChangedMessage as SessionStateChangedMessage,
        StatusMessage as StatusMessage, ThinkingTokensMessage as ThinkingTokensMessage,
    )
    from claude_agent_py.wire.tasks import (
        BackgroundTasksChangedMessage as BackgroundTasksChangedMessage,
        TaskNotificationMessage as TaskNotificationMessage, TaskProgressMessage as TaskProgressMessage,
        TaskStartedMessage as TaskStartedMessage, TaskStatus as TaskStatus,
        TaskUpdatedMessage as TaskUpdatedMessage, TaskUsage as TaskUsage,
    )
    from claude_agent_py.wire.tools.agent import (
        AgentAsyncLaunchedOutput as AgentAsyncLaunchedOutput, AgentCompletedOutput as AgentCompletedOutput,
        AgentInput as AgentInput, AgentOutput as AgentOutput, AgentRemoteLaunchedOutput as AgentRemoteLaunchedOutput,
        ListAgentsInput as ListAgentsInput, ListAgentsOutput as ListAgentsOutput,
        SendMessageInput as SendMessageInput, SendMessageOutput as SendMessageOutput, SkillInput as SkillInput,
        SubagentHandbackInput as SubagentHandbackInput, TaskInput as TaskInput, WorkflowInput as WorkflowInput,
        WorkflowOutput as WorkflowOutput,
    )
    from claude_agent_py.wire.tools.artifacts import (
        ArtifactAssetDeleteOutput as ArtifactAssetDeleteOutput, ArtifactAssetListOutput as ArtifactAssetListOutput,
        ArtifactAssetReadOutput as ArtifactAssetReadOutput, ArtifactAssetUploadOutput as ArtifactAssetUploadOutput,
        ArtifactAssetUploadsOutput as ArtifactAssetUploadsOutput, ArtifactInput as ArtifactInput,
        ArtifactListOutput as ArtifactListOutput, ArtifactPinOutput as ArtifactPinOutput,
        ArtifactPublishOutput as ArtifactPublishOutput, ArtifactReadOutput as ArtifactReadOutput,
        ArtifactStatusOutput as ArtifactStatusOutput, ArtifactUnwatchOutput as ArtifactUnwatchOutput,
        ArtifactWatchOutput as ArtifactWatchOutput,
    )
    from claude_agent_py.wire.tools.background import (
        MonitorInput as MonitorInput, MonitorOutput as MonitorOutput, TaskOutputInput as TaskOutputInput,
        TaskOutputOutput as TaskOutputOutput, TaskStopInput as TaskStopInput, TaskStopOutput as TaskStopOutput,
    )
    from claude_agent_py.wire.tools.bash import (
        BashInput as BashInput, BashOutput as BashOutput, PowerShellInput as PowerShellInput,
        PowerShellOutput as PowerShellOutput,
    )
    from claude_agent_py.wire.tools.feedback import (
        EndConversationInput as EndConversationInput, OfferChromeSetupInput as OfferChromeSetupInput,
        OfferChromeSetupOutput as OfferChromeSetupOutput, ProposeSkillsInput as ProposeSkillsInput,
        ProposeSkillsOutput as ProposeSkillsOutput, ReportFindingsInput as ReportFindingsInput,
        ReportFindingsOutput as ReportFindingsOutput, SendFeedbackInput as SendFeedbackInput,
        SendFeedbackOutput as SendFeedbackOutput, ShareOnboardingGuideInput as ShareOnboardingGuideInput,
        ShowOnboardingRolePickerInput as ShowOnboardingRolePickerInput,
        ShowOnboardingRolePickerOutput as ShowOnboardingRolePickerOutput,
    )
    from claude_agent_py.wire.tools.files import (
        FileEditInput as FileEditInput, FileEditOutput as FileEditOutput,
        FileReadImageOutput as FileReadImageOutput, FileReadInput as FileReadInput,
        FileReadNotebookOutput as FileReadNotebookOutput, FileReadPDFOutput as FileReadPDFOutput,
        FileReadPartsOutput as FileReadPartsOutput, FileReadTextOutput as FileReadTextOutput,
        FileWriteInput as FileWriteInput, FileWriteOutput as FileWriteOutput,
        NotebookEditInput as NotebookEditInput, NotebookEditOutput as NotebookEditOutput,
    )
    from claude_agent_py.wire.tools.mcp import (
        ListMCPResourcesInput as ListMCPResourcesInput, MCPInput as MCPInput,
        ReadMCPResourceDirInput as ReadMCPResourceDirInput, ReadMCPResourceDirOutput as ReadMCPResourceDirOutput,
        ReadMCPResourceInput as ReadMCPResourceInput, ReadMCPResourceOutput as ReadMCPResourceOutput,
        RefreshMCPToolsInput as RefreshMCPToolsInput, WaitForMCPServersInput as WaitForMCPServersInput,
    )
    from claude_agent_py.wire.tools.planning import (
        EnterPlanModeInput as EnterPlanModeInput, EnterPlanModeOutput as EnterPlanModeOutput,
        EnterWorktreeInput as EnterWorktreeInput, EnterWorktreeOutput as EnterWorktreeOutput,
        ExitPlanModeInput as ExitPlanModeInput, ExitPlanModeOutput as ExitPlanModeOutput,
        ExitWorktreeInput as ExitWorktreeInput, ExitWorktreeOutput as ExitWorktreeOutput,
        ProposeGoalInput as ProposeGoalInput, ProposeGoalOutput as ProposeGoalOutput,
    )
    from claude_agent_py.wire.tools.projects import (
        ClaudeDesignInput as ClaudeDesignInput, ClaudeDesignOutput as ClaudeDesignOutput,
        ProjectsInput as ProjectsInput, ProjectsOutput as ProjectsOutput,
    )
    from claude_agent_py.wire.tools.questions import (
        AskUserQuestionInput as AskUserQuestionInput, AskUserQuestionOutput as AskUserQuestionOutput,
    )
    from claude_agent_py.wire.tools.scheduling import (
        CronCreateInput as CronCreateInput, CronCreateOutput as CronCreateOutput,
        CronDeleteInput as CronDeleteInput, CronDeleteOutput as CronDeleteOutput, CronListInput as CronListInput,
        CronListOutput as CronListOutput, PushNotificationInput as PushNotificationInput,
        PushNotificationOutput as PushNotificationOutput, ReadNotificationsInput as ReadNotificationsInput,
        ReadNotificationsOutput as ReadNotificationsOutput, RemoteTriggerInput as RemoteTriggerInput,
        RemoteTriggerOutput as RemoteTriggerOutput, ScheduleWakeupInput as ScheduleWakeupInput,
        ScheduleWakeupOutput as ScheduleWakeupOutput, SendUserFileInput as SendUserFileInput,
        SendUserMessageInput as SendUserMessageInput, SendUserMessageOutput as SendUserMessageOutput,
    )
    from claude_agent_py.wire.tools.search import (
        GlobInput as GlobInput, GlobOutput as GlobOutput, GrepInput as GrepInput, GrepOutput as GrepOutput,
        LSPInput as LSPInput, ToolSearchInput as ToolSearchInput, ToolSearchOutput as ToolSearchOutput,
    )
    from claude_agent_py.wire.tools.task_list import (
        TaskCreateInput as TaskCreateInput, TaskCreateOutput as TaskCreateOutput, TaskGetInput as TaskGetInput,
        TaskGetOutput as TaskGetOutput, TaskListInput as TaskListInput, TaskListOutput as TaskListOutput,
        TaskUpdateInput as TaskUpdateInput, TaskUpdateOutput as TaskUpdateOutput, TodoWriteInput as TodoWriteInput,
        TodoWriteOutput as TodoWriteOutput,
    )
    from claude_agent_py.wire.tools.web import (
        WebFetchInput as WebFetchInput, WebFetchOutput as WebFetchOutput, WebSearchInput as WebSearchInput,
        WebSearchOutput as WebSearchOutput,
    )
    from claude_agent_py.wire.unknown import (
        MalformedFrame as MalformedFrame, UnknownMessage as UnknownMessage,
    )
# fmt: on

from claude_agent_py._version import __version__

_NAMES = {
    # Sessions and runs
    "client": """
        Client current_client
    """,
    "retrying": """
        RetryPolicy
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
    "runtime.subagents": """
        Subagent
    """,
    "runtime.listeners": """
        HandlerFailed
    """,
    "runtime.message_types": """
        RunMessage SessionMessage
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
        Evidence FinishedTask Grace MessageGap RecordKind RecordedTask RecordedTree Task
        TaskBackgrounded TaskEvent TaskFinished TaskHistory TaskList TaskListChange TaskListItem
        TaskManager TaskNode TaskOutcome TaskOutput TaskOutputAvailable TaskProgressed TaskRecord
        TaskReopened TaskRevised TaskStarted TaskStatusChanged TaskTree
    """,
    # Hooks
    "hooks": """
        HookContext HookMatcher HookRun HookWarning Hooks LiveHooks
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
        Form FormError FormField Inbox Interaction InteractionOpened InteractionSettled Option
        PendingInteractions PermissionContext
        PermissionRequest Plan Policy Question SQLiteInbox allow_tools ask bash_commands deny_tools
        first_of read_only within
    """,
    # Guards
    "guards": """
        guard
    """,
    # Child agents
    "children": """
        ChildAgent ChildReport SubTaskStatus child_tool
    """,
    # Permission rules
    "wire.permissions": """
        AddDirectories AddRules PermissionRuleValue PermissionUpdate RemoveDirectories RemoveRules
        ReplaceRules SetMode UnknownPermissionUpdate
    """,
    # Tools
    "tools": """
        Resource Tool ToolAnnotations ToolCallRecord ToolChain ToolChainResult ToolContext
        ToolResult ToolServer ToolTraffic mcp_server_name mcp_tool_name tool
    """,
    "formatting": """
        Audio Encoder File Image JSONEncoder MarkdownFormat ResourceLink TextFormat XMLFormat
        YAMLEncoder
    """,
    # Inputs and outputs of built-in tools
    "wire.tools.agent": """
        AgentAsyncLaunchedOutput AgentCompletedOutput AgentInput AgentOutput AgentRemoteLaunchedOutput
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
        APIRetryMessage CompactBoundaryMessage InformationalMessage InitMessage
        ModelRefusalNoFallbackMessage PermissionDeniedMessage SessionStateChangedMessage
        StatusMessage ThinkingTokensMessage
    """,
    # Messages: notices
    "wire.notices": """
        RateLimitMessage TranscriptMirrorMessage
    """,
    # Messages: occasional
    "wire.occasional": """
        ActiveGoalMessage AuthStatusMessage AutocompactStateMessage CommandsChangedMessage
        ControlRequestProgressMessage ConversationResetMessage ElicitationCompleteMessage
        FilesPersistedMessage HookProgressMessage HookResponseMessage HookStartedMessage
        LocalCommandOutputMessage MemoryRecallMessage MirrorErrorMessage
        ModelRefusalFallbackMessage NotificationMessage PluginInstallMessage
        PromptSuggestionMessage SessionWritesLostMessage ToolUseSummaryMessage
        WorkerShuttingDownMessage
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
        AuthenticationError BacklogError BillingError BudgetExceededError CLIError CLIExitError CLIInstallError
        CLINotFoundError CLIStartError CLIVersionError ClaudeAgentError ConnectionClosedError
        ControlError ControlRejectedError ControlTimeoutError HandlerError HookStoppedError
        InterruptedRunError InvalidRequestError LocalProtocolError MCPNotReadyError
        MaxOutputTokensError MaxTurnsError ModelNotFoundError OptionsError OverloadedError
        PromptCancelledError PromptTooLongError ProtocolError RateLimitedError RefusalError
        RemoteProtocolError RunError RunFailed RunTimeoutError ServerError SessionError SessionInUseError
        SessionNotFoundError StructuredOutputError TaskError TaskNotFoundError TaskOutputError
        TaskTimeoutError ToolError ToolInputError
        ToolTimeoutError
    """,
    # Transports
    "transport": """
        SubprocessTransport Transport
    """,
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_NAMESPACES = frozenset(
    {"agents", "children", "errors", "formatting", "history", "hooks", "permissions", "tasks", "testing", "todo"}
    | {"tools", "wire"}
)
"""Packages with further names; they are loaded on first use, too."""

__all__ = ["__version__", *_HOME]  # pyright: ignore[reportUnsupportedDunderAll]


if not TYPE_CHECKING:  # type checkers would take every name for one that exists

    def __getattr__(name: str) -> Any:
        if name in _NAMESPACES:
            return importlib.import_module(f"{__name__}.{name}")
        home = _HOME.get(name)
        if home is None:
            raise _no_such(name)
        value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value

    def _no_such(name: str) -> Exception:
        """Make the error for a name that is not here; it says what is, where the name is an official SDK's."""
        plain = f"module {__name__!r} has no attribute {name!r}"
        if name.startswith("_"):
            return AttributeError(plain)
        from claude_agent_py.renamed import instead_of

        hint = instead_of(name)
        if hint is None:
            return AttributeError(plain)
        # `from claude_agent_py import name` puts an error of its own in the place of an AttributeError, without the
        # hint. That statement comes through this function of importlib, and nothing else does, `hasattr` included.
        if sys._getframe(2).f_code.co_name == "_handle_fromlist":
            return ImportError(f"cannot import name {name!r} from {__name__!r}: {hint}", name=__name__)
        return AttributeError(f"{plain}: {hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
