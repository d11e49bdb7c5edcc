"""Changing the hooks of a session that runs."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from asking_cli import AskingCLI, asking, hook_call

from claude_agent_py import HookContext, HookMatcher, guard
from claude_agent_py.errors import ControlRejectedError, OptionsError
from claude_agent_py.hooks import HookInput
from claude_agent_py.permissions import deny_tools
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio


def handler(input: HookInput, context: HookContext) -> dict[str, Any]:
    return {"reason": "asked"}


class CLI:
    """Answers `initialize`, and asks every hook that it knows while it does."""

    def __init__(self) -> None:
        self.cli: AskingCLI
        self.known: dict[str, Any] = {}
        self.told: list[Any] = []
        self.reply: dict[str, Any] | Exception = {"hooks_applied": True}
        self.asked: list[str] = []

    def initialize(self, request: dict[str, Any]) -> Any:
        new = request.get("hooks") or {}
        if not hasattr(self, "cli"):  # the session opens
            self.known = new
            return frames.initialize_response()
        self.told.append(new)
        for hooks in (self.known, new):
            for event, groups in hooks.items():
                for callback_id in (one for group in groups for one in group["hookCallbackIds"]):
                    self.asked.append(self.cli.start_asking(hook_call({"hook_event_name": event}, callback_id)))
        if not isinstance(self.reply, Exception) and self.reply["hooks_applied"]:
            self.known = new
        return self.reply


async def test_a_hook_is_never_asked_in_vain() -> None:
    cli = CLI()
    async with asking(hooks={"Stop": [handler]}, answers={"initialize": cli.initialize}) as cli.cli:
        hooks = cli.cli.client.hooks
        matcher = await hooks.add("Stop", HookMatcher(None, handler))
        assert [len(groups) for groups in cli.known.values()] == [2]
        assert await hooks.remove(matcher)
        assert cli.known == {"Stop": [{"hookCallbackIds": ["hook_0"]}]}
        assert not await hooks.remove(matcher)
        assert len(cli.told) == 2
        assert cli.asked
        assert all([await cli.cli.reply_to(asked) == {"reason": "asked"} for asked in cli.asked])
        assert cli.cli.client.handler_errors == []


@pytest.mark.parametrize("reply", [{"hooks_applied": False}, ControlRejectedError("initialize", "no")])
async def test_a_cli_that_refuses_changes_nothing(reply: Any) -> None:
    cli = CLI()
    async with asking(answers={"initialize": cli.initialize}) as cli.cli:
        hooks = cli.cli.client.hooks
        first = await hooks.add("Stop", handler)
        before = cli.known
        cli.reply = reply
        with pytest.raises(ControlRejectedError):
            await hooks.add("Stop", handler)
        with pytest.raises(ControlRejectedError):
            await hooks.remove(first)
        assert cli.known == before
        cli.reply = {"hooks_applied": True}
        second = await hooks.add("Stop", handler)
        assert await hooks.remove(second)
        assert cli.known == before


@pytest.mark.parametrize("make", [lambda: HookMatcher(None, handler), lambda: guard(deny_tools("*"))])
async def test_an_addition_that_fails_leaves_the_same_hook_where_it_was(make: Callable[[], HookMatcher]) -> None:
    cli, matcher = CLI(), make()
    async with asking(hooks={"PreToolUse": [matcher]}, answers={"initialize": cli.initialize}) as cli.cli:
        cli.reply = {"hooks_applied": False}
        for event in ("PreToolUse", "PreToolUse" if matcher.only_for else "Stop"):
            with pytest.raises(ControlRejectedError):
                await cli.cli.client.hooks.add(event, matcher)
        call = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "tool_use_id": "t1"}
        answer = await cli.cli.reply_to(cli.cli.start_asking(hook_call(call, "hook_0")))
    assert answer != {}


async def test_invalid_hooks_are_refused_before_the_cli_is_asked() -> None:
    cli = CLI()
    async with asking(answers={"initialize": cli.initialize}) as cli.cli:
        with pytest.raises(OptionsError):
            await cli.cli.client.hooks.add("Stopp", handler)
    assert cli.told == []


async def test_changes_do_not_overtake_one_another() -> None:
    cli = CLI()
    async with asking(answers={"initialize": cli.initialize}) as cli.cli, anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(cli.cli.client.hooks.add, "Stop", handler)
    assert [len(told["Stop"]) for told in cli.told] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("refusal", "is_refused"), [("Unsupported control request", False), ("not now", True)])
async def test_a_guard_needs_to_know_whether_hooks_run_unless_an_old_cli_cannot_tell(
    refusal: str, is_refused: bool
) -> None:
    guards = {"PreToolUse": [HookMatcher("Bash", handler)]}
    cli = asking(hooks=guards, answers={"get_hooks_listing": Exception(refusal)})
    if is_refused:
        with pytest.raises(OptionsError, match="does not report whether hooks run: not now"):
            async with cli:
                raise AssertionError("it starts")
    else:
        async with cli as started:
            assert started.requests("get_hooks_listing")
