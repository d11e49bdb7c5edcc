"""Content blocks: what messages are made of.

Owns every block that the Messages API and the CLI put into a message, and `UnknownBlock` for those of a newer version.
Knows no message.

`ContentBlock` is the union to write in your own signatures. A block whose `type` is known but whose fields are wrong
makes its frame malformed; it is never taken for an unknown one.
"""

from base64 import b64encode
from typing import ClassVar, Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import JSONObject, Number, Open, UnknownModel, WireModel

# Parts of blocks -------------------------------------------------------------------------------------------------


class Citation(WireModel):
    """Where a text comes from. `type` says which of the other fields are there."""

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
    """The data of an image or a document, or where it is. `type` says which of the other fields are there."""

    type: Open[Literal["base64", "url", "file", "text", "content"]]
    media_type: str | None = None
    data: str | None = None
    """Base64, or plain text where `type` is `text`."""
    url: str | None = None
    file_id: str | None = None
    content: str | list[JSONObject] | None = None


def base64_source(data: bytes, media_type: str) -> MediaSource:
    """Make a source out of bytes."""
    return MediaSource(type="base64", media_type=media_type, data=b64encode(data).decode("ascii"))


class ServerToolError(WireModel):
    """A tool that the API runs failed."""

    type: str
    error_code: str
    error_message: str | None = None


class WebSearchResult(WireModel):
    """One hit of a web search."""

    type: ClassVar[Literal["web_search_result"]] = "web_search_result"
    url: str
    title: str = ""
    encrypted_content: str = ""
    page_age: str | None = None


# Blocks of a conversation ----------------------------------------------------------------------------------------


class Block(WireModel, tag_field="type"):
    """What all blocks share."""

    cache_control: JSONObject | None = None


class TextBlock(Block):
    """Text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    citations: list[Citation] | None = None


class ThinkingBlock(Block):
    """The model's thinking, or a summary of it."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    thinking: str
    signature: str = ""


class RedactedThinkingBlock(Block):
    """Thinking that only the API can read."""

    type: ClassVar[Literal["redacted_thinking"]] = "redacted_thinking"
    data: str


class ToolUseBlock(Block):
    """The model calls a tool of the CLI or of yours."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    id: str
    name: str
    input: JSONObject = field(default_factory=dict)
    caller: JSONObject | None = None

    def typed_input(self) -> WireModel | JSONObject:
        """Return the input as the model of a built-in tool.

        For another tool, and for a shape of another CLI version, it is the plain dict. Never raises for content.
        """
        from claude_agent_py.wire.tools.registry import typed_input  # loads some hundred models: only on demand

        return typed_input(self.name, self.input)


class ToolResultBlock(Block):
    """What a tool gave back, as the model sees it. `UserMessage.tool_use_result` is the structured form."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    tool_use_id: str
    content: "str | list[ContentBlock] | None" = None
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """All text of the result, blocks joined by line breaks."""
        return text_of(self.content)


class ToolReferenceBlock(Block):
    """A tool that a tool search found; the API shows its definition to the model."""

    type: ClassVar[Literal["tool_reference"]] = "tool_reference"
    tool_name: str


class ImageBlock(Block):
    """A picture."""

    type: ClassVar[Literal["image"]] = "image"
    source: MediaSource

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str) -> "ImageBlock":
        """Make a block of a picture's bytes; `media_type` for example `image/png`."""
        return cls(source=base64_source(data, media_type))


class DocumentBlock(Block):
    """A document, for example a PDF."""

    type: ClassVar[Literal["document"]] = "document"
    source: MediaSource
    title: str | None = None
    context: str | None = None
    citations: JSONObject | None = None

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str = "application/pdf", title: str | None = None) -> "DocumentBlock":
        """Make a block of a document's bytes."""
        source = base64_source(data, media_type)
        return cls(source=source) if title is None else cls(source=source, title=title)


