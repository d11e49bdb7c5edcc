"""A Python SDK for Claude Code, with first-class background tasks.

Start with `Client` (a session for any number of prompts), or with `run` and `query` (one prompt). `ClientOptions` holds
the options of a session, and `client.tasks` its background tasks. `claude_agent_py.testing` tests agents without a
model.

This package has the names that most programs need; the others are in `messages`, `tools`, `hooks`, `permissions`,
`tasks`, `agents`, `control`, ... Modules are loaded on first use, to keep the import fast.

PYTEST_DONT_REWRITE: so pytest does not warn if a program imports this package and then calls `pytest.main`.
"""

from claude_agent_py._base.lazy_names import attach
from claude_agent_py._version import __version__ as __version__

TYPE_CHECKING = False  # `typing` is not imported here
if TYPE_CHECKING:
    from claude_agent_py import (
        acp as acp,
        agents as agents,
        children as children,
        control as control,
        errors as errors,
        fleet as fleet,
        formatting as formatting,
        history as history,
        hooks as hooks,
        messages as messages,
        observe as observe,
        options as options,
        permissions as permissions,
        pool as pool,
        sessions as sessions,
        tasks as tasks,
        testing as testing,
        todo as todo,
        tools as tools,
        transport as transport,
        wire as wire,
    )
    from claude_agent_py._base.errors import (
        ClaudeAgentError as ClaudeAgentError,
        CLIError as CLIError,
        CLIExitError as CLIExitError,
        CLINotFoundError as CLINotFoundError,
        CLIStartError as CLIStartError,
        CLIVersionError as CLIVersionError,
        ConnectionClosedError as ConnectionClosedError,
        ControlError as ControlError,
        ControlRejectedError as ControlRejectedError,
        ControlTimeoutError as ControlTimeoutError,
        LocalProtocolError as LocalProtocolError,
        OptionsError as OptionsError,
        ProtocolError as ProtocolError,
        RemoteProtocolError as RemoteProtocolError,
        RunFailed as RunFailed,
        SessionError as SessionError,
        TaskError as TaskError,
        TaskNotFoundError as TaskNotFoundError,
        TaskTimeoutError as TaskTimeoutError,
        ToolError as ToolError,
    )
    from claude_agent_py._connection.runs.prompts import verbatim as verbatim
    from claude_agent_py._connection.runs.result import (
        AuthenticationError as AuthenticationError,
        BudgetExceededError as BudgetExceededError,
        InterruptedRunError as InterruptedRunError,
        InvalidRequestError as InvalidRequestError,
        MaxTurnsError as MaxTurnsError,
        OverloadedError as OverloadedError,
        RateLimitedError as RateLimitedError,
        RunError as RunError,
        RunResult as RunResult,
        RunTimeoutError as RunTimeoutError,
        StructuredOutputError as StructuredOutputError,
    )
    from claude_agent_py._connection.runs.run import Run as Run
    from claude_agent_py._connection.runs.subagents import Subagent as Subagent
    from claude_agent_py.agents import AgentDefinition as AgentDefinition
    from claude_agent_py.children import ChildAgent as ChildAgent, child_tool as child_tool
    from claude_agent_py.client import Client as Client
    from claude_agent_py.formatting import (
        MarkdownFormat as MarkdownFormat,
        TextFormat as TextFormat,
        XMLFormat as XMLFormat,
    )
    from claude_agent_py.hooks import (
        HookContext as HookContext,
        HookEvent as HookEvent,
        HookMatcher as HookMatcher,
        Hooks as Hooks,
        SubagentStopInput as SubagentStopInput,
        SubagentStopOutput as SubagentStopOutput,
    )
    from claude_agent_py.messages import (
        AssistantMessage as AssistantMessage,
        InitMessage as InitMessage,
        MalformedFrame as MalformedFrame,
        Message as Message,
        ResultMessage as ResultMessage,
        StreamEventMessage as StreamEventMessage,
        TaskNotificationMessage as TaskNotificationMessage,
        TaskProgressMessage as TaskProgressMessage,
        TaskStartedMessage as TaskStartedMessage,
        TaskUpdatedMessage as TaskUpdatedMessage,
        TextBlock as TextBlock,
        ThinkingBlock as ThinkingBlock,
        ToolResultBlock as ToolResultBlock,
        ToolUseBlock as ToolUseBlock,
        UnknownBlock as UnknownBlock,
        UnknownMessage as UnknownMessage,
        UserMessage as UserMessage,
    )
    from claude_agent_py.options import (
        ClientOptions as ClientOptions,
        EffortLevel as EffortLevel,
        Limits as Limits,
        MCPHTTPServer as MCPHTTPServer,
        MCPStdioServer as MCPStdioServer,
        SettingSource as SettingSource,
        Timeouts as Timeouts,
    )
    from claude_agent_py.permissions import (
        Allow as Allow,
        Deny as Deny,
        PermissionContext as PermissionContext,
        PermissionMode as PermissionMode,
        PermissionRequest as PermissionRequest,
        guard as guard,
        read_only as read_only,
        within as within,
    )
    from claude_agent_py.retrying import RetryPolicy as RetryPolicy
    from claude_agent_py.runs import query as query, run as run, run_sync as run_sync
    from claude_agent_py.tasks import (
        Task as Task,
        TaskEvent as TaskEvent,
        TaskManager as TaskManager,
        TaskOutcome as TaskOutcome,
        TaskStatus as TaskStatus,
    )
    from claude_agent_py.tools import (
        TaskInput as TaskInput,
        TaskOutputInput as TaskOutputInput,
        Tool as Tool,
        ToolChain as ToolChain,
        ToolChainResult as ToolChainResult,
        ToolContext as ToolContext,
        ToolResult as ToolResult,
        ToolServer as ToolServer,
        tool as tool,
    )
    from claude_agent_py.transport import Transport as Transport
