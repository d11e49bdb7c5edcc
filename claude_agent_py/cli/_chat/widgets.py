"""Widgets of the chat: the prompt box and the lines of the conversation."""

from collections.abc import Callable
from typing import Final

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static, TextArea

from claude_agent_py.cli._chat.conversation import Entry
from claude_agent_py.cli._chat.prompt_history import PromptHistory
from claude_agent_py.permissions.requests import displayable

STYLES: Final = {"prompt": "bold", "tool": "", "task": "cyan", "notice": "dim italic", "error": "red"}
MARKS: Final = {"→": "cyan", "✓": "green", "✗": "red"}
NEW_LINES: Final = ("shift+enter", "ctrl+j", "alt+enter")
SHOWN_LINES: Final = 30
"""Longer prompts, notices and errors are cut."""


def render_diff(lines: list[str]) -> Text:
    """Return the lines of a diff as coloured text."""
    styles = {"+": "green", "-": "red", "@": "cyan"}
    return Text("\n").join(Text(f"  {line}", style=styles.get(line[:1], "")) for line in lines)


def render_entry(entry: Entry) -> Text:
    """Return an entry as coloured text. Answers have their own widget."""
    mark = "»" if entry.kind == "prompt" else entry.mark
    lines = entry.text.splitlines()
    if len(lines) > SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], f"… {len(lines) - SHOWN_LINES} more lines"]
    text = Text.assemble((f"{mark} ", MARKS.get(mark, "cyan")) if mark else "", ("\n".join(lines), STYLES[entry.kind]))
    if entry.changes:
        text.append("\n").append_text(render_diff(entry.changes))
    for line in entry.output:
        text.append(f"\n  {line}", style="dim")
    return text


class Plain(Static):
    """Text that is never read as markup."""

    def __init__(self, text: Text | str = "", *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(text, markup=False, id=id, classes=classes)


class PromptBox(TextArea):
    """The input of prompts. Enter sends; other keys insert lines, recall earlier prompts and complete commands."""

    class Sent(Message):
        """The user sent a prompt."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, history: PromptHistory, complete: Callable[[str], str | None]) -> None:
        """Create the box. On Tab, `complete` returns the new text, or None to leave the text unchanged."""
        super().__init__(id="prompt", soft_wrap=True, show_line_numbers=False)
        self._history = history
        self._complete = complete

    async def _on_key(self, event: events.Key) -> None:
        """Handle a key without a queued message, so that the next key meets the result."""
        line = self.cursor_location[0]
        last_line = self.document.line_count - 1
        if event.key == "enter":
            self._send()
        elif event.key in NEW_LINES:
            self.insert("\n")
        elif event.key == "up" and line == 0:
            self._replace(self._history.back(self.text))
        elif event.key == "down" and line == last_line:
            self._replace(self._history.forward())
        elif event.key == "tab":
            self._replace(self._complete(self.text))
        else:
            return
        event.stop()
        event.prevent_default()

    def _send(self) -> None:
        text = self.text.strip()
        if text:
            self._history.add(text)
            self.put("")
            self.post_message(self.Sent(text))

    def _replace(self, text: str | None) -> None:
        if text is not None:
            self.put(text)

    def put(self, text: str) -> None:
        """Replace the text, and move the cursor to its end."""
        self.text = displayable(text, len(text))
        self.move_cursor(self.document.end)
