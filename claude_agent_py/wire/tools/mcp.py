"""Tools around MCP servers: resources, refreshing, waiting, and the calls of their own tools."""

from typing import Any, Literal, TypeAlias

from claude_agent_py.wire.base import CamelModel, FrameModel, Open, WireModel


class ListMCPResourcesInput(FrameModel):
    """List resources."""

    server: str | None = None


class MCPResource(CamelModel):
    """A resource of a server."""

    uri: str
    name: str = ""
    mime_type: str | None = None
    description: str | None = None
    server: str | None = None


ListMCPResourcesOutput: TypeAlias = list[MCPResource]


class ReadMCPResourceInput(FrameModel):
    """Read a resource."""

    server: str
    uri: str


class MCPResourceContent(CamelModel):
    """What a resource holds: text, or the file that its bytes were saved to."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob_saved_to: str | None = None


class ReadMCPResourceOutput(FrameModel):
    """What the resource holds."""

    contents: list[MCPResourceContent]
    error: str | None = None


class ReadMCPResourceDirInput(FrameModel):
    """List a directory of resources."""

    server: str
    uri: str


class ReadMCPResourceDirOutput(FrameModel):
    """What is in the directory."""

    resources: list[MCPResource]
    error: str | None = None


class RefreshMCPToolsInput(FrameModel):
    """Ask servers again for their tools."""

    server: str | None = None


class RefreshedServer(CamelModel):
    """What asking one server again brought."""

    server: str
    status: Open[Literal["refreshed", "error", "not_connected"]]
    tool_count: int | None = None
    added: list[str] | None = None
    removed: list[str] | None = None
    error: str | None = None


RefreshMCPToolsOutput: TypeAlias = list[RefreshedServer]


class WaitForMCPServersInput(FrameModel):
    """Wait for servers that are still connecting."""

    servers: list[str] | None = None


class MCPInput(WireModel):
    """The arguments of a server's own tool: all in `raw`, since only the server knows them."""


MCPOutput: TypeAlias = str | list[Any] | dict[str, Any]
