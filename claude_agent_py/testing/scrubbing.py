"""Replace the secrets, paths and ids of one machine or run in recorded texts.

A replaced value gets a placeholder, such as `<cwd>` or `<task-1>`. `Places.restore` inserts the values of another run.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

SECRET_NAME: Final = re.compile(
    r"(?i)(secret|passw|api_?key|auth(?!or)|cookie|credential|private_?key|(^|_)token|token$)"
)
"""Matches the names of environment variables whose values are probably secret."""

SECRET_TEXTS: Final = re.compile(
    r"(?is)sk-[\w-]{16,}|gh[oprsu]_\w{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+|\b(?:bearer|basic) [\w.~+/=-]{16,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----"
)
"""Texts that look like secrets, whatever their source."""

SHORTEST_SECRET: Final = 8
"""The minimum length of a variable's value in characters. Shorter values occur in other texts by chance."""

HIDDEN: Final = "<secret>"

_IDS: Final = (
    ("uuid", re.compile(r"\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b")),
    ("task", re.compile(r"(?:agentId: |with ID: |<task-id>|[/\\]tasks[/\\])([0-9a-z]{9,20})\b")),
)
"""Ids that the CLI generates, by the text before them."""

_TIMES: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ \d\d:\d\d:\d\d \w+ \d{4}"
    r"|\b\d\d:\d\d:\d\d\b|\b\d+(?:\.\d+)? ?(?:ms|s|seconds)\b"
)


def find_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets among environment variables, each with its placeholder."""
    return {
        value: f"<{name}>"
        for name, value in environ.items()
        if SECRET_NAME.search(name) and len(value) >= SHORTEST_SECRET and not os.path.exists(value)
    }


class Places:
    """The values of one run and their placeholders: secrets and paths from the start, ids as they occur."""

    def __init__(self, secrets: Mapping[str, str], paths: Mapping[str, str]) -> None:
        self._secrets = _sort_by_length(secrets)
        self._paths = _sort_by_length(paths)

    def hide(self, value: Any, ids: Mapping[str, str] | None = None) -> Any:
        """Return text or JSON with placeholders instead of secrets, paths and `ids`."""
        values = {**self._secrets, **(ids or {})}
        paths = [(_match_whole_path(path), name) for path, name in self._paths.items()]

        def hide_text(text: str) -> str:
            for real, placeholder in values.items():
                text = text.replace(real, placeholder)
            for pattern, placeholder in paths:
                text = pattern.sub(placeholder, text)
            return SECRET_TEXTS.sub(HIDDEN, text)

        return map_texts(value, hide_text)

    def restore(self, value: Any, ids: Mapping[str, str]) -> Any:
        """Return text or JSON with the paths and ids of this run instead of placeholders. Secrets stay hidden."""
        known = {placeholder: real for real, placeholder in {**self._paths, **ids}.items()}

        def restore_text(text: str) -> str:
            for placeholder, real in known.items():
                text = text.replace(placeholder, real)
            return text

        return map_texts(value, restore_text)


def _sort_by_length(values: Mapping[str, str]) -> dict[str, str]:
    """Return the longest values first, so that a path is replaced before its parent folder."""
    return dict(sorted(values.items(), key=lambda item: -len(item[0])))


def _match_whole_path(path: str) -> re.Pattern[str]:
    return re.compile(re.escape(path) + r"(?![\w-])")


def build_path_placeholders(cwd: Path, home: Path, root: Path) -> dict[str, str]:
    """Return the directories of a session with their placeholders, and the same for the names of project folders."""
    found = {str(root): "<root>", str(home): "<home>", str(cwd): "<cwd>"}
    keys = {re.sub(r"[^0-9A-Za-z]", "-", path): f"<{name.strip('<>')}-key>" for path, name in found.items()}
    users = Path.home()
    return ({str(users): "<user-home>"} if len(users.parts) > 1 else {}) | keys | found


def find_ids(texts: Iterable[str]) -> dict[str, str]:
    """Return the generated ids, each with a placeholder, numbered in order of occurrence."""
    joined = "\n".join(texts)
    found: dict[str, str] = {}
    for kind, pattern in _IDS:
        for number, name in enumerate(dict.fromkeys(pattern.findall(joined)), 1):
            found[name] = f"<{kind}-{number}>"
    return found


def mask_times(text: str) -> str:
    """Return a text with `<time>` for dates, times and durations."""
    return _TIMES.sub("<time>", text)


def map_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """Return JSON with `change` applied to every text, including the names of fields."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): map_texts(item, change) for name, item in value.items()}
    return [map_texts(item, change) for item in value] if isinstance(value, list) else value
