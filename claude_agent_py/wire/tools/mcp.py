"""Tools for MCP servers and their resources, and the calls of MCP tools."""

from typing import Any, Literal, TypeAlias

from claude_agent_py.wire.base import CamelModel, FrameModel, Open, WireModel


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


class ReadMCPResourceDirInput(FrameModel):
    """List a directory of resources."""

    server: str
    uri: str


class ReadMCPResourceDirOutput(FrameModel):
    """The resources of a directory."""

    resources: list[MCPResource]
    error: str | None = None


class RefreshMCPToolsInput(FrameModel):
    """Refresh the tools of MCP servers."""

    server: str | None = None


class RefreshedServer(CamelModel):
    """The result of refreshing one server."""

    server: str
    status: Open[Literal["refreshed", "error", "not_connected"]]
    tool_count: int | None = None
    added: list[str] | None = None
    removed: list[str] | None = None
    error: str | None = None


RefreshMCPToolsOutput: TypeAlias = list[RefreshedServer]


class WaitForMCPServersInput(FrameModel):
    """Wait for MCP servers that are still connecting."""

    servers: list[str] | None = None


class MCPInput(WireModel):
    """The arguments of an MCP tool, which only its server knows."""


MCPOutput: TypeAlias = str | list[Any] | dict[str, Any]
