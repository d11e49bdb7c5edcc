"""Names that the CLI gives to MCP tools: `mcp__server__tool`.

Permission rules, `allowed_tools`, hook matchers and messages use these names. CLI 2.1.328 replaces each UTF-16 code
unit other than letters, digits, `_` and `-` with `_`.
"""

import re

PREFIX = "mcp__"
TOOL_USE_ID = "claudecode/toolUseId"
"""The field of `_meta` in which the CLI sends the id of a tool call to an MCP server."""
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")


def mcp_tool_name(server: str, tool: str) -> str:
    """Return the full name of a server's tool, for permission rules and messages."""
    return f"{mcp_server_name(server)}__{sanitise(tool)}"


def mcp_server_name(server: str) -> str:
    """Return the name for all tools of a server in a permission rule: `mcp__server`."""
    return PREFIX + sanitise(server)


def split_tool_name(name: str) -> tuple[str, str] | None:
    """Return the server and tool of a full name, or None for a tool without an MCP server.

    The first `__` after the prefix ends the server name, so server names that contain `__` are split wrongly.
    """
    server, separator, tool = name.removeprefix(PREFIX).partition("__")
    if name.startswith(PREFIX) and separator and server and tool:
        return server, tool
    return None


def sanitise(name: str) -> str:
    """Replace characters that the CLI does not allow in names."""
    return _FORBIDDEN.sub(lambda match: "_" * (1 if match[0] <= "\uffff" else 2), name)
