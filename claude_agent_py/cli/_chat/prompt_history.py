"""`PromptHistory`: the prompts of this and earlier chats, in a file that only the user can read."""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from claude_agent_py._launch.locate import home
from claude_agent_py._untrusted import read_lines

MOST_PROMPTS: Final = 1000
"""How many prompts are kept."""
PROMPT_CHARS: Final = 20_000
"""Longer prompts are not kept: they are pasted files."""


def history_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the file. It may not exist."""
    environ = os.environ if environ is None else environ
    if os.name == "nt":
        base = environ.get("LOCALAPPDATA") or home(environ) / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = environ.get("XDG_STATE_HOME") or home(environ) / "Library" / "Application Support"
    else:
        base = environ.get("XDG_STATE_HOME") or home(environ) / ".local" / "state"
    return Path(base).absolute() / "claude-agent-py" / "chat-history.jsonl"


class PromptHistory:
    """Earlier prompts, and the place among them. Without a file it forgets them at the end.

    A file that cannot be read or written is no error: the history is then of this chat alone.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self.prompts: list[str] = [] if file is None else _read(file)
        self._place = len(self.prompts)
        self._draft = ""
        """What was typed before the user went back."""

    def add(self, prompt: str) -> None:
        """Add a prompt, unless it repeats the last one."""
        if prompt and self.prompts[-1:] != [prompt] and len(prompt) <= PROMPT_CHARS:
            self.prompts.append(prompt)
            if self._file is not None:
                with suppress(OSError):
                    _append(self._file, [prompt])
        self._place = len(self.prompts)

    def back(self, typed: str) -> str | None:
        """Return the prompt before, or None if there is none. Keeps what is typed for `forward`."""
        if self._place == 0:
            return None
        if self._place == len(self.prompts):
            self._draft = typed
        self._place -= 1
        return self.prompts[self._place]

    def forward(self) -> str | None:
        """Return the prompt after, at last what was typed, or None if there is none."""
        if self._place == len(self.prompts):
            return None
        self._place += 1
        return self._draft if self._place == len(self.prompts) else self.prompts[self._place]


def _read(file: Path) -> list[str]:
    """Return the prompts of the file, and shorten it if it has become long."""
    prompts: list[str] = []
    with suppress(OSError):
        for line in read_lines(file):
            with suppress(ValueError):
                prompt: Any = json.loads(line)
                if isinstance(prompt, str) and prompt:
                    prompts.append(prompt)
        if len(prompts) > 2 * MOST_PROMPTS:
            shorter = file.with_name(f"{file.name}.{os.getpid()}")
            _append(shorter, prompts[-MOST_PROMPTS:])
            shorter.replace(file)
    return prompts[-MOST_PROMPTS:]


def _append(file: Path, prompts: list[str]) -> None:
    """Add lines to a file. It and its folder are made for the user alone."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(file, flags, 0o600)
    try:
        os.write(descriptor, "".join(f"{json.dumps(prompt)}\n" for prompt in prompts).encode())
    finally:
        os.close(descriptor)
