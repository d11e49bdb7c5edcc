"""The logger of the package. The wire log, in `_connection/wire_log.py`, has its own."""

import logging

logger: logging.Logger = logging.getLogger("claude_agent_py")


class Drops:
    """Logs the items that a view of a session drops because they cannot be shown: the first one with its traceback.

    Args:
        view: The subject of the log line, for example `the telemetry of the session`.
    """

    def __init__(self, view: str) -> None:
        self._view = view
        self.count: int = 0
        """How many items were dropped."""

    def note(self, item: object) -> None:
        """Log that an item is dropped because of the exception that is being handled. Later ones are debug lines."""
        self.count += 1
        is_first = self.count == 1
        level = logging.ERROR if is_first else logging.DEBUG
        logger.log(
            level, "%s drops an item of the type %s and continues", self._view, type(item).__name__, exc_info=is_first
        )
