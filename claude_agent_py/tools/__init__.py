"""Tools: functions that the model can call in this process, and a view of the calls of all tools."""

from typing import TYPE_CHECKING

from claude_agent_py._lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.tools.calls import ToolCall as ToolCall
    from claude_agent_py.tools.chain import (
        LoopResult as LoopResult,
        LoopStep as LoopStep,
        ToolChain as ToolChain,
    )
    from claude_agent_py.tools.context import ToolContext as ToolContext
    from claude_agent_py.tools.definition import Tool as Tool, ToolAnnotations as ToolAnnotations, tool as tool
    from claude_agent_py.tools.names import (
        mcp_server_name as mcp_server_name,
        mcp_tool_name as mcp_tool_name,
        split_tool_name as split_tool_name,
    )
    from claude_agent_py.tools.results import (
        ToolCallResult as ToolCallResult,
        ToolChainResult as ToolChainResult,
        ToolResult as ToolResult,
    )
    from claude_agent_py.tools.server import Prompt as Prompt, Resource as Resource, ToolServer as ToolServer
    from claude_agent_py.tools.traffic import (
        ToolCallRecord as ToolCallRecord,
        ToolCallStatus as ToolCallStatus,
        ToolTraffic as ToolTraffic,
    )
    from claude_agent_py.wire.tools.agent import (
        AgentAsyncLaunchedOutput as AgentAsyncLaunchedOutput,
        AgentCompletedOutput as AgentCompletedOutput,
        AgentContentBlock as AgentContentBlock,
        AgentInput as AgentInput,
        AgentOutput as AgentOutput,
        AgentPin as AgentPin,
        AgentRemoteLaunchedOutput as AgentRemoteLaunchedOutput,
        AgentToolStats as AgentToolStats,
        AgentUsage as AgentUsage,
        Effort as Effort,
        Finding as Finding,
        ListAgentsInput as ListAgentsInput,
        ListAgentsOutput as ListAgentsOutput,
        ReportFindingsInput as ReportFindingsInput,
        ReportFindingsOutput as ReportFindingsOutput,
        SendMessageInput as SendMessageInput,
        SendMessageOutput as SendMessageOutput,
        SkillInput as SkillInput,
        TaskInput as TaskInput,
        WorkflowInput as WorkflowInput,
        WorkflowOutput as WorkflowOutput,
    )
    from claude_agent_py.wire.tools.bash import (
        BashInput as BashInput,
        BashOutput as BashOutput,
        GitBranchChange as GitBranchChange,
        GitCommit as GitCommit,
        GitOperation as GitOperation,
        GitPullRequest as GitPullRequest,
        GitPush as GitPush,
        MonitorInput as MonitorInput,
        MonitorOutput as MonitorOutput,
        PowerShellInput as PowerShellInput,
        PowerShellOutput as PowerShellOutput,
        TaskOutputInput as TaskOutputInput,
        TaskOutputOutput as TaskOutputOutput,
        TaskStopInput as TaskStopInput,
        TaskStopOutput as TaskStopOutput,
        WebSocketSource as WebSocketSource,
    )
    from claude_agent_py.wire.tools.files import (
        FileEditInput as FileEditInput,
        FileEditOutput as FileEditOutput,
        FileReadImageOutput as FileReadImageOutput,
        FileReadInput as FileReadInput,
        FileReadNotebookOutput as FileReadNotebookOutput,
        FileReadOutput as FileReadOutput,
        FileReadPartsOutput as FileReadPartsOutput,
        FileReadPDFOutput as FileReadPDFOutput,
        FileReadTextOutput as FileReadTextOutput,
        FileWriteInput as FileWriteInput,
        FileWriteOutput as FileWriteOutput,
        GitDiff as GitDiff,
        ImageDimensions as ImageDimensions,
        ImageFile as ImageFile,
        NotebookEditInput as NotebookEditInput,
        NotebookEditOutput as NotebookEditOutput,
        NotebookFile as NotebookFile,
        PatchHunk as PatchHunk,
        PDFFile as PDFFile,
        PDFParts as PDFParts,
        TextFile as TextFile,
    )
    from claude_agent_py.wire.tools.planning import (
        CronCreateInput as CronCreateInput,
        CronCreateOutput as CronCreateOutput,
        CronDeleteInput as CronDeleteInput,
        CronDeleteOutput as CronDeleteOutput,
        CronJob as CronJob,
        CronListInput as CronListInput,
        CronListOutput as CronListOutput,
        EnterPlanModeInput as EnterPlanModeInput,
        EnterPlanModeOutput as EnterPlanModeOutput,
        EnterWorktreeInput as EnterWorktreeInput,
        EnterWorktreeOutput as EnterWorktreeOutput,
        ExitPlanModeInput as ExitPlanModeInput,
        ExitPlanModeOutput as ExitPlanModeOutput,
        ExitWorktreeInput as ExitWorktreeInput,
        ExitWorktreeOutput as ExitWorktreeOutput,
        ScheduleWakeupInput as ScheduleWakeupInput,
        ScheduleWakeupOutput as ScheduleWakeupOutput,
    )
    from claude_agent_py.wire.tools.questions import (
        AskUserQuestionInput as AskUserQuestionInput,
        AskUserQuestionOutput as AskUserQuestionOutput,
        Question as Question,
        QuestionAnnotation as QuestionAnnotation,
        QuestionOption as QuestionOption,
    )
    from claude_agent_py.wire.tools.registry import (
        BUILTIN_TOOL_NAMES as BUILTIN_TOOL_NAMES,
        typed_input as typed_input,
        typed_output as typed_output,
    )
    from claude_agent_py.wire.tools.search import (
        GlobInput as GlobInput,
        GlobOutput as GlobOutput,
        GrepInput as GrepInput,
        GrepOutput as GrepOutput,
        ListMCPResourcesInput as ListMCPResourcesInput,
        ListMCPResourcesOutput as ListMCPResourcesOutput,
        LSPInput as LSPInput,
        MCPResource as MCPResource,
        MCPResourceContent as MCPResourceContent,
        ReadMCPResourceInput as ReadMCPResourceInput,
        ReadMCPResourceOutput as ReadMCPResourceOutput,
        ToolSearchInput as ToolSearchInput,
        ToolSearchOutput as ToolSearchOutput,
        WebFetchInput as WebFetchInput,
        WebFetchOutput as WebFetchOutput,
        WebSearchHit as WebSearchHit,
        WebSearchInput as WebSearchInput,
        WebSearchOutput as WebSearchOutput,
        WebSearchResult as WebSearchResult,
    )
    from claude_agent_py.wire.tools.task_list import (
        CreatedItem as CreatedItem,
        ItemStatus as ItemStatus,
        StatusChange as StatusChange,
        TaskCreateInput as TaskCreateInput,
        TaskCreateOutput as TaskCreateOutput,
        TaskDetails as TaskDetails,
        TaskGetInput as TaskGetInput,
        TaskGetOutput as TaskGetOutput,
        TaskListInput as TaskListInput,
        TaskListItem as TaskListItem,
        TaskListOutput as TaskListOutput,
        TaskUpdateInput as TaskUpdateInput,
        TaskUpdateOutput as TaskUpdateOutput,
        TodoItem as TodoItem,
        TodoWriteInput as TodoWriteInput,
        TodoWriteOutput as TodoWriteOutput,
    )
else:
    __getattr__, __dir__ = attach(__name__)
