"""The page of an evaluation: HTML without scripts. Everything that agents said is escaped."""

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from claude_agent_py.testing.evaluation import CaseSummary, Evaluation, Trial

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
"""The page may load and run nothing, whatever is in it."""


def page_of(evaluation: "Evaluation", title: str) -> str:
    """Return the page of an evaluation."""
    rows = "\n".join(map(_row, evaluation.cases))
    total = (
        f"{evaluation.pass_rate:.0%} of {len(evaluation.trials)} trials passed, "
        f"{evaluation.cost_usd:.4f} USD, {evaluation.seconds:.1f} s"
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


def _row(case: "CaseSummary") -> str:
    width = f"{case.pass_rate:.0%}"
    trials = "\n".join(_trial(number, trial) for number, trial in enumerate(case.trials, 1))
    return f"""<tr><td><details{"" if case.pass_rate == 1 else " open"}><summary>{escape(case.name)}</summary>
{trials}</details></td>
<td><span class="bar" role="img" aria-label="{width}"><span style="width:{width}"></span></span></td>
<td class="number">{case.passed}/{len(case.trials)}</td><td class="number">{case.cost_usd:.4f}</td>
<td class="number">{case.seconds:.1f} s</td></tr>"""


def _trial(number: int, trial: "Trial") -> str:
    state = "passed" if trial.passed else "failed"
    facts = f"{trial.seconds:.1f} s, {trial.cost_usd:.4f} USD, {trial.turns} turns, {trial.tool_calls} tool calls"
    reason = f"<pre>{escape(trial.reason)}</pre>" if trial.reason else ""
    return f'<p><b class="{state}">{number}: {state}</b> {facts}</p>{reason}<pre>{escape(trial.answer)}</pre>'
