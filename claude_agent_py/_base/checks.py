"""Checks of arguments that are not validated by a model."""

from claude_agent_py._base.errors import OptionsError


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
