"""Tools that search files, code, tools and the web, and read the resources of MCP servers."""

from typing import Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import CamelModel, FrameModel, JSONObject, Number, Open, WireModel


class GlobInput(FrameModel):
    """Find files by name."""

    pattern: str
    path: str | None = None


class GlobOutput(FrameModel, rename="camel"):
    """The output of `Glob`: the matching files."""

    filenames: list[str]
    num_files: int = 0
    duration_ms: Number = 0
    truncated: bool = False
    total_matches: int | None = None
    count_is_complete: bool | None = None
    timed_out: bool | None = None


class GrepInput(FrameModel):
    """Search the contents of files with ripgrep."""

    pattern: str
    path: str | None = None
    glob: str | None = None
    output_mode: Open[Literal["content", "files_with_matches", "count"]] | None = None
    before: int | None = field(default=None, name="-B")
    after: int | None = field(default=None, name="-A")
    around: int | None = field(default=None, name="-C")
    context: int | None = None
    line_numbers: bool | None = field(default=None, name="-n")
    ignore_case: bool | None = field(default=None, name="-i")
    only_matching: bool | None = field(default=None, name="-o")
    type: str | None = None
    head_limit: int | None = None
    """The most results to return; 0 for no limit. Default: 250."""
    offset: int | None = None
    multiline: bool | None = None


class GrepOutput(FrameModel, rename="camel"):
    """The output of `Grep`: the matching lines, files or counts, depending on `mode`."""

    mode: Open[Literal["content", "files_with_matches", "count"]] | None = None
    num_files: int = 0
    filenames: list[str] = field(default_factory=list)
    content: str | None = None
    num_lines: int | None = None
    num_matches: int | None = None
    total_files: int | None = None
    total_lines: int | None = None
    applied_limit: int | None = None
    applied_offset: int | None = None
    timed_out: bool | None = None


class ToolSearchInput(FrameModel):
    """Find and load tools whose definitions are not in the prompt."""

    query: str
    max_results: int | None = None


class ToolSearchOutput(FrameModel):
    """The output of `ToolSearch`: the names of the matching tools."""

    matches: list[str]
    query: str = ""
    total_deferred_tools: int | None = None


class WebFetchInput(FrameModel):
    """Fetch a page and ask a small model about it."""

    url: str
    prompt: str
    offset: int | None = None
    """The index of the character to start at."""


class WebFetchOutput(FrameModel, rename="camel"):
    """The output of `WebFetch`: what a small model answered to the prompt about the page."""

    url: str
    result: str
    code: int = 0
    """The HTTP status."""
    code_text: str = ""
    bytes: int = 0
    duration_ms: Number = 0
    artifact_read: JSONObject | None = None
    """The artifact that the page is, and its version, if it counts as read now."""


class WebSearchInput(FrameModel):
    """Search the web."""

    query: str
    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None


class WebSearchHit(WireModel):
    """A search result."""

    title: str
    url: str
    snippet: str | None = None


class WebSearchResult(WireModel):
    """The results of one search."""

    tool_use_id: str
    content: list[WebSearchHit] = field(default_factory=list)


class WebSearchOutput(FrameModel, rename="camel"):
    """The output of `WebSearch`: search results and texts."""

    query: str
    results: list[WebSearchResult | str]
    duration_seconds: Number = 0
    search_count: int | None = None


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
"""The result of the tool `ListMcpResourcesTool`."""


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
    """The output of `ReadMcpResourceTool`: the contents of a resource."""

    contents: list[MCPResourceContent]
    error: str | None = None
