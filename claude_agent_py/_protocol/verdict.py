"""Mapping results to error classes.

An API failure is a result with `subtype: "success"` and `is_error: true`, so the class also depends on
`terminal_reason`, the HTTP status and the `error` of the last assistant message.
"""

from collections.abc import Iterable
from typing import Any, Final

from claude_agent_py import errors
from claude_agent_py.errors import RunError
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage
from claude_agent_py.wire.messages.notices import RateLimitMessage
from claude_agent_py.wire.messages.system import InformationalMessage, ModelRefusalNoFallbackMessage

BY_SUBTYPE: Final[dict[str, type[RunError]]] = {
    "error_max_turns": errors.MaxTurnsError,
    "error_max_budget_usd": errors.BudgetExceededError,
    "error_max_structured_output_retries": errors.StructuredOutputError,
}

BY_TERMINAL_REASON: Final[dict[str, type[RunError]]] = {
    "aborted_streaming": errors.InterruptedRunError,
    "aborted_tools": errors.InterruptedRunError,
    "max_turns": errors.MaxTurnsError,
    "budget_exhausted": errors.BudgetExceededError,
    "blocking_limit": errors.PromptTooLongError,
    "prompt_too_long": errors.PromptTooLongError,
    "rapid_refill_breaker": errors.PromptTooLongError,
    "image_error": errors.InvalidRequestError,
    "structured_output_retry_exhausted": errors.StructuredOutputError,
    "hook_stopped": errors.HookStoppedError,
    "stop_hook_prevented": errors.HookStoppedError,
}

BY_API_ERROR: Final[dict[str, type[RunError]]] = {
    "org_disabled_credential": errors.BillingError,
}

BY_STOP_REASON: Final[dict[str, type[RunError]]] = {
    "refusal": errors.RefusalError,
    "model_context_window_exceeded": errors.PromptTooLongError,
}

BY_ASSISTANT_ERROR: Final[dict[str, type[RunError]]] = {
    "authentication_failed": errors.AuthenticationError,
    "oauth_org_not_allowed": errors.AuthenticationError,
    "verification_required": errors.AuthenticationError,
    "cloud_credential_error": errors.AuthenticationError,
    "billing_error": errors.BillingError,
    "account_on_hold": errors.BillingError,
    "rate_limit": errors.RateLimitedError,
    "overloaded": errors.OverloadedError,
    "model_not_found": errors.ModelNotFoundError,
    "max_output_tokens": errors.MaxOutputTokensError,
}
"""Error classes by the CLI's error name, which may be more specific than the status: an empty account is a 400."""

BY_VAGUE_ERROR: Final[dict[str, type[RunError]]] = {
    "invalid_request": errors.InvalidRequestError,
    "server_error": errors.ServerError,
}

BY_STATUS: Final[dict[int, type[RunError]]] = {
    400: errors.InvalidRequestError,
    401: errors.AuthenticationError,
    402: errors.BillingError,
    403: errors.AuthenticationError,
    404: errors.ModelNotFoundError,
    413: errors.InvalidRequestError,
    429: errors.RateLimitedError,
    529: errors.OverloadedError,
}


def error_of(result: ResultMessage, messages: Iterable[Any]) -> RunError | None:
    """Return the error of a result, or None on success.

    `messages` are those of the run: the last assistant message has the error of the API, and a rate limit
    message the time of the reset.
    """
    if is_fine(result):
        return None
    history = list(messages)
    turn = _turn_of(result, history)
    if not result.is_error:
        return _stopped_by_hook(result, turn)
    spoken = _last_error_message(turn)
    cls = _classify(result, spoken, turn)
    text = _text(result, spoken)
    if cls is errors.InterruptedRunError:  # the CLI's text is about its internals
        text = f"the run was interrupted ({result.terminal_reason})"
    if cls is errors.RateLimitedError:
        return errors.RateLimitedError(text, resets_at=_resets_at(history))
    return cls(text)


def is_fine(result: ResultMessage) -> bool:
    """Return whether the model answered and the turn completed."""
    return not result.is_error and bool(result.num_turns) and result.terminal_reason not in BY_TERMINAL_REASON


def _stopped_by_hook(result: ResultMessage, turn: list[Any]) -> RunError | None:
    """Return the error of a turn that a hook ended, or whose prompt a hook blocked, or None.

    The CLI reports both as a success, although there is no answer.
    """
    outcomes = [m.prompt_submit_outcome for m in turn if isinstance(m, InformationalMessage)]
    kept = next((outcome for outcome in outcomes if outcome is not None and outcome.kind), None)
    if kept is not None:
        reason = f": {kept.reason}" if kept.reason else ""
        return errors.HookStoppedError(f"a hook blocked the prompt ({kept.kind}){reason}")
    if BY_TERMINAL_REASON.get(result.terminal_reason or "") is errors.HookStoppedError:
        return errors.HookStoppedError(f"a hook ended the run ({result.terminal_reason})")
    return None


def _turn_of(result: ResultMessage, history: list[Any]) -> list[Any]:
    """Return the messages of the turn that the result ends; a run may have several turns."""
    results = [index for index, message in enumerate(history) if isinstance(message, ResultMessage)]
    end = next((index for index in results if history[index] == result), len(history))
    begin = max((index + 1 for index in results if index < end), default=0)
    return history[begin:end]


def _classify(result: ResultMessage, spoken: AssistantMessage | None, turn: list[Any]) -> type[RunError]:
    """Return the error class, by what ended the turn, the CLI's error name, or the HTTP status."""
    status = int(result.api_error_status or 0)
    said = str(spoken.error) if spoken else ""
    candidates = (
        BY_STOP_REASON.get(result.stop_reason or ""),
        errors.RefusalError if any(isinstance(m, ModelRefusalNoFallbackMessage) for m in turn) else None,
        BY_SUBTYPE.get(result.subtype),
        BY_TERMINAL_REASON.get(result.terminal_reason or ""),
        BY_API_ERROR.get(result.api_error or (spoken.api_error if spoken else None) or ""),
        BY_ASSISTANT_ERROR.get(said),
        BY_STATUS.get(status),
        BY_VAGUE_ERROR.get(said),
        errors.ServerError if status >= 500 else None,
    )
    return next((c for c in candidates if c is not None), RunError)


def _last_error_message(turn: list[Any]) -> AssistantMessage | None:
    spoken = (m for m in reversed(turn) if isinstance(m, AssistantMessage) and m.error and not m.is_subagent)
    return next(spoken, None)


def _text(result: ResultMessage, spoken: AssistantMessage | None) -> str:
    """Return the error text, from the CLI if it has one."""
    words = result.result or "; ".join(result.errors or ()) or (spoken.text if spoken else "")
    facts = [f for f in (result.terminal_reason, _status(result)) if f]
    head = words or f"the run ended with {result.subtype}"
    return f"{head} ({', '.join(facts)})" if facts else head


def _status(result: ResultMessage) -> str:
    return f"HTTP {result.api_error_status}" if result.api_error_status else ""


def _resets_at(history: list[Any]) -> float | None:
    kinds = (RateLimitMessage, AssistantMessage)
    limits = (m.rate_limit_info for m in reversed(history) if isinstance(m, kinds))
    return next((float(i.resets_at) for i in limits if i is not None and i.resets_at is not None), None)
