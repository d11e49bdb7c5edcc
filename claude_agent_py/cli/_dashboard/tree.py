"""`RowTree`: the rows as a tree of textual, with columns. Texts of agents are never read as markup."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from claude_agent_py.cli._dashboard.rows import Row, elapsed

COLUMNS: Final = (("state", 10), ("elapsed", 8), ("tokens", 8), ("cost", 11))
"""Those of a fixed width, right-aligned but for the first."""
WAITS: Final = "waits for"
NARROW: Final = 72
"""Below this width, only the first of the columns is shown."""
_GUIDE: Final = 2
_GROUPS: Final = frozenset({"host", "fleet", "inbox"})


class RowTree(Tree[Row]):
    """The rows. `show` updates them in place: the cursor stays on its row, and what was folded stays folded."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Conversation")]

    def __init__(self, **more: Any) -> None:
        super().__init__("", **more)
        self.show_root = False
        self.auto_expand = False
        self.guide_depth = _GUIDE

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows."""
        chosen = self.row
        _sync(self.root, rows)
        if not self.root.is_expanded:
            self.root.expand()
        if self.last_line >= 0:  # the lines are made anew here
            found = (node for node in self.nodes() if chosen and node.data and node.data.key == chosen.key)
            if (node := next(found, None)) is not None and node.line != self.cursor_line:
                self.move_cursor(node)
            elif self.cursor_line < 0:
                self.cursor_line = 0
        self.refresh_times()

    def refresh_times(self) -> None:
        """Draw again what shows the time."""
        self._clear_line_cache()
        self.refresh()

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        node = self.cursor_node
        return None if node is None else node.data

    def nodes(self) -> "Iterator[TreeNode[Row]]":
        """Yield all nodes."""
        queue = list(self.root.children)
        while queue:
            node = queue.pop(0)
            yield node
            queue[:0] = node.children

    def get_label_width(self, node: TreeNode[Row]) -> int:
        """Return the width that is left of the guides."""
        depth = 0
        while node.parent is not None and node.parent.parent is not None:
            node, depth = node.parent, depth + 1
        return max(1, self.size.width - depth * _GUIDE)

    def render_label(self, node: TreeNode[Row], base_style: Style, style: Style) -> Text:
        """Return the line of a row, in columns that end at the right edge."""
        row = node.data
        if row is None:
            return Text("")
        width = self.get_label_width(node)
        fold = ("▾ " if node.is_expanded else "▸ ") if node.children else ""
        mark, colour = ("", "") if row.kind in _GROUPS else row.mark
        text = Text.assemble(fold, (f"{mark} " if mark else "", colour), no_wrap=True, end="")
        text.append_text(columns(row, width - text.cell_len, self.size.width))
        text.stylize(style)
        return text


def columns(row: Row, width: int, total: int) -> Text:
    """Return what a row says in this width. `total` is that of all columns."""
    if row.kind in _GROUPS:
        return Text(fit(row.line(), width), style="bold")
    room = widths(total)
    name = max(1, width - sum(room.values()))
    tokens, cost = row.spent.facts()
    facts = {
        "state": ("asks" if row.questions else row.state, row.mark[1]),
        "elapsed": ("" if row.since is None else elapsed(row.since), ""),
        "tokens": (tokens, ""),
        "cost": (cost, ""),
        WAITS: (f" {row.waits_for}" if row.waits_for else "", "yellow" if row.questions else "dim"),
    }
    text = Text(fit(_named(row, name), name))
    for column, size in room.items():
        fact, style = facts[column]
        is_left = column in (WAITS, "state")
        shown = fit(f" {fact}" if is_left else fact, size)
        text.append(shown if is_left else " " * (size - len(fact)) + fact if len(fact) < size else shown, style)
    return text


def _named(row: Row, width: int) -> str:
    """Return the title, with as many of the other facts as there is room for."""
    shown = row.title
    for fact in row.about:
        if cell_len(longer := f"{shown} · {fact}") > width:
            break
        shown = longer
    return shown


def widths(total: int) -> dict[str, int]:
    """Return the widths of the columns after the name, for the width of the tree."""
    if total < NARROW:
        return dict(COLUMNS[:1]) if total >= 30 else {}
    fixed = dict(COLUMNS)
    rest = total - sum(fixed.values())
    return {**fixed, WAITS: rest * 2 // 5 if rest >= 50 else 0}


def heading(total: int, count: int) -> Text:
    """Return the names of the columns, and how many sessions there are."""
    room = widths(total)
    text = Text(fit(f"  {count} session{'s' * (count != 1)}", max(1, total - sum(room.values()))))
    for column, size in room.items():
        is_left = column in (WAITS, "state")
        text.append(fit(f"  {column}" if column == WAITS else f" {column}", size) if is_left else column.rjust(size))
    return text


def fit(text: str, width: int) -> str:
    """Return a text in exactly this many cells."""
    if width <= 0:
        return ""
    cut = set_cell_size(text, width)
    return cut if cut.rstrip() == text.rstrip() or width < 2 else set_cell_size(text, width - 1) + "…"


def _sync(parent: TreeNode[Row], rows: Sequence[Row]) -> None:
    """Make the nodes below one those of the rows, and keep those that are there."""
    wanted = {row.key for row in rows}
    for node in list(parent.children):
        if node.data is None or node.data.key not in wanted:
            node.remove()
    there = {node.data.key: node for node in parent.children if node.data is not None}
    if list(there) != [row.key for row in rows if row.key in there]:
        parent.remove_children()  # the order has changed
        there = {}
    for at, row in enumerate(rows):
        node = there.get(row.key) or parent.add("", row, before=at, expand=True)
        node.data = row
        _sync(node, row.children)
