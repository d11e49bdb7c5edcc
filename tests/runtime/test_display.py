"""What models, tools and servers write is printed without control characters."""

import traceback

from claude_agent_py import ClaudeAgentError, TaskManager, ToolError
from claude_agent_py.permissions import displayable
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

ESCAPES = "\x1b[2J\x9b31m\u202e\x07\r"


def is_clean(text: str) -> bool:
    return all(char.isprintable() or char in "\n\t" for char in text)


def test_a_drawing_of_tasks_has_one_clean_line_for_each() -> None:
    manager = TaskManager()
    manager.track(decode(frames.encode(frames.task_started("a1", f"one{ESCAPES}\n└── forged"))))
    manager.track(decode(frames.encode(frames.task_started("a2", "two", parent_task_id="a1", spawn_depth=2))))
    tree = manager.tree()
    assert len(str(tree).splitlines()) == 2
    assert is_clean(str(tree))
    assert is_clean(next(iter(tree)).label)


def test_the_text_of_an_error_is_clean_where_it_is_printed_but_not_for_the_model() -> None:
    error = ClaudeAgentError(f"no {ESCAPES}")
    assert is_clean(str(error))
    assert is_clean("".join(traceback.format_exception(error)))
    assert str(ToolError(ESCAPES)) == ESCAPES


def test_text_is_cut_only_at_a_limit() -> None:
    assert displayable("x" * 3000).startswith("x" * 2000 + "… [+1000 characters]")
    assert displayable("x" * 3000, None) == "x" * 3000
