"""Output in a terminal: safe lines, `rich` consoles and trees."""

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TextIO, TypeVar

from claude_agent_py._base import display

T = TypeVar("T")

MARKS: Final[Mapping[str, tuple[str, str]]] = {
    "pending": ("·", "dim"),
    "queued": ("·", "blue"),
    "running": ("●", "cyan"),
    "busy": ("●", "cyan"),
    "paused": ("‖", "yellow"),
    "waiting": ("‖", "yellow"),
    "awaiting_user": ("?", "yellow"),
    "asks": ("?", "bold yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "stopped": ("■", "magenta"),
    "cancelled": ("■", "magenta"),
}
"""The character and colour of each state of a task or session. Others are inactive."""
SHOWN_CHARS: Final = 70


def one_line(text: str, limit: int = SHOWN_CHARS) -> str:
    """Return a text as one line that is safe to print in a terminal, cut to `limit` characters."""
    return display.one_line(text, limit)


def create_console(out: TextIO) -> Any:
    """Return a `rich` console, or None if `out` is not a terminal or `rich` is not installed."""
    if not out.isatty():
        return None
    if importlib.util.find_spec("rich") is None:
        return None
    from rich.console import Console

    return Console(file=out, highlight=False)


def _clean(part: Any) -> Any:
    """Return a text, or a text with a style, without control characters."""
    if isinstance(part, tuple):
        text, *style = part
        return (display.displayable(text, None), *style)
    return display.displayable(part, None)


def build_tree(title: str, roots: Iterable[T], parts: Callable[[T], tuple[Any, ...]]) -> Any:
    """Return a `rich` tree of nodes and their `children`. `parts` returns the texts of a node, with their styles."""
    from rich.text import Text
    from rich.tree import Tree

    def add(parent: Tree, nodes: Iterable[Any]) -> None:
        for node in nodes:
            add(parent.add(Text.assemble(*map(_clean, parts(node)))), node.children)

    tree = Tree(Text(title), guide_style="dim")
    add(tree, roots)
    return tree
