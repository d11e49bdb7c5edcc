"""The loggers of the package. The wire log, in `_connection/wire_log.py`, has its own."""

import logging
import textwrap
import traceback

from claude_agent_py._base.display import displayable

_INDENT = "  "


class _SafeRecords(logging.Filter):
    """Hides secrets and control characters in log records: models, tools and servers write parts of them.

    Every line of a record but its first is indented, so that none looks like a record of its own.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except Exception:
            return True  # the handler reports the wrong arguments
        safe = _clean(message).replace("\n", f"\n{_INDENT}")
        if safe != message:
            record.msg, record.args = safe, ()
        if record.exc_info:
            text = "".join(traceback.format_exception(*record.exc_info)).removesuffix("\n")
            safe = _clean(text)
            record.exc_text = textwrap.indent(safe, _INDENT)  # which a formatter takes as it is
            if safe != text:
                record.exc_info = None
        return True


def _clean(text: str) -> str:
    from claude_agent_py._base.redaction import redact  # few programs log anything

    return displayable(redact(text), None)


def get_logger(name: str) -> logging.Logger:
    """Return a logger whose records have no secrets and no control characters."""
    found = logging.getLogger(name)
    if not any(isinstance(each, _SafeRecords) for each in found.filters):
        found.addFilter(_SafeRecords())
    return found


logger: logging.Logger = get_logger("claude_agent_py")


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
