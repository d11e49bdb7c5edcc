"""Content blocks of messages.

`ContentBlock` is the union of them all. A block of an unknown type becomes an `UnknownBlock`; a block of a known type
with invalid fields makes its frame malformed.
"""

from base64 import b64encode
from typing import ClassVar, Literal, TypeAlias

import msgspec
from msgspec import field

from claude_agent_py.wire.base import JSONObject, Number, Open, UnknownModel, WireModel
from claude_agent_py.wire.tools.registry import typed_input

# Parts of blocks -------------------------------------------------------------------------------------------------


class Citation(WireModel):
    """The source of a text. `type` determines which other fields are set."""

    type: Open[
        Literal[
            "char_location",
            "page_location",
            "content_block_location",
            "web_search_result_location",
            "search_result_location",
        ]
    ]
    cited_text: str = ""
    document_index: Number | None = None
    document_title: str | None = None
    file_id: str | None = None
    start_char_index: Number | None = None
    end_char_index: Number | None = None
    start_page_number: Number | None = None
    end_page_number: Number | None = None
    start_block_index: Number | None = None
    end_block_index: Number | None = None
    search_result_index: Number | None = None
    source: str | None = None
    title: str | None = None
    url: str | None = None
    encrypted_index: str | None = None


class MediaSource(WireModel):
    """The data of an image or document, or a reference to it. `type` determines which other fields are set."""

    type: Open[Literal["base64", "url", "file", "text", "content"]]
    media_type: str | None = None
    data: str | None = None
    """Base64, or plain text if `type` is `text`."""
    url: str | None = None
    file_id: str | None = None
    content: str | list[JSONObject] | None = None


def _base64_source(data: bytes, media_type: str) -> MediaSource:
    """Create a base64 source from bytes."""
    return MediaSource(type="base64", media_type=media_type, data=b64encode(data).decode("ascii"))


class ServerToolError(WireModel):
    """The error of a server tool."""

    type: str
    error_code: str
    error_message: str | None = None


class WebSearchResult(WireModel):
    """One result of a web search."""

    type: ClassVar[Literal["web_search_result"]] = "web_search_result"
    url: str
    title: str = ""
    encrypted_content: str = ""
    page_age: str | None = None


# Blocks of a conversation ----------------------------------------------------------------------------------------


class Block(WireModel):
    """Base of all content blocks."""

    cache_control: JSONObject | None = None


class TextBlock(Block):
    """Text of the model or the user."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    citations: list[Citation] | None = None


class ThinkingBlock(Block):
    """The model's thinking or a summary of it."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    thinking: str
    signature: str = ""


class RedactedThinkingBlock(Block):
    """Encrypted thinking, readable only by the API."""

    type: ClassVar[Literal["redacted_thinking"]] = "redacted_thinking"
    data: str


class _ToolUse(Block):
    """Base of the calls of tools."""

    id: str
    name: str
    input: JSONObject = field(default_factory=dict)


class ToolUseBlock(_ToolUse):
    """A call of a tool by the model."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    caller: JSONObject | None = None

    def typed_input(self) -> WireModel | JSONObject:
        """Return the input as a built-in tool's input model, or as a dict if no model matches it."""
        return typed_input(self.name, self.input)


class _ToolResult(Block):
    """Base of the results of tools that the CLI or the MCP connector of the API ran."""

    tool_use_id: str
    content: "str | list[ContentBlock] | None" = None
    is_error: bool | None = False
    """Whether the call failed. Left out on the wire unless it is true."""

    def __post_init__(self) -> None:
        if self.is_error is None:  # unlike False, None would be encoded
            msgspec.structs.force_setattr(self, "is_error", False)

    @property
    def text(self) -> str:
        """The text of the result; text blocks are joined by line breaks."""
        return text_of(self.content)


class ToolResultBlock(_ToolResult):
    """The result of a tool call as the model sees it. `UserMessage.tool_use_result` has the structured form."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"


class ToolReferenceBlock(Block):
    """A tool found by a tool search. The API expands it to the tool's definition."""

    type: ClassVar[Literal["tool_reference"]] = "tool_reference"
    tool_name: str


class ImageBlock(Block):
    """An image."""

    type: ClassVar[Literal["image"]] = "image"
    source: MediaSource

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str) -> "ImageBlock":
        """Create a block from an image's bytes and media type, for example `image/png`."""
        return cls(source=_base64_source(data, media_type))


class DocumentBlock(Block):
    """A document, for example a PDF."""

    type: ClassVar[Literal["document"]] = "document"
    source: MediaSource
    title: str | None = None
    context: str | None = None
    citations: JSONObject | None = None

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str = "application/pdf", title: str | None = None) -> "DocumentBlock":
        """Create a block from a document's bytes."""
        return cls(source=_base64_source(data, media_type), title=title)


