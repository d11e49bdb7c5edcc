"""Times as the CLI writes them."""

from datetime import datetime


def seconds(timestamp: object) -> float | None:
    """Return an ISO 8601 time in seconds since the epoch, or None if it is missing or invalid."""
    try:
        return datetime.fromisoformat(timestamp).timestamp() if isinstance(timestamp, str) else None
    except (ValueError, OverflowError):
        return None