class SearchResultBlock(Block):
    """A search hit of a tool, which the model can cite."""

    type: ClassVar[Literal["search_result"]] = "search_result"
    source: str
    title: str = ""
    content: "list[ContentBlock]" = field(default_factory=list)
    citations: JSONObject | None = None


class ContainerUploadBlock(Block):
    """A file put into the API's sandbox."""

    type: ClassVar[Literal["container_upload"]] = "container_upload"
    file_id: str


class CompactionBlock(Block):
    """A summary that the API put in place of earlier conversation."""

    type: ClassVar[Literal["compaction"]] = "compaction"
    content: str | None = None


class FallbackBlock(Block):
    """The API went on with another model from here."""

    type: ClassVar[Literal["fallback"]] = "fallback"


# Tools that the API runs -----------------------------------------------------------------------------------------


class ServerToolUseBlock(Block):
    """The model calls a tool that the API runs (web search, code execution, ...)."""

    type: ClassVar[Literal["server_tool_use"]] = "server_tool_use"
    id: str
    name: str
    input: JSONObject = field(default_factory=dict)
    caller: JSONObject | None = None


class ServerToolResult(Block):
    """What the results of tools that the API runs share."""

    tool_use_id: str
    caller: JSONObject | None = None


class WebSearchToolResultBlock(ServerToolResult):
    """The hits of a web search, or why there are none."""

    type: ClassVar[Literal["web_search_tool_result"]] = "web_search_tool_result"
    content: list[WebSearchResult] | ServerToolError


class WebFetchToolResultBlock(ServerToolResult):
    """A fetched page, or why there is none."""

    type: ClassVar[Literal["web_fetch_tool_result"]] = "web_fetch_tool_result"
    content: JSONObject


class CodeExecutionToolResultBlock(ServerToolResult):
    """What Python code in the API's sandbox gave."""

    type: ClassVar[Literal["code_execution_tool_result"]] = "code_execution_tool_result"
    content: JSONObject


class BashCodeExecutionToolResultBlock(ServerToolResult):
    """What a shell command in the API's sandbox gave."""

    type: ClassVar[Literal["bash_code_execution_tool_result"]] = "bash_code_execution_tool_result"
    content: JSONObject


class TextEditorCodeExecutionToolResultBlock(ServerToolResult):
    """What the file editor in the API's sandbox gave."""

    type: ClassVar[Literal["text_editor_code_execution_tool_result"]] = "text_editor_code_execution_tool_result"
    content: JSONObject


class ToolSearchToolResultBlock(ServerToolResult):
    """The tools that a search for tools found."""

    type: ClassVar[Literal["tool_search_tool_result"]] = "tool_search_tool_result"
    content: JSONObject


class AdvisorToolResultBlock(ServerToolResult):
    """What an advising model said."""

    type: ClassVar[Literal["advisor_tool_result"]] = "advisor_tool_result"
    content: JSONObject


class MCPToolUseBlock(Block):
    """The API calls a tool of an MCP server by itself."""

    type: ClassVar[Literal["mcp_tool_use"]] = "mcp_tool_use"
    id: str
    name: str
    server_name: str = ""
    input: JSONObject = field(default_factory=dict)


class MCPToolResultBlock(ServerToolResult):
    """What that tool gave back."""

    type: ClassVar[Literal["mcp_tool_result"]] = "mcp_tool_result"
    content: "str | list[ContentBlock] | None" = None
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """All text of the result, blocks joined by line breaks."""
        return text_of(self.content)


# The union -------------------------------------------------------------------------------------------------------


class UnknownBlock(UnknownModel, tag_field="type"):
    """A block of a type that this version does not know."""

    @property
    def type(self) -> str:
        """The block's type."""
        return str(self.raw.get("type", ""))


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
    | UnknownBlock
)


def text_of(content: str | list[ContentBlock] | None) -> str:
    """Return the text of some content: of its text blocks, joined by line breaks."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content or () if isinstance(block, TextBlock))
