"""`Telemetry`: what is traced with OpenTelemetry; the option `telemetry`, and `instrument` for a whole program.

OpenTelemetry itself is only imported by sessions that are traced.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from claude_agent_py._errors import OptionsError

if TYPE_CHECKING:
    from claude_agent_py.observe.watching import Observer

CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_YES: Final = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """Spans and metrics for OpenTelemetry, by its conventions for generative AI. Needs the extra `otel`.

    What becomes of them is up to the program: install an SDK and an exporter, and set them up as for any library.
    """

    content: bool | None = None
    """Whether prompts, answers, and inputs and outputs of tools are recorded, cut to 2000 characters and without API
    keys. None means as the variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says, by default not."""
    agent_name: str = ""
    """The name of the main agent, for `gen_ai.agent.name`."""
    tracer_provider: Any = None
    """A `TracerProvider`; None means the global one."""
    meter_provider: Any = None
    """A `MeterProvider`; None means the global one."""

    @property
    def records_content(self) -> bool:
        """Whether content is recorded."""
        return os.environ.get(CONTENT_VARIABLE, "").lower() in _YES if self.content is None else self.content

    def observer(self) -> "Observer":
        """Return an observer for one session. Internal to this package.

        Raises:
            OptionsError: OpenTelemetry is not installed.
        """
        try:
            from claude_agent_py.observe.tracing import Tracer
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith("opentelemetry"):
                raise
            problem = 'needs OpenTelemetry: pip install "claude-agent-py[otel]"'
            raise OptionsError(problem, option="telemetry") from error
        return Tracer(
            content=self.records_content,
            agent_name=self.agent_name,
            tracer_provider=self.tracer_provider,
            meter_provider=self.meter_provider,
        )


_program: Telemetry | None = None


def instrument(telemetry: Telemetry | None = None) -> None:
    """Trace every session that this program opens from now on, unless its option `telemetry` says otherwise.

    Raises:
        OptionsError: OpenTelemetry is not installed.
    """
    global _program
    chosen = telemetry or Telemetry()
    chosen.observer()
    _program = chosen


def uninstrument() -> None:
    """Undo `instrument`. Sessions that are open stay traced."""
    global _program
    _program = None


def telemetry_of(option: "Telemetry | bool | None") -> Telemetry | None:
    """Return what a session with this option records, or None for nothing."""
    if option is None:
        return _program
    return option if isinstance(option, Telemetry) else Telemetry() if option else None
