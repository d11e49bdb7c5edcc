"""`HookMatcher`: handlers, the pattern that selects their events, a timeout, and the behaviour on failure.

Invalid hooks raise `OptionsError` when they are registered. Matchers of the official SDK (a dict or object with
`matcher` and `hooks`) are accepted too.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Literal, Never, TypeAlias, cast

from typing_extensions import TypeVar

from claude_agent_py._base.callbacks import Callback, callback_name, check_two_arguments, takes_arguments
from claude_agent_py._base.checks import check_seconds
from claude_agent_py._base.errors import OptionsError
from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.patterns import find_name_problem, find_syntax_problem, matches
from claude_agent_py.hooks.signatures import HookHandler
from claude_agent_py.wire.hooks.events import HOOK_EVENT_FACTS

Input = TypeVar("Input", contravariant=True, default=Any)
OnFailure: TypeAlias = Literal["block", "continue"]
"""What happens if a hook raises or times out: its event is blocked, or continues."""

BLOCKS_BY_DEFAULT = frozenset({"PreToolUse", "PermissionRequest", "UserPromptSubmit", "PreSkillShellCommand"})
"""Guards: when their handler fails, the guarded action is blocked, unless the matcher overrides it."""

WITHHOLDING = frozenset({"PostToolUse"})
"""Events that guard what the model reads: a blocking failure replaces it with a notice."""

OPTION = "hooks"
_INSTEAD = {
    "matcher": (
        "; the pattern comes first: HookMatcher('Bash', handler). "
        "The arguments of the official SDK's HookMatcher work as a dict: {'matcher': 'Bash', 'hooks': [callback]}"
    ),
    "hooks": "; handlers come second: HookMatcher('Bash', [handler, ...])",
}
_PORT = (
    "A callback (input_data, tool_use_id, context) of the official SDK works unchanged as "
    "{'matcher': 'Bash', 'hooks': [callback]}; a handler takes (input, context) and reads context.tool_use_id"
)
_OFFICIAL_KEYS = frozenset({"matcher", "hooks", "timeout", "on_failure", "onFailure"})


class HookMatcher(Generic[Input]):
    """Handlers for the events that a pattern matches. `Input` is the type of their input.

    Args:
        pattern: Exact names (`"Bash"`, `"Write|Edit"`), or a JavaScript regular expression (`"mcp__.*"`) that means the
            same in Python; None matches all. The CLI compares it with the tool's name, or with another field for some
            events (see the table in `docs/hooks.md`).
        handler: One handler or several; several run concurrently.
        timeout: Time limit of a handler in seconds. None sets no limit if a failure blocks; otherwise the CLI stops
            waiting after 600 s.
        on_failure: The behaviour if a handler raises, times out, or returns an invalid answer. `"block"` stops the
            guarded action (for PostToolUse: the model reads a notice instead of the output), `"continue"` reports the
            error and continues. None means `"block"` for PreToolUse, PermissionRequest, UserPromptSubmit and
            PreSkillShellCommand, and `"continue"` for all others.
        unknown: Rejected, with a hint for users of the official SDK's `HookMatcher`.

    Raises:
        OptionsError: The pattern, a handler or a value is invalid.
    """

    __slots__ = ("handlers", "on_failure", "only_for", "pattern", "timeout")

    def __init__(
        self,
        pattern: str | None = None,
        handler: "HookHandler[Input] | Iterable[HookHandler[Input]]" = (),
        *,
        timeout: float | None = None,
        on_failure: OnFailure | None = None,
        **unknown: Never,
    ) -> None:
        for name in unknown:
            raise OptionsError(f"HookMatcher has no {name}{_INSTEAD.get(name, '')}", option=OPTION)
        self.pattern: str | None = _check_pattern(pattern)
        self.handlers: tuple[HookHandler, ...] = tuple(_check_handler(function) for function in _as_iterable(handler))
        self.timeout: float | None = check_seconds(timeout, "timeout")
        if on_failure not in (None, "block", "continue"):
            raise OptionsError(f"on_failure must be 'block' or 'continue', not {on_failure!r}", option=OPTION)
        self.on_failure = on_failure
        self.only_for: tuple[str, ...] = ()
        """The events that the handlers of a guard can answer. Empty means any; the first implies the others."""
        if not self.handlers:
            raise OptionsError("a HookMatcher needs a handler", option=OPTION)

    def __repr__(self) -> str:
        names = ", ".join(callback_name(handler) for handler in self.handlers)
        return f"HookMatcher({self.pattern!r}, {names}, timeout={self.timeout}, on_failure={self.on_failure!r})"

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches a name, by the CLI's rules. Where Python cannot tell, it does."""
        return matches(self.pattern, name)

    def blocks(self, event: str) -> bool:
        """Return whether a failing handler blocks the action that `event` guards."""
        if self.on_failure is None:
            return event in BLOCKS_BY_DEFAULT
        return self.on_failure == "block"


