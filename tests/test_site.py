"""The site: every page has a place, every public name a docstring, and broken links are found."""

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from chromium import Browser, browser as browser
from forks import run_program

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "build_site.py"
CAST = ROOT / "docs" / "images" / "demo.svg"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_every_page_has_a_place_and_every_public_name_a_docstring() -> None:
    done = run_program([sys.executable, str(SCRIPT), "--check"])
    assert done.returncode == 0, done.stderr


def test_a_page_without_a_place_is_an_error(script: dict[str, Any]) -> None:
    with pytest.raises(script["Problem"], match=r"new\.md"):
        script["read_navigation"](["index.md", "new.md"])


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("[a](tools.md#guards)", "[a](tools.md#guards)"),
        ("[a](../examples/pool.py) and [b](../CONTRIBUTING.md)", "[a](examples/pool.md) and [b](contributing.md)"),
        ("[`client.py`](../claude_agent_py/client.py)", "`client.py`"),
        ("[a](https://example.com) ![b](images/sessions.svg)", "[a](https://example.com) ![b](images/sessions.svg)"),
        (
            "- a\n  b\n\n  ```text\n  c\n  ```\n- d\n\ne\n  f\n",
            "- a\n    b\n\n    ```text\n    c\n    ```\n\n- d\n\ne\n  f\n",
        ),
        ("<!-- fake: [] -->\n```python\nx = f[0](../y)\n```\n", "```python\nx = f[0](../y)\n```\n"),
    ],
)
def test_links_of_a_guide_become_links_to_pages(script: dict[str, Any], text: str, page: str) -> None:
    assert script["convert"](text, "docs/options.md", script["find_sources"]()) == page


def test_a_link_of_a_guide_to_nothing_is_an_error(script: dict[str, Any]) -> None:
    with pytest.raises(script["Problem"], match=r"docs/options\.md: \.\./gone\.py leads nowhere"):
        script["convert"]("[a](../gone.py)", "docs/options.md", script["find_sources"]())


def test_broken_links_of_built_pages_are_found(script: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.html").write_text('<h2 id="two">')
    (tmp_path / "index.html").write_text(
        '<a href="b/#two"><a href="b/#three"><a href="c/"><img src="d.png"><a href="https://example.com/"><a href="#">'
    )
    assert script["find_broken_links"](tmp_path) == ["index.html: b/#three", "index.html: c/", "index.html: d.png"]


def test_a_version_is_offered_beside_those_that_are_there(script: dict[str, Any], tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0", "0.9.1"):
        folder = tmp_path / script["short_version"](version)
        folder.mkdir(exist_ok=True)
        for name in ("index.html", "404.html"):
            (folder / name).write_text(version)
        script["list_version"](version, tmp_path)
    assert json.loads((tmp_path / "versions.json").read_text()) == [
        {"version": "0.10", "title": "0.10.0", "aliases": ["latest"]},
        {"version": "0.9", "title": "0.9.1", "aliases": []},
    ]
    shown = {path.parent.name: path.read_text() for path in tmp_path.glob("*/index.html")}
    assert shown == {"0.10": "0.10.0", "0.9": "0.9.1", "latest": "0.10.0"}
    assert "url=latest/" in (tmp_path / "index.html").read_text()


@pytest.mark.long
@pytest.mark.real_cli
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_the_cast_shows_what_the_demo_prints() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "cast.py"))["make"]()
    assert shown_at_the_end(made) == shown_at_the_end(CAST.read_text(encoding="utf-8"))
    moments = re.findall(r"--when:shown [\d.]+s ([\d.]+)s", made)
    assert len(set(moments)) > 5


def shown_at_the_end(cast: str) -> str:
    described = ElementTree.fromstring(cast).findtext("{*}desc") or ""
    assert "all six tests pass" in described
    return re.sub(r"\d+(\.\d+)*", "N", described)


@pytest.mark.parametrize(("preference", "moves"), [("no-preference", True), ("reduce", False)])
def test_the_cast_moves_unless_users_prefer_otherwise(browser: Browser, preference: str, moves: bool) -> None:
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": preference}])
    browser.call("Page.navigate", url=CAST.as_uri())
    browser.wait("location.href.endsWith('demo.svg') && document.readyState === 'complete'")
    assert browser.evaluate("document.getAnimations().length > 0") is moves
    shown = "[...document.querySelectorAll('text')].filter(each => getComputedStyle(each).visibility === 'visible')"
    assert moves or "the process has exited" in browser.evaluate(f"{shown}.map(each => each.textContent).join()")
