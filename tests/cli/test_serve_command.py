"""The command `serve`."""

import http.client
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from claude_agent_py.cli import main


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


def test_a_public_address_needs_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--host", "0.0.0.0"]) == 1
    assert "--name" in capsys.readouterr().err
