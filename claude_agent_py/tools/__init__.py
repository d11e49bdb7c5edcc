"""Tools in this process, and the traffic of all tools.

A tool does something and returns data; formatting the data is not its business. Start with `definition` (what a tool
is) and `results` (what it returns). `server`, `session` and `host` bring tools to the CLI over MCP, `mcp_package` does
so for servers built with the `mcp` package, `chain` runs calls without a CLI, `traffic` reads calls and results in
messages.
"""

from claude_agent_py.tools.calls import ToolCall
from claude_agent_py.tools.chain import RawResults, ToolChain, ToolChainResult
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.definition import Tool, ToolAnnotations, tool
from claude_agent_py.tools.host import Caller, MCPHost, is_hosted
from claude_agent_py.tools.names import mcp_server_name, mcp_tool_name, split_tool_name
from claude_agent_py.tools.resources import Prompt, Resource
from claude_agent_py.tools.results import ToolResult
from claude_agent_py.tools.server import ToolServer
from claude_agent_py.tools.traffic import ToolCallRecord, ToolTraffic

__all__ = [
    "Caller",
    "MCPHost",
    "Prompt",
    "RawResults",
    "Resource",
    "Tool",
    "ToolAnnotations",
    "ToolCall",
    "ToolCallRecord",
    "ToolChain",
    "ToolChainResult",
    "ToolContext",
    "ToolResult",
    "ToolServer",
    "ToolTraffic",
    "is_hosted",
    "mcp_server_name",
    "mcp_tool_name",
    "split_tool_name",
    "tool",
]
