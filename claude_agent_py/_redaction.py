"""Hide secrets in JSON and in text that leaves the program: logs, traces, timelines."""

import re
from typing import Any, Final

HIDDEN: Final = "***"

_MAPS_OF_SECRETS: Final = frozenset({"env", "headers", "variables", "environment"})
"""Objects whose values are all hidden."""

_SECRET_NAME: Final = re.compile(
    r"(?i)(secret|passw|api_?key|authorization|cookie|credential|bearer|private_?key|(^|_|[a-z])token$)"
)

_SECRET_TEXT: Final = re.compile(r"(?i)sk-ant-[\w-]+|\b(?:bearer|basic) [\w.~+/=-]{8,}")


def without_secrets(value: Any, name: str = "") -> Any:
    """Return JSON with the values hidden whose names say that they are secret."""
    if isinstance(value, dict):
        if name in _MAPS_OF_SECRETS:
            return dict.fromkeys(value, HIDDEN)
        return {key: without_secrets(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item, name) for item in value]
    return HIDDEN if isinstance(value, str) and value and _SECRET_NAME.search(name) else value


def hide_secrets(text: str) -> str:
    """Return text without API keys and credentials of HTTP headers."""
    lower = text.lower()  # much faster than the pattern, which most texts do not need
    if "sk-ant-" not in lower and "bearer " not in lower and "basic " not in lower:
        return text
    return _SECRET_TEXT.sub(HIDDEN, text)
