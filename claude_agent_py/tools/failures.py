"""The text that the model gets when a tool fails.

The message of a `ToolError` is written for the model and stays unchanged, up to the CLI's limit for results. Other
exceptions are shortened to type and message, and anything that looks like a secret is redacted.
"""

import os
import re
from collections.abc import Iterator

from claude_agent_py._errors import ToolError
from claude_agent_py.formatting.truncation import INLINE_CHARS, truncate

MAX_CHARS = 2_000
BLANK = "[redacted]"

SECRETS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"(?<=://)[^/\s:@]*:[^/\s@]*(?=@)", BLANK),  # user:password in a URL
        (r"\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}", rf"\1 {BLANK}"),
        (
            r"((?:api|access|secret|private|auth|session)?[_-]?(?:key|token|secret|password|passwd|pwd|credential)s?"
            r"[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;)}\]]{4,}",
            rf"\1{BLANK}",
        ),
        (r"\bsk-[a-z0-9_-]{8,}", BLANK),
        (r"\bgh[pousr]_[a-z0-9]{16,}|\bgithub_pat_[a-z0-9_]{16,}", BLANK),
        (r"\bxox[abprs]-[a-z0-9-]{8,}", BLANK),
        (r"\bAKIA[0-9A-Z]{12,}", BLANK),
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", BLANK),  # a JSON web token
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", BLANK),
    )
)
"""Patterns of secrets with their replacements."""

SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
MIN_SECRET_CHARS = 8


def failure_text(tool: str, error: BaseException) -> str:
    """Return the text about a failure for the model."""
    if isinstance(error, ToolError):
        message = _get_message(error)
        return truncate(message, INLINE_CHARS) if message.strip() else f"{tool} failed"
    return truncate(redact(f"{tool} failed: {_describe_error(error)}"), MAX_CHARS)


def format_failure(error: BaseException) -> str:
    """Format a failure so that it cannot be mistaken for data: `Error: `, the type of the error, and its message."""
    if isinstance(error, ToolError):
        return truncate(f"Error: {_describe_one(error)}", INLINE_CHARS)
    return truncate(redact(f"Error: {_describe_error(error)}"), MAX_CHARS)


def redact(text: str) -> str:
    """Redact secrets by pattern, and the values of environment variables with names like `API_KEY`."""
    for name, value in os.environ.items():
        if len(value) >= MIN_SECRET_CHARS and SECRET_VARIABLE.search(name):
            text = text.replace(value, BLANK)
    for pattern, replacement in SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _describe_error(error: BaseException) -> str:
    return "; ".join(_describe_one(leaf) for leaf in _iterate_leaves(error))


def _iterate_leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _iterate_leaves(inner)
    else:
        yield error


def _describe_one(error: BaseException) -> str:
    message = _get_message(error)
    return f"{type(error).__name__}: {message}" if message.strip() else type(error).__name__


def _get_message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        # The user's exception class may have a broken `__str__`.
        return ""
