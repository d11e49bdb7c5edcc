"""Add and remove hooks of a running session.

A new hook is registered before the CLI is notified, and a removed hook answers until the CLI has dropped it, so every
call of a guard gets an answer. Each time, the CLI replaces all hooks and withdraws the pending ones: it does not run
the tool calls or send the prompts that they guard, and continues for other events. So pending hooks that withhold an
output if they fail do so before.
"""

from collections.abc import Mapping
from typing import Final, Protocol

import anyio

from claude_agent_py._base.errors import ControlRejectedError, OptionsError
from claude_agent_py._journal.ports import ControlPort
from claude_agent_py.hooks.by_event import Hook
from claude_agent_py.hooks.dispatcher import HookDispatcher
from claude_agent_py.hooks.matcher import HookMatcher

SKILL_COMMANDS: Final = "PreSkillShellCommand"
SKILL_COMMANDS_OFF: Final = "disableSkillShellExecution"
"""The setting that replaces the shell commands in skills and custom commands by a notice."""


async def put_in_force(dispatcher: HookDispatcher, port: ControlPort, *, timeout: float | None = None) -> None:
    """Check that the CLI calls hooks at all. CLIs too old to report it pass.

    In bare mode the CLI calls no hooks but still answers `hooks_applied`. Settings files can enable that mode.

    If the CLI does not know the event for shell commands in skills, no guard would see them, so they are turned off.
    Measured: CLI 2.1.328 ignores hooks for an unknown event and lists the known ones; the setting acts at once.

    Raises:
        OptionsError: The CLI runs in bare mode or refuses the request.
        ControlError: The request fails.
    """
    try:
        listing = await port.control("get_hooks_listing", timeout=timeout)
    except ControlRejectedError as error:
        if "unsupported" not in f"{error.error_code} {error.error}".lower():
            raise OptionsError(f"the CLI does not report whether hooks run: {error.error}", option="hooks") from error
        listing = {}
    bare = listing.get("bareMode")
    if bare is not None:
        hint = bare.get("exitHint") if isinstance(bare, Mapping) else None
        raise OptionsError(
            f"the CLI runs in bare mode and calls no hooks ({hint or 'no reason given'}). The variable "
            "CLAUDE_CODE_SIMPLE in a settings file also enables bare mode",
            option="hooks",
        )
    catalog = listing.get("eventCatalog")
    events = catalog if isinstance(catalog, list) else []
    if dispatcher.has_guard and not any(isinstance(e, Mapping) and e.get("name") == SKILL_COMMANDS for e in events):
        await port.control("apply_flag_settings", timeout=timeout, settings={SKILL_COMMANDS_OFF: True})


class HookPort(ControlPort, Protocol):
    """Sends control requests to the CLI, and knows what answers its hooks."""

    @property
    def hooks(self) -> HookDispatcher:
        """Answers the hooks of the session."""
        ...


class LiveHooks:
    """The hooks of a running session. Concurrent calls are safe."""

    def __init__(self, port: HookPort) -> None:
        self._port = port
        self._one_at_a_time = anyio.Lock()

    async def add(self, event: str, matcher: Hook) -> HookMatcher:
        """Add a hook and return its matcher, which `remove` takes. The hook is active when this returns.

        Raises:
            OptionsError: The event is misspelt, the matcher is invalid, or the CLI runs in bare mode.
            ControlError: The CLI rejected the change; nothing has changed.
        """
        async with self._one_at_a_time:
            dispatcher = self._port.hooks
            known = dispatcher.ids
            added = dispatcher.add(event, matcher)
            try:
                await put_in_force(dispatcher, self._port)
                await self._send_hooks(dispatcher)
            except BaseException:
                dispatcher.remove(added, keep=known)
                raise
            return added

    async def remove(self, matcher: HookMatcher) -> bool:
        """Remove a hook and return whether it was registered. The hook no longer runs when this returns.

        Raises:
            ControlError: The CLI rejected the change; nothing has changed.
        """
        async with self._one_at_a_time:
            dispatcher = self._port.hooks
            if not any(known is matcher for _, known in dispatcher.registered):
                return False
            await self._send_hooks(dispatcher, without=matcher)
            return dispatcher.remove(matcher)

    async def _send_hooks(self, dispatcher: HookDispatcher, *, without: HookMatcher | None = None) -> None:
        await dispatcher.withhold_pending()
        reply = await self._port.control("initialize", hooks=dispatcher.initialize_field(without=without))
        if reply.get("hooks_applied") is False:
            raise ControlRejectedError("initialize", "this connection may not change the hooks of the session")
