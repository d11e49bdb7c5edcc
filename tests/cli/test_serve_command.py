"""The command `serve`."""

import http.client
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import leftovers
import pytest

from claude_agent_py.cli import main
from claude_agent_py.testing import ScriptedModel


@pytest.mark.skipif(sys.platform == "win32", reason="needs a signal as after Ctrl-C")
def test_serve_prints_its_address_and_ends_after_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from claude_agent_py import ClientOptions\noptions = ClientOptions()\n")
    command = [sys.executable, "-m", "claude_agent_py", "serve", "mine:options", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.fullmatch(r"Open (http://127\.0\.0\.1:\d+)/#(\S+)\n", process.stdout.readline())
        assert found is not None
        address, token = found.groups()

        def ask(method: str, path: str, data: bytes | None = None) -> urllib.request.Request:
            headers = {"authorization": f"Bearer {token}"}
            return urllib.request.Request(f"{address}/{path}", data, headers, method=method)

        with urllib.request.urlopen(ask("POST", "api/sessions", b'{"id": "0b0a2a5e-7c5c-4a3f-9f5f-000000000000"}')):
            pass
        events = ask("GET", "api/sessions/0b0a2a5e-7c5c-4a3f-9f5f-000000000000/events")
        with urllib.request.urlopen(events) as stream:
            assert b"reset" in stream.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) in (0, 130, -signal.SIGINT)
            with suppress(http.client.IncompleteRead):
                stream.read()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
@pytest.mark.real_cli
def test_a_pool_is_open_while_it_is_served_and_leaves_no_process(tmp_path: Path) -> None:
    with ScriptedModel(["Hello."]) as model:
        (tmp_path / "mine.py").write_text(
            "from claude_agent_py import ClientOptions\nfrom claude_agent_py.pool import Pool\n"
            f"options = ClientOptions(inherit_env=False, env={model.environment()!r}, cwd={str(model.sandbox.cwd)!r})\n"
            "pool = Pool(options.replace(include_partial_messages=True, interactions=True), size=2)\n"
        )
        command = [sys.executable, "-m", "claude_agent_py", "serve", "mine:pool", "--port", "0"]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address, token = process.stdout.readline().removeprefix("Open ").strip().split("#")

            def ask(path: str, body: bytes | None = None) -> Any:
                headers = {"authorization": f"Bearer {token}"}
                with urllib.request.urlopen(urllib.request.Request(address + path, body, headers)) as answer:
                    return json.load(answer)

            states: list[str] = []
            deadline = time.monotonic() + 60
            while "idle" not in states and time.monotonic() < deadline:  # a new session has a spare, once one is ready
                ask("api/sessions", b"{}")
                states = [each["state"] for each in ask("api/sessions")]
            running = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
            children = [pid for pid in running if leftovers.parent_of(pid) == process.pid]
            process.send_signal(signal.SIGINT)
            assert process.wait(60) in (0, 130, -signal.SIGINT)
        assert "idle" in states
        assert len(children) >= 2
        assert not [child for child in children if leftovers.is_alive(child)]


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_number_that_is_no_port_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", port]) == 1
    assert capsys.readouterr().err == f"claude-agent-py: --port: must be from 0 to 65535, not {port}\n"


def test_a_public_address_needs_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--host", "0.0.0.0"]) == 1
    assert "--name" in capsys.readouterr().err


FLEET = """
from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet
fleet = Fleet("sqlite:///fleet.db")
fleet.agent("one", ClientOptions())
fleet.agent("two", ClientOptions())
options = ClientOptions()
nothing = 3
"""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fleet"], "agent: is needed, because served_things:fleet has the agents: one, two"),
        (["fleet", "--agent", "one", "--ready", "1"], "ready: is not for a fleet, whose workers start its processes"),
        (["options", "--agent", "one"], "agent: is only for a fleet"),
        (["nothing"], "must be ClientOptions, a Pool or a Fleet, not int: served_things:nothing"),
    ],
)
def test_arguments_that_do_not_fit_what_is_served(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "served_things.py").write_text(FLEET)
    monkeypatch.syspath_prepend(tmp_path)
    name, *more = arguments
    assert main(["serve", f"served_things:{name}", *more]) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(("command", "package"), [("serve", "uvicorn"), ("acp", "acp")])
def test_a_missing_extra_is_named(
    command: str, package: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith("claude_agent_py.acp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("claude_agent_py.acp.serve", raising=False)  # if a test has used it before
    assert main([command]) == 1
    assert f"needs the extra `{command}`" in capfd.readouterr().err
