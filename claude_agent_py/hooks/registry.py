"""`Hooks`: the hooks of a session before it starts, from a dict or from decorators."""

import difflib
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.hooks.by_event import Hook, HooksByEvent
from claude_agent_py.hooks.matcher import OPTION, HookMatcher, OnFailure, check_event, read_matcher
from claude_agent_py.hooks.patterns import find_likely_mistake
from claude_agent_py.hooks.shorthands import EventDecorators
from claude_agent_py.wire.hooks.events import HOOK_EVENT_FACTS, HOOK_EVENTS

Function = TypeVar("Function", bound=Callable[..., Any])


_OURS = frozenset({"claude_agent_py", "pydantic"})


class HookWarning(UserWarning):
    """A registered hook will not run, or will not run as expected."""


class Hooks(EventDecorators):
    """A collection of hooks.

        hooks = Hooks()

        @hooks.pre_tool_use("Bash|Write")
        async def guard(input: PreToolUseInput, context: HookContext) -> PreToolUseOutput | None: ...

        client = Client(ClientOptions(hooks=hooks))

    Each event has a decorator (`pre_tool_use`, `subagent_stop`, ...), which checks the types of the handler,
    and `on` for an event by its name. A session copies the hooks when it starts. Adding one later warns
    (`HookWarning`); use `client.hooks.add` to change a running session.
    """

    def __init__(self, hooks: HooksByEvent | Mapping[str, Sequence[Hook]] | None = None) -> None:
        self._entries: list[tuple[str, HookMatcher]] = []
        self._was_taken = False
        for event, matchers in (hooks or {}).items():
            for matcher in _check_list(event, matchers):
                self.add(event, matcher)

    @classmethod
    def of(cls, value: "Hooks | Mapping[str, Any] | None") -> "Hooks":
        """Return the `Hooks` for an option value. A `Hooks` is returned unchanged.

        Raises:
            OptionsError: A hook is invalid.
        """
        if isinstance(value, Hooks):
            return value
        if value is None or isinstance(value, Mapping):
            return cls(value)
        raise OptionsError(f"hooks must be a dict by event or a Hooks, not {type(value).__name__}", option=OPTION)

    def __iter__(self) -> Iterator[tuple[str, HookMatcher]]:
        """Iterate over (event, matcher) pairs in insertion order."""
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<Hooks for {', '.join(dict.fromkeys(event for event, _ in self._entries)) or 'no event'}>"

    def add(self, event: str, matcher: Hook) -> HookMatcher:
        """Add a hook and return its matcher.

        Raises:
            OptionsError: The event is misspelt or the matcher is invalid.
        """
        checked = check_hook(event, matcher)
        self._entries.append((event, checked))
        if self._was_taken:
            _warn(event, "sessions that have already started do not run this hook; use client.hooks.add")
        return checked

    def take(self) -> list[tuple[str, HookMatcher]]:
        """Return the hooks for a starting session. Additions after this call warn."""
        self._was_taken = True
        return list(self)

    def on(
        self,
        event: str,
        matcher: str | None = None,
        *,
        timeout: float | None = None,
        on_failure: OnFailure | None = None,
    ) -> Callable[[Function], Function]:
        """Register the decorated function for an event. Takes the arguments of `HookMatcher`.

        Raises:
            OptionsError: The event is misspelt or an argument is invalid.
        """
        check_event_name(event)

        def register(function: Function) -> Function:
            self.add(event, HookMatcher(matcher, function, timeout=timeout, on_failure=on_failure))
            return function

        return register


def check_hook(event: str, matcher: object) -> HookMatcher:
    """Return the matcher of a hook, and warn about likely mistakes. Raises OptionsError if the hook is invalid."""
    check_event_name(event)
    checked = read_matcher(matcher)
    check_event(event, checked)
    for text in _find_warnings(event, checked):
        _warn(event, text)
    return checked


def _warn(event: str, text: str) -> None:
    warnings.warn(f"hooks[{event!r}]: {text}", HookWarning, stacklevel=_find_stack_level())


def check_event_name(event: object) -> None:
    """Raise OptionsError for a name that is no event, or is close to one: a misspelt guard would guard nothing.

    A newer CLI may know other names.
    """
    if event in HOOK_EVENT_FACTS:
        return
    known = {name.lower(): name for name in HOOK_EVENTS}
    close = difflib.get_close_matches(re.sub(r"[\W_]", "", str(event)).lower(), known, n=1)
    if close or not isinstance(event, str) or not event.isidentifier():
        hint = f"did you mean {known[close[0]]!r}?" if close else f"the events are {', '.join(HOOK_EVENTS)}"
        raise OptionsError(f"unknown hook event {event!r}; {hint}", option=OPTION)


def _check_list(event: str, matchers: object) -> Iterable[Any]:
    if isinstance(matchers, str | Mapping) or not isinstance(matchers, Iterable):
        raise OptionsError(
            f"hooks[{event!r}] must be a list of handlers or HookMatchers, not {type(matchers).__name__}", option=OPTION
        )
    return matchers


def _find_warnings(event: str, matcher: HookMatcher) -> Iterator[str]:
    facts = HOOK_EVENT_FACTS.get(event)
    if facts is None:
        yield "the event is unknown; the hook gets an UnknownHookInput if the CLI sends it, and never runs otherwise"
        return
    if facts.delivery == "never":
        yield f"the CLI never sends this event to callbacks. {facts.note} Use a command hook in the settings."
    if facts.delivery == "unseen":
        yield f"the CLI has not been observed to send this event to callbacks. {facts.note}"
    mistake = find_likely_mistake(event, matcher.pattern or "")
    if mistake is not None:
        yield mistake


def _find_stack_level() -> int:
    """Return the stack level of the first caller outside this package and pydantic."""
    depth = 0
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        depth += 1
        frame = frame.f_back
    return depth
