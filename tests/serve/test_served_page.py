"""The served page in a real Chromium, with the real CLI."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.from_thread import start_blocking_portal
from chromium import Browser, browser as browser
from serving import TOKEN, served
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from claude_agent_py import AgentDefinition, Client, ClientOptions
from claude_agent_py.serve import Sessions, make_app
from claude_agent_py.testing import CutStream, Failure, FakeCLI, Gate, Reply, ScriptedModel, frames, steps, tool_use

pytestmark = pytest.mark.real_cli

LOG = "document.getElementById('log').innerText"
READY = "document.body && document.body.dataset.ready === 'yes'"
HOSTILE = (
    "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>[x](javascript:alert(1))"
)


def answering(folder: Path, *script: Any) -> Sessions:
    """Return sessions of a stand-in CLI: what the page shows of its frames needs no other."""
    return Sessions(ClientOptions(cli_path=FakeCLI(*script).install(folder / "cli"), cwd=folder))


def visit(browser: Browser, url: str) -> None:
    browser.call("Page.navigate", url="about:blank")
    browser.requests.clear()
    browser.problems.clear()
    browser.call("Page.navigate", url=f"{url}/#{TOKEN}")
    browser.wait(READY)


def say(browser: Browser, text: str) -> None:
    browser.evaluate("document.getElementById('text').focus()")
    browser.call("Input.insertText", text=text)
    browser.key("Enter")


def shows(browser: Browser, text: str) -> None:
    browser.wait(f"{LOG}.includes({json.dumps(text)})")


def press(browser: Browser, name: str) -> None:
    find = f"[...document.querySelectorAll('button')].find((b) => b.textContent === {json.dumps(name)})"
    browser.wait(f"{find} !== undefined")
    browser.evaluate(f"{find}.focus()")
    browser.key("Enter")


def test_a_call_is_allowed_by_keyboard_after_a_reload_and_a_second_tab_sees_it(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "notes.txt"
    script = [
        Reply([tool_use("Write", {"file_path": str(path), "content": "one\n"})]),
        Reply("**Done** with `it`.", chunk_chars=4),
    ]
    with ScriptedModel(script) as model, served(Sessions(model.options(permission_mode="default"))) as url:
        visit(browser, url)
        say(browser, "Write it")
        browser.wait("document.querySelector('.card .add') !== null")
        browser.wait("document.querySelector('#list button').textContent.includes('Write it')")
        browser.call("Page.reload")
        browser.wait(f"{READY} && document.querySelector('.card') !== null")
        shows(browser, "Write it")
        with Browser() as other:
            other.call(
                "Page.navigate", url=f"{url}/#{TOKEN}&session={browser.evaluate('current')}".replace("#", "#token=")
            )
            other.wait(f"{READY} && document.querySelector('.card') !== null")
            press(browser, "Allow")
            shows(browser, "Done with it.")
            shows(other, "Done with it.")
            other.wait("document.querySelector('.card') === null")
            assert other.problems == []
        assert path.read_text() == "one\n"
        assert browser.evaluate("document.querySelector('.answer strong').textContent") == "Done"
        browser.wait("document.getElementById('cost').textContent.startsWith('$')")
    assert browser.problems == []


class Held:
    """An app that makes no session until it is released, and then fails for the first `failures`."""

    def __init__(self, app: ASGIApp, failures: int = 0) -> None:
        self.app = app
        self.failures = failures
        self.released = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (scope["method"], scope["path"]) == ("POST", "/api/sessions"):
            await anyio.to_thread.run_sync(self.released.wait)
            if self.failures:
                self.failures -= 1
                return await JSONResponse({"error": "no room"}, 503)(scope, receive, send)
        return await self.app(scope, receive, send)


def test_prompts_that_are_sent_while_a_session_is_made_are_sent_once_and_to_it(
    browser: Browser, tmp_path: Path
) -> None:
    sessions, made = answering(tmp_path, *[steps.turn("Done.")] * 2), list[Held]()

    def make(*args: Any, **options: Any) -> Held:
        made.append(Held(make_app(*args, **options), failures=1))
        return made[-1]

    with served(sessions, make) as url:
        visit(browser, url)
        say(browser, "One")
        browser.key("Enter")
        assert browser.evaluate("document.getElementById('text').value") == ""
        made[0].released.set()
        browser.wait("document.getElementById('text').value === 'One'")  # it is not lost
        browser.wait("document.getElementById('problem').textContent === 'no room'")
        made[0].released.clear()
        browser.key("Enter")
        browser.key("Enter")
        say(browser, "Two")
        made[0].released.set()
        browser.wait(f"{LOG}.split('Done.').length === 3")
        shown = browser.evaluate("[...document.querySelectorAll('#log .user')].map((each) => each.textContent)")
        assert sorted(shown) == ["One", "Two"]
        browser.wait("document.querySelectorAll('#list button').length === 1")
    assert [each.partition(" (")[0] for each in browser.problems] == [
        "Failed to load resource: the server responded with a status of 503"
    ]


def test_what_the_api_broke_off_is_no_longer_shown(browser: Browser) -> None:
    gate = Gate()
    script = [CutStream("Hello world, how are you?", after_chars=12, when=gate), Reply("Hello again.")]
    with ScriptedModel(script) as model, served(Sessions(model.options())) as url:
        visit(browser, url)
        say(browser, "Go")
        shows(browser, "Hello")
        gate.open()
        shows(browser, "Hello again.")
        assert "world" not in browser.evaluate(LOG)
        assert browser.evaluate("document.querySelectorAll('#log article:not(.user)').length") == 1
    assert browser.problems == []


def test_html_in_an_answer_is_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    with served(answering(tmp_path, steps.turn(HOSTILE))) as url:
        visit(browser, url)
        say(browser, HOSTILE)
        browser.wait("document.querySelector('.answer') !== null && document.getElementById('stop').hidden")
        assert browser.evaluate(f"{LOG}.split('<script>').length - 1") == 2
        assert browser.evaluate("document.querySelectorAll('#log img, #log script, #log a').length") == 0
        assert "hacked" not in browser.evaluate("document.title").partition("<")[0]
        # Nothing but the server itself is asked for anything.
        assert all(asked.startswith((url, "about:")) for asked in browser.requests)
    assert browser.problems == []


def test_neither_odd_arguments_nor_a_text_made_to_be_slow_stop_the_page(browser: Browser, tmp_path: Path) -> None:
    slow = ["|", " " * 5_000 + "-" * 5_000 + "x", "", "x" + "`" * 10_000, "", "x" + "[" * 10_000, "", "The end."]
    odd = frames.tool_use_block("Bash", {"command": {"toString": 1, "__proto__": None}})
    said = [
        frames.assistant([odd]),
        frames.tool_result(odd["id"], "no such command"),
        frames.assistant("\n".join(slow)),
    ]
    with served(answering(tmp_path, steps.turn(said))) as url:
        visit(browser, url)
        say(browser, "Go")
        shows(browser, "The end.")
        assert browser.evaluate("document.getElementById('problem').hidden")
        browser.evaluate("location.hash = '#session=../../elsewhere'")
        browser.call("Page.reload")
        browser.wait(READY)
        asked = [each for each in browser.requests if "elsewhere" in each.partition("#")[0]]
        assert asked
        assert all(each.startswith(f"{url}/api/sessions/..%2F..%2Felsewhere/") for each in asked)


def test_background_work_is_a_tree_with_output_and_is_stopped(browser: Browser) -> None:
    command = {"command": "echo begun; sleep 60", "description": "Wait long", "run_in_background": True}
    script = [
        Reply([tool_use("Agent", {"description": "Look", "prompt": "look", "subagent_type": "worker"})]),
        Reply([tool_use("Bash", command)]),
        Reply("Both are done."),
    ]
    worker = AgentDefinition(description="Works", prompt="You work.")
    with ScriptedModel(script, agents={"look": [Reply("I looked.")]}) as model:
        options = model.options(agents={"worker": worker})
        with served(Sessions(options)) as url:
            visit(browser, url)
            say(browser, "Go")
            tasks = "document.getElementById('tasks').innerText"
            browser.wait(f"{tasks}.includes('… Wait long')")
            browser.wait(f"{tasks}.includes('✓ Look')")
            find = "[...document.querySelectorAll('#tasks > li')].find((li) => li.innerText.includes('Wait long'))"
            browser.evaluate(f"{find}.querySelectorAll('button')[0].click()")
            browser.wait("document.getElementById('output').textContent.includes('begun')")
            browser.evaluate(f"{find}.querySelectorAll('button')[1].click()")
            browser.wait(f"{tasks}.includes('■ Wait long')")
            browser.evaluate("{ const open = window.open; window.open = (...all) => (window.opened = open(...all)); }")
            press(browser, "Timeline")
            page = "window.opened && window.opened.document.body"
            browser.wait(f"{page} && window.opened.document.body.dataset.ready === 'yes'")
            assert browser.evaluate("window.opened.document.body.innerText.includes('Wait long')")
            assert browser.evaluate("window.opened.document.title").startswith("Go")
    assert browser.problems == []


def test_a_turn_is_stopped(browser: Browser, tmp_path: Path) -> None:
    script = [
        steps.wait_for_prompt(),
        steps.emit(frames.init(user_message_uuids=[frames.prompt_field("uuid")])),
        steps.wait_for_request("interrupt"),
        steps.answer({"still_queued": []}),
        steps.emit(frames.result("", subtype="error_during_execution", terminal_reason="aborted_streaming")),
    ]
    with served(answering(tmp_path, *script)) as url:
        visit(browser, url)
        say(browser, "Think")
        browser.wait("!document.getElementById('stop').hidden")
        press(browser, "Stop")
        browser.wait("document.getElementById('stop').hidden")
        shows(browser, "Stopped.")


@pytest.mark.long
def test_an_error_of_the_api_is_shown_once_for_each_prompt_and_a_call_that_was_cut_off_says_so(
    browser: Browser,
) -> None:
    refused = Failure(400, message="`key` is **not** valid")
    call = Reply([tool_use("Bash", {"command": "touch made", "description": "Make it"})])
    with ScriptedModel([refused, refused, Reply("Better."), call, Reply("Again.")]) as model:
        sessions = Sessions(model.options(permission_mode="default"))
        with served(sessions) as url:
            visit(browser, url)
            for number in (1, 2):
                say(browser, f"Go {number}")
                browser.wait(f"{LOG}.split('key is not valid').length === {number + 1}")
                browser.wait("document.getElementById('stop').hidden")
            say(browser, "Once more")
            shows(browser, "Better.")
            browser.call("Page.reload")
            browser.wait(f"{READY} && {LOG}.includes('Better.')")
            assert browser.evaluate(f"{LOG}.split('not').length - 1") == 2
            assert browser.problems == []

            say(browser, "Make it")
            browser.wait("document.querySelector('.card') !== null")
            (session,) = [anyio.run(sessions.get, info.id) for info in anyio.run(sessions.list)]
            assert session.client is not None
            assert session.client.pid is not None
            os.kill(session.client.pid, signal.SIGKILL)
            shows(browser, "cancelled")
            say(browser, "Go on")
            shows(browser, "Again.")


def test_a_narrow_screen_scrolls_only_down_and_every_control_has_a_name(browser: Browser, tmp_path: Path) -> None:
    with served(answering(tmp_path, steps.turn("x" * 500))) as url:
        try:
            size = {"width": 360, "height": 700, "deviceScaleFactor": 1, "mobile": True}
            browser.call("Emulation.setDeviceMetricsOverride", **size)
            visit(browser, url)
            say(browser, "Go")
            shows(browser, "xxx")
            assert browser.evaluate("document.documentElement.scrollWidth") <= 360
            assert not browser.evaluate("document.getElementById('sessions').offsetWidth")
            browser.evaluate("document.getElementById('show').click()")
            assert browser.evaluate("document.getElementById('sessions').offsetWidth") > 100
            colors = []
            for scheme in ("light", "dark"):
                browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                colors.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert colors[0] != colors[1]
        finally:
            browser.call("Emulation.clearDeviceMetricsOverride")
            browser.call("Emulation.setEmulatedMedia", features=[])
        browser.call("Accessibility.enable")
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        roles = ("button", "textbox", "searchbox", "checkbox", "radio", "link")
        controls = [node for node in nodes if node.get("role", {}).get("value") in roles]
        assert len(controls) > 3
        assert [node for node in controls if not node.get("name", {}).get("value")] == []


def test_a_page_without_the_token_says_so(browser: Browser) -> None:
    with ScriptedModel() as model, served(Sessions(model.options())) as url:
        browser.call("Page.navigate", url=f"{url}/#token=wrong")
        browser.wait("document.getElementById('problem') && !document.getElementById('problem').hidden")
        assert "token" in browser.evaluate("document.getElementById('problem').textContent")


async def _ask(client: Client, prompt: str) -> None:
    await client.query(prompt)


def test_a_session_that_another_program_has_open_says_so_and_takes_no_prompt(browser: Browser) -> None:
    script = [Reply("First."), Reply("Second.")]
    with ScriptedModel(script) as model, start_blocking_portal() as portal:
        options = model.options(persist_session=True)
        with served(Sessions(options)) as url:
            with portal.wrap_async_context_manager(Client(options)) as client:
                portal.call(_ask, client, "One?")
                visit(browser, url)
                button = "document.querySelector('#list button')"
                browser.wait(f"{button} !== null && {button}.textContent.includes('(open in another program)')")
                browser.evaluate(f"{button}.click()")
                shows(browser, "First.")
                say(browser, "Two?")
                browser.wait("document.getElementById('problem').textContent.includes('is open in the process')")
                assert browser.evaluate("document.getElementById('text').value") == "Two?"
            browser.key("Enter")  # the other program has ended
            shows(browser, "Second.")
            browser.wait(f"!{button}.textContent.includes('another program')")
    assert len(browser.problems) == 1  # the answer 409
