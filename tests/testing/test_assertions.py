"""Assertions about a run of the real CLI, their diffs, and the run as text."""

import dataclasses
import re
from typing import Any

import pytest

from claude_agent_py import RunResult, run_sync
from claude_agent_py.testing import (
    FakeCLI,
    Reply,
    ScriptedModel,
    assert_agent,
    call,
    frames,
    run_as_text,
    steps,
    task,
    tool_use,
)

pytestmark = pytest.mark.real_cli

LAUNCH = {"description": "auth", "prompt": "Review auth", "subagent_type": "general-purpose"}
SHELL = {"command": "echo tests pass; date", "description": "tests", "run_in_background": True}


AS_TEXT = """\
prompt: Review everything
calls Bash {"command": "pwd"}: succeeded
  | <cwd>
calls Agent {"description": "auth", "prompt": "Review auth", "subagent_type": "general-purpose"}: succeeded
  | the subagent runs in the background
calls Bash {"command": "echo tests pass; date", "description": "tests", "run_in_background": true}: succeeded
  | the command runs in the background
says: All is well.

general-purpose: auth
  calls Bash {"command": "cat nothing"}: failed
    | Exit code 1
    | cat: nothing: No such file or directory
  completed: auth is sound

local_bash: tests
  completed: Background command "tests" completed (exit code 0)

answer: All is well.
"""


@pytest.fixture(scope="module")
def result() -> "RunResult[None]":
    """Run an agent that starts a subagent and a shell."""
    first = [tool_use("Bash", {"command": "pwd"}), tool_use("Agent", LAUNCH), tool_use("Bash", SHELL)]
    agent = [tool_use("Bash", {"command": "cat nothing"}), "auth is sound"]
    with ScriptedModel([Reply(first)], agents={"Review auth": agent}, on_exhausted="All is well.") as model:
        return run_sync("Review everything", model.options(disallowed_tools=["WebFetch"]), timeout=120)


def failure(assertion: object, *arguments: object, **more: object) -> str:
    with pytest.raises(AssertionError) as caught:
        assertion(*arguments, **more)  # type: ignore[operator]
    return str(caught.value)


def test_calls_are_matched_by_order_author_and_input(result: "RunResult[None]") -> None:
    checked = assert_agent(result)
    checked.called_only("Bash", "Agent", call("Bash", {"command": re.compile("tests pass")}), by="main")
    checked.called_only(call("Bash", {"command": "cat nothing"}, status="failed"), by="general-purpose")
    checked.called(call("Agent", {"prompt": lambda prompt: prompt.endswith("auth")}), "Bash").not_called("Write")
    checked.called("Task").said("All is well").said(re.compile("^All"))


def test_a_missing_call_and_a_different_one_are_shown_next_to_those_that_fit(result: "RunResult[None]") -> None:
    told = failure(
        assert_agent(result).called_only,
        call("Bash", {"command": "ls"}),
        call("Agent", {"subagent_type": "reviewer"}, by="main"),
        call("Write", {"file_path": "a.py"}),
        call("Bash", {"run_in_background": True}),
        by="main",
    )
    assert told.splitlines() == [
        "the tool calls are not as expected:",
        "(- missing, + not expected, ! different)",
        """! main: Bash {"command": 'pwd'}""",
        "      command: expected 'ls', was 'pwd'",
        """! main: Agent {"description": 'auth', "prompt": 'Review auth', "subagent_type": 'general-purpose'}""",
        "      subagent_type: expected 'reviewer', was 'general-purpose'",
        """- main: Write {"file_path": 'a.py'}""",
        """  main: Bash {"command": 'echo tests pass; date', "description": 'tests', "run_in_background": True}""",
    ]


def test_an_unexpected_call_is_marked_in_order(result: "RunResult[None]") -> None:
    told = failure(assert_agent(result).called, "Agent", call("Bash", {"command": "pwd"}), by="main")
    assert "- main: Agent" in told.splitlines() or "- main: Bash" in told or "! main: Bash" in told
    told = failure(assert_agent(result).not_called, call("Bash", {"command": "pwd"}))
    assert [line for line in told.splitlines() if line.startswith("!")] == ["""! main: Bash {"command": 'pwd'}"""]
    assert "said" not in failure(assert_agent(result).said, "nothing of the kind")


def test_the_tasks_of_a_run(result: "RunResult[None]") -> None:
    checked = assert_agent(result)
    checked.ran_only(
        task("auth", agent="general-purpose", by="main", status="completed", summary="auth is sound"),
        task("tests", agent=None, status="completed"),
    ).ran("tests")
    told = failure(checked.ran, task("auth", agent="reviewer"), "billing")
    assert "      agent: expected 'reviewer', was 'general-purpose'" in told
    assert "- 'billing'" in told


def test_tasks_count_in_the_order_of_their_calls(result: "RunResult[None]") -> None:
    turned = dataclasses.replace(result, tasks=list(reversed(result.tasks)))  # as if the second had started first
    assert_agent(turned).ran_only("auth", "tests")
    assert run_as_text(turned) == run_as_text(result)


def test_a_run_as_text_is_the_same_each_time(result: "RunResult[None]") -> None:
    assert run_as_text(result) == AS_TEXT


def test_no_text_of_a_run_breaks_out_of_its_section() -> None:
    broken = "one\rtwo\nanswer: three"
    task = [frames.task_started("a1", broken), *frames.task_end("a1", summary=broken)]
    script = FakeCLI(steps.turn([*task, frames.assistant(broken)], text=broken))
    text = run_as_text(run_sync("hi", transport=script.transport()))
    assert "\r" not in text  # which a file does not keep
    assert [line for line in text.splitlines() if line.startswith(("answer", "two"))] == ["answer: one"]


def test_a_failed_assertion_prints_no_escapes() -> None:
    result = run_sync("hi", transport=FakeCLI(steps.turn("\x1b[31mred")).transport())
    assert "[31mred" in (told := failure(assert_agent(result).said, "blue"))
    assert "\x1b" not in told


def test_expected_values_are_compared_by_their_kind_and_shown_by_their_name() -> None:
    block = frames.tool_use_block("Edit", {"path": "src/a.py", "lines": [1, "two", 3]}, id="toolu_1")
    script: list[Any] = [
        steps.wait_for_prompt(),
        frames.assistant([block]),
        frames.tool_result("toolu_1", "done"),
        frames.result(),
    ]
    checked = assert_agent(run_sync("hi", transport=FakeCLI(*script).transport()))

    def is_odd(value: object) -> bool:
        return isinstance(value, int) and value % 2 == 1

    every = re.compile("^ma")
    checked.called(call("Edit", {"lines": [is_odd, re.compile("o$"), ...]}, by=every, status="succeeded"))
    told = failure(
        checked.called, call("Edit", {"lines": [1, "two"]}), call("Write", by=every), call("Read", by=is_odd)
    )
    assert "      lines: expected [1, 'two'], was [1, 'two', 3]" in told.splitlines()
    assert "- /^ma/: Write" in told.splitlines()
    assert "- is_odd: Read" in told.splitlines()
    told = failure(
        checked.called, call("Edit", {"path": re.compile("b")}), call("Edit", {"lines": ...}, status="denied")
    )
    assert "      path: expected /b/, was 'src/a.py'" in told.splitlines()
    assert "- any agent: Edit {\"lines\": ...} ('denied')" in told
