"""What a tool returns, and what becomes of it."""

import base64
import itertools
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from claude_agent_py import ToolResult
from claude_agent_py.errors import ToolError
from claude_agent_py.formatting import Audio, File, Image, JSONEncoder, Media, ResourceLink, YAMLEncoder
from claude_agent_py.tools.results import SizeLimit, ToolOutcome, as_result, call_tool_result, encode_result

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\nrest"
ROOMY = SizeLimit(chars=50_000)


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
    assert (await encode_result(as_result(value), JSONEncoder(), ROOMY)).text == text


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
def test_a_result_in_the_form_of_mcp_is_read(value: dict[str, Any], result: ToolResult) -> None:
    assert as_result(value) == result


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
def test_data_that_only_look_like_it_are_data(value: dict[str, Any]) -> None:
    assert as_result(value) == ToolResult(text=value)


def test_the_text_of_a_result_comes_first() -> None:
    assert ToolResult("found", is_error=True) == ToolResult(text="found", is_error=True)


async def test_the_encoder_decides_the_notation() -> None:
    assert (await encode_result(as_result(Model(x=1)), YAMLEncoder(), ROOMY)).text == "x: 1"


@pytest.mark.parametrize(
    ("value", "text", "media"),
    [
        (PNG, None, [Image(PNG)]),
        (bytearray(b"%PDF-1"), None, [File(b"%PDF-1", "data.pdf", "application/pdf")]),
        (Audio(b"x"), None, [Audio(b"x")]),
        (["look", Image(PNG), "there"], "look\nthere", [Image(PNG)]),
        ([PNG, ResourceLink("a://b")], None, [Image(PNG), ResourceLink("a://b")]),
        ((Model(x=1), Image(PNG)), Model(x=1), [Image(PNG)]),
        ([Model(x=1), "and", Image(PNG)], [Model(x=1), "and"], [Image(PNG)]),
    ],
)
async def test_media_types_are_detected_from_the_data(value: Any, text: Any, media: list[Media]) -> None:
    result = as_result(value)

    assert (result.text, list(result.media)) == (text, media)


async def test_the_mcp_form() -> None:
    result = ToolResult(text={"a": 1}, media=[ResourceLink("a://b", "b")], structured=[1], meta={"k": Record("v")})

    assert call_tool_result(await encode_result(result, JSONEncoder(), ROOMY)) == {
        "content": [{"type": "text", "text": '{"a": 1}'}, {"type": "resource_link", "uri": "a://b", "name": "b"}],
        "structuredContent": {"result": [1]},
        "_meta": {"k": {"y": "v"}},
    }
    assert call_tool_result(await encode_result(ToolResult(text="no", is_error=True), JSONEncoder(), ROOMY)) == {
        "content": [{"type": "text", "text": "no"}],
        "isError": True,
    }
    assert call_tool_result(await encode_result(ToolResult(), JSONEncoder(), ROOMY)) == {"content": []}


# Too much ---------------------------------------------------------------------------------------------------------


async def test_long_text_is_cut_with_a_note_of_the_total() -> None:
    told = await encode_result(as_result("x" * 10_000_000), JSONEncoder(), ROOMY)

    assert len(told.text) <= 50_000
    assert told.text.endswith("of 10,000,000 characters]")


async def test_long_text_goes_to_a_file_that_is_named(tmp_path: Path) -> None:
    text = "ä\r\n" * 1000

    told = await encode_result(
        as_result(text), JSONEncoder(), SizeLimit(chars=500, policy="file", directory=tmp_path / "new")
    )

    [path] = (tmp_path / "new").iterdir()
    assert path.read_bytes().decode() == text
    assert told.text.endswith(f"of 3,000 characters; full result in {path}]")
    assert len(told.text) <= 500
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_directory_is_made_where_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    await encode_result(as_result("x" * 1000), JSONEncoder(), SizeLimit(chars=500, policy="file"))

    [directory] = tmp_path.iterdir()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert len(list(directory.iterdir())) == 1


async def test_long_text_is_an_error() -> None:
    with pytest.raises(ToolError, match="1,000 characters, over the limit of 500; request less"):
        await encode_result(as_result("x" * 1000), JSONEncoder(), SizeLimit(chars=500, policy="error"))


async def test_structured_content_that_is_too_long_gives_way_to_a_cut_text() -> None:
    told = await encode_result(
        ToolResult(text="short", structured={"a": "x" * 1000}), JSONEncoder(), SizeLimit(chars=100)
    )

    assert told.structured is None
    assert told.text.startswith('{"a": "xxx')
    assert len(told.text) <= 100


async def test_a_text_file_is_cut_too() -> None:
    told = await encode_result(as_result(File("x" * 1000, "a.txt")), JSONEncoder(), SizeLimit(chars=100))

    [file] = told.media
    assert isinstance(file, File)
    assert len(file.data) <= 100


def length(told: ToolOutcome) -> int:
    return len(told.text) + sum(len(it.data) for it in told.media if isinstance(it, File))


@pytest.mark.parametrize("value", [["x" * 600, File("y" * 600, "a.txt")], [File("x" * 600, "a"), File("y" * 600, "b")]])
async def test_the_limit_is_one_for_all_texts_together(value: Any) -> None:
    told = await encode_result(as_result(value), JSONEncoder(), SizeLimit(chars=1000))
    assert 900 < length(told) <= 1000
    with pytest.raises(ToolError, match="1,200 characters, over the limit of 1,000"):
        await encode_result(as_result(value), JSONEncoder(), SizeLimit(chars=1000, policy="error"))


async def test_structured_data_leaves_less_room_for_files() -> None:
    result = ToolResult(structured={"a": "x" * 600}, media=[File("y" * 600, "a.txt")])
    told = await encode_result(result, JSONEncoder(), SizeLimit(chars=1000))
    assert told.structured == {"a": "x" * 600}
    assert length(told) < 400


@pytest.mark.parametrize(
    "medium", [Audio(b"x"), File("", "a.txt"), ResourceLink("https://example.com", "a", "b" * 500)]
)
async def test_a_result_leaves_room_for_the_notes_about_media(medium: Media) -> None:
    told = await encode_result(as_result(["x" * 50_000, medium]), JSONEncoder(), ROOMY)
    assert 49_000 < len(told.text) < 49_500


@pytest.mark.parametrize(("policy", "note"), [("file", "full result in"), ("truncate", "truncated")])
async def test_a_cut_is_never_silent(tmp_path: Path, policy: Any, note: str) -> None:
    told = await encode_result(
        as_result("x" * 1000), JSONEncoder(), SizeLimit(chars=20, policy=policy, directory=tmp_path)
    )
    assert note in told.text
    assert "xxx" not in told.text


@pytest.mark.parametrize(
    "value",
    [
        {"content": [{"type": "text", "text": "it failed"}], "is_error": True, "error_code": 5},
        {"content": [{"type": "text", "text": "it failed"}, {"type": "other"}], "is_error": True},
        {"content": "it failed", "isError": True},
    ],
)
def test_an_error_stays_one_in_a_form_that_is_nearly_mcps(value: dict[str, Any]) -> None:
    result = as_result(value)
    assert result.is_error
    assert result.text == value


def test_base64_may_be_broken_into_lines() -> None:
    data = base64.encodebytes(b"x" * 100).decode()
    (image,) = as_result({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}).media
    assert isinstance(image, Image)
    assert image.data == b"x" * 100
