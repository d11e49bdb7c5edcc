"""`evaluate`: run a table of cases several times, and report their pass rates, costs and durations."""

import inspect
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Final, Literal

import anyio

from claude_agent_py._base.errors import ClaudeAgentError, OptionsError
from claude_agent_py._base.private_files import open_private
from claude_agent_py._connection.runs.result import RunResult
from claude_agent_py.errors import RunError
from claude_agent_py.options import ClientOptions
from claude_agent_py.runs import run
from claude_agent_py.wire.base import JSONObject

STYLE: Final = """
:root { color-scheme: light dark; --good: #2e8b57; --bad: #c0392b; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .4rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { display: inline-block; width: 8rem; height: .7rem; background: var(--bad); overflow: hidden; }
.bar > span { display: block; height: 100%; background: var(--good); }
.failed { color: var(--bad); } .passed { color: var(--good); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; padding: .5rem; background: #8881; }
"""

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""Forbids scripts and requests, whatever the page contains."""


def render_page(report: Mapping[str, Any], title: str) -> str:
    """Return the page of a report from `Evaluation.to_json`."""
    rows = "\n".join(map(_render_case, report["cases"]))
    total = (
        f"{report['pass_rate']:.0%} of {report['trials']} trials passed, "
        f"{report['cost_usd']:.4f} USD, {report['seconds']:.1f} s"
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}</style></head>
<body><h1>{escape(title)}</h1><p>{total}</p>
<table><thead><tr><th>case</th><th>passed</th><th class="number">rate</th><th class="number">cost (USD)</th>
<th class="number">time of a trial</th></tr></thead><tbody>
{rows}
</tbody></table></body></html>"""


def _render_case(case: Mapping[str, Any]) -> str:
    rate = f"{case['pass_rate']:.0%}"
    trials = case["trials"]
    shown = "\n".join(_render_trial(number, trial) for number, trial in enumerate(trials, 1))
    passed = sum(trial["passed"] for trial in trials)
    return f"""<tr><td><details{"" if passed == len(trials) else " open"}><summary>{escape(case["name"])}</summary>
{shown}</details></td>
<td><span class="bar" role="img" aria-label="{rate}"><span style="width:{rate}"></span></span></td>
<td class="number">{passed}/{len(trials)}</td><td class="number">{case["cost_usd"]:.4f}</td>
<td class="number">{case["seconds"]:.1f} s</td></tr>"""


def _render_trial(number: int, trial: Mapping[str, Any]) -> str:
    state = "passed" if trial["passed"] else "failed"
    spent = f"{trial['seconds']:.1f} s, {trial['cost_usd']:.4f} USD"
    facts = f"{spent}, {_format_count(trial['turns'], 'turn')}, {_format_count(trial['tool_calls'], 'tool call')}"
    reason = f"<pre>{escape(trial['reason'])}</pre>" if trial["reason"] else ""
    return f'<p><b class="{state}">{number}: {state}</b> {facts}</p>{reason}<pre>{escape(trial["answer"])}</pre>'


def _format_count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


REASON_CHARS: Final = 4000
"""The maximum length of the reason of a failure."""


@dataclass(frozen=True)
class Case:
    """A prompt and a check of its run."""

    name: str
    prompt: Any = field(repr=False)
    """Any prompt that `run` accepts: text, content blocks, ..."""
    check: Callable[[RunResult], object] = field(repr=False)
    """Called with the result, async or not. The case fails if it returns False or raises AssertionError."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of only this case, by name."""


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


class _Totals:
    trials: Sequence[Trial]

    @property
    def pass_rate(self) -> float:
        """The share of trials that passed, from 0 to 1."""
        return sum(trial.passed for trial in self.trials) / len(self.trials)

    @property
    def cost_usd(self) -> float:
        """The cost of all trials in US dollars, as estimated by the CLI."""
        return sum(trial.cost_usd for trial in self.trials)


@dataclass(frozen=True)
class CaseSummary(_Totals):
    """The trials of one case."""

    name: str
    trials: Sequence[Trial] = field(repr=False)

    @property
    def passed(self) -> int:
        """The number of trials that passed."""
        return sum(trial.passed for trial in self.trials)

    @property
    def seconds(self) -> float:
        """The average duration of a trial in seconds."""
        return sum(trial.seconds for trial in self.trials) / len(self.trials)


