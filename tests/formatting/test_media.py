"""Media values and their blocks."""

from base64 import b64encode
from pathlib import Path

import pytest
from one_call import result_of
from wire_values import as_json

from claude_agent_py import tool
from claude_agent_py.formatting import Audio, File, Image, Media, ResourceLink
from claude_agent_py.tools import ToolChain

PNG = b"\x89PNG\r\n\x1a\nrest"
PDF = b"%PDF-1.7"


def b64(data: bytes) -> str:
    return b64encode(data).decode()


@pytest.mark.parametrize("kind", [Image, Audio])
def test_a_type_that_is_not_detected_is_not_guessed(kind: type[Image | Audio]) -> None:
    assert kind(b"BM...").media_type == "application/octet-stream"
    assert kind(b"BM...", "image/bmp").media_type == "image/bmp"


@pytest.mark.parametrize(
    ("media", "block"),
    [
        (Image(PNG), {"type": "image", "data": b64(PNG), "mimeType": "image/png"}),
        (Audio(b"x", "audio/ogg"), {"type": "audio", "data": b64(b"x"), "mimeType": "audio/ogg"}),
        (
            File("hello", "a.txt"),
            {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "hello"}},
        ),
        (
            File(PDF, "a.pdf", uri="mem://a"),
            {"type": "resource", "resource": {"uri": "mem://a", "mimeType": "application/pdf", "blob": b64(PDF)}},
        ),
        (
            ResourceLink("https://a.b", "a", "the a", "text/html"),
            {
                "type": "resource_link",
                "uri": "https://a.b",
                "name": "a",
                "description": "the a",
                "mimeType": "text/html",
            },
        ),
        (ResourceLink("https://a.b"), {"type": "resource_link", "uri": "https://a.b", "name": "https://a.b"}),
    ],
)
@pytest.mark.anyio
async def test_mcp_blocks(media: Media, block: dict[str, object]) -> None:
    assert (await result_of(tool(name="work")(lambda: media)))["content"] == [block]


@pytest.mark.parametrize(
    ("media", "block"),
    [
        (
            Image(PNG),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(PNG)}},
        ),
        (
            File(PDF, "a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": b64(PDF)},
                "title": "a.pdf",
            },
        ),
        (
            File("hello", "a.txt"),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "hello"},
                "title": "a.txt",
            },
        ),
        (Image(b"II*\x00", "image/tiff"), {"type": "text", "text": "[Image: image/tiff, 4 bytes]"}),
        (Audio(b"abc"), {"type": "text", "text": "[Audio: application/octet-stream, 3 bytes]"}),
        (File(b"abc", "a.bin"), {"type": "text", "text": "[File: a.bin, application/octet-stream, 3 bytes]"}),
        (ResourceLink("x://y", "y", "why"), {"type": "text", "text": "[Resource link: y] x://y (why)"}),
    ],
)
@pytest.mark.anyio
async def test_api_blocks(media: Media, block: dict[str, object]) -> None:
    result = await ToolChain([tool(name="work")(lambda: media)]).execute([{"name": "work", "input": {}}])
    assert [as_json(made) for made in result.as_content_blocks()[1:]] == [block]


def test_reprs_show_no_data() -> None:
    assert repr(Image(PNG)) == "Image(image/png, 12 bytes)"
    assert repr(Audio(b"abc", "audio/ogg")) == "Audio(audio/ogg, 3 bytes)"
    assert repr(File("hello", "a.txt")) == "File('a.txt', text/plain, 5 characters)"


def test_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("häß", encoding="utf-8")
    (tmp_path / "a.png").write_bytes(PNG)

    text = File.from_path(tmp_path / "a b.txt")

    assert (text.data, text.media_type, text.uri) == ("häß", "text/plain", (tmp_path / "a b.txt").resolve().as_uri())
    assert File.from_path(tmp_path / "a.png").data == PNG
    assert Image.from_path(tmp_path / "a.png") == Image(PNG)
    assert Audio.from_path(str(tmp_path / "a.png")).data == PNG
