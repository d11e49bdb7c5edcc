"""Run a session's hooks: map callback ids to handlers, parse inputs, and serialize outputs.

The CLI continues when a hook fails, and after some late ones, so a failing guard answers with a refusal, and the CLI
waits for it.
"""

import itertools
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from claude_agent_py._base.callbacks import Callback, answer_or_refuse
from claude_agent_py._base.errors import HandlerError
from claude_agent_py._base.streams import LazyEvent
from claude_agent_py._journal.requests import HOOKS_ABOUT_CALLS, HookRun
from claude_agent_py.hooks.by_event import Hook
from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.final_filter import FinalFilter
from claude_agent_py.hooks.matcher import WITHHOLDING, HookMatcher
from claude_agent_py.hooks.output_replacement import WrongShapeError, coerce_output, withhold_output
from claude_agent_py.hooks.registry import Hooks, check_hook
from claude_agent_py.tasks.handler_context import HandlerContext, extend
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.asks import HookCallbackRequest
from claude_agent_py.wire.hooks import outputs, parsing
from claude_agent_py.wire.hooks.events import HOOK_EVENT_FACTS

GRACE: Final = 5.0
"""Seconds added to our timeout for the CLI's timeout, so that our answer for a slow handler arrives first."""

UNLIMITED: Final = 1_000_000
"""The CLI's timeout in seconds for handlers whose failure blocks. A shorter one may expire while this program is busy
or stopped, and the model then reads the output that the handler had to withhold."""


@dataclass(frozen=True)
class _RegisteredHook:
    event: str
    matcher: HookMatcher
    handler: Callback
    is_builtin: bool = False
    """Whether the hook implements an option. Child agents do not inherit it, and its runs are not reported."""


