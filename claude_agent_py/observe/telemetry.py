"""`Telemetry`: the option for tracing with OpenTelemetry, and `instrument`, which enables it for a whole program.

Only traced sessions import OpenTelemetry.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from claude_agent_py._base.errors import OptionsError

if TYPE_CHECKING:
    from claude_agent_py.observe.tracing import Tracer

CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_YES: Final = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """Spans and metrics for OpenTelemetry, following its conventions for generative AI. Requires the extra `otel`.

    To export them, the program configures an SDK and an exporter, as for any other library.
    """

    content: bool | None = None
    """Whether to record prompts, answers, and the inputs and outputs of tools, cut to 2000 characters and without API
    keys. None follows the variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, which is off by default."""
    agent_name: str = ""
    """The name of the main agent, for `gen_ai.agent.name`."""
    tracer_provider: Any = None
    """A `TracerProvider`; None means the global one."""
    meter_provider: Any = None
    """A `MeterProvider`; None means the global one."""

    @property
    def records_content(self) -> bool:
        """Whether content is recorded."""
        if self.content is not None:
            return self.content
        return os.environ.get(CONTENT_VARIABLE, "").lower() in _YES

    def observer(self, secrets: Mapping[str, str] | None = None, earlier: "Tracer | None" = None) -> "Tracer":
        """Return a view of one session, which hides its secrets. Internal to this package.

        `earlier` is that of the session's last process.

        Raises:
            OptionsError: OpenTelemetry is not installed.
        """
        try:
            from claude_agent_py.observe.tracing import Tracer
        except ModuleNotFoundError as error:
            problem = "needs OpenTelemetry: pip install opentelemetry-api"
            raise OptionsError(problem, option="telemetry") from error
        return Tracer(
            content=self.records_content,
            secrets=secrets,
            agent_name=self.agent_name,
            tracer_provider=self.tracer_provider,
            meter_provider=self.meter_provider,
            earlier=earlier,
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
    """Undo `instrument`. Open sessions are still traced."""
    global _program
    _program = None


def resolve_telemetry(option: "Telemetry | bool | None") -> Telemetry | None:
    """Return the telemetry of a session with this option, or None if it is not traced."""
    if option is None:
        return _program
    if isinstance(option, Telemetry):
        return option
    return Telemetry() if option else None
