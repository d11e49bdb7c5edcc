"""The page of an evaluation: HTML without scripts. All texts of agents are escaped."""

from collections.abc import Mapping
from html import escape
from typing import Any, Final

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
