"""Tools in this process, and the traffic of all tools.

A tool does something and returns data; formatting the data is not its business. Start with `definition` (what a tool
is) and `results` (what it returns). `server`, `session` and `host` bring tools to the CLI over MCP, `mcp_package` does
so for servers built with the `mcp` package, `chain` runs calls without a CLI, `traffic` reads calls and results in
messages. Every name that users need is available here; its module is imported when it is first asked for.
"""

from typing import TYPE_CHECKING

from claude_agent_py.lazy_names import loader

if TYPE_CHECKING:
    from claude_agent_py.tools.calls import ToolCall as ToolCall
    from claude_agent_py.tools.chain import RawResults as RawResults
    from claude_agent_py.tools.chain import ToolChain as ToolChain
    from claude_agent_py.tools.chain import ToolChainResult as ToolChainResult
    from claude_agent_py.tools.context import ToolContext as ToolContext
    from claude_agent_py.tools.definition import Tool as Tool
    from claude_agent_py.tools.definition import ToolAnnotations as ToolAnnotations
    from claude_agent_py.tools.definition import tool as tool
    from claude_agent_py.tools.host import Caller as Caller
    from claude_agent_py.tools.host import MCPHost as MCPHost
    from claude_agent_py.tools.host import is_hosted as is_hosted
    from claude_agent_py.tools.names import mcp_server_name as mcp_server_name
    from claude_agent_py.tools.names import mcp_tool_name as mcp_tool_name
    from claude_agent_py.tools.names import split_tool_name as split_tool_name
    from claude_agent_py.tools.resources import Prompt as Prompt
    from claude_agent_py.tools.resources import Resource as Resource
    from claude_agent_py.tools.results import ToolResult as ToolResult
    from claude_agent_py.tools.server import ToolServer as ToolServer
    from claude_agent_py.tools.traffic import ToolCallRecord as ToolCallRecord
    from claude_agent_py.tools.traffic import ToolTraffic as ToolTraffic

_NAMES = {
    "calls": "ToolCall",
    "chain": "RawResults ToolChain ToolChainResult",
    "context": "ToolContext",
    "definition": "Tool ToolAnnotations tool",
    "host": "Caller MCPHost is_hosted",
    "names": "mcp_server_name mcp_tool_name split_tool_name",
    "resources": "Prompt Resource",
    "results": "ToolResult",
    "server": "ToolServer",
    "traffic": "ToolCallRecord ToolTraffic",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(_HOME)
