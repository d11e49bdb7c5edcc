"""The page of a timeline, in a real Chromium."""

import json
import os
import re
from pathlib import Path

import pytest
import recordings_loader as recordings
from chromium import Browser, browser as browser

from claude_agent_py.errors import OptionsError
from claude_agent_py.observe import Span, SpanLog, Timeline

HOSTILE = [
    "</script><script>document.title='hacked'</script>",
    "<img src=x onerror=\"document.title='hacked'\">",
    "<!--<script>",
    "]]><svg onload=\"document.title='hacked'\">",
    "'\"`;document.title='hacked';//",
    "${document.title='hacked'}",
    "\u2028\u2029\x00\ud800",
    "@SCRIPT@@DATA@@TITLE@",
    "__proto__",
]


def saved(timeline: Timeline, folder: Path) -> Path:
    path = folder / "timeline.html"
    timeline.save(path)
    return path


def of(spans: list[Span], title: str = "made") -> Timeline:
    log = SpanLog()
    for span in spans:
        log.add(span)
    return Timeline(log, title=title)


def recorded(name: str) -> Timeline:
    return Timeline.from_recording(recordings.FOLDER / f"{name}.jsonl")


def test_a_timeline_is_read_by_mouse_and_keyboard(browser: Browser, tmp_path: Path) -> None:
    browser.open(saved(recorded("turns/nested_agents"), tmp_path))
    assert browser.evaluate("document.getElementById('title').textContent") == "nested_agents.jsonl"
    cards = browser.evaluate("document.getElementById('cards').textContent")
    assert "tool calls" in cards
    assert "$" in cards
    assert int(browser.evaluate("document.getElementById('chart').dataset.drawn")) > 10

    browser.key("n")  # the first span: the run
    browser.wait("!document.getElementById('panel').hidden")
    assert "run" in browser.evaluate("document.getElementById('panel').textContent")
    assert browser.evaluate("document.getElementById('said').textContent").startswith("run ")
    browser.key("Escape")
    browser.wait("document.getElementById('panel').hidden")

    browser.key("/")
    for letter in "agent":
        browser.key(letter)
    browser.wait("/^[1-9]\\d* found$/.test(document.getElementById('hits').textContent)")
    browser.key("Enter")
    browser.wait("!document.getElementById('panel').hidden")
    browser.key("Escape")  # leaves the search
    browser.key("+")

    pressed = "document.querySelector('#legend button').getAttribute('aria-pressed')"
    assert browser.evaluate(pressed) == "true"
    browser.evaluate("document.querySelector('#legend button').click()")
    assert browser.evaluate(pressed) == "false"

    browser.key("0")
    box = browser.evaluate(
        "(() => { const r = document.getElementById('chart').getBoundingClientRect();"
        " return [r.left, r.top, r.width]; })()"
    )
    browser.key("Escape")
    for y in range(30, 200, 4):  # somewhere in the middle there is a bar
        browser.click(box[0] + 190 + (box[2] - 190) * 0.4, box[1] + y)
        if not browser.evaluate("document.getElementById('panel').hidden"):
            break
    assert "status" in browser.evaluate("document.getElementById('panel').textContent")

    theme = "document.documentElement.dataset.theme"
    before, light = browser.evaluate(theme), browser.screenshot()
    browser.key("d")
    browser.wait(f"{theme} !== '{before}'")
    assert browser.screenshot() != light
    assert browser.problems == []


