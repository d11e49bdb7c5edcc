"""Images, audio, files and resource links, and their conversion to blocks of MCP and of the Messages API."""

import mimetypes
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias, assert_never

from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.content import ContentBlock, DocumentBlock, ImageBlock, MediaSource, TextBlock

OCTETS = "application/octet-stream"
PDF = "application/pdf"

SIGNATURES: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"WAVE", 8, "audio/wav"),
    (b"ID3", 0, "audio/mpeg"),
    (b"\xff\xfb", 0, "audio/mpeg"),
    (b"OggS", 0, "audio/ogg"),
    (b"fLaC", 0, "audio/flac"),
    (b"%PDF-", 0, PDF),
)
"""Bytes that identify common media types, with their offset."""

MODEL_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that the Messages API supports."""


@dataclass(frozen=True)
class _Binary:
    data: bytes = field(repr=False)
    media_type: str = ""
    """For example `image/png` or `audio/wav`; detected from the data if empty."""

    def __post_init__(self) -> None:
        _fill_media_type(self)

    @classmethod
    def from_path(cls, path: str | Path) -> Self:
        """Read a file. Blocks.

        Raises:
            OSError: The file cannot be read.
        """
        return cls(Path(path).read_bytes())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.media_type}, {len(self.data)} bytes)"


class Image(_Binary):
    """An image. The API supports PNG, JPEG, GIF and WebP; the CLI saves others to a file and sends the path."""


class Audio(_Binary):
    """Audio. The CLI saves it to a file and sends the model the path, because models do not support audio."""


@dataclass(frozen=True)
class File:
    """A file. The model sees text; the CLI saves other data to a file and sends the model the path."""

    data: str | bytes = field(repr=False)
    name: str
    media_type: str = ""
    """Guessed from the name or the data if empty."""
    uri: str = ""
    """The file's URI; `file:///<name>` if empty."""

    def __post_init__(self) -> None:
        guessed = mimetypes.guess_type(self.name)[0] or ("text/plain" if isinstance(self.data, str) else "")
        _fill_media_type(self, guessed)
        if not self.uri:
            object.__setattr__(self, "uri", f"file:///{self.name.lstrip('/')}")

    @classmethod
    def from_path(cls, path: str | Path) -> Self:
        """Read a file, as text if it is valid UTF-8. Blocks.

        Raises:
            OSError: The file cannot be read.
        """
        absolute = Path(path).resolve()
        data = absolute.read_bytes()
        content: str | bytes
        try:
            content = data.decode()
        except UnicodeDecodeError:
            content = data
        return cls(content, absolute.name, uri=absolute.as_uri())

    def __repr__(self) -> str:
        return f"File({self.name!r}, {self.media_type}, {len(self.data)} {_unit(self.data)})"


@dataclass(frozen=True)
class ResourceLink:
    """A link to a resource, which the model sees instead of its content.

    Your tools return it. A link that a message of the CLI has is a `claude_agent_py.messages.ResourceLink`.
    """

    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""
    title: str = ""


Media: TypeAlias = Image | Audio | File | ResourceLink
"""What a tool can return in addition to text."""


def sniff(data: bytes) -> str | None:
    """Detect the media type of data from its first bytes, or return None."""
    for begins, offset, media_type in SIGNATURES:
        if data[offset : offset + len(begins)] == begins:
            return media_type
    return None


def from_bytes(data: bytes) -> Media:
    """Create an `Image`, `Audio` or `File` from bytes, depending on the detected type."""
    media_type = sniff(data) or OCTETS
    if media_type.startswith("image/"):
        return Image(data, media_type)
    if media_type.startswith("audio/"):
        return Audio(data, media_type)
    extension = mimetypes.guess_extension(media_type) or ".bin"
    return File(data, f"data{extension}", media_type)


# Conversion ------------------------------------------------------------------------------------------------------


