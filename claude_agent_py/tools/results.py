"""`ToolResult` and the conversion of any returned value to it, including limits on its size."""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from claude_agent_py._base.callbacks import error_text
from claude_agent_py._base.errors import ToolError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.redaction import redact
from claude_agent_py.formatting.encoders import Encoder, clean_text, plain
from claude_agent_py.formatting.media import (
    File,
    Media,
    ResourceLink,
    api_blocks,
    from_bytes,
    mcp_block,
    read_mcp_block,
)
from claude_agent_py.formatting.truncation import INLINE_CHARS, text_length, truncate, truncation_note
from claude_agent_py.wire.base import JSONObject, dump
from claude_agent_py.wire.messages.content import ContentBlock, TextBlock, ToolResultBlock
from claude_agent_py.wire.messages.conversation import UserContent, UserMessage

MAX_CHARS = 2_000


def failure_text(tool: str, error: BaseException) -> str:
    """Return the text about a failure for the model.

    The message of a `ToolError` is written for the model and stays unchanged, up to the CLI's limit for results. Other
    exceptions are shortened to type and message, and anything that looks like a secret is redacted.
    """
    if isinstance(error, ToolError):
        message = error_text(error)
        return truncate(message, INLINE_CHARS) if message.strip() else f"{tool} failed"
    return truncate(redact(f"{tool} failed: {_describe_error(error)}"), MAX_CHARS)


def format_failure(error: BaseException) -> str:
    """Format a failure so that it cannot be mistaken for data: `Error: `, the type of the error, and its message."""
    if isinstance(error, ToolError):
        return truncate(f"Error: {_describe_one(error)}", INLINE_CHARS)
    return truncate(redact(f"Error: {_describe_error(error)}"), MAX_CHARS)


def _describe_error(error: BaseException) -> str:
    return "; ".join(_describe_one(leaf) for leaf in _iterate_leaves(error))


def _iterate_leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _iterate_leaves(inner)
    else:
        yield error


def _describe_one(error: BaseException) -> str:
    message = error_text(error)
    return f"{type(error).__name__}: {message}" if message.strip() else type(error).__name__


OverflowPolicy: TypeAlias = Literal["truncate", "file", "error"]
"""How to handle text over the limit: truncate it, write it to a file named in a note, or return an error."""

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer up to which JavaScript represents all."""

ROOM_BESIDE_MEDIA: Final = 600
"""The characters reserved for the CLI's text about a medium, such as the path of a file. Measured: 200 to 300."""

_MCP_FLAGS: Final = frozenset({"is_error", "isError"})
_MCP_RESULT: Final = frozenset({"content", "structuredContent", "_meta"}) | _MCP_FLAGS
"""The only keys of an MCP result."""


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """A tool's return value, if a single value is not enough.

    `text` may be any JSON-compatible value; leave formatting to the encoder, so that users of the tool can choose it.
    """

    text: Any = field(default=None, kw_only=False)
    """Text, or data to encode as text."""
    media: Sequence[Media] = ()
    """Images, audio, files and links."""
    is_error: bool = False
    """Mark the call as failed. The CLI then drops the media."""
    structured: Any = None
    """Structured content. **The model sees it instead of the text**, which the CLI drops. Values other than objects are
    wrapped as `{"result": ...}`."""
    meta: Mapping[str, object] | None = None
    """Additional data for programs; the model does not see it."""

    def __post_init__(self) -> None:
        if hasattr(self.media, "__next__"):
            raise TypeError(f"media must be a list, not a {type(self.media).__name__}")
        for item in self.media:
            if not isinstance(item, Media):
                raise TypeError(f"media must contain Image, Audio, File or ResourceLink, not a {type(item).__name__}")


@dataclass(frozen=True, kw_only=True)
class ToolOutcome:
    """The outcome of a call: what the model sees, within the tool's limit, and the value or the error."""

    text: str = ""
    media: tuple[Media, ...] = ()
    is_error: bool = False
    structured: JSONObject | None = None
    meta: Mapping[str, object] = field(default_factory=dict)
    value: Any = None
    """The return value of the function."""
    error: Exception | None = None
    """The exception of the function, or an error in the call itself."""


@dataclass(frozen=True, kw_only=True)
class SizeLimit:
    """The limit on a result's text, text files included, as counted by `text_length`, and the overflow policy."""

    chars: int
    policy: OverflowPolicy = "truncate"
    directory: Path | None = None
    """The directory of the files; None creates a temporary directory."""


