"""`assert_agent`: check which tools an agent called and which tasks it ran, with a diff that people can read."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from claude_agent_py._runtime.runs.result import RunResult
from claude_agent_py._runtime.runs.subagents import LAUNCHING_TOOLS
from claude_agent_py.tasks.task import Task
from claude_agent_py.tools.traffic import ToolCallRecord

MAIN: Final = "main"
"""Who the main agent is in `by`."""

SHOWN_CHARS: Final = 160
"""The maximum length of an input in a diff."""


def fits(expected: object, actual: object) -> bool:
    """Return whether a value is as expected.

    `...` fits everything, a compiled pattern fits a text in which it is found, a function fits what it returns true
    for, and a dict fits one that has at least its keys. Everything else has to be equal.
    """
    if expected is ...:
        return True
    if isinstance(expected, re.Pattern):
        return isinstance(actual, str) and expected.search(actual) is not None
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and all(
            name in actual and fits(one, actual[name]) for name, one in expected.items()
        )
    if callable(expected):
        return bool(expected(actual))
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return len(expected) == len(actual) and all(map(fits, expected, actual))
    return expected == actual


@dataclass(frozen=True)
class ExpectedCall:
    """A tool call that is expected. Values are compared as described at `assert_agent`."""

    name: str
    """The name of the tool."""
    input: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that matter; others may be there."""
    by: object = field(default=..., kw_only=True)
    """The name of the agent that calls; `"main"` is the main agent."""
    status: object = field(default=..., kw_only=True)
    """A value of `ToolCallStatus`, such as `"denied"`."""

    def __str__(self) -> str:
        who = "any agent" if self.by is ... else self.by if isinstance(self.by, str) else _shown(self.by)
        given = f" {_shown_input(self.input)}" if self.input else ""
        return f"{who}: {self.name}{given}" + _status(self.status)

    def is_like(self, actual: ToolCallRecord) -> bool:
        """Return whether it is a call of the same tool."""
        return actual.name == self.name or {actual.name, self.name} <= LAUNCHING_TOOLS

    def misfits(self, actual: ToolCallRecord) -> list[str]:
        """Return the differences from the expectation, one per line."""
        if not self.is_like(actual):
            return [f"another tool: {actual.name}"]
        wrong = [
            f"{name}: expected {_shown(wanted)}, was {_shown(actual.input.get(name, 'left out'))}"
            for name, wanted in self.input.items()
            if name not in actual.input or not fits(wanted, actual.input[name])
        ]
        if not fits(self.by, who_called(actual)):
            wrong.append(f"by: expected {_shown(self.by)}, was {who_called(actual)!r}")
        if not fits(self.status, actual.status.value):
            wrong.append(f"status: expected {_shown(self.status)}, was {actual.status.value!r}")
        return wrong


call = ExpectedCall


@dataclass(frozen=True)
class ExpectedTask:
    """A background task that is expected. Values are compared as described at `assert_agent`."""

    description: object = ...
    """The description of the task."""
    agent: object = field(default=..., kw_only=True)
    """The name of the subagent; None for a shell."""
    by: object = field(default=..., kw_only=True)
    """The name of the agent that launched it; `"main"` is the main agent."""
    status: object = field(default=..., kw_only=True)
    """A value of `TaskStatus`, such as `"completed"`."""
    prompt: object = field(default=..., kw_only=True)
    """What a subagent was asked."""
    summary: object = field(default=..., kw_only=True)
    """Its report."""

    def __str__(self) -> str:
        named = {name: getattr(self, name) for name in ("agent", "by", "status", "prompt", "summary")}
        return " ".join(
            [_shown(self.description), *(f"{name}={_shown(one)}" for name, one in named.items() if one is not ...)]
        )

    def is_like(self, actual: Task) -> bool:
        """Return whether it is the task with that description."""
        return fits(self.description, actual.description)

    def misfits(self, actual: Task) -> list[str]:
        """Return the differences from the expectation, one per line."""
        found = {"description": actual.description, **task_facts(actual)}
        return [
            f"{name}: expected {_shown(getattr(self, name))}, was {_shown(value)}"
            for name, value in found.items()
            if not fits(getattr(self, name), value)
        ]


task = ExpectedTask


class AgentAssertions:
    """Assertions about a run. Each raises AssertionError with a diff, or returns this object for the next one."""

    def __init__(self, result: "RunResult[Any]") -> None:
        self._result = result

    def called(self, *expected: ExpectedCall | str, by: object = ...) -> Self:
        """Check that these tools were called in this order. Other calls may come between.

        `by` limits the check to the calls of one agent: agents that run side by side call in any order.
        """
        __tracebackhide__ = True
        return self._check("tool calls", _calls(expected, by), self._calls(by), is_all=False)

    def called_only(self, *expected: ExpectedCall | str, by: object = ...) -> Self:
        """Check that these tools were called in this order, and no others."""
        __tracebackhide__ = True
        return self._check("tool calls", _calls(expected, by), self._calls(by), is_all=True)

    def not_called(self, *unwanted: ExpectedCall | str, by: object = ...) -> Self:
        """Check that none of these tools was called."""
        __tracebackhide__ = True
        calls = self._calls(by)
        found = [one for one in calls if any(not wanted.misfits(one) for wanted in _calls(unwanted))]
        if found:
            lines = [f"{'!' if one in found else ' '} {shown_call(one)}" for one in calls]
            raise AssertionError("\n".join(["a tool was called that was not expected (!):", *lines]))
        return self

    def ran(self, *expected: ExpectedTask | str) -> Self:
        """Check that these background tasks were launched in this order. Others may come between."""
        __tracebackhide__ = True
        return self._check("tasks", _tasks(expected), tasks_in_order(self._result), is_all=False)

    def ran_only(self, *expected: ExpectedTask | str) -> Self:
        """Check that these background tasks were launched in this order, and no others."""
        __tracebackhide__ = True
        return self._check("tasks", _tasks(expected), tasks_in_order(self._result), is_all=True)

    def said(self, expected: object) -> Self:
        """Check the answer: a text that it contains, or anything that values are compared with."""
        __tracebackhide__ = True
        text = self._result.text
        if not (expected in text if isinstance(expected, str) else fits(expected, text)):
            raise AssertionError(f"the answer is not as expected: {_shown(expected)} is not in\n{text}")
        return self

    def _calls(self, by: object) -> list[ToolCallRecord]:
        return [one for one in self._result.tool_calls if fits(by, who_called(one))]

    def _check(self, what: str, expected: Sequence[Any], actual: Sequence[Any], *, is_all: bool) -> Self:
        __tracebackhide__ = True  # pytest shows the line of the test
        pairs = aligned(expected, actual)
        is_fine = all(one is not None for _, one in pairs) and (not is_all or all(one is not None for one, _ in pairs))
        if not is_fine or any(wanted and wanted.misfits(found) for wanted, found in pairs if found is not None):
            raise AssertionError("\n".join([f"the {what} are not as expected:", *_diff(pairs, is_all)]))
        return self


