"""`assert_agent`: check which tools an agent called and which tasks it ran, with a readable diff."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from claude_agent_py import RunResult
from claude_agent_py.permissions import displayable
from claude_agent_py.tasks import Task
from claude_agent_py.tools import AGENT_TOOLS, ToolCallRecord
from claude_agent_py.wire import JSONObject

MAIN: Final = "main"
"""The name of the main agent in `by`."""

SHOWN_CHARS: Final = 160
"""The maximum length of an input in a diff."""


def matches(expected: object, actual: object) -> bool:
    """Return whether a value matches the expectation, by the rules of `assert_agent`."""
    if expected is ...:
        return True
    if isinstance(expected, re.Pattern):
        return isinstance(actual, str) and expected.search(actual) is not None
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and all(
            name in actual and matches(value, actual[name]) for name, value in expected.items()
        )
    if callable(expected):
        return bool(expected(actual))
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return len(expected) == len(actual) and all(map(matches, expected, actual))
    return expected == actual


@dataclass(frozen=True)
class ExpectedCall:
    """An expected tool call. `assert_agent` describes how values are compared."""

    name: str
    """The name of the tool."""
    input: Mapping[str, Any] = field(default_factory=dict)
    """The arguments to compare. The call may have others."""
    by: object = field(default=..., kw_only=True)
    """The name of the calling agent; `"main"` is the main agent."""
    status: object = field(default=..., kw_only=True)
    """A value of `ToolCallStatus`, such as `"denied"`."""

    def __str__(self) -> str:
        if self.by is ...:
            caller = "any agent"
        elif isinstance(self.by, str):
            caller = self.by
        else:
            caller = _format_value(self.by)
        arguments = f" {_format_input(self.input)}" if self.input else ""
        return f"{caller}: {self.name}{arguments}" + _format_status(self.status)

    def resembles(self, actual: ToolCallRecord) -> bool:
        """Return whether both are calls of the same tool."""
        return actual.name == self.name or {actual.name, self.name} <= AGENT_TOOLS

    def find_differences(self, actual: ToolCallRecord) -> list[str]:
        """Return the differences from the expectation, one per line."""
        if not self.resembles(actual):
            return [f"different tool: {actual.name}"]
        facts = {"by": get_caller(actual), "status": actual.status.value}
        wanted = {"by": self.by, "status": self.status}
        return _list_differences(self.input, actual.input) + _list_differences(wanted, facts)


call = ExpectedCall
"""The short name of `ExpectedCall`."""


@dataclass(frozen=True)
class ExpectedTask:
    """An expected background task. `assert_agent` describes how values are compared."""

    description: object = ...
    """The description of the task."""
    agent: object = field(default=..., kw_only=True)
    """The name of the subagent; None for a shell."""
    by: object = field(default=..., kw_only=True)
    """The name of the agent that launched it; `"main"` is the main agent."""
    status: object = field(default=..., kw_only=True)
    """A value of `TaskStatus`, such as `"completed"`."""
    prompt: object = field(default=..., kw_only=True)
    """The prompt of a subagent."""
    summary: object = field(default=..., kw_only=True)
    """Its report."""

    def __str__(self) -> str:
        named = {name: getattr(self, name) for name in ("agent", "by", "status", "prompt", "summary")}
        return " ".join(
            [
                _format_value(self.description),
                *(f"{name}={_format_value(value)}" for name, value in named.items() if value is not ...),
            ]
        )

    def resembles(self, actual: Task) -> bool:
        """Return whether the task has the expected description."""
        return matches(self.description, actual.description)

    def find_differences(self, actual: Task) -> list[str]:
        """Return the differences from the expectation, one per line."""
        facts = {"description": actual.description, **get_task_facts(actual)}
        return _list_differences({name: getattr(self, name) for name in facts}, facts)


def _list_differences(expected: Mapping[str, object], actual: Mapping[str, object]) -> list[str]:
    return [
        f"{name}: expected {_format_value(wanted)}, was {_format_value(actual.get(name, 'left out'))}"
        for name, wanted in expected.items()
        if name not in actual or not matches(wanted, actual[name])
    ]


task = ExpectedTask
"""The short name of `ExpectedTask`."""


class AgentAssertions:
    """Assertions about a run. Each raises AssertionError with a diff, or returns this object for the next one."""

    def __init__(self, result: "RunResult") -> None:
        self._result = result

    def called(self, *expected: ExpectedCall | str, by: object = ...) -> Self:
        """Check that these tools were called in this order. Other calls may come between.

        `by` limits the check to the calls of one agent: calls of concurrent agents come in any order.
        """
        __tracebackhide__ = True
        return self._check("tool calls", _as_calls(expected, by), self._calls(by), is_all=False)

    def called_only(self, *expected: ExpectedCall | str, by: object = ...) -> Self:
        """Check that these tools were called in this order, and no others."""
        __tracebackhide__ = True
        return self._check("tool calls", _as_calls(expected, by), self._calls(by), is_all=True)

    def not_called(self, *unwanted: ExpectedCall | str, by: object = ...) -> Self:
        """Check that none of these tools was called."""
        __tracebackhide__ = True
        calls = self._calls(by)
        found = [call for call in calls if any(not wanted.find_differences(call) for wanted in _as_calls(unwanted))]
        if found:
            lines = [f"{'!' if call in found else ' '} {format_call(call)}" for call in calls]
            raise AssertionError("\n".join(["the agent called an unexpected tool (!):", *lines]))
        return self

    def ran(self, *expected: ExpectedTask | str) -> Self:
        """Check that these background tasks were launched in this order. Others may come between."""
        __tracebackhide__ = True
        return self._check("tasks", _as_tasks(expected), sort_tasks(self._result), is_all=False)

    def ran_only(self, *expected: ExpectedTask | str) -> Self:
        """Check that these background tasks were launched in this order, and no others."""
        __tracebackhide__ = True
        return self._check("tasks", _as_tasks(expected), sort_tasks(self._result), is_all=True)

    def said(self, expected: object) -> Self:
        """Check the answer: a text that it contains, or any other expectation that `assert_agent` describes."""
        __tracebackhide__ = True
        text = self._result.text
        if not (expected in text if isinstance(expected, str) else matches(expected, text)):
            raise AssertionError(
                f"the answer is not as expected: {_format_value(expected)} is not in\n{displayable(text, None)}"
            )
        return self

    def _calls(self, by: object) -> list[ToolCallRecord]:
        return [call for call in self._result.tool_calls if matches(by, get_caller(call))]

    def _check(self, what: str, expected: Sequence[object], actual: Sequence[object], *, is_all: bool) -> Self:
        # With this local, the traceback of pytest ends at the line of the test.
        __tracebackhide__ = True
        pairs = align(expected, actual)
        if not all(_is_expected(wanted, found, is_all=is_all) for wanted, found in pairs):
            lines = [f"the {what} are not as expected:", *_format_diff(pairs, is_all=is_all)]
            raise AssertionError("\n".join(lines))
        return self


def assert_agent(result: "RunResult") -> AgentAssertions:
    """Return assertions about the tool calls, tasks and answer of a run.

    An expected `...` matches every value, a compiled pattern matches a text that contains it, a function matches the
    values for which it returns true, and a dict matches one that has at least its keys. Other values must be equal.
    """
    return AgentAssertions(result)


# Comparing --------------------------------------------------------------------------------------------------------


def align(expected: Sequence[object], actual: Sequence[object]) -> list[tuple[Any, Any]]:
    """Pair expected with found items, in order. None marks a missing counterpart.

    The pairing has the most matches and, among those, the most similar items.
    """

    def score(wanted: Any, found: Any) -> int:
        if not wanted.find_differences(found):
            return 1000
        return 1 if wanted.resembles(found) else 0

    # The longest common subsequence with weights: `best[i][j]` is the score of the best pairing of
    # `expected[i:]` with `actual[j:]`.
    rows = len(expected)
    columns = len(actual)
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    scores = [[score(wanted, found) for found in actual] for wanted in expected]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            paired = scores[i][j] + best[i + 1][j + 1] if scores[i][j] else 0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    pairs: list[tuple[object, object]] = []
    i = j = 0
    while i < rows or j < columns:
        if i < rows and j < columns and scores[i][j] and best[i][j] == scores[i][j] + best[i + 1][j + 1]:
            pairs.append((expected[i], actual[j]))
            i += 1
            j += 1
        elif j == columns or (i < rows and best[i][j] == best[i + 1][j]):
            pairs.append((expected[i], None))
            i += 1
        else:
            pairs.append((None, actual[j]))
            j += 1
    return pairs


def _is_expected(wanted: Any, found: Any, *, is_all: bool) -> bool:
    """Return whether a pair is as expected. With `is_all`, unexpected items are not."""
    if found is None:
        return False
    if wanted is None:
        return not is_all
    return not wanted.find_differences(found)


def _format_diff(pairs: Sequence[tuple[Any, Any]], *, is_all: bool) -> list[str]:
    """Return a line for each pair: `-` marks a missing item, `+` an unexpected one, `!` a different one."""
    lines = ["(- missing, ! different)"]
    if is_all:
        lines = ["(- missing, + not expected, ! different)"]
    for wanted, found in pairs:
        if found is None:
            lines.append(f"- {wanted}")
        elif _is_expected(wanted, found, is_all=is_all):
            lines.append(f"  {_format_found(found)}")
        elif wanted is None:
            lines.append(f"+ {_format_found(found)}")
        else:
            lines.append(f"! {_format_found(found)}")
            lines += [f"      {difference}" for difference in wanted.find_differences(found)]
    return lines


def sort_tasks(result: "RunResult") -> list[Task]:
    """Return the tasks in the order of their launching calls. Tasks launched by one answer start in any order."""
    calls = {record.id: at for at, record in enumerate(result.tool_calls)}
    return sorted(result.tasks, key=lambda found: calls.get(found.tool_use_id or "", len(calls)))


# Formatting -------------------------------------------------------------------------------------------------------


def get_caller(record: ToolCallRecord) -> str:
    """Return the name of the agent that called: `main`, the type of a subagent, or its id."""
    return MAIN if record.agent_id is None else record.subagent_type or record.agent_id


def format_call(record: ToolCallRecord) -> str:
    """Return a call in one line."""
    return f"{get_caller(record)}: {record.name} {_format_input(record.input)}" + _format_status(record.status.value)


def get_task_facts(found: Task) -> JSONObject:
    """Return the values that an `ExpectedTask` compares in addition to the description."""
    return {
        "agent": found.subagent_type,
        "by": found.author or MAIN,
        "status": found.status.value,
        "prompt": found.prompt,
        "summary": found.summary,
    }


def _format_found(found: ToolCallRecord | Task) -> str:
    if isinstance(found, ToolCallRecord):
        return format_call(found)
    facts = get_task_facts(found)
    return f"{found.description!r} agent={facts['agent']!r} by={facts['by']!r} status={facts['status']!r}"


def _format_status(status: object) -> str:
    return "" if status is ... or status == "succeeded" else f" ({_format_value(status)})"


def _format_input(given: Mapping[str, object]) -> str:
    return _truncate(
        "{" + ", ".join(f"{json.dumps(name)}: {_format_value(value)}" for name, value in given.items()) + "}"
    )


def _format_value(value: object) -> str:
    if value is ...:
        return "..."
    if isinstance(value, re.Pattern):
        return f"/{value.pattern}/"
    named: Callable[..., object] | None = value if callable(value) else None
    return _truncate(getattr(named, "__name__", repr(value)) if named else repr(value))


def _truncate(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def _as_calls(expected: Sequence[ExpectedCall | str], by: object = ...) -> list[ExpectedCall]:
    calls = [call(item) if isinstance(item, str) else item for item in expected]
    return [replace(item, by=by) if item.by is ... else item for item in calls]


def _as_tasks(expected: Sequence[ExpectedTask | str]) -> list[ExpectedTask]:
    return [task(item) if isinstance(item, str) else item for item in expected]