def test_no_transcript_can_run_a_script(browser: Browser, tmp_path: Path) -> None:
    spans = [
        Span(id=f"{text}{kind}", kind=kind, name=text, parent=text, agent=text, start=1.0, end=2.0, status="error",
             attributes={"input": text, "output": text, "error": text, text: text, "description": text}, links=(text,))
        for text in HOSTILE
        for kind in ("tool", "subagent", "model")
    ]  # fmt: skip
    browser.requests.clear()
    browser.problems.clear()
    path = saved(of(spans, title=HOSTILE[0]), tmp_path)
    browser.open(path)
    assert browser.evaluate("document.title") == HOSTILE[0]
    assert browser.evaluate("document.querySelectorAll('script').length") == 2
    for _ in range(len(spans)):
        browser.key("n")
    assert HOSTILE[1] in browser.evaluate("document.body.textContent")
    assert browser.evaluate("document.querySelectorAll('img, svg, iframe').length") == 0
    assert browser.evaluate("document.title") == HOSTILE[0]
    assert browser.requests == [path.as_uri()]
    assert browser.problems == []

    # The policy holds even for what a mistake of ours would let in.
    broken = path.read_text(encoding="utf-8").replace("<main>", f"{HOSTILE[0]}{HOSTILE[1]}<main>")
    path.write_text(broken, encoding="utf-8")
    browser.open(path)
    browser.wait("document.querySelectorAll('img').length === 1")
    assert browser.evaluate("document.title") == HOSTILE[0]
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_ten_thousand_spans_cost_what_fits_on_the_screen(browser: Browser, tmp_path: Path) -> None:
    spans = [
        Span(id=f"t{i}", kind="tool", name="Bash", start=float(i), end=i + 0.9, status="error" if i == 5000 else "ok")
        for i in range(10_000)
    ]
    browser.problems.clear()
    browser.open(saved(of(spans), tmp_path))
    drawn = "Number(document.getElementById('chart').dataset.drawn)"
    assert 1 <= browser.evaluate(drawn) < 3000
    browser.key("n")
    browser.key("Enter")  # the search has no focus: zooms to the chosen span
    browser.evaluate("document.getElementById('chart').focus()")
    browser.key("Enter")
    browser.wait(f"{drawn} < 10")
    assert browser.problems == []


@pytest.mark.parametrize(("width", "height"), [(420, 800), (900, 620), (1400, 900)])
def test_the_chart_has_room_in_any_window(browser: Browser, tmp_path: Path, width: int, height: int) -> None:
    """900 x 620 is a frame in a notebook."""
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(saved(recorded("tasks/s04_nested_bg"), tmp_path))
        assert browser.evaluate("document.getElementById('chart').getBoundingClientRect().height") > 200
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate("document.getElementById('summary').open") is (height == 900)
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_a_time_that_rounds_up_to_a_second_is_shown_as_one(browser: Browser, tmp_path: Path) -> None:
    browser.open(saved(of([Span(id="t", kind="tool", name="Bash", start=1.0, end=1.99999, status="ok")]), tmp_path))
    assert "Bash1 s" in browser.evaluate("document.getElementById('panels').textContent")


def test_a_notebook_shows_the_page_in_its_own_frame(browser: Browser, tmp_path: Path) -> None:
    frame = recorded("turns/two_shells")._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts" srcdoc="')
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><body data-ready=yes>{frame}", encoding="utf-8")
    browser.problems.clear()
    browser.open(path)
    browser.wait("document.querySelector('iframe') !== null")
    assert browser.evaluate("document.querySelector('iframe').contentDocument === null")  # another origin
    assert browser.problems == []


def test_the_page_needs_no_network() -> None:
    page = recorded("turns/two_shells").to_html()
    assert re.findall(r"(?:src|href)=|@import|url\(|fetch\(|XMLHttpRequest|WebSocket|sendBeacon", page) == []
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert not set("<>&") & set(data[1])
    assert len(json.loads(data[1])["spans"]) == len(recorded("turns/two_shells").spans)


@pytest.mark.parametrize("name", ["a\0.html", "a\ud800.html", "missing/a.html"])
def test_a_file_that_cannot_be_written_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="cannot write the timeline"):
        recorded("turns/two_shells").save(tmp_path / name)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_saving_follows_no_link_to_a_file(tmp_path: Path) -> None:
    own, link, pipe = tmp_path / "own", tmp_path / "link.html", tmp_path / "pipe.html"
    own.write_text("mine")
    link.symlink_to(own)
    pipe.symlink_to("/dev/null")
    timeline = recorded("turns/two_shells")
    with pytest.raises(OptionsError, match="cannot write"):
        timeline.save(link)
    assert own.read_text() == "mine"
    timeline.save(pipe)


def test_a_name_decides_the_format(tmp_path: Path) -> None:
    timeline = recorded("turns/two_shells")
    for name in ("a.html", "a.json"):
        if name == "a.json":
            (tmp_path / name).write_text("longer than the timeline" * 100_000)
            (tmp_path / name).chmod(0o644)
        timeline.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
        if os.name == "posix":
            assert (tmp_path / name).stat().st_mode & 0o077 == 0
    assert "traceEvents" in json.loads((tmp_path / "a.json").read_text())
    with pytest.raises(OptionsError, match=r"\.html"):
        timeline.save(tmp_path / "a.pdf")


@pytest.mark.skipif(os.name == "nt", reason="users of POSIX")
def test_saving_overwrites_no_file_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.html").write_text("of another user")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(OptionsError, match="belongs to another user"):
        recorded("turns/two_shells").save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "of another user"
