"""The pages about options and agents: complete, and what they show works."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_every_option_is_on_the_page() -> None:
    from claude_agent_py import ClientOptions

    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", (DOCS / "options.md").read_text(), re.MULTILINE)
    assert {name for name, goes_to in rows if goes_to.strip()} >= ClientOptions.model_fields.keys()


@pytest.mark.parametrize("page", ["options.md", "when-to-delegate.md"])
def test_the_code_of_a_page_works(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
