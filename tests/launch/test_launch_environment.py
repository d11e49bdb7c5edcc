"""The environment: what is inherited, what is added, and who has the last word."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from peers import start_in_memory
from plans import plan_of

from claude_agent_py import ClientOptions
from claude_agent_py.options import environment
from claude_agent_py.testing import FakeCLI, frames, steps

OWN = {"CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "CLAUDE_AGENT_SDK_CLIENT_APP"}
MARKS = (
    "CLAUDECODE CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SESSION_ID CLAUDE_CODE_CHILD_SESSION CLAUDE_CODE_SSE_PORT CLAUDE_PID"
    " CLAUDE_CODE_LAUNCHED_BY_SESSION_IDS CLAUDE_CODE_SESSION_ATTENDED CLAUDE_EFFORT CLAUDE_AGENT_SDK_VERSION AI_AGENT"
)
"""What a CLI (2.1.328) sets for the programs that it starts."""


def test_the_surrounding_environment_is_added_to() -> None:
    env = environment(ClientOptions(env={"B": "2", "C": "3"}), {"A": "1", "B": "1"})
    assert {name: env[name] for name in env.keys() - OWN} == {"A": "1", "B": "2", "C": "3"}
    assert env.keys() >= OWN


def test_a_clean_environment_has_what_is_given_and_nothing_else() -> None:
    env = environment(ClientOptions(env={"B": "2"}, inherit_env=False), {"A": "1"})
    assert env.keys() == OWN | {"B"}


def test_an_environment_that_another_object_replaced_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("1", "2"):
        monkeypatch.setattr(os, "environ", {"A": value, "HOME": "/none"})
        env = plan_of(ClientOptions()).env
        assert {name: env[name] for name in env.keys() - OWN} == {"A": value, "HOME": "/none"}
    os.environ["A"] = "3"
    assert plan_of(ClientOptions()).env["A"] == "3"


@pytest.mark.parametrize(
    ("options", "inherited", "is_kept"),
    [
        ({}, "mine", True),
        ({}, "", False),
        ({"inherit_env": False}, "mine", False),
        ({"env": {"CLAUDE_CODE_TASK_LIST_ID": "own"}}, "", True),
        ({"env": {"CLAUDE_CODE_TASK_LIST_ID": None}}, "mine", False),
    ],
)
@pytest.mark.anyio
async def test_another_session_keeps_a_task_list_whose_name_is_in_the_environment(
    options: dict[str, Any], inherited: str, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_TASK_LIST_ID", inherited)
    noted = [
        frames.assistant([frames.tool_use_block("TaskCreate", {"subject": "Test"}, id="t1")]),
        frames.tool_result("t1", "Task #1 created", tool_use_result={"task": {"id": "1", "subject": "Test"}}),
    ]
    fake = FakeCLI(steps.wait_for_prompt(), frames.init(), noted, frames.init(session_id="another"), frames.result())
    async with start_in_memory(fake, **options) as client:
        await client.query("hi")
        assert [item.subject for item in client.task_list] == (["Test"] if is_kept else [])


def test_marks_of_a_surrounding_session_are_not_passed_on() -> None:
    surrounding = dict.fromkeys(MARKS.split(), "1") | {"CLAUDE_CODE_OAUTH_TOKEN": "t", "CLAUDE_CONFIG_DIR": "d"}
    env = environment(ClientOptions(), surrounding)
    assert env.keys() == OWN | {"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"}
    assert env["CLAUDE_CODE_ENTRYPOINT"] == "sdk-py"
    assert environment(ClientOptions(env={"CLAUDECODE": "1"}), {})["CLAUDECODE"] == "1"


@pytest.fixture
def span() -> Iterator[None]:
    """Let there be a span of OpenTelemetry."""
    trace = pytest.importorskip("opentelemetry.trace")
    context = pytest.importorskip("opentelemetry.context")
    inner = trace.SpanContext(trace_id=1, span_id=2, is_remote=False, trace_flags=trace.TraceFlags(1))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(inner)))
    yield
    context.detach(token)


@pytest.mark.usefixtures("span")
def test_the_span_of_the_caller_is_passed_on() -> None:
    parent = f"00-{1:032x}-{2:016x}-01"
    env = environment(ClientOptions(), {"TRACEPARENT": "older", "TRACESTATE": "older", "A": "1"})
    assert {name: env[name] for name in env.keys() - OWN} == {"TRACEPARENT": parent, "A": "1"}
    assert environment(ClientOptions(env={"TRACEPARENT": "mine"}), {})["TRACEPARENT"] == "mine"
    assert environment(ClientOptions(inherit_env=False), {}).keys() == OWN


def test_without_a_span_the_inherited_one_stays() -> None:
    pytest.importorskip("opentelemetry.trace")
    assert environment(ClientOptions(), {"TRACEPARENT": "older"})["TRACEPARENT"] == "older"


@pytest.mark.usefixtures("span")
def test_tracing_that_fails_keeps_nobody_from_starting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(carrier: dict[str, str]) -> None:
        raise LookupError("no propagator")

    monkeypatch.setattr("opentelemetry.propagate.inject", fail)
    assert environment(ClientOptions(), {"TRACEPARENT": "older"})["TRACEPARENT"] == "older"
    assert "cannot be passed on" in caplog.text


def test_a_variable_can_be_taken_away() -> None:
    env = environment(ClientOptions(env={"A": None, "MISSING": None, "CLAUDE_CODE_ENTRYPOINT": None}), {"A": "1"})
    assert env.keys() == OWN - {"CLAUDE_CODE_ENTRYPOINT"}


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"task_list_tools": True}, "CLAUDE_CODE_ENABLE_TODO_TOOLS", "1"),
        ({"append_subagent_system_prompt": "Be brief."}, "CLAUDE_CODE_ENABLE_APPEND_SUBAGENT_PROMPT", "1"),
        ({"max_subagent_depth": 2}, "CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH", "2"),
        ({"max_concurrent_subagents": 5}, "CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS", "5"),
        ({"enable_file_checkpointing": True}, "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true"),
        ({"question_preview_format": "html"}, "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT", "html"),
        ({"client_app": "mine/1"}, "CLAUDE_AGENT_SDK_CLIENT_APP", "mine/1"),
    ],
)
def test_options_become_variables(options: dict[str, Any], name: str, value: str) -> None:
    assert environment(ClientOptions(**options), {name: "inherited"})[name] == value
    assert environment(ClientOptions(**options, env={name: "mine"}), {})[name] == "mine"
    assert environment(ClientOptions(), {name: "inherited"})[name] == "inherited"
