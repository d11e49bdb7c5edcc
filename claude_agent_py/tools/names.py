"""What the CLI calls a tool of an MCP server: `mcp__server__tool`.

Owns the rule that makes such a name, and its reverse. Permission rules, `allowed_tools`, hooks' matchers and messages
all use these names. Measured on CLI 2.1.328: both parts are made of letters, digits, `_` and `-`; everything else
becomes `_`, counted in UTF-16 code units as the CLI counts.
"""

import re

PREFIX = "mcp__"
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")


def mcp_tool_name(server: str, tool: str) -> str:
    """Give the full name of a server's tool, for permission rules and for reading messages."""
    return f"{mcp_server_name(server)}__{sanitised(tool)}"


def mcp_server_name(server: str) -> str:
    """Give the name that stands for all tools of a server in a permission rule: `mcp__server`."""
    return PREFIX + sanitised(server)


def split_tool_name(name: str) -> tuple[str, str] | None:
    """Give server and tool of a full name, as far as the name tells; None for a tool that is of no server.

    A server whose name holds `__` cannot be told from its tool: the first `__` is taken for the end of the server.
    """
    server, separator, tool = name.removeprefix(PREFIX).partition("__")
    return (server, tool) if name.startswith(PREFIX) and separator and server and tool else None


def sanitised(name: str) -> str:
    """Replace what the CLI allows in no name."""
    return _FORBIDDEN.sub(lambda match: "_" * (1 if match[0] <= "\uffff" else 2), name)
