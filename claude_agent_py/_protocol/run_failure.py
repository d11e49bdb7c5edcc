"""Classify results: which error, if any.

An API failure is a result with `subtype: "success"` and `is_error: true`, so the class also depends on
`terminal_reason`, the HTTP status and the `error` of the last assistant message.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage
from claude_agent_py.wire.messages.occasional import RateLimitMessage
from claude_agent_py.wire.messages.system import InformationalMessage, ModelRefusalNoFallbackMessage

BY_SUBTYPE: Final[dict[str, str]] = {
    "error_max_turns": "MaxTurnsError",
    "error_max_budget_usd": "BudgetExceededError",
    "error_max_structured_output_retries": "StructuredOutputError",
}

BY_TERMINAL_REASON: Final[dict[str, str]] = {
    "aborted_streaming": "InterruptedRunError",
    "aborted_tools": "InterruptedRunError",
    "max_turns": "MaxTurnsError",
    "budget_exhausted": "BudgetExceededError",
    "blocking_limit": "PromptTooLongError",
    "prompt_too_long": "PromptTooLongError",
    "rapid_refill_breaker": "PromptTooLongError",
    "image_error": "InvalidRequestError",
    "structured_output_retry_exhausted": "StructuredOutputError",
    "hook_stopped": "HookStoppedError",
    "stop_hook_prevented": "HookStoppedError",
}

BY_API_ERROR: Final[dict[str, str]] = {
    "org_disabled_credential": "BillingError",
}

BY_STOP_REASON: Final[dict[str, str]] = {
    "refusal": "RefusalError",
    "model_context_window_exceeded": "PromptTooLongError",
}

BY_ASSISTANT_ERROR: Final[dict[str, str]] = {
    "authentication_failed": "AuthenticationError",
    "oauth_org_not_allowed": "AuthenticationError",
    "verification_required": "AuthenticationError",
    "cloud_credential_error": "AuthenticationError",
    "billing_error": "BillingError",
    "account_on_hold": "BillingError",
    "rate_limit": "RateLimitedError",
    "overloaded": "OverloadedError",
    "model_not_found": "ModelNotFoundError",
    "max_output_tokens": "MaxOutputTokensError",
}
"""Error classes by the CLI's error name, which may be more specific than the status: an empty account is a 400."""

BY_VAGUE_ERROR: Final[dict[str, str]] = {
    "invalid_request": "InvalidRequestError",
    "server_error": "ServerError",
}

BY_STATUS: Final[dict[int, str]] = {
    400: "InvalidRequestError",
    401: "AuthenticationError",
    402: "BillingError",
    403: "AuthenticationError",
    404: "ModelNotFoundError",
    413: "InvalidRequestError",
    429: "RateLimitedError",
    529: "OverloadedError",
}


class Failure(NamedTuple):
    """Why a run failed."""

    error: str
    """The name of the error class."""
    text: str
    resets_at: float | None = None
    """When a rate limit resets, in seconds since the epoch, if known."""


def find_failure(result: ResultMessage, messages: Sequence[Any]) -> Failure | None:
    """Return the failure that a result reports, or None on success.

    `messages` are those of the run: the last assistant message has the error of the API, and a rate limit
    message the time of the reset.
    """
    if is_fine(result):
        return None
    history = messages[:]  # iterating raises if some were dropped on a full disk
    turn = _last_turn(result, history)
    if not result.is_error:
        return _find_hook_stop(result, turn)
    spoken = _last_error_message(turn)
    error = _classify(result, spoken, turn)
    if error == "InterruptedRunError":  # the CLI's text is about its internals
        return Failure(error, f"the run was interrupted ({result.terminal_reason})")
    return Failure(error, _text(result, spoken), _resets_at(history) if error == "RateLimitedError" else None)


def is_fine(result: ResultMessage) -> bool:
    """Return whether the model answered and the turn completed."""
    return not result.is_error and bool(result.num_turns) and result.terminal_reason not in BY_TERMINAL_REASON


def _find_hook_stop(result: ResultMessage, turn: list[Any]) -> Failure | None:
    """Return the failure of a turn that a hook ended, or whose prompt a hook blocked, or None.

    The CLI reports both as a success, although there is no answer.
    """
    outcomes = [m.prompt_submit_outcome for m in turn if isinstance(m, InformationalMessage)]
    kept = next((outcome for outcome in outcomes if outcome is not None and outcome.kind), None)
    if kept is not None:
        reason = f": {kept.reason}" if kept.reason else ""
        return Failure("HookStoppedError", f"a hook blocked the prompt ({kept.kind}){reason}")
    if BY_TERMINAL_REASON.get(result.terminal_reason or "") == "HookStoppedError":
        return Failure("HookStoppedError", f"a hook ended the run ({result.terminal_reason})")
    return None


def _last_turn(result: ResultMessage, history: Sequence[Any]) -> list[Any]:
    """Return the messages of the turn that the result ends; a run may have several turns."""
    turn: list[Any] = []
    for message in history:
        if not isinstance(message, ResultMessage):
            turn.append(message)
        elif message == result:
            break
        else:
            turn = []
    return turn


def _classify(result: ResultMessage, spoken: AssistantMessage | None, turn: list[Any]) -> str:
    """Return the name of the error class, by what ended the turn, the CLI's error name, or the HTTP status."""
    status = int(result.api_error_status or 0)
    said = str(spoken.error) if spoken else ""
    candidates = (
        BY_STOP_REASON.get(result.stop_reason or ""),
        "RefusalError" if any(isinstance(m, ModelRefusalNoFallbackMessage) for m in turn) else None,
        BY_SUBTYPE.get(result.subtype),
        BY_TERMINAL_REASON.get(result.terminal_reason or ""),
        BY_API_ERROR.get(result.api_error or (spoken.api_error if spoken else None) or ""),
        BY_ASSISTANT_ERROR.get(said),
        BY_STATUS.get(status),
        BY_VAGUE_ERROR.get(said),
        "ServerError" if status >= 500 else None,
    )
    return next((c for c in candidates if c is not None), "RunError")


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


def _resets_at(history: Sequence[Any]) -> float | None:
    kinds = (RateLimitMessage, AssistantMessage)
    limits = (m.rate_limit_info for m in reversed(history) if isinstance(m, kinds))
    return next((float(i.resets_at) for i in limits if i is not None and i.resets_at is not None), None)