def as_result(value: object) -> ToolResult:
    """Convert any return value of a tool to a `ToolResult`."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return ToolResult(media=[from_bytes(bytes(value))])
    if isinstance(value, Media):
        return ToolResult(media=[value])
    if isinstance(value, dict) and (read := _read_mcp(value)) is not None:
        return read
    if isinstance(value, list | tuple) and any(isinstance(item, Media | bytes) for item in value):
        return _convert_mixed(value)
    return ToolResult(text=value)


def _read_mcp(value: JSONObject) -> ToolResult | None:
    """Convert a result in MCP form, as returned by tools for other SDKs. Return None for plain data.

    `is_error` next to `content` marks a failure even if the rest is not in MCP form and is encoded as data. Otherwise a
    failure would look like a success.
    """
    content = value.get("content")
    is_error = any(value.get(flag) is True for flag in _MCP_FLAGS)
    unread = ToolResult(text=value, is_error=True) if is_error and "content" in value else None
    if not isinstance(content, list | tuple) or not value.keys() <= _MCP_RESULT:
        return unread
    parts = [read_mcp_block(block) for block in content]
    if None in parts or not (parts or value.keys() & _MCP_FLAGS):
        return unread
    texts = [part for part in parts if isinstance(part, str)]
    return ToolResult(
        text="\n".join(texts) if texts else None,
        media=[part for part in parts if part is not None and not isinstance(part, str)],
        is_error=is_error,
        structured=value.get("structuredContent"),
        meta=value.get("_meta"),
    )


def _convert_mixed(items: Sequence[object]) -> ToolResult:
    """Convert a list that contains media. The other values become one text if all are texts, or a list."""
    parts = [as_result(item) for item in items]
    rest = [part.text for part in parts if part.text is not None]
    media = [medium for part in parts for medium in part.media]
    if all(isinstance(text, str) for text in rest):
        return ToolResult(text="\n".join(rest) if rest else None, media=media)
    return ToolResult(text=rest[0] if len(rest) == 1 else rest, media=media)


def add_structure(result: ToolResult, *, always: bool) -> ToolResult:
    """Return a result with its data as structured content, unless it has some.

    The CLI, a JavaScript program, rounds large integers, drops a key and reorders others, in structured content but not
    in text. So only JSON objects without these become structured content, unless it is `always` sent.

    Raises EncodingError if the data cannot be encoded.
    """
    if result.structured is not None:
        return result
    if always:
        return replace(result, structured=result.text)
    if result.media or result.is_error or isinstance(result.text, str):
        return result
    data = plain(result.text)
    is_sent = isinstance(data, dict) and _survives_javascript(data)
    return replace(result, text=data, structured=data) if is_sent else result


def _survives_javascript(data: JSONObject) -> bool:
    left: list[object] = [data]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            if any(key.isdecimal() or key == "__proto__" for key in item):
                return False
            left += item.values()
        elif isinstance(item, list):
            left += item
        elif isinstance(item, int) and abs(item) > MAX_SAFE_INTEGER:
            return False
    return True


async def encode_result(result: ToolResult, encoder: Encoder, limit: SizeLimit) -> ToolOutcome:
    """Encode the data of a result as text and apply the size limit.

    Raises:
        EncodingError: A value cannot be encoded.
        ToolError: The text is too long and the policy is `error`.
        OSError: The overflow file cannot be written.
    """
    room = _compute_text_limit(result.media, limit.chars)
    structured = _as_object(result.structured)
    text = clean_text(result.text) if isinstance(result.text, str) else _encode(result.text, encoder)
    shown = text if structured is None else json.dumps(structured, ensure_ascii=False)
    if structured is not None and text_length(shown) > room:
        # The model would see it instead of the text, and structured data cannot be truncated.
        shown = encoder.encode(structured)
        structured = None
    files = [clean_text(it.data) for it in result.media if isinstance(it, File) and isinstance(it.data, str)]
    shown, *files = await _shorten([shown, *files], room, limit)
    if structured is not None:
        [shown] = await _shorten([text], room, limit)
    return ToolOutcome(
        text=shown,
        media=tuple(_replace_texts(result.media, files)),
        is_error=result.is_error,
        structured=structured,
        meta=plain(dict(result.meta or {})),
    )


def call_tool_result(result: ToolOutcome) -> JSONObject:
    """Return the MCP form, `CallToolResult`."""
    content: list[JSONObject] = [{"type": "text", "text": result.text}] if result.text else []
    content += [mcp_block(medium) for medium in result.media]
    reply: JSONObject = {"content": content}
    if result.structured is not None:
        reply["structuredContent"] = result.structured
    if result.is_error:
        reply["isError"] = True
    if result.meta:
        reply["_meta"] = dict(result.meta)
    return reply


def _encode(value: object, encoder: Encoder) -> str:
    return "" if value is None else encoder.encode(value)


def _as_object(value: object) -> JSONObject | None:
    if value is None:
        return None
    data = plain(value)
    return data if isinstance(data, dict) else {"result": data}


# Too much text ---------------------------------------------------------------------------------------------------


async def _shorten(texts: Sequence[str], room: int, limit: SizeLimit) -> list[str]:
    """Shorten texts so that their lengths add up to at most `room`. Later texts are shortened first."""
    total = sum(map(text_length, texts))
    if total > room and limit.policy == "error":
        raise ToolError(f"the result has {total:,} characters, over the limit of {room:,}; request less")
    fitted: list[str] = []
    for text in texts:
        fitted.append(text if text_length(text) <= room else await _cut(text, room, limit))
        room = max(room - text_length(fitted[-1]), 0)
    return fitted


async def _cut(text: str, room: int, limit: SizeLimit) -> str:
    if limit.policy == "truncate":
        return _truncate_with_note(text, room, truncation_note)
    path = await run_file_work(_write_to_file, text, limit.directory)
    return _truncate_with_note(
        text, room, lambda kept, total: f"\n\n[first {kept:,} of {total:,} characters; full result in {path}]"
    )


def _truncate_with_note(text: str, chars: int, note: Callable[[int, int], str]) -> str:
    """Truncate a text with a note. A note without room for the text is returned alone: cuts are never silent."""
    note_alone = note(0, text_length(text))
    if text_length(note_alone) < chars:
        return truncate(text, chars, note=note)
    return note_alone.strip()


def _compute_text_limit(media: Sequence[Media], chars: int) -> int:
    """Return the limit on the text of a result with media. The CLI adds text about each medium, which counts."""
    room = max(chars, INLINE_CHARS) - sum(map(_estimate_extra_chars, media))
    return max(min(chars, room), 0)


def _estimate_extra_chars(medium: Media) -> int:
    """Estimate the length of the CLI's text about a medium: its URI, or the path of the saved file."""
    if isinstance(medium, ResourceLink):
        return 100 + sum(map(text_length, (medium.uri, medium.name, medium.description)))
    return ROOM_BESIDE_MEDIA + (text_length(medium.uri) if isinstance(medium, File) else 0)


