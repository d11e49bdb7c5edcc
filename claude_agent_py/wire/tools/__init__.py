"""The inputs and outputs of the built-in tools, typed.

The models are grouped by what the tools do (`agent`, `bash`, `files`, ...), and `registry` says which belongs to which
tool. Every name is available here, and its module is imported when it is first asked for: there are more than a hundred
models, and a program needs few. Field names are snake_case; where the wire has camelCase those are aliases, and both
are accepted. Inputs are constructible: `TaskInput(description="...", prompt="...")`.
"""

from typing import TYPE_CHECKING

from claude_agent_py.lazy_names import loader

if TYPE_CHECKING:
    from claude_agent_py.wire.tools.agent import *  # noqa: F403
    from claude_agent_py.wire.tools.artifacts import *  # noqa: F403
    from claude_agent_py.wire.tools.background import *  # noqa: F403
    from claude_agent_py.wire.tools.bash import *  # noqa: F403
    from claude_agent_py.wire.tools.feedback import *  # noqa: F403
    from claude_agent_py.wire.tools.files import *  # noqa: F403
    from claude_agent_py.wire.tools.mcp import *  # noqa: F403
    from claude_agent_py.wire.tools.planning import *  # noqa: F403
    from claude_agent_py.wire.tools.projects import *  # noqa: F403
    from claude_agent_py.wire.tools.questions import *  # noqa: F403
    from claude_agent_py.wire.tools.registry import *  # noqa: F403
    from claude_agent_py.wire.tools.scheduling import *  # noqa: F403
    from claude_agent_py.wire.tools.search import *  # noqa: F403
    from claude_agent_py.wire.tools.task_list import *  # noqa: F403
    from claude_agent_py.wire.tools.web import *  # noqa: F403

_NAMES = {
    "agent": """
        AgentAsyncLaunchedOutput AgentCompletedOutput AgentContentBlock AgentInput AgentOutput AgentPin
        AgentRemoteLaunchedOutput AgentToolStats AgentUsage Effort ListAgentsInput ListAgentsOutput
        SendMessageInput SendMessageOutput SkillInput SubagentHandbackInput TaskInput WorkflowInput
        WorkflowOutput
    """,
    "artifacts": """
        ArtifactAssetDeleteOutput ArtifactAssetListOutput ArtifactAssetReadOutput ArtifactAssetUploadOutput
        ArtifactAssetUploadsOutput ArtifactInput ArtifactListOutput ArtifactOutput ArtifactPinOutput
        ArtifactPublishOutput ArtifactReadOutput ArtifactStatusOutput ArtifactUnwatchOutput
        ArtifactWatchOutput
    """,
    "background": """
        MonitorInput MonitorOutput TaskOutputInput TaskOutputOutput TaskStopInput TaskStopOutput
        WebSocketSource
    """,
    "bash": """
        BashInput BashOutput GitBranchChange GitCommit GitOperation GitPullRequest GitPush PowerShellInput
        PowerShellOutput
    """,
    "feedback": """
        EndConversationInput Finding OfferChromeSetupInput OfferChromeSetupOutput ProposeSkillsInput
        ProposeSkillsOutput ReportFindingsInput ReportFindingsOutput SendFeedbackInput SendFeedbackOutput
        ShareOnboardingGuideInput ShowOnboardingRolePickerInput ShowOnboardingRolePickerOutput SkillProposal
    """,
    "files": """
        ArtifactRead FileEditInput FileEditOutput FileReadImageOutput FileReadInput FileReadNotebookOutput
        FileReadOutput FileReadPDFOutput FileReadPartsOutput FileReadTextOutput FileWriteInput
        FileWriteOutput GitDiff ImageDimensions ImageFile NotebookEditInput NotebookEditOutput NotebookFile
        PDFFile PDFParts PatchHunk TextFile
    """,
    "mcp": """
        ListMCPResourcesInput ListMCPResourcesOutput MCPInput MCPOutput MCPResource MCPResourceContent
        ReadMCPResourceDirInput ReadMCPResourceDirOutput ReadMCPResourceInput ReadMCPResourceOutput
        RefreshMCPToolsInput RefreshMCPToolsOutput RefreshedServer WaitForMCPServersInput
    """,
    "planning": """
        EnterPlanModeInput EnterPlanModeOutput EnterWorktreeInput EnterWorktreeOutput ExitPlanModeInput
        ExitPlanModeOutput ExitWorktreeInput ExitWorktreeOutput ProposeGoalInput ProposeGoalOutput
    """,
    "projects": """
        ClaudeDesignInput ClaudeDesignOutput ProjectsInput ProjectsOutput
    """,
    "questions": """
        AskUserQuestionInput AskUserQuestionOutput Question QuestionAnnotation QuestionOption
    """,
    "registry": """
        BUILTIN_TOOL_NAMES LEGACY_TOOL_NAME_ALIASES canonical_name typed_input typed_output
    """,
    "scheduling": """
        CronCreateInput CronCreateOutput CronDeleteInput CronDeleteOutput CronJob CronListInput
        CronListOutput PushNotificationInput PushNotificationOutput ReadNotificationsInput
        ReadNotificationsOutput ReceivedNotification RemoteTriggerInput RemoteTriggerOutput
        ScheduleWakeupInput ScheduleWakeupOutput SendUserFileInput SendUserMessageInput
        SendUserMessageOutput
    """,
    "search": """
        GlobInput GlobOutput GrepInput GrepOutput LSPInput ToolSearchInput ToolSearchOutput
    """,
    "task_list": """
        CreatedItem ItemStatus StatusChange TaskCreateInput TaskCreateOutput TaskDetails TaskGetInput
        TaskGetOutput TaskListInput TaskListItem TaskListOutput TaskUpdateInput TaskUpdateOutput TodoItem
        TodoWriteInput TodoWriteOutput
    """,
    "web": """
        WebFetchInput WebFetchOutput WebSearchHit WebSearchInput WebSearchOutput WebSearchResult
    """,
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(_HOME)
