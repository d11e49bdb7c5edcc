r"""Replace the secrets, paths and ids of one machine or run in recorded texts.

A replaced value gets a placeholder, such as `<cwd>` or `<task-1>`. `Places.restore` inserts the values of another run.
A text that looks like a placeholder, such as the tag `<root>`, gets a backslash: `<\root>`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from claude_agent_py._base.redaction import hide_secrets, hide_values

HIDDEN: Final = "<secret>"

_IDS: Final = (
    ("uuid", re.compile(r"\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b")),
    ("task", re.compile(r"(?:agentId: |with ID: |<task-id>|[/\\]tasks[/\\])([0-9a-z]{9,20})\b")),
)
"""Ids that the CLI generates, by the text before them."""

_PLACEHOLDER: Final = re.compile(r"<(\\*)((?:cwd|home|root)(?:-key)?|user-home|(?:uuid|task)-\d+)>")

_TIMES: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ \d\d:\d\d:\d\d \w+ \d{4}"
    r"|\b\d\d:\d\d:\d\d\b|\b\d+(?:\.\d+)? ?(?:ms|s|seconds)\b"
)


class Places:
    """The values of one run and their placeholders: secrets and paths from the start, ids as they occur."""

    def __init__(self, secrets: Mapping[str, str], paths: Mapping[str, str]) -> None:
        self._secrets = _sort_by_length(secrets)
        self._paths = _sort_by_length(paths)

    def add_secrets(self, secrets: Mapping[str, str]) -> None:
        """Also replace these secrets."""
        self._secrets = _sort_by_length({**self._secrets, **secrets})

    def hide(self, value: object, ids: Mapping[str, str] | None = None) -> Any:
        """Return text or JSON with placeholders instead of secrets, paths and `ids`."""
        values = {**self._secrets, **(ids or {})}
        paths = [(_match_whole_path(path), name) for path, name in self._paths.items()]

        def hide_text(text: str) -> str:
            text = hide_values(_PLACEHOLDER.sub(r"<\\\1\2>", text), values.items())
            for pattern, placeholder in paths:
                text = pattern.sub(placeholder, text)
            return hide_secrets(text, HIDDEN)

        return map_texts(value, hide_text)

    def restore(self, value: object, ids: Mapping[str, str]) -> Any:
        """Return text or JSON with the paths and ids of this run instead of placeholders. Secrets stay hidden."""
        known = {placeholder: real for real, placeholder in {**self._paths, **ids}.items()}

        def restore_one(found: re.Match[str]) -> str:
            slashes, name = found.groups()
            return f"<{slashes[1:]}{name}>" if slashes else known.get(found[0], found[0])

        return map_texts(value, lambda text: _PLACEHOLDER.sub(restore_one, text))


def _sort_by_length(values: Mapping[str, str]) -> dict[str, str]:
    """Return the longest values first, so that a path is replaced before its parent folder."""
    return dict(sorted(values.items(), key=lambda item: -len(item[0])))


def _match_whole_path(path: str) -> re.Pattern[str]:
    # `/root` is the home of one user and the end of many other paths.
    before = r"(?<![\w.-])" if path.count("/") == 1 else ""
    return re.compile(before + re.escape(path) + r"(?![\w-])")


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


def map_texts(value: object, change: Callable[[str], object]) -> Any:
    """Return JSON with `change` applied to every text, including the names of fields."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): map_texts(item, change) for name, item in value.items()}
    return [map_texts(item, change) for item in value] if isinstance(value, list) else value
