"""The timers of the event loop of a test."""

import asyncio
import math
import sys
from typing import Any

import sniffio


def seconds_to_next_timer() -> float:
    """Return the time until the next timer of the event loop."""
    if sniffio.current_async_library() == "trio":
        return float(sys.modules["trio"].lowlevel.current_statistics().seconds_to_next_deadline)
    loop: Any = asyncio.get_running_loop()
    ends = [timer.when() for timer in loop._scheduled if not timer.cancelled()]
    return float(min(ends, default=math.inf) - loop.time())
