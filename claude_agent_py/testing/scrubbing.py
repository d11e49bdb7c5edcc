"""Replace what belongs to one machine or one run in recorded texts: secrets, paths and ids.

A replaced value gets a placeholder, such as `<cwd>` or `<task-1>`. `Places.restore` puts the values of another run in.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

SECRET_NAME: Final = re.compile(
    r"(?i)(secret|passw|api_?key|auth(?!or)|cookie|credential|private_?key|(^|_)token|token$)"
)
"""Environment variables whose values are secrets."""

SECRET_TEXTS: Final = re.compile(
    r"(?is)sk-[\w-]{16,}|gh[oprsu]_\w{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+|\b(?:bearer|basic) [\w.~+/=-]{16,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----"
)
"""Texts that look like secrets wherever they come from."""

SHORTEST_SECRET: Final = 8
"""Values of variables that are shorter, in characters, are not searched for: they occur by chance."""

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


def secrets_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets among environment variables, each with its placeholder."""
    return {
        value: f"<{name}>"
        for name, value in environ.items()
        if SECRET_NAME.search(name) and len(value) >= SHORTEST_SECRET and not os.path.exists(value)
    }


class Places:
    """The values of one run and their placeholders: secrets and paths from the start, ids as they occur."""

    def __init__(self, secrets: Mapping[str, str], paths: Mapping[str, str]) -> None:
        self._secrets = _by_length(secrets)
        self._paths = _by_length(paths)

    def hide(self, value: Any, ids: Mapping[str, str] | None = None) -> Any:
        """Return text or JSON with placeholders instead of secrets, paths and `ids`."""
        plain, whole = {**self._secrets, **(ids or {})}, [(_whole(path), name) for path, name in self._paths.items()]

        def hidden(text: str) -> str:
            for real, placeholder in plain.items():
                text = text.replace(real, placeholder)
            for pattern, placeholder in whole:
                text = pattern.sub(placeholder, text)
            return SECRET_TEXTS.sub(HIDDEN, text)

        return each_text(value, hidden)

    def restore(self, value: Any, ids: Mapping[str, str]) -> Any:
        """Return text or JSON with the paths and ids of this run instead of placeholders. Secrets stay hidden."""
        known = {placeholder: real for real, placeholder in {**self._paths, **ids}.items()}

        def restored(text: str) -> str:
            for placeholder, real in known.items():
                text = text.replace(placeholder, real)
            return text

        return each_text(value, restored)


def _by_length(values: Mapping[str, str]) -> dict[str, str]:
    """Return the longest first: a path before the folder that it is in."""
    return dict(sorted(values.items(), key=lambda one: -len(one[0])))


def _whole(path: str) -> re.Pattern[str]:
    return re.compile(re.escape(path) + r"(?![\w-])")


def paths_of(cwd: Path, home: Path, root: Path) -> dict[str, str]:
    """Return the directories of a session with their placeholders, also in the form that names a project's folder."""
    found = {str(root): "<root>", str(home): "<home>", str(cwd): "<cwd>"}
    keys = {re.sub(r"[^0-9A-Za-z]", "-", path): f"<{name.strip('<>')}-key>" for path, name in found.items()}
    users = Path.home()
    return ({str(users): "<user-home>"} if len(users.parts) > 1 else {}) | keys | found


def ids_in(texts: Iterable[str]) -> dict[str, str]:
    """Return the generated ids, each with a placeholder, numbered in order of occurrence."""
    joined = "\n".join(texts)
    found: dict[str, str] = {}
    for kind, pattern in _IDS:
        for number, name in enumerate(dict.fromkeys(pattern.findall(joined)), 1):
            found[name] = f"<{kind}-{number}>"
    return found


def without_times(text: str) -> str:
    """Return a text with `<time>` for dates, times and durations."""
    return _TIMES.sub("<time>", text)


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON with every text in it changed, names of fields included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): each_text(one, change) for name, one in value.items()}
    return [each_text(one, change) for one in value] if isinstance(value, list) else value