@dataclass(frozen=True, repr=False)
class Evaluation(_Totals):
    """The trials of all cases."""

    trials: Sequence[Trial]
    """In the order of the cases."""
    seconds: float
    """The duration of the whole evaluation."""

    def __repr__(self) -> str:
        passed = f"{len(self.trials) - len(self.failures)} of {len(self.trials)} trials passed"
        return f"<Evaluation {passed}, {self.cost_usd:.4f} USD, {self.seconds:.1f} s>"

    @property
    def cases(self) -> list[CaseSummary]:
        """The cases, in the order of the table."""
        names = dict.fromkeys(trial.case for trial in self.trials)
        return [CaseSummary(name, [trial for trial in self.trials if trial.case == name]) for name in names]

    @property
    def failures(self) -> list[Trial]:
        """The trials that failed."""
        return [trial for trial in self.trials if not trial.passed]

    def to_json(self) -> JSONObject:
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
        """Return the report as a self-contained page without scripts."""
        return render_page(self.to_json(), title)

    def save(self, *paths: str | os.PathLike[str]) -> None:
        """Write the report to files: a page to `*.html`, JSON to `*.json`. Raises OptionsError for other names."""
        for path in map(Path, paths):
            if path.suffix not in (".html", ".json"):
                raise OptionsError(f"the path of a report must end in .html or .json, not {path}")
            text = self.to_html(path.stem) if path.suffix == ".html" else json.dumps(self.to_json(), indent=2)
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_private(path) as file:
                file.write(text + "\n")


async def evaluate(
    cases: Sequence[Case],
    options: ClientOptions | Callable[[Case], ClientOptions] | None = None,
    *,
    trials: int = 1,
    limit: int = 4,
    until: Literal["result", "idle"] = "idle",
    timeout: float | None = None,
) -> Evaluation:
    """Run every case and return the results. Each trial runs in a separate process.

    A trial also fails if its run does. Cancelling ends all runs.

    Args:
        cases: The table. Names must be unique.
        options: The options of all runs, or a function that returns the options of a case.
        trials: The number of runs of each case.
        limit: The number of concurrent runs.
        until: When a run ends, as for `run`.
        timeout: Seconds for each run; None uses the timeouts of the options.

    Raises:
        OptionsError: `cases` is empty, two cases have the same name, or a number is not positive.
    """
    names = [case.name for case in cases]
    if not names:
        raise OptionsError("cases must not be empty")
    if len(set(names)) < len(names):
        raise OptionsError("the names of the cases must be unique")
    if trials < 1 or limit < 1:
        raise OptionsError("trials and limit must be at least 1")
    jobs: list[tuple[Case, Callable[[], object]]] = []
    for case in cases:
        case_options = options(case) if callable(options) else options or ClientOptions()
        start = partial(run, case.prompt, case_options.replace(**case.options), until=until, timeout=timeout)
        jobs += [(case, start)] * trials
    limiter = anyio.CapacityLimiter(limit)
    done: dict[int, Trial] = {}
    began = time.monotonic()

    async def attempt(number: int) -> None:
        async with limiter:
            done[number] = await _run_trial(*jobs[number])

    async with anyio.create_task_group() as group:
        for number in range(len(jobs)):
            group.start_soon(attempt, number)
    return Evaluation([done[number] for number in sorted(done)], time.monotonic() - began)


async def _run_trial(case: Case, start: Callable[[], Any]) -> Trial:
    """Run a case and check it. An error fails only this trial."""
    began = time.monotonic()
    try:
        result: RunResult = await start()
    except ClaudeAgentError as error:
        failed = Trial(case.name, False, _describe_error(error), seconds=time.monotonic() - began)
        return _add_result(failed, error.result) if isinstance(error, RunError) else failed
    seconds = time.monotonic() - began
    try:
        verdict = case.check(result)
        passed = (await verdict if inspect.isawaitable(verdict) else verdict) is not False
        reason = "" if passed else "the check returned False"
    except Exception as error:
        passed = False
        reason = _describe_error(error)
    return _add_result(Trial(case.name, passed, reason, seconds=seconds), result)


def _describe_error(error: Exception) -> str:
    text = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
    return (text or "an assertion failed")[:REASON_CHARS]


def _add_result(trial: Trial, result: RunResult) -> Trial:
    calls = len(result.tool_calls)
    return replace(trial, cost_usd=result.cost_usd, turns=result.num_turns, tool_calls=calls, answer=result.text)
