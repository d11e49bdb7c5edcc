"""`PromptHistory`: the prompts of this and earlier chats, saved in a file that only the user can read."""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from claude_agent_py._launch.locate import home
from claude_agent_py._untrusted import read_lines

MAX_PROMPTS: Final = 1000
"""The number of saved prompts."""
PROMPT_CHARS: Final = 20_000
"""Longer prompts are not saved, because they are probably pasted files."""


def get_history_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the history file, which may not exist."""
    environ = os.environ if environ is None else environ
    if os.name == "nt":
        base = environ.get("LOCALAPPDATA") or home(environ) / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = environ.get("XDG_STATE_HOME") or home(environ) / "Library" / "Application Support"
    else:
        base = environ.get("XDG_STATE_HOME") or home(environ) / ".local" / "state"
    return Path(base).absolute() / "claude-agent-py" / "chat-history.jsonl"


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
                prompt: Any = json.loads(line)
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
        os.write(descriptor, "".join(f"{json.dumps(prompt)}\n" for prompt in prompts).encode())
    finally:
        os.close(descriptor)
