"""`AnswerView`: an answer in Markdown, drawn while it grows."""

import io
from typing import Final

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text
from textual import events
from textual.containers import Vertical
from textual.timer import Timer
from textual.widgets import Static

from claude_agent_py.cli._chat.sections import Sections

THEME: Final = "ansi_dark"
SETTLED_AFTER: Final = 0.15
"""Seconds without another change of the size until a text is drawn for it."""


class MarkdownText(Static):
    """Markdown, or with `is_plain` any text, which the mouse can select.

    Links cannot be clicked, because their addresses are the model's.
    """

    def __init__(self, source: str = "", *, is_plain: bool = False, id: str | None = None) -> None:  # noqa: A002
        super().__init__("", markup=False, id=id)
        self._is_plain = is_plain
        self._source = source
        self._width = 0
        self._later: Timer | None = None

    def show(self, source: str) -> None:
        """Show another text."""
        self._source = source
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new width."""
        if event.size.width == self._width:
            return
        is_first, self._width = not self._width, event.size.width
        if is_first:
            self._draw()
            return
        if self._later is not None:
            self._later.stop()
        self._later = self.set_timer(SETTLED_AFTER, self._draw)

    def _draw(self) -> None:
        if self._width:
            self.update(Text(self._source) if self._is_plain else drawn(self._source, self._width))


def drawn(source: str, width: int) -> Text:
    """Return Markdown as coloured text of a width."""
    console = Console(
        width=width, file=io.StringIO(), color_system="truecolor", force_terminal=True, legacy_windows=False
    )
    text = Text(no_wrap=True)
    for segment in console.render(Markdown(source, code_theme=THEME, hyperlinks=False)):
        text.append(segment.text, segment.style)
    text.rstrip()
    return text


class AnswerView(Vertical):
    """An answer. `feed` adds to it; `draw` shows what was added, and costs no more than the last part of it."""

    def __init__(self, *, is_plain: bool = False) -> None:
        super().__init__()
        self.shown_parts = 0
        self._is_plain = is_plain
        self._sections = Sections()
        self._views: list[MarkdownText] = []
        self._is_drawn = True

    def feed(self, text: str) -> None:
        """Add text."""
        self._sections.feed(text)
        self._is_drawn = False

    def draw(self) -> None:
        """Show what has been added."""
        if self._is_drawn or not self.is_mounted:
            return
        self._is_drawn = True
        shown = len(self._views)
        texts = [*self._sections.done, self._sections.tail]
        if shown:
            self._views[-1].show(texts[shown - 1])
        added = [MarkdownText(text, is_plain=self._is_plain) for text in texts[shown:]]
        self._views += added
        if added:
            self.mount_all(added)
