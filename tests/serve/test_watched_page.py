"""`watch --page`: the command serves the sessions of this machine, and opens them in a browser."""

import os
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chromium import Browser, browser as browser

from claude_agent_py import run_sync
from claude_agent_py.cli import main
from claude_agent_py.testing import Reply, ScriptedModel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a signal as after Ctrl-C")


@contextmanager
def watching(folder: Path, *arguments: str) -> Iterator[str]:
    """Run `watch --page` with a browser that writes the address to a pipe, and yield the address."""
    opener, opened = folder / "browser", folder / "address"
    os.mkfifo(opened)
    opener.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {opened}\n')
    opener.chmod(opener.stat().st_mode | stat.S_IXUSR)
    command = [sys.executable, "-m", "claude_agent_py", "watch", "--page", *arguments]
    env = {**os.environ, "BROWSER": f"{opener} %s"}
    with subprocess.Popen(command, env=env, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            printed = process.stdout.readline()
            assert printed
            address = opened.read_text()
            assert printed == f"Open {address}\n"
            yield address
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) in (0, 130, -signal.SIGINT)


@pytest.mark.real_cli
def test_the_sessions_of_this_machine_are_on_the_page_that_opens(browser: Browser, tmp_path: Path) -> None:
    with ScriptedModel([Reply("Two.")]) as model:
        run_sync("What is one and one?", model.options(persist_session=True))
        config = str(model.sandbox.config_dir)
        with watching(tmp_path, "--config-dir", config) as address:
            assert address.startswith("http://127.0.0.1:")
            browser.call("Page.navigate", url=address)
            button = "document.querySelector('#list button')"
            browser.wait(f"{button} !== null && {button}.textContent.includes('What is one and one?')")
            browser.evaluate(f"{button}.click()")
            browser.wait("document.getElementById('log').innerText.includes('Two.')")
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"{address.partition('#')[0]}api/sessions")
    assert browser.problems == []


@pytest.mark.long
def test_the_sessions_of_a_fleet_are_served(tmp_path: Path) -> None:
    module = (
        "from claude_agent_py import ClientOptions\n"
        "from claude_agent_py.fleet import Fleet\n"
        f"fleet = Fleet('sqlite:///{tmp_path}/fleet.db')\n"
        "fleet.agent('support', ClientOptions())\n"
    )
    (tmp_path / "mine.py").write_text(module)
    with watching(tmp_path, "--fleet", "mine:fleet") as address:
        place, _, token = address.partition("#")
        asked = urllib.request.Request(f"{place}api/sessions", headers={"authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked) as reply:
            assert reply.read() == b"[]"


@pytest.mark.parametrize("arguments", [["--once"], ["--json"], ["--all"], ["--fleet", "sqlite:///fleet.db"]])
def test_arguments_that_do_not_go_with_a_page_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "--page", *arguments]) == 1
    assert arguments[0] in capsys.readouterr().err
