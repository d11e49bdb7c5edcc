"""What users configure and the CLI reads: MCP servers, the sandbox, and closed sets of words."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.wire.settings.mcp_servers import (
        MCPServerConfig as MCPServerConfig,
        mcp_server_from_wire as mcp_server_from_wire,
    )
    from claude_agent_py.wire.settings.sandbox import SandboxSettings as SandboxSettings
else:
    _NAMES = {
        "claude_agent_py.wire.settings.mcp_servers": "MCPServerConfig mcp_server_from_wire",
        "claude_agent_py.wire.settings.sandbox": "SandboxSettings",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
