"""`RunOutcome` and `MapProgress`: the outcome of one prompt of `map_runs`, and the progress of all."""

from dataclasses import dataclass
from typing import Any, Generic

from claude_agent_py._errors import RunFailed
from claude_agent_py._runtime.runs.prompts import Prompt
from claude_agent_py._runtime.runs.result import RunResult
from claude_agent_py.options.output_shape import Output


@dataclass(frozen=True, kw_only=True)
class RunOutcome(Generic[Output]):
    """The outcome of one prompt: an answer or an error."""

    index: int
    """The place of the prompt in the list, from 0."""
    prompt: Prompt
    error: RunFailed | None = None
    """The error of the last attempt; None if there is an answer."""
    result: RunResult[Output] | None = None
    """The result of the last attempt, including messages; None without one, or if the outcome comes from a journal."""
    text: str = ""
    """The answer."""
    output: Output = None  # type: ignore[assignment]
    """The structured output."""
    session_id: str = ""
    """The session of the last attempt, for `resume`."""
    cost_usd: float = 0.0
    """The cost of all attempts in US dollars, as estimated by the CLI."""
    attempts: int = 1
    """How many times the prompt ran."""
    from_journal: bool = False
    """Whether the answer was read from the journal."""

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.error is None

    def __repr__(self) -> str:
        what = repr(self.text[:60]) if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return f"<RunOutcome {self.index} {what}>"


@dataclass(frozen=True, kw_only=True)
class MapProgress:
    """The progress of `map_runs`."""

    total: int
    """How many prompts there are."""
    done: int
    """How many prompts have an outcome, including outcomes from a journal."""
    failed: int
    """How many outcomes are errors."""
    running: int
    """How many prompts are running, waiting for a process, or waiting for a retry."""
    cost_usd: float
    """The cost so far in US dollars, without outcomes from the journal."""


def build_outcome(
    index: int, prompt: Prompt, ended: RunResult[Any] | RunFailed, failures: list[RunFailed]
) -> RunOutcome:
    """Return the outcome of a prompt.

    Args:
        index: The index of the prompt.
        prompt: The prompt.
        ended: The result, or the final error.
        failures: The errors of the failed attempts, including a final one.
    """
    results = [failure.result for failure in failures]
    if isinstance(ended, RunFailed):
        fields: dict[str, Any] = {"error": ended, "result": ended.result}
    else:
        fields = {"result": ended, "text": ended.text, "output": ended.output}
        results.append(ended)
    return RunOutcome(
        index=index,
        prompt=prompt,
        session_id="" if fields["result"] is None else fields["result"].session_id,
        cost_usd=sum(result.cost_usd for result in results if result is not None),
        attempts=len(results),
        **fields,
    )
