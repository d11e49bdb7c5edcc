"""Tools for MCP servers and their resources, and the calls of MCP tools."""

from typing import TypeAlias

from claude_agent_py.wire.base import CamelModel, FrameModel


class ListMCPResourcesInput(FrameModel):
    """List MCP resources."""

    server: str | None = None


class MCPResource(CamelModel):
    """A resource of an MCP server."""

    uri: str
    name: str = ""
    mime_type: str | None = None
    description: str | None = None
    server: str | None = None


ListMCPResourcesOutput: TypeAlias = list[MCPResource]


class ReadMCPResourceInput(FrameModel):
    """Read an MCP resource."""

    server: str
    uri: str


class MCPResourceContent(CamelModel):
    """The content of a resource: text, or the file that its bytes were saved to."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob_saved_to: str | None = None


class ReadMCPResourceOutput(FrameModel):
    """The contents of a resource."""

    contents: list[MCPResourceContent]
    error: str | None = None
