"""The pages about options and agents: up to date, and what they show works."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def generate(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(DOCS / "generate_options.py"), *arguments], capture_output=True, text=True, check=False
    )


def test_the_page_of_options_is_up_to_date() -> None:
    done = generate("--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_every_option_is_on_the_page() -> None:
    from claude_agent_py import ClientOptions

    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", (DOCS / "options.md").read_text(), re.MULTILINE)
    assert {name for name, goes_to in rows if goes_to.strip()} >= ClientOptions.model_fields.keys()


@pytest.mark.parametrize("page", ["options.md", "when-to-delegate.md"])
def test_what_a_page_shows_works(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