else:
    _NAMES = {
        "claude_agent_py": """
            acp agents children control errors fleet formatting history hooks journal messages observe options
            permissions pool sessions tasks testing todo tools transport wire
        """,
        "claude_agent_py._base.errors": """
            ClaudeAgentError CLIError CLIExitError CLINotFoundError CLIStartError CLIVersionError ConnectionClosedError
            ControlError ControlRejectedError ControlTimeoutError LocalProtocolError OptionsError ProtocolError
            RemoteProtocolError RunFailed SessionError TaskError TaskNotFoundError TaskTimeoutError ToolError
        """,
        "claude_agent_py._connection.runs.result": """
            AuthenticationError BudgetExceededError InterruptedRunError InvalidRequestError MaxTurnsError
            OverloadedError RateLimitedError RunError RunResult RunTimeoutError StructuredOutputError
        """,
        "claude_agent_py._connection.runs.run": "Run",
        "claude_agent_py._connection.runs.subagents": "Subagent",
        "claude_agent_py.agents": "AgentDefinition",
        "claude_agent_py.children": "ChildAgent child_tool",
        "claude_agent_py.client": "Client",
        "claude_agent_py.formatting": "MarkdownFormat TextFormat XMLFormat",
        "claude_agent_py.hooks": "HookContext HookEvent HookMatcher Hooks SubagentStopInput SubagentStopOutput",
        "claude_agent_py.messages": """
            AssistantMessage InitMessage MalformedFrame Message ResultMessage StreamEventMessage TaskNotificationMessage
            TaskProgressMessage TaskStartedMessage TaskUpdatedMessage TextBlock ThinkingBlock ToolResultBlock
            ToolUseBlock UnknownBlock UnknownMessage UserMessage
        """,
        "claude_agent_py.options": """
            ClientOptions EffortLevel Limits MCPHTTPServer MCPStdioServer SettingSource Timeouts
        """,
        "claude_agent_py.permissions": """
            Allow Deny PermissionContext PermissionMode PermissionRequest guard read_only within
        """,
        "claude_agent_py.retrying": "RetryPolicy",
        "claude_agent_py._connection.runs.prompts": "verbatim",
        "claude_agent_py.runs": "query run run_sync",
        "claude_agent_py.tasks": "Task TaskEvent TaskManager TaskOutcome TaskStatus",
        "claude_agent_py.tools": """
            TaskInput TaskOutputInput Tool ToolChain ToolChainResult ToolContext ToolResult ToolServer tool
        """,
        "claude_agent_py.transport": "Transport",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
