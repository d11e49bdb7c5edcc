"""Changing the hooks of a session that runs.

Owns the order of things: a new hook can answer before the CLI knows of it, and one that goes answers until the CLI
knows that it is gone, so that a guard is never asked in vain. The CLI takes the whole set anew each time; hooks that
are pending at that moment it withdraws, of whatever event. It does not run the tool calls that they guard, nor send the
prompts; for other events a withdrawn hook had no opinion.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from claude_agent_py.errors import ControlRejectedError, OptionsError
from claude_agent_py.hooks.dispatcher import HookDispatcher
from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.protocol.ports import ControlPort

if TYPE_CHECKING:
    from claude_agent_py.hooks.handler_types import Hook


async def check_in_force(port: ControlPort, *, timeout: float | None = None) -> None:
    """Check that the CLI calls hooks at all. A CLI that is too old to say so passes.

    In bare mode it calls none, and still answers `hooks_applied`. Settings files can bring it there, too.

    Raises:
        OptionsError: It calls none, or refuses to say.
        ControlError: It cannot be asked.
    """
    try:
        listing = await port.control("get_hooks_listing", timeout=timeout)
    except ControlRejectedError as error:
        if "unsupported" in f"{error.error_code} {error.error}".lower():
            return
        raise OptionsError(f"the CLI does not say whether they are in force: {error.error}", option="hooks") from error
    bare = listing.get("bareMode")
    if bare is not None:
        hint = bare.get("exitHint") if isinstance(bare, Mapping) else None
        raise OptionsError(
            f"the CLI would call none of them: it runs in bare mode ({hint or 'it does not say why'}). The variable "
            "CLAUDE_CODE_SIMPLE in the user's settings or in a file of settings does that, too",
            option="hooks",
        )


class LiveHooks:
    """The hooks of a running session. Its methods may be called from any number of workers at once."""

    def __init__(self, dispatcher: HookDispatcher, port: ControlPort) -> None:
        self._dispatcher = dispatcher
        self._port = port
        self._one_at_a_time = anyio.Lock()

    async def add(self, event: str, matcher: "Hook") -> HookMatcher:
        """Add a hook, and give its matcher, by which it can be removed. It is in force when this returns.

        Raises:
            OptionsError: The event is not known, the matcher is wrong, or the CLI runs in a mode without hooks.
            ControlError: The CLI could not be told; nothing has changed.
        """
        async with self._one_at_a_time:
            added = self._dispatcher.add(event, matcher)
            try:
                await check_in_force(self._port)
                await self._tell(self._dispatcher.initialize_field())
            except BaseException:
                self._dispatcher.remove(added)
                raise
            return added

    async def remove(self, matcher: HookMatcher) -> bool:
        """Remove a hook; False where it was not there. It does not run any more when this returns.

        Raises:
            ControlError: The CLI could not be told; nothing has changed.
        """
        async with self._one_at_a_time:
            if not self._dispatcher.has(matcher):
                return False
            await self._tell(self._dispatcher.initialize_field(without=matcher))
            return self._dispatcher.remove(matcher)

    async def _tell(self, field: dict[str, Any]) -> None:
        reply = await self._port.control("initialize", hooks=field)
        if reply.get("hooks_applied") is False:
            raise ControlRejectedError("initialize", "this connection may not change the hooks of the session")
