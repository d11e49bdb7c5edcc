"""The pictures of the command line: the script takes them anew, in a real terminal with colours and live trees."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.long
@pytest.mark.real_cli
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
@pytest.mark.skipif(importlib.util.find_spec("rich") is None, reason="needs rich")
def test_the_pictures_in_the_docs_are_those_that_the_script_takes(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "screenshots.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=500)
    assert done.returncode == 0, done.stderr
    shown_in_docs = {path.name for path in (ROOT / "docs/images").glob("*.svg")} - {"demo.svg"}  # of scripts/cast.py
    assert {path.name for path in tmp_path.iterdir()} == shown_in_docs
    for shown in (
        "● Review auth [general-purpose] running",
        "✓ Run the tests",
    ):
        assert shown in done.stdout
    for path in tmp_path.iterdir():
        assert "@font-face" not in path.read_text(encoding="utf-8")
