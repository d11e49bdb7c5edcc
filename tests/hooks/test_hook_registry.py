"""Collecting hooks."""

import warnings
from typing import Any

import pytest
from asking_cli import asking

from claude_agent_py import HookContext, HookMatcher, Hooks
from claude_agent_py.errors import OptionsError
from claude_agent_py.hooks import (
    HOOK_EVENT_FACTS,
    HOOK_EVENTS,
    HookInput,
    HookWarning,
    PreToolUseInput,
    StopInput,
    UnknownHookInput,
)


def handler(input: HookInput, context: HookContext) -> None: ...


def test_a_dict_keeps_its_order() -> None:
    matcher = HookMatcher("Bash", handler)
    hooks = Hooks({"PreToolUse": [matcher, handler], "Stop": [handler]})
    assert [(event, entry.pattern) for event, entry in hooks] == [
        ("PreToolUse", "Bash"),
        ("PreToolUse", None),
        ("Stop", None),
    ]
    assert len(hooks) == 3
    assert repr(hooks) == "<Hooks for PreToolUse, Stop>"


def test_of_takes_what_an_option_may_hold() -> None:
    hooks = Hooks()
    assert Hooks.of(hooks) is hooks
    assert len(Hooks.of(None)) == 0
    assert len(Hooks.of({"Stop": [handler]})) == 1
    with pytest.raises(OptionsError, match="not list"):
        Hooks.of([handler])  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [handler, "handler", {"hooks": [handler]}, None, HookMatcher(None, handler)])
def test_an_event_without_a_list_is_refused(value: Any) -> None:
    with pytest.raises(OptionsError, match=r"hooks\['Stop'\] must be a list"):
        Hooks({"Stop": value})


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ("PreTooluse", "did you mean 'PreToolUse'"),
        ("pre_tool_use", "unknown hook event"),
        ("SubagentEnd", "did you mean"),
        ("", "the events are"),
        (None, "unknown hook event None"),
    ],
)
def test_an_unknown_event_is_refused_with_a_suggestion(event: Any, says: str) -> None:
    with pytest.raises(OptionsError, match=says):
        Hooks({event: [handler]})
    with pytest.raises(OptionsError, match=says):
        Hooks().on(event)


@pytest.mark.parametrize("event", ["PRE-TOOL-USE", "preSkillShellCommand", "PreToolUsed", "Pre tool", "Some Event", 3])
def test_a_name_that_may_be_a_misspelt_guard_is_refused(event: Any) -> None:
    with pytest.raises(OptionsError, match="unknown hook event"):
        Hooks({event: [handler]})


@pytest.mark.anyio
async def test_an_event_of_a_newer_cli_gets_its_input_and_answers_unchanged() -> None:
    seen: list[HookInput] = []
    answer = {"continue_": True, "hookSpecificOutput": {"hookEventName": "Frobnicated", "brandNew": 1}}

    def on_frobnicated(input: HookInput, context: HookContext) -> Any:
        seen.append(input)
        return answer

    with pytest.warns(HookWarning, match="Frobnicated.*unknown") as caught:
        hooks = Hooks({"Frobnicated": [on_frobnicated]})
    assert caught[0].filename == __file__
    async with asking(hooks=hooks) as cli:
        (group,) = cli.hooks["Frobnicated"]
        data = {"hook_event_name": "Frobnicated", "session_id": "s", "brand": {"new": True}}
        reply = await cli.call_hook(data, group["hookCallbackIds"][0], "t")
    assert reply == {"continue": True, "hookSpecificOutput": answer["hookSpecificOutput"]}
    assert isinstance(seen[0], UnknownHookInput)
    assert seen[0].raw == data


def test_the_decorator_registers_and_gives_the_function_back() -> None:
    hooks = Hooks()

    @hooks.on("PreToolUse", matcher="Bash", timeout=2, on_failure="continue")
    def guard(input: PreToolUseInput, context: HookContext) -> None: ...

    [(event, matcher)] = hooks
    assert (event, matcher.pattern, matcher.timeout, matcher.on_failure) == ("PreToolUse", "Bash", 2, "continue")
    assert matcher.handlers == (guard,)


def test_shorthands_work_with_and_without_arguments() -> None:
    hooks = Hooks()

    @hooks.pre_tool_use("Bash|Write", timeout=2)
    async def guard(input: PreToolUseInput, context: HookContext) -> None: ...

    @hooks.stop
    def stop(input: StopInput, context: HookContext) -> None: ...

    @hooks.stop()
    def other(input: StopInput, context: HookContext) -> None: ...

    assert [(event, matcher.pattern, matcher.handlers) for event, matcher in hooks] == [
        ("PreToolUse", "Bash|Write", (guard,)),
        ("Stop", None, (stop,)),
        ("Stop", None, (other,)),
    ]


def test_every_event_has_a_shorthand() -> None:
    names = {event: name for event in HOOK_EVENTS for name in dir(Hooks) if name.replace("_", "") == event.lower()}
    assert tuple(names) == HOOK_EVENTS
    for event, name in names.items():
        hooks = Hooks()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HookWarning)
            getattr(hooks, name)(handler)
        assert [entry[0] for entry in hooks] == [event]


@pytest.mark.parametrize("event", [name for name, facts in HOOK_EVENT_FACTS.items() if facts.delivery == "never"])
def test_an_event_that_is_never_sent_warns_at_the_line_that_registers_it(event: str) -> None:
    with pytest.warns(HookWarning, match="never sends") as caught:
        Hooks({event: [handler]})
    assert caught[0].filename == __file__
    with pytest.warns(HookWarning, match=event) as caught:
        Hooks().on(event)(handler)
    assert caught[0].filename == __file__


def test_doubtful_hooks_warn() -> None:
    with pytest.warns(HookWarning, match="not been observed"):
        Hooks({"TeammateIdle": [handler]})
    with pytest.warns(HookWarning, match="'clear' and 'compact' only"):
        Hooks({"SessionStart": [handler]})
    with pytest.warns(HookWarning, match="did you mean 'Bash'"):
        Hooks({"PreToolUse": [HookMatcher("bash", handler)]})


def test_a_guard_that_fits_no_tool_is_refused_where_it_is_registered() -> None:
    with pytest.raises(OptionsError, match="permission rule"):
        Hooks({"PreToolUse": [HookMatcher("Bash(rm *)", handler)]})
    with pytest.raises(OptionsError, match="permission rule"):
        Hooks().pre_tool_use("Bash(rm *)")(handler)


@pytest.mark.anyio
async def test_a_hook_that_comes_too_late_for_a_session_warns() -> None:
    hooks = Hooks({"Stop": [handler]})
    async with asking(hooks=hooks):
        with pytest.warns(HookWarning, match=r"client\.hooks\.add") as caught:
            hooks.stop(handler)
        assert caught[0].filename == __file__
    async with asking(hooks=hooks) as cli:
        assert len(cli.hooks["Stop"]) == 2


def test_events_that_are_always_sent_cause_no_warning() -> None:
    always = [event for event, facts in HOOK_EVENT_FACTS.items() if facts.delivery == "always"]
    assert len(Hooks({event: [handler] for event in always})) == len(always) >= 22
