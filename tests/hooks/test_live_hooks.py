"""Changing the hooks of a session that runs."""

from typing import Any

import anyio
import pytest

from claude_agent_py import HookContext, HookMatcher
from claude_agent_py.errors import ControlRejectedError, HandlerError, OptionsError
from claude_agent_py.hooks import HookInput, LiveHooks
from claude_agent_py.hooks.dispatcher import HookDispatcher
from claude_agent_py.tasks.handler_context import HandlerContext

pytestmark = pytest.mark.anyio


def handler(input: HookInput, context: HookContext) -> dict[str, Any]:
    return {"reason": "asked"}


def no_failure(error: HandlerError) -> None:
    pytest.fail(str(error))


class CLI:
    """Answers `initialize`, and asks every hook that it knows while it does."""

    def __init__(self, dispatcher: HookDispatcher) -> None:
        self.dispatcher = dispatcher
        self.known: dict[str, Any] = dispatcher.initialize_field()
        self.told: list[Any] = []
        self.reply: dict[str, Any] | Exception = {"hooks_applied": True}
        self.answers: list[Any] = []

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> dict[str, Any]:
        if subtype == "get_hooks_listing":
            return {}
        assert subtype == "initialize"
        self.told.append(fields["hooks"])
        for hooks in (self.known, fields["hooks"]):
            for event, groups in hooks.items():
                for callback_id in (one for group in groups for one in group["hookCallbackIds"]):
                    context = HandlerContext(request_id="r")
                    data = {"hook_event_name": event}
                    self.answers.append(await self.dispatcher.answer(callback_id, data, None, context))
        if isinstance(self.reply, Exception):
            raise self.reply
        if self.reply["hooks_applied"]:
            self.known = fields["hooks"]
        return self.reply


async def test_a_hook_is_never_asked_in_vain() -> None:
    dispatcher = HookDispatcher({"Stop": [handler]}, report=no_failure)
    cli = CLI(dispatcher)
    hooks = LiveHooks(dispatcher, cli)
    matcher = await hooks.add("Stop", HookMatcher(None, handler))
    assert [len(groups) for groups in cli.known.values()] == [2]
    assert await hooks.remove(matcher)
    assert cli.known == {"Stop": [{"hookCallbackIds": ["hook_0"]}]}
    assert not await hooks.remove(matcher)
    assert len(cli.told) == 2
    assert cli.answers
    assert all(answer == {"reason": "asked"} for answer in cli.answers)


@pytest.mark.parametrize("reply", [{"hooks_applied": False}, ControlRejectedError("initialize", "no")])
async def test_a_cli_that_refuses_changes_nothing(reply: Any) -> None:
    dispatcher = HookDispatcher(None, report=no_failure)
    cli = CLI(dispatcher)
    hooks = LiveHooks(dispatcher, cli)
    first = await hooks.add("Stop", handler)
    before = dispatcher.initialize_field()
    cli.reply = reply
    with pytest.raises(ControlRejectedError):
        await hooks.add("Stop", handler)
    with pytest.raises(ControlRejectedError):
        await hooks.remove(first)
    assert dispatcher.initialize_field() == before == cli.known


async def test_mistakes_are_told_before_the_cli_is() -> None:
    dispatcher = HookDispatcher(None, report=no_failure)
    cli = CLI(dispatcher)
    with pytest.raises(OptionsError):
        await LiveHooks(dispatcher, cli).add("Stopp", handler)
    assert cli.told == []


async def test_changes_do_not_overtake_one_another() -> None:
    dispatcher = HookDispatcher(None, report=no_failure)
    cli = CLI(dispatcher)
    hooks = LiveHooks(dispatcher, cli)
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(hooks.add, "Stop", handler)
    assert [len(told["Stop"]) for told in cli.told] == [1, 2, 3, 4, 5]
