"""`evaluate`: run a table of cases several times, and report how many passed, what they cost and how long they took."""

import inspect
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import anyio

from claude_agent_py._errors import ClaudeAgentError, OptionsError
from claude_agent_py._runtime.runs.result import RunError, RunResult
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.runs import run
from claude_agent_py.testing.evaluation_page import page_of

REASON_CHARS: Final = 4000
"""The maximum length of the reason of a failure."""


@dataclass(frozen=True)
class Case:
    """A prompt and what is expected of its run."""

    name: str
    prompt: Any = field(repr=False)
    """What `run` takes: text, content blocks, ..."""
    check: Callable[[RunResult[Any]], object] = field(repr=False)
    """Called with the result, async or not. The case fails if it returns False or raises AssertionError."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of this case alone, by name."""


@dataclass(frozen=True)
class Trial:
    """One run of a case."""

    case: str
    passed: bool
    reason: str = ""
    """Why it failed."""
    answer: str = field(default="", repr=False)
    cost_usd: float = 0.0
    """As estimated by the CLI."""
    seconds: float = 0.0
    """From the start of the process to its end."""
    turns: int = 0
    tool_calls: int = 0


@dataclass(frozen=True)
class CaseSummary:
    """The trials of one case."""

    name: str
    trials: Sequence[Trial] = field(repr=False)

    @property
    def passed(self) -> int:
        """How many trials passed."""
        return sum(trial.passed for trial in self.trials)

    @property
    def pass_rate(self) -> float:
        """How many passed, from 0 to 1."""
        return self.passed / len(self.trials)

    @property
    def cost_usd(self) -> float:
        """What all trials cost in US dollars."""
        return sum(trial.cost_usd for trial in self.trials)

    @property
    def seconds(self) -> float:
        """How long a trial took on average."""
        return sum(trial.seconds for trial in self.trials) / len(self.trials)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The trials of all cases."""

    trials: Sequence[Trial]
    """Those of the first case first."""
    seconds: float
    """How long all took together."""

    def __repr__(self) -> str:
        passed = f"{len(self.trials) - len(self.failures)} of {len(self.trials)} trials passed"
        return f"<Evaluation {passed}, {self.cost_usd:.4f} USD, {self.seconds:.1f} s>"

    @property
    def cases(self) -> list[CaseSummary]:
        """The cases, in the order of the table."""
        names = dict.fromkeys(trial.case for trial in self.trials)
        return [CaseSummary(name, [trial for trial in self.trials if trial.case == name]) for name in names]

    @property
    def pass_rate(self) -> float:
        """How many trials passed, from 0 to 1."""
        return sum(trial.passed for trial in self.trials) / len(self.trials)

    @property
    def cost_usd(self) -> float:
        """What all trials cost in US dollars, as estimated by the CLI."""
        return sum(trial.cost_usd for trial in self.trials)

    @property
    def failures(self) -> list[Trial]:
        """The trials that failed."""
        return [trial for trial in self.trials if not trial.passed]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON: totals, then every case with its trials."""
        cases = [
            {
                "name": case.name,
                "pass_rate": case.pass_rate,
                "cost_usd": case.cost_usd,
                "seconds": case.seconds,
                "trials": [asdict(trial) for trial in case.trials],
            }
            for case in self.cases
        ]
        totals = {"pass_rate": self.pass_rate, "cost_usd": self.cost_usd, "seconds": self.seconds}
        return {**totals, "trials": len(self.trials), "cases": cases}

    def to_html(self, title: str = "Evaluation") -> str:
        """Return the report as a page without scripts, that needs nothing else."""
        return page_of(self.to_json(), title)

    def save(self, *paths: str | os.PathLike[str]) -> None:
        """Write the report to files: a page to `*.html`, JSON to `*.json`. Raises OptionsError for others."""
        for path in map(Path, paths):
            if path.suffix not in (".html", ".json"):
                raise OptionsError(f"expected a path that ends in .html or .json, not {path}")
            text = self.to_html(path.stem) if path.suffix == ".html" else json.dumps(self.to_json(), indent=2)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")


async def evaluate(
    cases: Sequence[Case],
    options: ClientOptions | Callable[[Case], ClientOptions] | None = None,
    *,
    trials: int = 1,
    limit: int = 4,
    until: Literal["result", "idle"] = "idle",
    timeout: float | None = None,
) -> Evaluation:
    """Run every case and return how it went. Each trial is a process of its own.

    A trial also fails if its run does. Cancelling ends all runs.

    Args:
        cases: The table. Names are unique.
        options: The options of all runs, or a function that returns those of a case.
        trials: How often each case is run.
        limit: How many run at a time.
        until: When a run is over, as for `run`.
        timeout: Seconds for each run; None waits as long as the options say.

    Raises:
        OptionsError: There are no cases, two have the same name, or a number is not positive.
    """
    names = [case.name for case in cases]
    if not names or len(set(names)) < len(names) or trials < 1 or limit < 1:
        raise OptionsError("expected cases with names of their own, and numbers of at least 1")
    chosen = [(options(case) if callable(options) else options or ClientOptions()) for case in cases]
    asked = [
        partial(run, case.prompt, own.replace(**case.options), until=until, timeout=timeout)
        for case, own in zip(cases, chosen, strict=True)
    ]
    places = anyio.CapacityLimiter(limit)
    done: dict[tuple[int, int], Trial] = {}
    began = time.monotonic()

    async def attempt(number: int, trial: int) -> None:
        async with places:
            done[number, trial] = await _tried(cases[number], asked[number])

    async with anyio.create_task_group() as group:
        for number in range(len(cases)):
            for trial in range(trials):
                group.start_soon(attempt, number, trial)
    return Evaluation([done[at] for at in sorted(done)], time.monotonic() - began)


async def _tried(case: Case, asked: Callable[[], Any]) -> Trial:
    """Run a case and check it. Any error becomes the reason of its failure, and does not affect other trials."""
    began = time.monotonic()
    try:
        result: RunResult[Any] = await asked()
    except ClaudeAgentError as error:
        failed = Trial(case.name, False, _reason(error), seconds=time.monotonic() - began)
        return _with_result(failed, error.result) if isinstance(error, RunError) else failed
    seconds = time.monotonic() - began
    try:
        verdict = case.check(result)
        passed = (await verdict if inspect.isawaitable(verdict) else verdict) is not False
        reason = "" if passed else "the check returned False"
    except Exception as error:
        passed, reason = False, _reason(error)
    return _with_result(Trial(case.name, passed, reason, seconds=seconds), result)


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
    return (text or "an assertion failed")[:REASON_CHARS]


def _with_result(trial: Trial, result: RunResult[Any]) -> Trial:
    calls = len(result.tool_calls)
    return replace(trial, cost_usd=result.cost_usd, turns=result.num_turns, tool_calls=calls, answer=result.text)
