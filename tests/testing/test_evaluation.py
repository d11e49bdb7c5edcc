"""Evaluations: pass rates, costs, times, and reports that a hostile answer cannot break."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from claude_agent_py import ClientOptions, OptionsError, RunResult
from claude_agent_py.testing import Case, Evaluation, FakeCLI, Trial, evaluate, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.one_backend]

USAGE = {"haiku": {"costUSD": 0.01}}
HOSTILE = "</pre><script>alert(1)</script>"


def is_four(result: "RunResult[Any]") -> bool:
    return result.text == "4"


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
async def test_every_case_is_tried_and_reported(tmp_path: Path) -> None:
    """With fakes: a program of `testing-your-agents.md` evaluates the real CLI."""
    refused = frames.api_error("refused", "invalid_request", 400)
    answers: dict[str, Any] = {"four": "4", "five": HOSTILE, "broken": refused, "bug": "x"}
    fakes = {
        name: FakeCLI(steps.turn(answer, model_usage_since_last_result=USAGE)).install(tmp_path / name)
        for name, answer in answers.items()
    }
    verdicts = iter([True, False])

    async def has_five(result: "RunResult[Any]") -> None:
        if not next(verdicts):
            raise AssertionError(f"no 5 in {result.text}")

    cases = [
        Case("four", "2 + 2", is_four),
        Case("five", "2 + 3", has_five, options={"max_turns": 3}),
        Case("broken", "break", is_four),
        Case("bug", "bug", lambda result: result.tool_calls[0]),
    ]
    report = await evaluate(
        cases, lambda case: ClientOptions(cli_path=fakes[case.name]), trials=2, limit=2, timeout=120
    )
    assert [(case.name, case.passed, len(case.trials)) for case in report.cases] == [
        ("four", 2, 2),
        ("five", 1, 2),
        ("broken", 0, 2),
        ("bug", 0, 2),
    ]
    assert report.pass_rate == 3 / 8
    assert repr(report).startswith("<Evaluation 3 of 8 trials passed, ")
    assert report.cost_usd > 0
    assert all(trial.seconds > 0 for trial in report.trials)
    reasons = {trial.reason.partition(":")[0] for trial in report.failures}
    assert reasons == {f"no 5 in {HOSTILE}", "InvalidRequestError", "IndexError"}

    report.save(tmp_path / "out" / "report.json", tmp_path / "out" / "report.html")
    assert os.name != "posix" or {path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()} == {0o600}
    stored = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [case["pass_rate"] for case in stored["cases"]] == [1.0, 0.5, 0.0, 0.0]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "38% of 8 trials passed" in page


def test_a_report_says_in_which_form_it_can_be_saved(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=r"must end in \.html or \.json"):
        Evaluation([Trial("a", True)], 1.0).save(tmp_path / "report.txt")


async def test_a_table_without_cases_or_with_a_name_twice_is_refused() -> None:
    with pytest.raises(OptionsError, match="cases must not be empty"):
        await evaluate([])
    with pytest.raises(OptionsError, match="names of the cases must be unique"):
        await evaluate([Case("a", "x", is_four), Case("a", "y", is_four)])
