"""The logger of the package. The wire log, in `_connection/wire_log.py`, has its own."""

import logging

logger: logging.Logger = logging.getLogger("claude_agent_py")