def mcp_block(media: Media) -> JSONObject:
    """Convert to an MCP content block."""
    match media:
        case Image() | Audio():
            kind = "image" if isinstance(media, Image) else "audio"
            return {"type": kind, "data": _encode_base64(media.data), "mimeType": media.media_type}
        case File():
            return {"type": "resource", "resource": resource_contents(media)}
        case ResourceLink():
            details = {"title": media.title, "description": media.description, "mimeType": media.media_type}
            link = {"type": "resource_link", "uri": media.uri, "name": media.name or media.uri}
            return link | {name: value for name, value in details.items() if value}
        case _:
            assert_never(media)


def read_mcp_block(block: Any) -> str | Media | None:
    """Convert an MCP content block to text or media; None if the block is invalid or of an unknown type."""
    try:
        match block:
            case {"type": "text", "text": str(text)}:
                return text
            case {"type": "image", "data": str(data), "mimeType": str(media_type)}:
                return Image(_decode_base64(data), media_type)
            case {"type": "audio", "data": str(data), "mimeType": str(media_type)}:
                return Audio(_decode_base64(data), media_type)
            case {"type": "resource", "resource": {"uri": str(uri)} as contents}:
                return _read_resource(uri, contents)
            case {"type": "resource_link", "uri": str(uri)}:
                names = ("name", "description", "mimeType", "title")
                return ResourceLink(uri, *(str(block.get(name) or "") for name in names))
    except ValueError:
        # Invalid base64.
        return None
    return None


def _read_resource(uri: str, contents: Mapping[str, object]) -> File | None:
    media_type = str(contents.get("mimeType") or "")
    name = uri.rpartition("/")[2] or uri
    match contents:
        case {"text": str(text)}:
            return File(text, name, media_type, uri)
        case {"blob": str(blob)}:
            return File(_decode_base64(blob), name, media_type, uri)
    return None


def _decode_base64(base64: str) -> bytes:
    """Decode base64, ignoring white space. Raises ValueError if it is invalid."""
    return b64decode("".join(base64.split()), validate=True)


def resource_contents(file: File) -> JSONObject:
    """Convert a file to the contents of an MCP resource."""
    content = {"text": file.data} if isinstance(file.data, str) else {"blob": _encode_base64(file.data)}
    return {"uri": file.uri, "mimeType": file.media_type, **content}


def api_blocks(media: Media) -> list[ContentBlock]:
    """Convert to content blocks of the Messages API; unsupported media become a text description."""
    match media:
        case Image() if media.media_type in MODEL_IMAGES:
            return [ImageBlock.from_bytes(media.data, media.media_type)]
        case File(media_type="application/pdf", data=bytes() as data):
            return [DocumentBlock.from_bytes(data, title=media.name)]
        case File(data=str() as text):
            source = MediaSource(type="text", media_type="text/plain", data=text)
            return [DocumentBlock(source=source, title=media.name)]
        case Image() | Audio() | File() | ResourceLink():
            return [TextBlock(text=describe(media))]
        case _:
            assert_never(media)


def describe(media: Media) -> str:
    """Describe a media value in one line."""
    match media:
        case ResourceLink():
            details = f" ({media.description})" if media.description else ""
            return f"[Resource link: {media.name or media.uri}] {media.uri}{details}"
        case File():
            return f"[File: {media.name}, {media.media_type}, {len(media.data)} {_unit(media.data)}]"
        case Image() | Audio():
            return f"[{type(media).__name__}: {media.media_type}, {len(media.data)} bytes]"
        case _:
            assert_never(media)


def _fill_media_type(media: _Binary | File, guessed: str = "") -> None:
    if media.media_type:
        return
    sniffed = sniff(media.data) if isinstance(media.data, bytes) else None
    object.__setattr__(media, "media_type", guessed or sniffed or OCTETS)


def _encode_base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _unit(data: str | bytes) -> str:
    return "characters" if isinstance(data, str) else "bytes"
