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
    from claude_agent_py.wire.tools.agent import *
    from claude_agent_py.wire.tools.bash import *
    from claude_agent_py.wire.tools.files import *
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
    __getattr__, __dir__ = attach(__name__)
