"""Record a command in a terminal as an animated SVG file that loads nothing: `docs/images/demo.svg`.

python scripts/cast.py [file]

The command is `claude-agent-py demo`, which is offline. The picture plays once; for who prefers reduced motion, and
where pictures do not move, it shows the end. Needs rich, and a system with pseudo-terminals.
"""

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

FILE = Path(__file__).parent.parent / "docs" / "images" / "demo.svg"
COMMAND = [str(Path(sys.executable).with_name("claude-agent-py")), "demo"]
COLUMNS, ROWS = 100, 40
WIDTH, HEIGHT = 8.4, 18
"""Of a character, in pixels."""
STEP = 0.2
"""Seconds that a frame stays at least."""

TOKEN = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")
UNFINISHED = re.compile(r"(?=\x1b[^A-Za-z]*\Z|\Z)")
"""Before an escape sequence that has not ended, or at the end."""

STYLE = """
text{font:14px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre;fill:#d9d9d9}
.past{visibility:hidden}
@keyframes shown{from,to{visibility:visible}}
@keyframes hidden{from,to{visibility:hidden}}
@media (prefers-reduced-motion:no-preference){text{animation:var(--when)}}
"""

Screen = tuple[str, ...]
"""The lines of a terminal, with their colours as the program wrote them."""


def record(command: Sequence[str], env: dict[str, str]) -> Iterator[tuple[float, str]]:
    """Run a command in a terminal and yield what it writes, with the seconds since it began to write."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True)
    os.close(theirs)
    began, text, decoder = 0.0, "", codecs.getincrementaldecoder("utf-8")()
    try:
        while data := _read(ours):
            began = began or time.monotonic()
            text += decoder.decode(data)
            whole, text = UNFINISHED.split(text, maxsplit=1)
            yield time.monotonic() - began, whole
    finally:
        os.close(ours)
        process.kill()
        code = process.wait()
    if code:
        raise subprocess.CalledProcessError(code, command)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux, when the last process has closed its end
        return b""


def play(output: Iterator[tuple[float, str]]) -> Iterator[tuple[float, Screen]]:
    """Yield what a terminal shows and since when. It knows what `rich` writes: lines, colours, going up, erasing."""
    lines, row, shown = [""], 0, -STEP
    for when, text in output:
        for token in TOKEN.finditer(text):
            if token[0] == "\n":
                row += 1
                lines += [""] * (row == len(lines))
            elif token[2] == "A":
                row = max(0, row - int(token[1] or 1))
            elif token[2] == "K":
                lines[row] = ""
            elif token[2] in (None, "m") and token[0] != "\r":
                lines[row] += token[0]
        if when >= shown + STEP:
            shown = when
            yield when, tuple(lines)
    yield when, tuple(lines)


def draw(frames: Sequence[tuple[float, Screen]], title: str) -> str:
    """Return an SVG file that plays frames once."""
    last = frames[-1][1]
    rows = max(len(screen) for _, screen in frames)
    width, height = COLUMNS * WIDTH + 20, rows * HEIGHT + 20
    plain = "\n".join(Text.from_ansi(line).plain for line in last)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">',
        f"<title>{escape(title)}</title><desc>{escape(plain)}</desc><style>{STYLE}</style>",
        '<rect width="100%" height="100%" rx="8" fill="#1e1e1e"/>',
    ]
    for row in range(rows):
        since, line = 0.0, ""
        for when, screen in [*frames, (frames[-1][0] + 1, ())]:
            now = screen[row] if row < len(screen) else ""
            if now == line and screen:
                continue
            if Text.from_ansi(line).plain.strip():
                drawn.append(_text(line, row, since, None if not screen else when))
            since, line = when, now
    return "\n".join([*drawn, "</svg>\n"])


def _text(line: str, row: int, since: float, until: float | None) -> str:
    text = Text.from_ansi(line.rstrip())
    parts = []
    for part, style, _ in Console(width=1000).render(text, Console(width=1000).options.update(no_wrap=True)):
        if part != "\n":
            color = style and style.color and style.color.get_truecolor(MONOKAI).hex
            fill = f' fill="{color}"' * bool(color) + ' font-weight="bold"' * bool(style and style.bold)
            parts.append(f"<tspan{fill}>{escape(part)}</tspan>" if fill else escape(part))
    when = f"hidden {since:.2f}s" if until is None else f"shown {until - since:.2f}s {since:.2f}s"
    place = f'x="10" y="{row * HEIGHT + 24}" textLength="{text.cell_len * WIDTH:.0f}"'
    past = ' class="past"' * (until is not None)
    return f'<text {place}{past} style="--when:{when}">{"".join(parts)}</text>'


def make(command: Sequence[str] = COMMAND) -> str:
    """Run a command and return it as an animated SVG file."""
    env = {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return draw(list(play(record(command, kept | env))), "claude-agent-py demo")


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else FILE).write_text(make(), encoding="utf-8")
