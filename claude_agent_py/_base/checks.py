"""Checks of arguments that are not validated by a model."""

import re
from typing import Any, Final
from urllib.parse import urlsplit

from claude_agent_py._base.errors import OptionsError

UNITS: Final[dict[str, int]] = {"": 1, "b": 1, **{f"{unit}b": 1000**n for n, unit in enumerate("kmgt", 1)}}
"""Bytes by unit, in lower case."""
UNITS.update({f"{unit}ib": 1024**n for n, unit in enumerate("kmgt", 1)})

UNESCAPED: Final = (
    "cannot be parsed; in a URL, escape the user name and the password with urllib.parse.quote(text, safe='')"
)
"""What is wrong with the address of a server. It does not quote the address, which may contain a password."""

_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def is_uuid(value: object) -> bool:
    """Return whether a value is the text of a UUID as it is usually written, in either case."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def check_count(value: object, option: str, least: int) -> None:
    """Raise OptionsError unless the value is an integer of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionsError(f"must be a number of at least {least}, not {value!r}", option=option)


def check_seconds(value: object, option: str) -> float | None:
    """Return seconds, or None for no limit. Raises OptionsError for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise OptionsError(f"must be a positive number of seconds, or None, not {value!r}", option=option)
    return float(value)


def check_type(value: object, kind: Any, option: str, name: str = "") -> None:
    """Raise OptionsError unless a value is of a type, such as `str | None`. `name` is that of a part of the option."""
    if not isinstance(value, kind):
        wanted = kind.__name__ if isinstance(kind, type) else str(kind)
        raise OptionsError(f"{name} must be {wanted}, not {type(value).__name__}".lstrip(), option=option)


def read_size(value: int | str, *, option: str) -> int:
    """Return the bytes of a size: a positive number, or text such as `4GiB`. Raises OptionsError for anything else."""
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is not None and found[2].lower() in UNITS:
        size = int(float(found[1]) * UNITS[found[2].lower()])
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise OptionsError(f"must be a size such as '4GiB', not {value!r}", option=option)
    if size <= 0:
        raise OptionsError("must be more than 0 bytes", option=option)
    return size


def is_url(text: str) -> bool:
    """Return whether a URL can be parsed, and a slash in its password does not look like the start of its path."""
    try:
        parts = urlsplit(text)
        _ = parts.port  # it is parsed when it is read
    except ValueError:
        return False
    return not parts.netloc or "@" in parts.netloc or "@" not in parts.path
