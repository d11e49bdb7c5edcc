"""Widgets of the chat: the prompt box with its history, and the lines of the conversation."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static, TextArea

from claude_agent_py._base.bounded_reading import read_lines
from claude_agent_py._base.private_files import make_private
from claude_agent_py._launch.locate import user_folder
from claude_agent_py.cli._chat.conversation import Entry
from claude_agent_py.permissions.requests import displayable

MAX_PROMPTS: Final = 1000
"""The number of saved prompts."""
PROMPT_CHARS: Final = 20_000
"""Longer prompts are not saved, because they are probably pasted files."""


def get_history_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the history file, which may not exist."""
    environ = os.environ if environ is None else environ
    folder = user_folder(environ, "XDG_STATE_HOME", macos="Library/Application Support", other=".local/state")
    return folder / "chat-history.jsonl"


class PromptHistory:
    """Earlier prompts, and the position of the user among them.

    Without a file, or if the file cannot be read or written, the history only has the prompts of this chat.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self.prompts: list[str] = [] if file is None else _read(file)
        self._position = len(self.prompts)
        self._draft = ""
        """The typed text before the user went back."""

    def add(self, prompt: str) -> None:
        """Add a prompt, unless it repeats the last one."""
        if prompt and self.prompts[-1:] != [prompt] and len(prompt) <= PROMPT_CHARS:
            self.prompts.append(prompt)
            if self._file is not None:
                with suppress(OSError):
                    _append(self._file, [prompt])
        self._position = len(self.prompts)

    def back(self, typed: str) -> str | None:
        """Return the previous prompt, or None at the first one. Saves the typed text for `forward`."""
        if self._position == 0:
            return None
        if self._position == len(self.prompts):
            self._draft = typed
        self._position -= 1
        return self.prompts[self._position]

    def forward(self) -> str | None:
        """Return the next prompt, after the last prompt the saved text, then None."""
        if self._position == len(self.prompts):
            return None
        self._position += 1
        if self._position == len(self.prompts):
            return self._draft
        return self.prompts[self._position]


def _read(file: Path) -> list[str]:
    """Return the prompts of the file, and shorten the file if it is long."""
    prompts: list[str] = []
    with suppress(OSError):
        for line in read_lines(file):
            with suppress(ValueError):
                prompt: object = json.loads(line)
                if isinstance(prompt, str) and prompt:
                    prompts.append(prompt)
        if len(prompts) > 2 * MAX_PROMPTS:
            shorter = file.with_name(f"{file.name}.{os.getpid()}")
            _append(shorter, prompts[-MAX_PROMPTS:])
            shorter.replace(file)
    return prompts[-MAX_PROMPTS:]


def _append(file: Path, prompts: list[str]) -> None:
    """Append prompts to a file. Create the file and its folder readable by the user only."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(file, flags, 0o600)
    try:
        make_private(descriptor)
        os.write(descriptor, "".join(f"{json.dumps(prompt)}\n" for prompt in prompts).encode())
    finally:
        os.close(descriptor)


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