class HookDispatcher:
    """Answer the hook callbacks of one session.

    Args:
        hooks: The `hooks` option: a dict by event, a `Hooks`, or None. Copied.
        report: Called with the error of each handler that fails. Must not raise.
        on_run: Called after each call of a handler. Must not raise.
        builtin: The hooks that implement options, by event.
        final_filter: A change to a tool's output after all hooks. One of `builtin` must match the tool.

    Raises:
        OptionsError: A hook is invalid.
    """

    def __init__(
        self,
        hooks: Hooks | Mapping[str, object] | None,
        *,
        report: Callable[[HandlerError], object],
        on_run: Callable[[HookRun], object] | None = None,
        builtin: Iterable[tuple[str, HookMatcher]] = (),
        final_filter: FinalFilter | None = None,
    ) -> None:
        self._report = report
        self._on_run = on_run
        self._ids = itertools.count()
        self._registered: dict[str, _RegisteredHook] = {}
        self._removed: set[str] = set()
        self._final_filter = final_filter
        self._withholding: dict[anyio.CancelScope, LazyEvent] = {}
        """The pending calls that withhold an output if they fail, and what is set when they have been answered."""
        for event, matcher in Hooks.of(hooks).take():
            self._register(event, matcher)
        for event, matcher in builtin:
            self._register(event, matcher, is_builtin=True)

    def __bool__(self) -> bool:
        """Return whether any hook is registered."""
        return bool(self._registered)

    # Registering -------------------------------------------------------------------------------------------------

    def add(self, event: str, matcher: Hook) -> HookMatcher:
        """Add a hook and return its matcher, which `remove` takes. Raises OptionsError if it is invalid.

        In a running session, use `LiveHooks`, which also notifies the CLI.
        """
        checked = check_hook(event, matcher)
        self._register(event, checked)
        return checked

    def remove(self, matcher: HookMatcher, *, keep: Collection[str] = ()) -> bool:
        """Remove a hook and return whether it was registered. A late call of a removed hook gets an empty answer.

        The same matcher may have been added more than once: `keep` are the ids of the additions that stay.
        """
        ids = [key for key, entry in self._registered.items() if entry.matcher is matcher and key not in keep]
        for key in ids:
            del self._registered[key]
        self._removed.update(ids)
        return bool(ids)

    @property
    def ids(self) -> frozenset[str]:
        """The callback ids of all hooks."""
        return frozenset(self._registered)

    def _register(self, event: str, matcher: HookMatcher, *, is_builtin: bool = False) -> None:
        events = matcher.only_for if event in matcher.only_for[:1] else (event,)
        known = {entry.event for entry in self._registered.values() if matcher.only_for and entry.matcher is matcher}
        for each, handler in itertools.product(events, matcher.handlers):
            if each not in known:
                entry = _RegisteredHook(each, matcher, Callback(handler), is_builtin)
                self._registered[f"hook_{next(self._ids)}"] = entry

    @property
    def registered(self) -> list[tuple[str, HookMatcher]]:
        """The events and matchers of the user's hooks, in insertion order."""
        entries = (entry for entry in self._registered.values() if not entry.is_builtin)
        return list(dict.fromkeys((entry.event, entry.matcher) for entry in entries))

    @property
    def by_event(self) -> dict[str, list[HookMatcher]]:
        """The user's hooks in the form of the option `hooks`."""
        found: dict[str, list[HookMatcher]] = {}
        for event, matcher in self.registered:
            found.setdefault(event, []).append(matcher)
        return found

    @property
    def has_guard(self) -> bool:
        """Whether a `guard` watches the tool calls."""
        return any(matcher.only_for for _, matcher in self.registered)

    @property
    def may_replace_output(self) -> bool:
        """Whether a hook of the user may replace or withhold the output of tools."""
        return any(event in WITHHOLDING for event, _ in self.registered)

    def find(self, event: str, name: str) -> "dict[str, HookMatcher]":
        """Return the matchers of the user's hooks for an event about `name`, by callback id."""
        return {
            callback_id: entry.matcher
            for callback_id, entry in self._registered.items()
            if entry.event == event and not entry.is_builtin and entry.matcher.matches(name)
        }

    def initialize_field(self, *, without: HookMatcher | None = None) -> dict[str, list[JSONObject]]:
        """Return the `hooks` field of the `initialize` request, leaving out the matcher `without`."""
        groups: dict[tuple[str, int], JSONObject] = {}
        for callback_id, entry in self._registered.items():
            if entry.matcher is without:
                continue
            group = groups.setdefault((entry.event, id(entry.matcher)), _build_group(entry))
            group["hookCallbackIds"].append(callback_id)
        field: dict[str, list[JSONObject]] = {}
        for (event, _), group in groups.items():
            field.setdefault(event, []).append(group)
        return field

    def prepare(self) -> None:
        """Build the models, so that the first call of each hook is not delayed."""
        for event in {entry.event for entry in self._registered.values()}:
            parsing.prepare(event)

    # Answering ---------------------------------------------------------------------------------------------------

    async def answer(self, request: HookCallbackRequest, context: HandlerContext) -> JSONObject:
        """Run the handler and return the reply. A handler's failure is reported and does not raise.

        Cancelling cancels the handler.
        """
        callback_id, data = request.callback_id, request.input
        entry = self._registered.get(callback_id)
        if entry is None:
            return self._answer_unknown(callback_id, str(data.get("hook_event_name")))
        started = time.monotonic()
        output, error = await self._call_filtered(entry, data, request.tool_use_id, context)
        if self._on_run is not None and not entry.is_builtin:
            run = HookRun(
                event=entry.event,
                handler=entry.handler.name,
                callback_id=callback_id,
                request_id=context.request_id,
                agent_id=context.agent_id,
                duration=time.monotonic() - started,
                output=output,
                error=error,
            )
            self._on_run(run)
        return output

    async def _call_filtered(
        self, entry: _RegisteredHook, data: Mapping[str, object], tool_use_id: str | None, context: HandlerContext
    ) -> tuple[JSONObject, HandlerError | None]:
        """Call the handler, and apply the final filter if it concerns the tool call."""
        final = self._final_filter
        if final is None or not tool_use_id or not final.concerns(entry.event, data):
            return await self._call(entry, data, tool_use_id, context)
        final.begin(tool_use_id, self._count_hooks(entry.event, final))
        try:
            output, error = await self._call(entry, data, tool_use_id, context)
        except BaseException:
            final.forget(tool_use_id)
            raise
        return final.end(tool_use_id, data, output), error

    async def _call(
        self, entry: _RegisteredHook, data: Mapping[str, object], tool_use_id: str | None, context: HandlerContext
    ) -> tuple[JSONObject, HandlerError | None]:
        """Call the handler, and return the reply and the failure, if any."""
        if entry.event not in HOOKS_ABOUT_CALLS:
            tool_use_id = None
        call = entry.handler.call_and_read(
            parsing.parse_hook_input(dict(data)),
            extend(context, HookContext, event=entry.event, tool_use_id=tool_use_id),
            read=partial(_read_output, entry.event, data),
            timeout=entry.matcher.timeout,
            cancellation=context.cancellation,
        )
        if entry.event in WITHHOLDING and entry.matcher.blocks(entry.event):
            call = self._call_unless_withheld(entry, call)
        return await answer_or_refuse(call, partial(_build_failure_output, entry, data), self._report)

    async def _call_unless_withheld(self, entry: _RegisteredHook, call: Awaitable[JSONObject]) -> JSONObject:
        scope = anyio.CancelScope()
        ended = self._withholding[scope] = LazyEvent()
        try:
            with scope:
                return await call
        finally:
            del self._withholding[scope]
            ended.set()
        raise HandlerError(entry.handler.name, "the hooks of the session changed before it answered")

    async def withhold_pending(self) -> None:
        """Fail the pending calls that can withhold an output: the CLI would pass it on when it drops their hooks."""
        pending = dict(self._withholding)
        for scope in pending:
            scope.cancel()
        for ended in pending.values():
            await ended.wait()

    def fail(self, fields: Mapping[str, object], reason: str, cause: BaseException | None = None) -> JSONObject:
        """Report a handler whose request could not be read or whose answer could not be sent. Return the reply.

        `fields` are those of the request that can be read.
        """
        callback_id, given = fields.get("callback_id"), fields.get("input")
        data: JSONObject = given if isinstance(given, dict) else {}
        if not isinstance(callback_id, str):
            return self._fail_unidentified(reason)
        entry = self._registered.get(callback_id)
        if entry is None:
            return self._answer_unknown(callback_id, str(data.get("hook_event_name")))
        failure = HandlerError(entry.handler.name, reason)
        failure.__cause__ = cause
        self._report(failure)
        return _build_failure_output(entry, {"hook_event_name": entry.event, **data}, failure)

    def _fail_unidentified(self, reason: str) -> JSONObject:
        """Return the reply to a request that names no hook: it stops everything if any hook blocks on failure."""
        failure = HandlerError("hooks", reason)
        self._report(failure)
        if not any(entry.matcher.blocks(entry.event) for entry in self._registered.values()):
            return {}
        notice = f"Blocked: a hook failed: {reason}."
        return outputs.HookOutput(continue_=False, stop_reason=notice, decision="block", reason=notice).to_wire()

    def _count_hooks(self, event: str, final_filter: FinalFilter) -> int:
        entries = (entry for entry in self._registered.values() if entry.event == event)
        return sum(any(entry.matcher.matches(name) for name in final_filter.names) for entry in entries)

    def _answer_unknown(self, callback_id: str, event: str) -> JSONObject:
        if callback_id in self._removed:
            return {}
        self._report(HandlerError(callback_id, f"the CLI called an unregistered {event} hook"))
        blocked = parsing.blocking_output(event, "Blocked: this hook is not registered.")
        return {} if blocked is None else blocked.to_wire()