def _replace_texts(media: Iterable[Media], texts: Sequence[str]) -> Iterator[Media]:
    """Yield media, with the contents of text files replaced by `texts`."""
    rest = iter(texts)
    for medium in media:
        if isinstance(medium, File) and isinstance(medium.data, str):
            yield replace(medium, data=next(rest))
        else:
            yield medium


def _write_to_file(text: str, directory: Path | None) -> Path:
    """Write a text to a new private file. It is never deleted, because a later session may read it."""
    folder = directory or Path(tempfile.mkdtemp(prefix="claude-agent-py-results-"))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=folder, prefix="result-", suffix=".txt", delete=False, newline=""
    ) as file:
        file.write(text)
    return Path(file.name).resolve()


@dataclass(frozen=True, kw_only=True)
class ToolCallResult:
    """A call and its outcome, for programs."""

    name: str
    tool_use_id: str | None
    """The id of the `tool_use` block; None for a call in text."""
    input: Any
    """The arguments, as the model wrote them."""
    output: Any = None
    """The typed value that the tool returned, without the `ToolResult` around it."""
    error: Exception | None = None
    """Why the call failed; None if it succeeded. A `ToolResult(..., is_error=True)` has an output as well."""
    duration: float = 0.0
    """Seconds from the start of the call to its end, including a wait for the tool's `max_concurrency`."""
    told: ToolOutcome = field(repr=False)
    """The result as the model sees it."""

    def as_text(self) -> str:
        """Return the content of the call's section. After a failure it begins with `Error: ` and the error's type."""
        return self.told.text if self.error is None else format_failure(self.error)

    def as_content_block(self) -> ToolResultBlock:
        """Return the `tool_result` block. For a failed call it has only text, because the API accepts nothing else."""
        text: list[ContentBlock] = [TextBlock(text=self.told.text)] if self.told.text.strip() else []
        if self.error is None:
            text += [block for medium in self.told.media for block in api_blocks(medium)]
        return ToolResultBlock(tool_use_id=self.tool_use_id or "", content=text, is_error=self.error is not None)


@dataclass(frozen=True, kw_only=True)
class ToolChainResult:
    """The results of some calls, formatted for a model.

    `raw` is for programs.
    """

    text: str
    """All results and errors as sections, in the order of the calls, including the wrapper. Empty without calls."""
    media: tuple[Media, ...]
    """Images, audio, files and links, in the order of the calls."""
    raw: tuple[ToolCallResult, ...]
    """The calls with their outputs and errors, in the same order."""

    def as_content_blocks(self) -> list[ContentBlock]:
        """Return text and media as the content of a user message, for a model that calls tools in text."""
        text: list[ContentBlock] = [TextBlock(text=self.text)] if self.text else []
        return text + [block for medium in self.media for block in api_blocks(medium)]

    def tool_result_blocks(self) -> list[ToolResultBlock]:
        """Return one `tool_result` block per call, in order, each with its `tool_use_id`."""
        return [call.as_content_block() for call in self.raw]

    def tool_result_message(self) -> UserMessage:
        """Return the user message that answers all calls of an assistant message."""
        return UserMessage(message=UserContent(role="user", content=list(self.tool_result_blocks())))

    def to_api_message(self) -> JSONObject:
        """Return the user message for the Messages API.

        It has one `tool_result` block for each call, in the order of the calls. If the calls have no ids, because the
        model wrote them in text, it has the text and the media instead.

        Raises:
            ValueError: There were no calls: the API refuses a message without content.
        """
        if not self.raw:
            raise ValueError("there were no calls, so there is no message: the API refuses one without content")
        has_ids = all(call.tool_use_id for call in self.raw)
        blocks: Sequence[ContentBlock] = self.tool_result_blocks() if has_ids else self.as_content_blocks()
        return {"role": "user", "content": [dump(block) for block in blocks]}
