"""`FleetMetrics`: the figures that an operator watches, also as text for Prometheus."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from claude_agent_py.wire import JSONObject

QueueReason: TypeAlias = Literal["ready", "limit", "rate_limit", "retry", "no_worker"]
"""Why a session is queued. `ready`: it waits for a free slot of a worker. `limit`: its tenant or agent runs as many
sessions as it may. `rate_limit`, `retry`: it waits until a rate limit resets, or before the next attempt.
`no_worker`: no live worker has its agent in its version."""
QUEUE_REASONS: Final[tuple[QueueReason, ...]] = ("ready", "limit", "rate_limit", "retry", "no_worker")
PREFIX: Final = "claude_agent_fleet_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of `FleetMetrics.to_prometheus`."""

Labels: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class FleetMetrics:
    """The figures of a whole fleet at one moment. None, or a mapping without a key, is a figure that Temporal lacks."""

    at: float
    """In seconds since the epoch, by the clock of the database."""
    queued: Mapping[QueueReason, int]
    """How many sessions are queued, by reason. Every reason is a key; on Temporal, `ready` counts all."""
    oldest_queued_seconds: Mapping[QueueReason, float] = field(default_factory=dict[QueueReason, float])
    """For how long the oldest of them has waited. That of `ready` says whether more workers are needed."""
    running: int
    waiting: int
    """How many sessions wait for a person."""
    failed: int
    """How many sessions are dead letters."""
    workers: int
    """How many live workers take sessions."""
    draining_workers: int | None = None
    slots: int
    """How many sessions the live workers run at most."""
    crashes: int | None = None
    """How often a worker died while it ran a prompt, since the fleet was created, as all that follows."""
    rate_limits: int | None = None
    """How often an attempt met a rate limit."""
    runs: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many prompts ended, by outcome: `done`, `failed` or `interrupted`."""
    cost_usd: Mapping[str, float] = field(default_factory=dict[str, float])
    """The cost by tenant, as estimated by the CLI, with that of failed attempts."""

    def to_dict(self) -> JSONObject:
        """Return the figures as JSON."""
        return asdict(self)

    def to_prometheus(self) -> str:
        """Return the figures in the text format of Prometheus."""
        lines: list[str] = []
        for figure in FIGURES:
            values = list(figure.read(self))
            if not values:
                continue
            name = PREFIX + figure.name + UNITS[figure.unit] + ("_total" if figure.is_sum else "")
            kind = "counter" if figure.is_sum else "gauge"
            lines += [f"# HELP {name} {figure.description}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_format_labels(labels)} {value:.15g}" for labels, value in values]
        return "\n".join(lines) + "\n"


class Figure(NamedTuple):
    """A figure as monitoring systems know it."""

    name: str
    field: str
    """The name of its attribute in `FleetMetrics`."""
    description: str
    label: str = ""
    """The label of the keys of a mapping."""
    unit: str = ""
    is_sum: bool = False
    """Whether it only grows."""

    def read(self, metrics: FleetMetrics) -> Iterator[tuple[Labels, float]]:
        """Yield the values, each with its labels."""
        value = getattr(metrics, self.field)
        if not self.label:
            yield from [] if value is None else [({}, value)]
            return
        for key, each in value.items():
            yield {self.label: key}, each


UNITS: Final = {"": "", "s": "_seconds", "USD": "_usd"}
FIGURES: Final = (
    Figure("queued_sessions", "queued", "Sessions that are queued, by reason.", "reason"),
    Figure("oldest_queued", "oldest_queued_seconds", "Age of the oldest queued session, by reason.", "reason", "s"),
    Figure("running_sessions", "running", "Sessions that run."),
    Figure("waiting_sessions", "waiting", "Sessions that wait for a person."),
    Figure("failed_sessions", "failed", "Sessions that are dead letters."),
    Figure("workers", "workers", "Live workers that take sessions."),
    Figure("draining_workers", "draining_workers", "Live workers that drain."),
    Figure("slots", "slots", "Sessions that the live workers run at most."),
    Figure("crashes", "crashes", "Workers that died while they ran a prompt.", is_sum=True),
    Figure("rate_limits", "rate_limits", "Attempts that met a rate limit.", is_sum=True),
    Figure("runs", "runs", "Prompts that ended, by outcome.", "outcome", is_sum=True),
    Figure("cost", "cost_usd", "Cost by tenant, estimated by the CLI.", "tenant", "USD", is_sum=True),
)


def _format_labels(labels: Labels) -> str:
    escaped = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    text = ",".join(f'{name}="{value.translate(escaped)}"' for name, value in labels.items())
    return f"{{{text}}}" if text else ""
