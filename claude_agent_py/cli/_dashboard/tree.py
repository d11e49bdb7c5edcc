"""`RowTree`: the rows as a textual tree with columns. Texts of agents are never interpreted as markup."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from claude_agent_py.cli._dashboard.rows import Row, format_elapsed

COLUMNS: Final = (("state", 10), ("elapsed", 8), ("tokens", 8), ("cost", 11))
"""The columns of a fixed width. All but the first are right-aligned."""
WAITS: Final = "waits for"
NARROW: Final = 72
"""Narrower trees only show the first of the columns."""
_LEFT_ALIGNED: Final = frozenset({"state", WAITS})
_GUIDE: Final = 2
_GROUPS: Final = frozenset({"host", "fleet", "inbox"})


class RowTree(Tree[Row]):
    """The tree of rows. `show` updates it in place: the cursor stays on its row, and folded rows stay folded."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Conversation")]

    def __init__(self, **more: Any) -> None:
        super().__init__("", **more)
        self.show_root = False
        self.auto_expand = False
        self.guide_depth = _GUIDE

    def show(self, rows: Sequence[Row]) -> None:
        selected = self.row
        _update_children(self.root, rows)
        if not self.root.is_expanded:
            self.root.expand()
        # `last_line` computes the lines again.
        if self.last_line >= 0:
            found = (node for node in self.nodes() if selected and node.data and node.data.key == selected.key)
            node = next(found, None)
            if node is not None and node.line != self.cursor_line:
                self.move_cursor(node)
            elif self.cursor_line < 0:
                self.cursor_line = 0
        self.refresh_times()

    def refresh_times(self) -> None:
        """Redraw the elapsed times."""
        self._clear_line_cache()
        self.refresh()

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        node = self.cursor_node
        return None if node is None else node.data

    def nodes(self) -> "Iterator[TreeNode[Row]]":
        """Yield all nodes, from top to bottom."""
        queue = list(self.root.children)
        while queue:
            node = queue.pop(0)
            yield node
            queue[:0] = node.children

    def get_label_width(self, node: TreeNode[Row]) -> int:
        """Return the width without the guides."""
        depth = 0
        while node.parent is not None and node.parent.parent is not None:
            node = node.parent
            depth += 1
        return max(1, self.size.width - depth * _GUIDE)

    def render_label(self, node: TreeNode[Row], base_style: Style, style: Style) -> Text:
        """Return the line of a row, with columns aligned to the right edge."""
        row = node.data
        if row is None:
            return Text("")
        width = self.get_label_width(node)
        text = Text(no_wrap=True, end="")
        if node.children:
            text.append("▾ " if node.is_expanded else "▸ ")
        if row.kind not in _GROUPS:
            mark, colour = row.mark
            text.append(f"{mark} ", colour)
        text.append_text(render_columns(row, width - text.cell_len, self.size.width))
        text.stylize(style)
        return text


def render_columns(row: Row, width: int, total: int) -> Text:
    """Format a row to `width`. `total` is the width of the whole tree."""
    if row.kind in _GROUPS:
        return Text(fit(row.line(), width), style="bold")
    widths = compute_widths(total)
    name_width = max(1, width - sum(widths.values()))
    tokens, cost = row.spent.format()
    waits_for = f" {row.waits_for}" if row.waits_for else ""
    values = {
        "state": ("asks" if row.questions else row.state, row.mark[1]),
        "elapsed": ("" if row.since is None else format_elapsed(row.since), ""),
        "tokens": (tokens, ""),
        "cost": (cost, ""),
        WAITS: (waits_for, "yellow" if row.questions else "dim"),
    }
    return _join_columns(fit(_join_facts(row, name_width), name_width), values, widths)


def _join_columns(name: str, values: Mapping[str, tuple[str, str]], widths: Mapping[str, int]) -> Text:
    """Return a line of the name and the columns. Each column has a text and a style."""
    text = Text(name)
    for column, size in widths.items():
        value, style = values[column]
        aligned = f" {value}" if column in _LEFT_ALIGNED else value.rjust(size)
        text.append(fit(aligned, size), style)
    return text


def _join_facts(row: Row, width: int) -> str:
    """Return the title and as many of the other facts as fit the width."""
    text = row.title
    for fact in row.about:
        longer = f"{text} · {fact}"
        if cell_len(longer) > width:
            break
        text = longer
    return text


def compute_widths(total: int) -> dict[str, int]:
    """Return the widths of the columns after the name, for a width of the tree."""
    if total < 30:
        return {}
    if total < NARROW:
        return dict(COLUMNS[:1])
    fixed = dict(COLUMNS)
    rest = total - sum(fixed.values())
    return {**fixed, WAITS: rest * 2 // 5 if rest >= 50 else 0}


def render_heading(total: int, count: int) -> Text:
    """Return the number of sessions and the names of the columns."""
    widths = compute_widths(total)
    name = fit(f"  {count} session{'s' * (count != 1)}", max(1, total - sum(widths.values())))
    titles = {column: (column, "") for column in widths} | {WAITS: (f" {WAITS}", "")}
    return _join_columns(name, titles, widths)


def fit(text: str, width: int) -> str:
    """Cut or pad a text to this number of cells."""
    if width <= 0:
        return ""
    fitted = Text(text)
    fitted.truncate(width, overflow="ellipsis", pad=True)
    return fitted.plain


def _update_children(parent: TreeNode[Row], rows: Sequence[Row]) -> None:
    """Replace the children of a node by these rows. Existing nodes are kept, so they stay folded."""
    wanted = {row.key for row in rows}
    for node in list(parent.children):
        if node.data is None or node.data.key not in wanted:
            node.remove()
    existing = {node.data.key: node for node in parent.children if node.data is not None}
    # textual cannot move nodes, so a changed order takes new ones.
    if list(existing) != [row.key for row in rows if row.key in existing]:
        parent.remove_children()
        existing = {}
    for at, row in enumerate(rows):
        node = existing.get(row.key) or parent.add("", row, before=at, expand=True)
        node.data = row
        _update_children(node, row.children)