def read_matcher(value: object) -> HookMatcher:
    """Return a `HookMatcher` for a handler, a matcher, or one of the official SDK. Raises OptionsError for others."""
    if isinstance(value, HookMatcher):
        return value
    if isinstance(value, Mapping):
        return _read_official(value)
    if hasattr(value, "matcher") and hasattr(value, "hooks"):
        return _read_official({key: getattr(value, key) for key in _OFFICIAL_KEYS if hasattr(value, key)})
    if callable(value):
        return HookMatcher(None, _check_handler(value))
    raise OptionsError(f"a hook must be a handler or a HookMatcher, not {type(value).__name__}", option=OPTION)


def check_event(event: str, matcher: HookMatcher) -> None:
    """Raise OptionsError if a matcher does not suit the event.

    Refuses `on_failure="block"` for an event that guards nothing, a pattern that cannot match any tool, and a guard
    for another event than PreToolUse and PreSkillShellCommand.
    """
    if matcher.only_for and event not in matcher.only_for:
        names = ", ".join(callback_name(handler) for handler in matcher.handlers)
        raise OptionsError(f"{names} decides before a tool runs: it belongs to {matcher.only_for[0]}", option=OPTION)
    _refuse(matcher.pattern, find_name_problem(event, matcher.pattern or ""))
    guarding = [name for name, facts in HOOK_EVENT_FACTS.items() if facts.block or name in WITHHOLDING]
    if matcher.on_failure == "block" and event not in guarding:
        guards = ", ".join(guarding)
        raise OptionsError(
            f"on_failure='block' does not apply to {event}, which guards nothing that is known; it applies to {guards}",
            option=OPTION,
        )


# Checks ----------------------------------------------------------------------------------------------------------


def _as_iterable(handler: object) -> Iterable[object]:
    if callable(handler) or not isinstance(handler, Iterable):
        return (handler,)
    return handler


def _check_pattern(pattern: object) -> str | None:
    if pattern is None:
        return None
    if not isinstance(pattern, str):
        raise OptionsError(
            f"the pattern of a HookMatcher must be a string or None, not {type(pattern).__name__}; "
            "use HookMatcher(None, handler) for a hook without a pattern",
            option=OPTION,
        )
    _refuse(pattern, find_syntax_problem(pattern))
    return pattern


def _refuse(pattern: str | None, problem: str | None) -> None:
    if problem is not None:
        raise OptionsError(f"the pattern {pattern!r} would match nothing: {problem}", option=OPTION)


def _check_handler(handler: object) -> "HookHandler":
    if not callable(handler):
        raise OptionsError(f"a hook handler must be a function, not {type(handler).__name__}", option=OPTION)
    try:
        check_two_arguments(handler, "the input and the context", port=_PORT)
    except ValueError as error:
        raise OptionsError(f"the hook handler {error}", option=OPTION) from None
    if _is_policy(handler):
        name = callback_name(handler)
        raise OptionsError(f"{name} is a permission policy, not a hook handler; use guard({name})", option=OPTION)
    return cast("HookHandler", handler)


def _is_policy(handler: Callable[..., object]) -> bool:
    """Return whether a function takes a `PermissionRequest`, according to its annotations."""
    try:
        first = next(iter(inspect.signature(handler).parameters.values()))
    except ValueError:
        # Some functions written in C have no signature.
        return False
    named = getattr(first.annotation, "__name__", first.annotation)
    return isinstance(named, str) and named.rpartition(".")[2] == "PermissionRequest"


# The official SDK ------------------------------------------------------------------------------------------------


def _read_official(value: Mapping[Any, Any]) -> HookMatcher:
    unknown = [str(key) for key in value if key not in _OFFICIAL_KEYS]
    if unknown or "hooks" not in value:
        raise OptionsError(
            f"a hook dict needs 'hooks' and may have {sorted(_OFFICIAL_KEYS - {'hooks'})}; "
            f"got {sorted(map(str, value))}",
            option=OPTION,
        )
    return HookMatcher(
        value.get("matcher"),
        [adapt_official(handler) for handler in _as_iterable(value["hooks"])],
        timeout=value.get("timeout"),
        on_failure=value.get("on_failure", value.get("onFailure")),
    )


def adapt_official(handler: object) -> "HookHandler":
    """Wrap a callback of the official SDK, `(input dict, tool_use_id, context)`.

    Other handlers are returned unchanged.
    """
    if not callable(handler) or not takes_arguments(handler, 3):
        return _check_handler(handler)
    callback = Callback(handler)

    async def adapted(data: Any, context: HookContext) -> Any:
        return await callback.call(dict(data.raw), context.tool_use_id, {"signal": None})

    adapted.__module__ = str(getattr(handler, "__module__", ""))
    adapted.__qualname__ = callback.name
    return adapted
