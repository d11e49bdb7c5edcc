"""The Python SDK for Claude Code in which background work is first-class.

Start with `Client` (a session that lives on), or with `run` and `query` (one prompt). What a session can be told stands
in `ClientOptions`, what it brings in the messages, and `client.tasks` has its background tasks. To test agents without
a model: `claude_agent_py.testing`.

The names here are those that most programs need. All others are in the namespaces `messages`, `tools`, `hooks`,
`permissions`, `tasks`, `agents`, `control`, ... A module is loaded when one of its names is first asked for, so that
the import costs next to nothing.
"""

from claude_agent_py._version import __version__ as __version__
from claude_agent_py.lazy_names import LazyNames

__all__ = ["__version__"]

# fmt: off
with LazyNames(globals()):
    from claude_agent_py import (
        agents as agents,
    )
    from claude_agent_py import (
        children as children,
    )
    from claude_agent_py import (
        control as control,
    )
    from claude_agent_py import (
        errors as errors,
    )
    from claude_agent_py import (
        formatting as formatting,
    )
    from claude_agent_py import (
        hooks as hooks,
    )
    from claude_agent_py import (
        messages as messages,
    )
    from claude_agent_py import (
        options as options,
    )
    from claude_agent_py import (
        permissions as permissions,
    )
    from claude_agent_py import (
        tasks as tasks,
    )
    from claude_agent_py import (
        testing as testing,
    )
    from claude_agent_py import (
        tools as tools,
    )
    from claude_agent_py import (
        transport as transport,
    )
    from claude_agent_py import (
        wire as wire,
    )
    from claude_agent_py.agents import AgentDefinition as AgentDefinition
    from claude_agent_py.children import ChildAgent as ChildAgent
    from claude_agent_py.children import child_tool as child_tool
    from claude_agent_py.client import Client as Client
    from claude_agent_py.client import current_client as current_client
    from claude_agent_py.errors import (
        AuthenticationError as AuthenticationError,
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
        CLINotFoundError as CLINotFoundError,
    )
    from claude_agent_py.errors import (
        CLIStartError as CLIStartError,
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
        InterruptedRunError as InterruptedRunError,
    )
    from claude_agent_py.errors import (
        MaxTurnsError as MaxTurnsError,
    )
    from claude_agent_py.errors import (
        OptionsError as OptionsError,
    )
    from claude_agent_py.errors import (
        ProtocolError as ProtocolError,
    )
    from claude_agent_py.errors import (
        RateLimitedError as RateLimitedError,
    )
    from claude_agent_py.errors import (
        RunError as RunError,
    )
    from claude_agent_py.errors import (
        RunTimeoutError as RunTimeoutError,
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
        TaskTimeoutError as TaskTimeoutError,
    )
    from claude_agent_py.errors import (
        ToolError as ToolError,
    )
    from claude_agent_py.formatting import (
        MarkdownFormat as MarkdownFormat,
    )
    from claude_agent_py.formatting import (
        TextFormat as TextFormat,
    )
    from claude_agent_py.formatting import (
        XMLFormat as XMLFormat,
    )
    from claude_agent_py.guards import guard as guard
    from claude_agent_py.hooks import (
        HookContext as HookContext,
    )
    from claude_agent_py.hooks import (
        HookEvent as HookEvent,
    )
    from claude_agent_py.hooks import (
        HookMatcher as HookMatcher,
    )
    from claude_agent_py.hooks import (
        Hooks as Hooks,
    )
    from claude_agent_py.hooks import (
        PostToolUseInput as PostToolUseInput,
    )
    from claude_agent_py.hooks import (
        PreToolUseInput as PreToolUseInput,
    )
    from claude_agent_py.hooks import (
        PreToolUseOutput as PreToolUseOutput,
    )
    from claude_agent_py.hooks import (
        StopInput as StopInput,
    )
    from claude_agent_py.hooks import (
        SubagentStopInput as SubagentStopInput,
    )
    from claude_agent_py.hooks import (
        SubagentStopOutput as SubagentStopOutput,
    )
    from claude_agent_py.hooks import (
        UserPromptSubmitInput as UserPromptSubmitInput,
    )
    from claude_agent_py.messages import (
        AssistantMessage as AssistantMessage,
    )
    from claude_agent_py.messages import (
        InitMessage as InitMessage,
    )
    from claude_agent_py.messages import (
        MalformedFrame as MalformedFrame,
    )
    from claude_agent_py.messages import (
        Message as Message,
    )
    from claude_agent_py.messages import (
        ResultMessage as ResultMessage,
    )
    from claude_agent_py.messages import (
        StreamEventMessage as StreamEventMessage,
    )
    from claude_agent_py.messages import (
        TaskNotificationMessage as TaskNotificationMessage,
    )
    from claude_agent_py.messages import (
        TaskProgressMessage as TaskProgressMessage,
    )
    from claude_agent_py.messages import (
        TaskStartedMessage as TaskStartedMessage,
    )
    from claude_agent_py.messages import (
        TaskUpdatedMessage as TaskUpdatedMessage,
    )
    from claude_agent_py.messages import (
        TextBlock as TextBlock,
    )
    from claude_agent_py.messages import (
        ThinkingBlock as ThinkingBlock,
    )
    from claude_agent_py.messages import (
        ToolResultBlock as ToolResultBlock,
    )
    from claude_agent_py.messages import (
        ToolUseBlock as ToolUseBlock,
    )
    from claude_agent_py.messages import (
        UnknownMessage as UnknownMessage,
    )
    from claude_agent_py.messages import (
        UserMessage as UserMessage,
    )
    from claude_agent_py.options import (
        ClientOptions as ClientOptions,
    )
    from claude_agent_py.options import (
        EffortLevel as EffortLevel,
    )
    from claude_agent_py.options import (
        Limits as Limits,
    )
    from claude_agent_py.options import (
        MCPHTTPServer as MCPHTTPServer,
    )
    from claude_agent_py.options import (
        MCPStdioServer as MCPStdioServer,
    )
    from claude_agent_py.options import (
        SettingSource as SettingSource,
    )
    from claude_agent_py.options import (
        SystemPromptPreset as SystemPromptPreset,
    )
    from claude_agent_py.options import (
        Timeouts as Timeouts,
    )
    from claude_agent_py.permissions import (
        Allow as Allow,
    )
    from claude_agent_py.permissions import (
        Deny as Deny,
    )
    from claude_agent_py.permissions import (
        PermissionContext as PermissionContext,
    )
    from claude_agent_py.permissions import (
        PermissionMode as PermissionMode,
    )
    from claude_agent_py.permissions import (
        PermissionRequest as PermissionRequest,
    )
    from claude_agent_py.permissions import (
        read_only as read_only,
    )
    from claude_agent_py.permissions import (
        within as within,
    )
    from claude_agent_py.retrying import RetryPolicy as RetryPolicy
    from claude_agent_py.runs import query as query
    from claude_agent_py.runs import run as run
    from claude_agent_py.runs import run_sync as run_sync
    from claude_agent_py.runtime.result import RunResult as RunResult
    from claude_agent_py.runtime.run import InterruptReceipt as InterruptReceipt
    from claude_agent_py.runtime.run import Run as Run
    from claude_agent_py.runtime.subagents import Subagent as Subagent
    from claude_agent_py.tasks import (
        Task as Task,
    )
    from claude_agent_py.tasks import (
        TaskEvent as TaskEvent,
    )
    from claude_agent_py.tasks import (
        TaskManager as TaskManager,
    )
    from claude_agent_py.tasks import (
        TaskOutcome as TaskOutcome,
    )
    from claude_agent_py.tasks import (
        TaskStatus as TaskStatus,
    )
    from claude_agent_py.tools import (
        TaskInput as TaskInput,
    )
    from claude_agent_py.tools import (
        TaskOutputInput as TaskOutputInput,
    )
    from claude_agent_py.tools import (
        Tool as Tool,
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
    from claude_agent_py.transport import Transport as Transport
