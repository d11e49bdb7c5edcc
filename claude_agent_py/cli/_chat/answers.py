"""`AnswerView`: a streaming answer, rendered as Markdown."""

import io
from typing import Final

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text
from textual import events
from textual.containers import Vertical
from textual.timer import Timer
from textual.widgets import Static

from claude_agent_py.formatting.markdown import closes, find_opener

SECTION_CHARS: Final = 4000
"""A part of this length ends at the next blank line outside a code block."""
MAX_CHARS: Final = 16_000
"""A longer part is cut at the end of a line, or anywhere if it has no line end."""


class Sections:
    """A growing Markdown text, cut into complete parts and a last part that still grows and is rendered again.

    Attributes:
        done: The complete parts. Each is valid Markdown: a cut code block is closed, and reopened in the next part.
        tail: The last part, which still grows.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.tail = ""

    def feed(self, text: str) -> None:
        """Add text at the end."""
        for start in range(0, len(text), SECTION_CHARS):
            self.tail += text[start : start + SECTION_CHARS]
            if len(self.tail) > SECTION_CHARS:
                self._cut()

    def _cut(self) -> None:
        """Complete a part up to the last blank line outside a code block, or, in a long tail, the last line."""
        opener = marker = ""
        end = blank = 0
        for line in self.tail.split("\n")[:-1]:
            end += len(line) + 1
            if marker:
                marker = "" if closes(line, marker) else marker
            elif found := find_opener(line):
                opener = line[:200]
                marker = found
            elif not line.strip():
                blank = end
        if blank:
            end = blank
            marker = ""
        elif len(self.tail) <= MAX_CHARS:
            return
        end = end or len(self.tail)
        head = self.tail[:end]
        rest = self.tail[end:]
        if marker:
            head = f"{head.rstrip()}\n{marker}"
            rest = f"{opener}\n{rest}"
        self.done.append(head)
        self.tail = rest


THEME: Final = "ansi_dark"
DRAW_DELAY: Final = 0.08
"""Seconds for which added text is collected before it is drawn."""
RESIZE_DELAY: Final = 0.15
"""Seconds without another resize before the text is rendered for the new width."""


class MarkdownText(Static):
    """Markdown, or plain text with `is_plain`, that the mouse can select.

    Links cannot be clicked, because the model chooses their addresses.
    """

    def __init__(self, source: str = "", *, is_plain: bool = False, id: str | None = None) -> None:  # noqa: A002
        super().__init__("", markup=False, id=id)
        self._is_plain = is_plain
        self._source = source
        self._width = 0
        self._redraw_timer: Timer | None = None

    def show(self, source: str) -> None:
        """Replace the text."""
        self._source = source
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Render the text for the new width."""
        if event.size.width == self._width:
            return
        is_first = not self._width
        self._width = event.size.width
        if is_first:
            self._draw()
            return
        # Rendering is slow, and a dragged window edge sends many events. Wait for the last one.
        if self._redraw_timer is not None:
            self._redraw_timer.stop()
        self._redraw_timer = self.set_timer(RESIZE_DELAY, self._draw)

    def _draw(self) -> None:
        if not self._width:
            return
        if self._is_plain:
            self.update(Text(self._source))
        else:
            self.update(render_markdown(self._source, self._width))


def render_markdown(source: str, width: int) -> Text:
    """Render Markdown as coloured text of this width."""
    console = Console(
        width=width, file=io.StringIO(), color_system="truecolor", force_terminal=True, legacy_windows=False
    )
    text = Text(no_wrap=True)
    for segment in console.render(Markdown(source, code_theme=THEME, hyperlinks=False)):
        text.append(segment.text, segment.style)
    text.rstrip()
    return text


class AnswerView(Vertical):
    """An answer that grows. Added text is drawn a moment later, and only the last section is rendered again."""

    def __init__(self, *, is_plain: bool = False) -> None:
        super().__init__()
        self.shown_parts = 0
        self._is_plain = is_plain
        self._sections = Sections()
        self._views: list[MarkdownText] = []
        self._will_draw = False

    def feed(self, text: str) -> None:
        """Add text to the answer."""
        self._sections.feed(text)
        if not self._will_draw:
            self._will_draw = True
            self.set_timer(DRAW_DELAY, self._draw)

    def _draw(self) -> None:
        self._will_draw = False
        count = len(self._views)
        texts = [*self._sections.done, self._sections.tail]
        if count:
            self._views[-1].show(texts[count - 1])
        added = [MarkdownText(text, is_plain=self._is_plain) for text in texts[count:]]
        self._views += added
        if added:
            self.mount_all(added)
