"""What a tool returns, and what becomes of it."""

import base64
import itertools
import json
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from one_call import outcome_of, result_of
from pydantic import BaseModel

from claude_agent_py import ToolResult, tool
from claude_agent_py.errors import ToolError
from claude_agent_py.formatting import Audio, File, Image, Media, ResourceLink, YAMLEncoder

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\nrest"


async def told(value: object, **settings: Any) -> Any:
    """Return what the model is told when a tool returns this value."""
    return await outcome_of(tool(name="work", **settings)(lambda: value))


class Model(BaseModel):
    x: int


@dataclass
class Record:
    y: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("", ""),
        (None, ""),
        (0, "0"),
        (False, "false"),
        ([], "[]"),
        (Model(x=1), '{"x": 1}'),
        ([Model(x=1), Record("a")], '[{"x": 1}, {"y": "a"}]'),
        (ToolResult(text=Record("ä")), '{"y": "ä"}'),
        (ToolResult(), ""),
        ("lone \ud800", "lone \ufffd"),
    ],
)
async def test_values_become_text(value: Any, text: str) -> None:
    assert (await told(value)).text == text


def test_media_that_may_never_end_are_refused() -> None:
    media: Any = (Image(PNG) for _ in itertools.count())

    with pytest.raises(TypeError, match="media must be a list, not a generator"):
        ToolResult(media=media)


def test_anything_but_media_is_refused() -> None:
    media: Any = [Image(PNG), "shot.png"]
    with pytest.raises(TypeError, match=r"media must contain .*, not a str"):
        ToolResult(media=media)


def mcp(*content: Any, **more: Any) -> dict[str, Any]:
    return {"content": list(content), **more}


WORDS = {"type": "text", "text": "no such city"}
PICTURE = {"type": "image", "data": "iVBORw0KGgpyZXN0", "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (mcp(WORDS), ToolResult(text="no such city", media=[])),
        (mcp(WORDS, WORDS, is_error=True), ToolResult(text="no such city\nno such city", media=[], is_error=True)),
        (mcp(WORDS, isError=False), ToolResult(text="no such city", media=[])),
        (mcp(is_error=True), ToolResult(media=[], is_error=True)),
        (mcp(PICTURE), ToolResult(media=[Image(PNG, "image/png")])),
        (
            mcp({"type": "audio", "data": "eA==", "mimeType": "audio/wav"}),
            ToolResult(media=[Audio(b"x", "audio/wav")]),
        ),
        (
            mcp({"type": "resource", "resource": {"uri": "file:///d/a.txt", "text": "x"}}),
            ToolResult(media=[File("x", "a.txt", uri="file:///d/a.txt")]),
        ),
        (
            mcp({"type": "resource", "resource": {"uri": "a://b", "blob": "eA==", "mimeType": "x/y"}}),
            ToolResult(media=[File(b"x", "b", "x/y", "a://b")]),
        ),
        (
            mcp({"type": "resource_link", "uri": "a://b", "name": "n", "description": "d"}),
            ToolResult(media=[ResourceLink("a://b", "n", "d")]),
        ),
        (
            mcp(WORDS, structuredContent={"a": 1}, _meta={"b": 2}),
            ToolResult(text="no such city", media=[], structured={"a": 1}, meta={"b": 2}),
        ),
    ],
)
async def test_a_result_in_the_form_of_mcp_is_read(value: dict[str, Any], result: ToolResult) -> None:
    assert replace(await told(value), value=None, error=None) == replace(await told(result), value=None, error=None)


@pytest.mark.parametrize(
    "value",
    [
        {"content": []},
        {"content": "text"},
        {"content": ["text"]},
        mcp(WORDS, title="A page"),
        mcp({"type": "paragraph", "text": "x"}),
        mcp({"type": "text"}),
        mcp({**PICTURE, "data": "no base64!"}),
        mcp({"type": "resource", "resource": {"uri": "a://b"}}),
    ],
)
async def test_data_that_only_look_like_it_are_data(value: dict[str, Any]) -> None:
    outcome = await told(value)
    assert (json.loads(outcome.text), outcome.media, outcome.is_error) == (value, (), False)


def test_the_text_of_a_result_comes_first() -> None:
    assert ToolResult("found", is_error=True) == ToolResult(text="found", is_error=True)


async def test_the_encoder_decides_the_notation() -> None:
    assert (await told(Model(x=1), encoder=YAMLEncoder())).text == "x: 1"


@pytest.mark.parametrize(
    ("value", "text", "media"),
    [
        (PNG, "", [Image(PNG)]),
        (b"\xff\xd8\xff\xe0", "", [Image(b"\xff\xd8\xff\xe0", "image/jpeg")]),
        (b"GIF89a...", "", [Image(b"GIF89a...", "image/gif")]),
        (b"RIFF0000WEBP", "", [Image(b"RIFF0000WEBP", "image/webp")]),
        (b"RIFF0000WAVE", "", [Audio(b"RIFF0000WAVE", "audio/wav")]),
        (bytearray(b"%PDF-1"), "", [File(b"%PDF-1", "data.pdf", "application/pdf")]),
        (b"\x00\x01", "", [File(b"\x00\x01", "data.bin", "application/octet-stream")]),
        (b"", "", [File(b"", "data.bin", "application/octet-stream")]),
        (Audio(b"x"), "", [Audio(b"x")]),
        (["look", Image(PNG), "there"], "look\nthere", [Image(PNG)]),
        ([PNG, ResourceLink("a://b")], "", [Image(PNG), ResourceLink("a://b")]),
        ((Model(x=1), Image(PNG)), '{"x": 1}', [Image(PNG)]),
        ([Model(x=1), "and", Image(PNG)], '[{"x": 1}, "and"]', [Image(PNG)]),
    ],
)
async def test_media_types_are_detected_from_the_data(value: Any, text: str, media: list[Media]) -> None:
    outcome = await told(value)

    assert (outcome.text, list(outcome.media)) == (text, media)
    assert [each.media_type for each in outcome.media] == [each.media_type for each in media]


