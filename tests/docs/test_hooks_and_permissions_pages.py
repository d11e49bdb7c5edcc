"""The pages about hooks, permissions and questions: complete, and what they show works."""

import ast
import asyncio
import re
from pathlib import Path

import pytest

from claude_agent_py.hooks import HOOK_EVENTS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_event_is_on_the_page() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", (DOCS / "hooks.md").read_text(), re.MULTILINE)) >= set(HOOK_EVENTS)
    assert f"| all {len(HOOK_EVENTS)} |" in (DOCS.parent / "README.md").read_text()


@pytest.mark.parametrize("page", ["hooks.md", "permissions.md", "questions-and-approvals.md"])
def test_the_code_of_a_page_works(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        # A block that awaits at the top is a coroutine.
        run = eval(compile(block, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if run is not None:
            asyncio.run(run)