def assert_agent(result: "RunResult[Any]") -> AgentAssertions:
    """Return assertions about what an agent did in a run.

    In what is expected, `...` fits every value, a compiled pattern fits a text in which it is found, a function fits
    what it returns true for, and a dict fits one that has at least its keys. All else is compared for equality.
    """
    return AgentAssertions(result)


# Comparing --------------------------------------------------------------------------------------------------------


def aligned(expected: Sequence[Any], actual: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Pair expected with found items, in order. None marks a missing counterpart.

    The pairing has the most matches and, among those, the most similar items.
    """

    def worth(wanted: Any, found: Any) -> int:
        return 1000 if not wanted.misfits(found) else 1 if wanted.is_like(found) else 0

    rows, columns = len(expected), len(actual)
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    worths = [[worth(wanted, found) for found in actual] for wanted in expected]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            paired = worths[i][j] + best[i + 1][j + 1] if worths[i][j] else 0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    pairs: list[tuple[Any, Any]] = []
    i = j = 0
    while i < rows or j < columns:
        if i < rows and j < columns and worths[i][j] and best[i][j] == worths[i][j] + best[i + 1][j + 1]:
            pairs.append((expected[i], actual[j]))
            i, j = i + 1, j + 1
        elif j == columns or (i < rows and best[i][j] == best[i + 1][j]):
            pairs.append((expected[i], None))
            i += 1
        else:
            pairs.append((None, actual[j]))
            j += 1
    return pairs


def _diff(pairs: Sequence[tuple[Any, Any]], is_all: bool) -> list[str]:
    """Return a line for each pair: `-` is missing, `+` is too much, `!` differs."""
    lines = ["(- missing, + not expected, ! different)" if is_all else "(- missing, ! different)"]
    for wanted, found in pairs:
        if wanted is None:
            lines.append(f"{'+' if is_all else ' '} {_described(found)}")
        elif found is None:
            lines.append(f"- {wanted}")
        else:
            wrong = wanted.misfits(found)
            lines.append(f"{'!' if wrong else ' '} {_described(found)}")
            lines += [f"      {one}" for one in wrong]
    return lines


def tasks_in_order(result: "RunResult[Any]") -> list[Task]:
    """Return the tasks in the order of the calls that launched them. Those of one answer start in any order."""
    calls = {record.id: at for at, record in enumerate(result.tool_calls)}
    return sorted(result.tasks, key=lambda found: calls.get(found.tool_use_id or "", len(calls)))


# Showing ----------------------------------------------------------------------------------------------------------


def who_called(record: ToolCallRecord) -> str:
    """Return the name of the agent that called: `main`, the type of a subagent, or its id."""
    return MAIN if record.agent_id is None else record.subagent_type or record.agent_id


def shown_call(record: ToolCallRecord) -> str:
    """Return a call in one line."""
    return f"{who_called(record)}: {record.name} {_shown_input(record.input)}" + _status(record.status.value)


def task_facts(found: Task) -> dict[str, Any]:
    """Return what can be expected of a task, besides its description."""
    return {
        "agent": found.subagent_type,
        "by": found.author or MAIN,
        "status": found.status.value,
        "prompt": found.prompt,
        "summary": found.summary,
    }


def _described(found: ToolCallRecord | Task) -> str:
    if isinstance(found, ToolCallRecord):
        return shown_call(found)
    facts = task_facts(found)
    return f"{found.description!r} agent={facts['agent']!r} by={facts['by']!r} status={facts['status']!r}"


def _status(status: object) -> str:
    return "" if status is ... or status == "succeeded" else f" ({_shown(status)})"


def _shown_input(given: Mapping[str, Any]) -> str:
    return _cut("{" + ", ".join(f"{json.dumps(name)}: {_shown(value)}" for name, value in given.items()) + "}")


def _shown(value: object) -> str:
    if value is ...:
        return "..."
    if isinstance(value, re.Pattern):
        return f"/{value.pattern}/"
    named: Callable[..., Any] | None = value if callable(value) else None
    return _cut(getattr(named, "__name__", repr(value)) if named else repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def _calls(expected: Sequence[ExpectedCall | str], by: object = ...) -> list[ExpectedCall]:
    calls = [call(one) if isinstance(one, str) else one for one in expected]
    return [replace(one, by=by) if one.by is ... else one for one in calls]


def _tasks(expected: Sequence[ExpectedTask | str]) -> list[ExpectedTask]:
    return [task(one) if isinstance(one, str) else one for one in expected]