def _build_group(entry: _RegisteredHook) -> JSONObject:
    group: JSONObject = {"hookCallbackIds": []}
    if entry.matcher.pattern is not None:
        group["matcher"] = entry.matcher.pattern
    if entry.matcher.blocks(entry.event):
        group["timeout"] = UNLIMITED
        if entry.event not in WITHHOLDING:
            group["onFailure"] = "block"
    elif entry.matcher.timeout is not None:
        group["timeout"] = math.ceil(min(entry.matcher.timeout, UNLIMITED) + GRACE)
    return group


def _read_output(event: str, data: Mapping[str, object], value: object) -> JSONObject:
    if value is None:  # what most hooks return
        return {}
    if event not in HOOK_EVENT_FACTS and isinstance(value, Mapping):
        renamed = {"continue_": "continue", "async_": "async"}  # the official SDK's names
        return {renamed.get(str(name), str(name)): each for name, each in value.items()}
    output = parsing.parse_hook_output(event, value)
    if isinstance(output, outputs.PostToolUseOutput):
        output = coerce_output(data, output)
    return output.to_wire()


def _build_failure_output(entry: _RegisteredHook, data: Mapping[str, object], error: HandlerError) -> JSONObject:
    """Return the reply to a failure: a refusal for a guard, otherwise an empty output."""
    output: outputs.HookOutput | None = None
    if _withholds(entry, error):
        output = withhold_output(data, f"Output withheld: the hook {error.handler} failed: {error.reason}.")
    elif entry.matcher.blocks(entry.event):
        output = parsing.blocking_output(entry.event, f"Blocked: the hook {error.handler} failed: {error.reason}.")
    return {} if output is None else output.to_wire()


def _withholds(entry: _RegisteredHook, error: HandlerError) -> bool:
    """Return whether a failure hides the tool's output from the model."""
    if entry.event not in WITHHOLDING:
        return False
    # The handler tried to replace the output, probably to redact it, so do not show the original.
    tried_to_replace = isinstance(error.__cause__, WrongShapeError) and entry.matcher.on_failure is None
    return tried_to_replace or entry.matcher.blocks(entry.event)
