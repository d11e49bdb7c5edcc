"""Observes the metrics of a fleet for OpenTelemetry."""

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from opentelemetry import metrics as otel
from opentelemetry.metrics import CallbackOptions, Observation

from claude_agent_py._base.errors import FleetError
from claude_agent_py._base.event_loop import Returned, run_anywhere
from claude_agent_py._base.log import logger
from claude_agent_py._version import __version__
from claude_agent_py.fleet.metrics import FIGURES, Figure, FleetMetrics

KEPT_SECONDS: Final = 1.0
"""Seconds for which figures are used: an export reads all instruments one after the other."""


def observe(load: Callable[[], Returned[FleetMetrics]], meter_provider: Any) -> None:
    """Create the instruments. Each export reads the database, in a thread with an event loop of its own."""
    meter = otel.get_meter("claude_agent_py", __version__, meter_provider)
    source = _Source(load)
    for figure in FIGURES:
        create = meter.create_observable_counter if figure.is_sum else meter.create_observable_gauge
        name = f"claude_agent.fleet.{figure.name}"
        create(name, [partial(source.observe, figure)], unit=figure.unit, description=figure.description)


class _Source:
    def __init__(self, load: Callable[[], Returned[FleetMetrics]]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._latest: FleetMetrics | None = None
        self._read_at = -KEPT_SECONDS

    def observe(self, figure: Figure, options: CallbackOptions) -> Iterable[Observation]:
        with self._lock:
            if time.monotonic() - self._read_at >= KEPT_SECONDS:
                self._latest = self._read()
                self._read_at = time.monotonic()
        if self._latest is not None:
            for labels, value in figure.read(self._latest):
                yield Observation(value, dict(labels))

    def _read(self) -> FleetMetrics | None:
        try:
            return run_anywhere(self._load)  # the thread of the export may have an event loop
        except FleetError as error:
            logger.warning("the metrics of the fleet cannot be read: %s", error)
            return None
