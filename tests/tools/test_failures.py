"""What the model is told when a tool fails."""

from claude_agent_py.errors import ToolError
from claude_agent_py.tools.results import failure_text


def test_a_failure_names_the_tool_and_the_error() -> None:
    assert failure_text("search", ValueError("bad")) == "search failed: ValueError: bad"
    assert failure_text("search", ValueError()) == "search failed: ValueError"


def test_a_tool_error_is_the_tools_own_word() -> None:
    assert failure_text("search", ToolError("Use https://me:secret@host instead.")) == (
        "Use https://me:secret@host instead."
    )
    assert failure_text("search", ToolError()) == "search failed"


def test_a_long_failure_is_cut() -> None:
    assert len(failure_text("search", ValueError("x" * 100_000))) <= 2_000
