"""Answering hook callbacks, above all when a handler fails."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from asking_cli import asking, hook_call

from claude_agent_py import ClientOptions, HookContext, HookMatcher, Hooks
from claude_agent_py.agents import DelegationGuide
from claude_agent_py.errors import HandlerError, OptionsError
from claude_agent_py.hooks import (
    AsyncHookOutput,
    HookInput,
    HookOutput,
    HookRun,
    PreToolUseInput,
    PreToolUseOutput,
    StopOutput,
    UnknownHookInput,
)
from claude_agent_py.testing import frames
from claude_agent_py.tools import BashInput

PRE = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "rm -rf /"}, "tool_use_id": "t1"}
UNLIMITED = 1_000_000
"""The time limit, in seconds, by which the CLI waits for a handler that has its own."""


class Session:
    """A session with one hook, and what it reported."""

    def __init__(self, event: str, handler: Any, **how: Any) -> None:
        self.errors: Sequence[HandlerError] = []
        self.runs: list[HookRun] = []
        self._hooks = {event: [HookMatcher(None, handler, **how)]}

    async def ask(self, data: dict[str, Any], tool_use_id: str | None = "t1") -> dict[str, Any]:
        """Return what the hook answers to the subagent `a1`."""
        async with asking(hooks=self._hooks, include_hook_events=True) as cli:
            messages = cli.client.messages()
            answer = await cli.call_hook({"agent_id": "a1", **data}, tool_use_id=tool_use_id)
        self.errors = cli.client.handler_errors
        self.runs = [message async for message in messages if isinstance(message, HookRun)]
        return answer


def denied(wire: dict[str, Any]) -> str:
    """Return the reason of a denial, as the CLI would read it."""
    assert wire["hookSpecificOutput"]["hookEventName"] == "PreToolUse"
    assert wire["hookSpecificOutput"]["permissionDecision"] == "deny"
    return str(wire["hookSpecificOutput"]["permissionDecisionReason"])


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("turns", [0, 3])
async def test_a_handler_that_cancels_its_own_task_fails_alone(turns: int) -> None:
    async def cancel_itself(input: HookInput, context: HookContext) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        worker = asyncio.current_task()
        assert worker is not None
        worker.cancel()
        await asyncio.sleep(0)

    with anyio.fail_after(30):
        async with asking(hooks={"PreToolUse": [cancel_itself]}) as cli:
            for _ in range(2):  # the session goes on
                reason = denied(await cli.call_hook({"agent_id": "a1", **PRE}, tool_use_id="t1"))
                assert "it raised CancelledError" in reason


# What the CLI is told at the start -------------------------------------------------------------------------------


def handler(input: HookInput, context: HookContext) -> None: ...


def greet(request: dict[str, Any]) -> dict[str, Any]:
    """Return the reply of a CLI that takes changed hooks."""
    return {**frames.initialize_response(), "hooks_applied": True}


@pytest.mark.anyio
async def test_a_session_registers_its_hooks_when_it_opens() -> None:
    hooks = {
        "PreToolUse": [
            HookMatcher("Bash", [handler, handler], timeout=1.5),
            HookMatcher(None, handler, on_failure="continue"),
        ],
        "Stop": [handler],
        "PreCompact": [HookMatcher("auto", handler, on_failure="block")],
        "PostToolUse": [HookMatcher(None, handler, on_failure="block"), HookMatcher(None, handler, timeout=1.5)],
    }
    async with asking(hooks=hooks) as cli:
        assert cli.hooks == {
            "PreToolUse": [
                {
                    "hookCallbackIds": ["hook_0", "hook_1"],
                    "matcher": "Bash",
                    "timeout": UNLIMITED,
                    "onFailure": "block",
                },
                {"hookCallbackIds": ["hook_2"]},
            ],
            "Stop": [{"hookCallbackIds": ["hook_3"]}],
            "PreCompact": [
                {"hookCallbackIds": ["hook_4"], "matcher": "auto", "timeout": UNLIMITED, "onFailure": "block"}
            ],
            "PostToolUse": [
                {"hookCallbackIds": ["hook_5"], "timeout": UNLIMITED},
                {"hookCallbackIds": ["hook_6"], "timeout": 7},
            ],
        }


@pytest.mark.anyio
async def test_a_timeout_may_be_infinite() -> None:
    async with asking(hooks={"Stop": [HookMatcher(None, handler, timeout=float("inf"))]}) as cli:
        [group] = cli.hooks["Stop"]
        assert group["timeout"] >= UNLIMITED


@pytest.mark.anyio
async def test_a_session_without_hooks_registers_none() -> None:
    async with asking() as cli:
        assert not cli.hooks


@pytest.mark.parametrize("hooks", [{"PreTooluse": [handler]}, {"Stop": [3]}, {"Stop": handler}, 3])
def test_invalid_hooks_are_refused_when_options_are_made(hooks: Any) -> None:
    with pytest.raises(OptionsError):
        ClientOptions(hooks=hooks)


@pytest.mark.anyio
async def test_hooks_that_a_session_adds_are_its_own() -> None:
    hooks = Hooks({"Stop": [handler]})
    async with asking(hooks=hooks, answers={"initialize": greet}) as cli:
        await cli.client.hooks.add("Stop", handler)
        assert len(cli.hooks["Stop"]) == 2
    assert len(hooks) == 1


# Answering -------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_handler_gets_typed_input_and_context() -> None:
    seen: list[Any] = []

    async def guard(input: PreToolUseInput, context: HookContext) -> PreToolUseOutput:
        seen.extend((input, context))
        return PreToolUseOutput(permission_decision="deny", permission_decision_reason="no")

    async with asking(hooks={"PreToolUse": [guard]}) as cli:
        cli.say(frames.task_started("a1"))
        answer = await cli.call_hook({"agent_id": "a1", **PRE}, tool_use_id="t1")
    assert denied(answer) == "no"
    assert isinstance(seen[0], PreToolUseInput)
    assert seen[0].typed_input() == BashInput(command="rm -rf /")
    context = seen[1]
    assert (context.event, context.tool_use_id, context.request_id) == ("PreToolUse", "t1", "r1")
    assert (context.agent_id, context.task.id, context.cancelled) == ("a1", "a1", False)
    assert cli.client.handler_errors == []


@pytest.mark.anyio
async def test_the_random_id_of_other_events_is_not_passed_on() -> None:
    seen: list[HookContext] = []
    session = Session("Stop", lambda input, context: seen.append(context))
    assert await session.ask({"hook_event_name": "Stop"}, "9d0c-uuid") == {}
    assert seen[0].tool_use_id is None


@pytest.mark.anyio
async def test_a_plain_function_runs_in_a_thread() -> None:
    threads: list[int] = []
    session = Session("Stop", lambda input, context: threads.append(threading.get_ident()))
    await session.ask({"hook_event_name": "Stop"})
    assert threads != [threading.get_ident()]
    assert len(threads) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (None, {}),
        ({}, {}),
        ({"decision": "block", "reason": "go on"}, {"decision": "block", "reason": "go on"}),
        (StopOutput(continue_=False), {"continue": False}),
        (AsyncHookOutput(), {"async": True}),
    ],
)
async def test_valid_return_values_of_a_handler(value: Any, wire: dict[str, Any]) -> None:
    session = Session("Stop", lambda input, context: value)
    assert await session.ask({"hook_event_name": "Stop"}) == wire
    assert session.errors == []


@pytest.mark.anyio
async def test_several_hooks_run_at_the_same_time() -> None:
    both = [anyio.Event(), anyio.Event()]

    async def first(input: HookInput, context: HookContext) -> None:
        both[0].set()
        await both[1].wait()

    async def second(input: HookInput, context: HookContext) -> None:
        both[1].set()
        await both[0].wait()

    async with asking(hooks={"Stop": [first, second]}) as cli:
        asked = [cli.start_asking(hook_call({"hook_event_name": "Stop"}, f"hook_{n}")) for n in range(2)]
        assert [await cli.reply_to(each) for each in asked] == [{}, {}]


@pytest.mark.anyio
@pytest.mark.parametrize("stop", [HookOutput(continue_=False, stop_reason="enough"), {"continue": False}])
async def test_a_call_that_is_to_be_stopped_is_denied(stop: Any) -> None:
    answer = await Session("PreToolUse", lambda input, context: stop).ask(PRE)
    assert answer["continue"] is False
    assert denied(answer) == answer.get("stopReason", "Stopped by a hook.")


@pytest.mark.anyio
async def test_a_call_that_is_allowed_before_the_stop_stays_allowed() -> None:
    output = PreToolUseOutput(continue_=False, permission_decision="allow")
    assert await Session("PreToolUse", lambda input, context: output).ask(PRE) == output.to_wire()


# Failing ---------------------------------------------------------------------------------------------------------


async def raises(input: HookInput, context: HookContext) -> None:
    raise RuntimeError("sk-secret")


def raises_in_a_thread(input: HookInput, context: HookContext) -> None:
    raise RuntimeError("sk-secret")


async def never_returns(input: HookInput, context: HookContext) -> None:
    await anyio.sleep_forever()


def returns_rubbish(input: HookInput, context: HookContext) -> Any:
    return True


def returns_a_misspelt_denial(input: HookInput, context: HookContext) -> Any:
    return {"permissionDecison": "deny"}


def returns_what_is_no_json(input: HookInput, context: HookContext) -> Any:
    return {"updated_input": {"command": object()}}


def returns_the_answer_of_another_event(input: HookInput, context: HookContext) -> Any:
    return StopOutput()


class TheEnd(BaseException):
    """Not an Exception, and nothing that a program ends by."""


async def ends_it_all(input: HookInput, context: HookContext) -> None:
    raise TheEnd("sk-secret")


async def ends_it_all_in_a_group(input: HookInput, context: HookContext) -> None:
    raise BaseExceptionGroup("sk-secret", [TheEnd()])


def ends_it_all_in_a_thread(input: HookInput, context: HookContext) -> None:
    raise TheEnd("sk-secret")


class Unreadable(dict[str, Any]):
    """Raises when it is read, and no Exception."""

    def keys(self) -> Any:
        raise GeneratorExit

    __iter__ = keys


def returns_what_raises_when_read(input: HookInput, context: HookContext) -> Any:
    return Unreadable(reason="no")


class Unspeakable(ValueError):
    """Has no text."""

    def __str__(self) -> str:
        raise GeneratorExit


class Misread(dict[str, Any]):
    """Says that it is not valid, and cannot say why."""

    def keys(self) -> Any:
        raise Unspeakable

    __iter__ = keys


def returns_what_cannot_say_why(input: HookInput, context: HookContext) -> Any:
    return Misread(reason="no")


FAILURES: list[tuple[Callable[..., Any], str]] = [
    (raises, "RuntimeError"),
    (raises_in_a_thread, "RuntimeError"),
    (ends_it_all, "TheEnd"),
    (ends_it_all_in_a_group, "BaseExceptionGroup"),
    (ends_it_all_in_a_thread, "TheEnd"),
    (never_returns, "did not answer within 0.05 s"),
    (returns_rubbish, "not bool"),
    (returns_a_misspelt_denial, "permissionDecison"),
    (returns_what_is_no_json, "an invalid answer"),
    (returns_what_raises_when_read, "reading it raised GeneratorExit"),
    (returns_what_cannot_say_why, "reading it raised Unspeakable"),
    (returns_the_answer_of_another_event, "StopOutput is an output for Stop"),
]


def limit(failing: Callable[..., Any]) -> float:
    """Return the time limit that only the slow one exceeds, also on a busy machine."""
    return 0.05 if failing is never_returns else 30


@pytest.mark.anyio
@pytest.mark.parametrize(("failing", "reason"), FAILURES)
async def test_a_guard_that_fails_denies_and_reports_once(failing: Any, reason: str) -> None:
    session = Session("PreToolUse", failing, timeout=limit(failing))
    text = denied(await session.ask(PRE))
    assert failing.__name__ in text
    assert reason in text
    assert "sk-secret" not in text
    [error] = session.errors
    assert reason in error.reason
    assert session.runs[0].error is error


@pytest.mark.anyio
@pytest.mark.parametrize(("failing", "reason"), FAILURES)
async def test_a_hook_that_may_fail_reports_and_continues(failing: Any, reason: str) -> None:
    session = Session("PreToolUse", failing, timeout=limit(failing), on_failure="continue")
    assert await session.ask(PRE) == {}
    assert [reason in error.reason for error in session.errors] == [True]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("event", "how", "wire"),
    [
        ("UserPromptSubmit", {}, {"decision": "block"}),
        ("PermissionRequest", {}, {"hookSpecificOutput": {"hookEventName": "PermissionRequest"}}),
        ("PreCompact", {"on_failure": "block"}, {"decision": "block"}),
        ("PreModelSwitch", {"on_failure": "block"}, {"hookSpecificOutput": {"permissionDecision": "deny"}}),
        ("PreCompact", {}, {}),
        ("Stop", {}, {}),
        ("PostToolUse", {}, {}),
    ],
)
async def test_the_answer_to_a_failed_hook_depends_on_the_event(event: str, how: Any, wire: dict[str, Any]) -> None:
    session = Session(event, raises, **how)
    answer = await session.ask({"hook_event_name": event})
    assert bool(answer) == bool(wire)
    assert wire.get("decision") == answer.get("decision")
    assert wire.get("hookSpecificOutput", {}).items() <= answer.get("hookSpecificOutput", {}).items()
    if event == "PermissionRequest":
        assert answer["hookSpecificOutput"]["decision"]["behavior"] == "deny"


@pytest.mark.anyio
async def test_a_guard_of_an_input_it_cannot_read_denies() -> None:
    session = Session("PreToolUse", lambda input, context: {"reason": input.tool_name})
    assert "AttributeError" in denied(await session.ask({"hook_event_name": "PreToolUse", "tool": "Bash"}))


@pytest.mark.anyio
async def test_an_unknown_shape_reaches_the_handler() -> None:
    seen: list[Any] = []
    session = Session("Stop", lambda input, context: seen.append(input))
    await session.ask({"hook_event_name": "Stop", "stop_hook_active": "perhaps"})
    assert isinstance(seen[0], UnknownHookInput)


@pytest.mark.anyio
async def test_a_hook_that_is_too_slow_is_reported() -> None:
    told = threading.Event()

    def slow(input: HookInput, context: HookContext) -> None:
        if context.cancellation.wait(60) and context.cancelled:
            told.set()

    session = Session("PreToolUse", slow, timeout=0.3)
    denied(await session.ask(PRE))
    assert told.wait(60)


@pytest.mark.anyio
async def test_a_withdrawn_question_cancels_the_handler_and_answers_nothing() -> None:
    started, ended = anyio.Event(), anyio.Event()
    outcome: list[Any] = []

    async def waits(input: HookInput, context: HookContext) -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            outcome.append(context.cancelled)
            ended.set()

    async with asking(hooks={"PreToolUse": [waits]}, include_hook_events=True) as cli:
        messages = cli.client.messages()
        asked = cli.start_asking(hook_call(PRE))
        await started.wait()
        cli.say(frames.control_cancel(asked))
        await ended.wait()
    assert outcome == [True]
    assert not cli.is_answered(asked)
    assert cli.client.handler_errors == []
    assert [message async for message in messages if isinstance(message, HookRun)] == []


# Ids -------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_removed_hook_is_silent_and_its_id_is_not_used_again() -> None:
    async with asking(answers={"initialize": greet}) as cli:
        matcher = await cli.client.hooks.add("PreToolUse", HookMatcher("Bash", returns_rubbish))
        assert cli.hooks["PreToolUse"][0]["hookCallbackIds"] == ["hook_0"]
        assert await cli.client.hooks.remove(matcher)
        assert not await cli.client.hooks.remove(matcher)
        assert cli.hooks == {}
        assert await cli.call_hook(PRE, "hook_0", "t1") == {}
        await cli.client.hooks.add("PreToolUse", matcher)
        assert cli.hooks["PreToolUse"][0]["hookCallbackIds"] == ["hook_1"]
        assert cli.client.handler_errors == []


@pytest.mark.anyio
async def test_an_id_that_was_never_given_out_does_not_open_a_guard() -> None:
    async with asking() as cli:
        assert "not registered" in denied(await cli.call_hook(PRE, "hook_7", "t1"))
        assert await cli.call_hook({"hook_event_name": "Stop"}, "hook_7") == {}
        assert "not registered" in denied(await cli.ask({**hook_call(PRE, "hook_7"), "tool_use_id": 5}))
        assert len(cli.client.handler_errors) == 3


@pytest.mark.anyio
async def test_a_report_is_not_shortened_once_a_hook_of_its_call_was_withdrawn() -> None:
    """The other hooks answer for themselves."""
    released = anyio.Event()

    async def waits(input: HookInput, context: HookContext) -> dict[str, Any]:
        await released.wait()
        return {"systemMessage": "seen"}

    data = {"hook_event_name": "PostToolUse", "tool_name": "Agent", "tool_input": {}}
    data["tool_response"] = {"status": "completed", "content": [{"type": "text", "text": "word " * 1000}]}
    guide = DelegationGuide(max_report_chars=50)
    hooks = {"PostToolUse": [HookMatcher("Agent", [waits, waits])]}
    async with asking(delegation_guide=guide, hooks=hooks) as cli:
        ids = [each for group in cli.hooks["PostToolUse"] for each in group["hookCallbackIds"]]
        assert len(ids) == 3
        for how in ("all answer", "one is withdrawn"):
            asked = [cli.start_asking(hook_call(data, each, f"t {how}")) for each in ids]
            await anyio.wait_all_tasks_blocked()
            if how == "one is withdrawn":
                waiting = [each for each in asked if not cli.is_answered(each)]
                cli.say(frames.control_cancel(waiting[0]))
                asked.remove(waiting[0])
                await anyio.wait_all_tasks_blocked()
            released.set()
            replies = [await cli.reply_to(each) for each in asked]
            released = anyio.Event()
            assert any("updatedToolOutput" in str(reply) for reply in replies) == (how == "all answer")
            assert sum(reply.get("systemMessage") == "seen" for reply in replies) == (2 if how == "all answer" else 1)
        assert cli.client.handler_errors == []


@pytest.mark.anyio
async def test_a_run_can_be_watched() -> None:
    session = Session("Stop", lambda input, context: {"continue": False})
    await session.ask({"hook_event_name": "Stop"})
    [run] = session.runs
    assert (run.event, run.callback_id, run.request_id, run.agent_id) == ("Stop", "hook_0", "r1", "a1")
    assert run.output == {"continue": False}
    assert run.duration >= 0
    assert "lambda" in run.handler