async def test_the_mcp_form() -> None:
    result = ToolResult(text={"a": 1}, media=[ResourceLink("a://b", "b")], structured=[1], meta={"k": Record("v")})

    assert await result_of(tool(name="work")(lambda: result)) == {
        "content": [{"type": "text", "text": '{"a": 1}'}, {"type": "resource_link", "uri": "a://b", "name": "b"}],
        "structuredContent": {"result": [1]},
        "_meta": {"k": {"y": "v"}},
    }
    assert await result_of(tool(name="work")(lambda: ToolResult(text="no", is_error=True))) == {
        "content": [{"type": "text", "text": "no"}],
        "isError": True,
    }
    assert await result_of(tool(name="work")(ToolResult)) == {"content": []}


# Too much ---------------------------------------------------------------------------------------------------------


async def test_long_text_is_cut_with_a_note_of_the_total() -> None:
    outcome = await told("x" * 10_000_000)

    assert len(outcome.text) <= 50_000
    assert outcome.text.endswith("of 10,000,000 characters]")


async def test_long_text_goes_to_a_file_that_is_named(tmp_path: Path) -> None:
    text = "ä\r\n" * 1000

    outcome = await told(text, max_result_chars=500, overflow="file", overflow_directory=tmp_path / "new")

    [path] = (tmp_path / "new").iterdir()
    assert path.read_bytes().decode() == text
    assert outcome.text.endswith(f"of 3,000 characters; full result in {path}]")
    assert len(outcome.text) <= 500
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_directory_is_made_where_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    await told("x" * 1000, max_result_chars=500, overflow="file")

    [directory] = tmp_path.iterdir()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert len(list(directory.iterdir())) == 1


async def test_long_text_is_an_error() -> None:
    outcome = await told("x" * 1000, max_result_chars=500, overflow="error")
    assert isinstance(outcome.error, ToolError)
    assert "1,000 characters, over the limit of 500; request less" in outcome.text


async def test_structured_content_that_is_too_long_gives_way_to_a_cut_text() -> None:
    outcome = await told(ToolResult(text="short", structured={"a": "x" * 1000}), max_result_chars=100)

    assert outcome.structured is None
    assert outcome.text.startswith('{"a": "xxx')
    assert len(outcome.text) <= 100


async def test_a_text_file_is_cut_too() -> None:
    outcome = await told(File("x" * 1000, "a.txt"), max_result_chars=100)

    [file] = outcome.media
    assert isinstance(file, File)
    assert len(file.data) <= 100


def length(outcome: Any) -> int:
    return len(outcome.text) + sum(len(it.data) for it in outcome.media if isinstance(it, File))


@pytest.mark.parametrize("value", [["x" * 600, File("y" * 600, "a.txt")], [File("x" * 600, "a"), File("y" * 600, "b")]])
async def test_the_limit_is_one_for_all_texts_together(value: Any) -> None:
    assert 900 < length(await told(value, max_result_chars=1000)) <= 1000
    refused = await told(value, max_result_chars=1000, overflow="error")
    assert "1,200 characters, over the limit of 1,000" in refused.text


async def test_structured_data_leaves_less_room_for_files() -> None:
    result = ToolResult(structured={"a": "x" * 600}, media=[File("y" * 600, "a.txt")])
    outcome = await told(result, max_result_chars=1000)
    assert outcome.structured == {"a": "x" * 600}
    assert length(outcome) < 400


@pytest.mark.parametrize(
    "medium", [Audio(b"x"), File("", "a.txt"), ResourceLink("https://example.com", "a", "b" * 500)]
)
async def test_a_result_leaves_room_for_the_notes_about_media(medium: Media) -> None:
    outcome = await told(["x" * 50_000, medium])
    assert 49_000 < len(outcome.text) < 49_500


@pytest.mark.parametrize(("policy", "note"), [("file", "full result in"), ("truncate", "truncated")])
async def test_a_cut_is_never_silent(tmp_path: Path, policy: Any, note: str) -> None:
    outcome = await told("x" * 1000, max_result_chars=20, overflow=policy, overflow_directory=tmp_path)
    assert note in outcome.text
    assert "xxx" not in outcome.text


@pytest.mark.parametrize(
    "value",
    [
        {"content": [{"type": "text", "text": "it failed"}], "is_error": True, "error_code": 5},
        {"content": [{"type": "text", "text": "it failed"}, {"type": "other"}], "is_error": True},
        {"content": "it failed", "isError": True},
    ],
)
async def test_an_error_stays_one_in_a_form_that_is_nearly_mcps(value: dict[str, Any]) -> None:
    outcome = await told(value)
    assert outcome.is_error
    assert json.loads(outcome.text) == value


async def test_base64_may_be_broken_into_lines() -> None:
    data = base64.encodebytes(b"x" * 100).decode()
    (image,) = (await told({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})).media
    assert isinstance(image, Image)
    assert image.data == b"x" * 100