class SearchResultBlock(Block):
    """A search result that the model can cite."""

    type: ClassVar[Literal["search_result"]] = "search_result"
    source: str
    title: str = ""
    content: "list[ContentBlock]" = field(default_factory=list)
    citations: JSONObject | None = None


class ContainerUploadBlock(Block):
    """A file uploaded to the API's code execution container."""

    type: ClassVar[Literal["container_upload"]] = "container_upload"
    file_id: str


class CompactionBlock(Block):
    """A summary that replaces earlier parts of the conversation."""

    type: ClassVar[Literal["compaction"]] = "compaction"
    content: str | None = None


class FallbackBlock(Block):
    """Marks where the API switched to another model."""

    type: ClassVar[Literal["fallback"]] = "fallback"


# Tools that the API runs -----------------------------------------------------------------------------------------


class ServerToolUseBlock(_ToolUse):
    """A call of a tool that the API runs itself (web search, code execution, ...)."""

    type: ClassVar[Literal["server_tool_use"]] = "server_tool_use"
    caller: JSONObject | None = None


class _ServerToolResult(Block):
    """Base of the results of server tools."""

    tool_use_id: str
    caller: JSONObject | None = None


class WebSearchToolResultBlock(_ServerToolResult):
    """The results of a web search, or its error."""

    type: ClassVar[Literal["web_search_tool_result"]] = "web_search_tool_result"
    content: list[WebSearchResult] | ServerToolError


class WebFetchToolResultBlock(_ServerToolResult):
    """A fetched page, or the error of the fetch."""

    type: ClassVar[Literal["web_fetch_tool_result"]] = "web_fetch_tool_result"
    content: JSONObject


class CodeExecutionToolResultBlock(_ServerToolResult):
    """The result of Python code run in the API's container."""

    type: ClassVar[Literal["code_execution_tool_result"]] = "code_execution_tool_result"
    content: JSONObject


class BashCodeExecutionToolResultBlock(_ServerToolResult):
    """The result of a shell command run in the API's container."""

    type: ClassVar[Literal["bash_code_execution_tool_result"]] = "bash_code_execution_tool_result"
    content: JSONObject


class TextEditorCodeExecutionToolResultBlock(_ServerToolResult):
    """The result of a file edit in the API's container."""

    type: ClassVar[Literal["text_editor_code_execution_tool_result"]] = "text_editor_code_execution_tool_result"
    content: JSONObject


class ToolSearchToolResultBlock(_ServerToolResult):
    """The tools found by a tool search."""

    type: ClassVar[Literal["tool_search_tool_result"]] = "tool_search_tool_result"
    content: JSONObject


class AdvisorToolResultBlock(_ServerToolResult):
    """The answer of an advisor model."""

    type: ClassVar[Literal["advisor_tool_result"]] = "advisor_tool_result"
    content: JSONObject


class MCPToolUseBlock(_ToolUse):
    """A call of an MCP tool that the API runs itself."""

    type: ClassVar[Literal["mcp_tool_use"]] = "mcp_tool_use"
    server_name: str = ""


class MCPToolResultBlock(_ToolResult):
    """The result of an MCP tool that the API ran."""

    type: ClassVar[Literal["mcp_tool_result"]] = "mcp_tool_result"
    caller: JSONObject | None = None


class MCPToolListingBlock(Block):
    """The tools of an MCP server that the API uses itself. Known to the CLI since 2.1.328."""

    type: ClassVar[Literal["mcp_tool_listing"]] = "mcp_tool_listing"
    mcp_server_name: str
    tools: list[JSONObject] = field(default_factory=list)


# The union -------------------------------------------------------------------------------------------------------


class UnknownBlock(UnknownModel, tag_field="type"):
    """A block of a type unknown to this version."""


ContentBlock: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | ToolReferenceBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ContainerUploadBlock
    | CompactionBlock
    | FallbackBlock
    | ServerToolUseBlock
    | WebSearchToolResultBlock
    | WebFetchToolResultBlock
    | CodeExecutionToolResultBlock
    | BashCodeExecutionToolResultBlock
    | TextEditorCodeExecutionToolResultBlock
    | ToolSearchToolResultBlock
    | AdvisorToolResultBlock
    | MCPToolUseBlock
    | MCPToolResultBlock
    | MCPToolListingBlock
    | UnknownBlock
)
"""A block of a message."""


def text_of(content: str | list[ContentBlock] | None) -> str:
    """Return the text of message content; text blocks are joined by line breaks."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content or () if isinstance(block, TextBlock))
