"""Tools: functions that the model can call in this process, and a view of the calls of all tools."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._base.errors import (
        ToolError as ToolError,
        ToolInputError as ToolInputError,
        ToolTimeoutError as ToolTimeoutError,
        UnknownToolError as UnknownToolError,
    )
    from claude_agent_py._journal.tool_calls import (
        ToolCallRecord as ToolCallRecord,
        ToolCallStatus as ToolCallStatus,
        ToolTraffic as ToolTraffic,
    )
    from claude_agent_py.tools.asking import SamplingHandler as SamplingHandler
    from claude_agent_py.tools.calls import ToolCall as ToolCall
    from claude_agent_py.tools.chain import LoopResult as LoopResult, LoopStep as LoopStep, ToolChain as ToolChain
    from claude_agent_py.tools.context import ToolContext as ToolContext, current_tool as current_tool
    from claude_agent_py.tools.definition import Tool as Tool, ToolAnnotations as ToolAnnotations, tool as tool
    from claude_agent_py.tools.results import (
        ToolCallResult as ToolCallResult,
        ToolChainResult as ToolChainResult,
        ToolResult as ToolResult,
    )
    from claude_agent_py.tools.sampling import SamplingMessage as SamplingMessage, SamplingRequest as SamplingRequest
    from claude_agent_py.tools.server import Prompt as Prompt, Resource as Resource, ToolServer as ToolServer
    from claude_agent_py.wire.settings.rule_lists import AGENT_TOOLS as AGENT_TOOLS
    from claude_agent_py.wire.tools.agent import *
    from claude_agent_py.wire.tools.bash import *
    from claude_agent_py.wire.tools.files import *
    from claude_agent_py.wire.tools.names import (
        mcp_server_name as mcp_server_name,
        mcp_tool_name as mcp_tool_name,
        split_tool_name as split_tool_name,
    )
    from claude_agent_py.wire.tools.planning import *
    from claude_agent_py.wire.tools.questions import *
    from claude_agent_py.wire.tools.registry import (
        BUILTIN_TOOL_NAMES as BUILTIN_TOOL_NAMES,
        typed_input as typed_input,
        typed_output as typed_output,
    )
    from claude_agent_py.wire.tools.search import *
    from claude_agent_py.wire.tools.task_list import *
else:
    _NAMES = {
        "claude_agent_py._base.errors": "ToolError ToolInputError ToolTimeoutError UnknownToolError",
        "claude_agent_py.tools.asking": "SamplingHandler",
        "claude_agent_py.tools.calls": "ToolCall",
        "claude_agent_py.tools.chain": "LoopResult LoopStep ToolChain",
        "claude_agent_py.tools.context": "ToolContext current_tool",
        "claude_agent_py.tools.definition": "Tool ToolAnnotations tool",
        "claude_agent_py.wire.tools.names": "mcp_server_name mcp_tool_name split_tool_name",
        "claude_agent_py.tools.results": "ToolCallResult ToolChainResult ToolResult",
        "claude_agent_py.tools.sampling": "SamplingMessage SamplingRequest",
        "claude_agent_py.tools.server": "Prompt Resource ToolServer",
        "claude_agent_py._journal.tool_calls": "ToolCallRecord ToolCallStatus ToolTraffic",
        "claude_agent_py.wire.settings.rule_lists": "AGENT_TOOLS",
        "claude_agent_py.wire.tools.agent": "*",
        "claude_agent_py.wire.tools.bash": "*",
        "claude_agent_py.wire.tools.files": "*",
        "claude_agent_py.wire.tools.planning": "*",
        "claude_agent_py.wire.tools.questions": "*",
        "claude_agent_py.wire.tools.registry": "BUILTIN_TOOL_NAMES typed_input typed_output",
        "claude_agent_py.wire.tools.search": "*",
        "claude_agent_py.wire.tools.task_list": "*",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
