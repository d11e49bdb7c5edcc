"""Tools for the web: WebFetch, WebSearch."""

from msgspec import field

from claude_agent_py.wire.base import FrameModel, Number, WireModel


class WebFetchInput(FrameModel):
    """Fetch a page and ask a small model about it."""

    url: str
    prompt: str
    offset: int | None = None
    """The index of the character to start at."""


class WebFetchOutput(FrameModel, rename="camel"):
    """The small model's answer about the page."""

    url: str
    result: str
    code: int = 0
    """The HTTP status."""
    code_text: str = ""
    bytes: int = 0
    duration_ms: Number = 0


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
    """The search results and texts."""

    query: str
    results: list[WebSearchResult | str]
    duration_seconds: Number = 0
    search_count: int | None = None
