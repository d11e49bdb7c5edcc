"""What a result says of its run: fine, or which error.

Owns the tables that turn the CLI's words into error classes. An API failure arrives as `subtype: "success"` with
`is_error: true`, so the subtype alone says little (`terminal_reason`, the HTTP status and the `error` of the last
assistant message say more). Pure; the twin that raises is `runs.py`.
"""

from collections.abc import Iterable
from typing import Any, Final

from claude_agent_py import errors
from claude_agent_py.errors import RunError
from claude_agent_py.wire.messages import AssistantMessage, ResultMessage
from claude_agent_py.wire.notices import RateLimitMessage
from claude_agent_py.wire.system import InformationalMessage, ModelRefusalNoFallbackMessage

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
"""What the CLI calls the failure, where that says more than the status: an empty account is a 400, for example."""

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
    """Return the error that a result stands for; None for one that is none.

    `messages` are those of the run: the last assistant message of the turn tells what the API said, a rate limit
    message when the limit resets.
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
    if cls is errors.InterruptedRunError:  # the CLI's own words are about its insides
        text = f"the run was interrupted ({result.terminal_reason})"
    if cls is errors.RateLimitedError:
        return errors.RateLimitedError(text, resets_at=_resets_at(history))
    return cls(text)


def is_fine(result: ResultMessage) -> bool:
    """Return whether a result needs no closer look: the model answered, and nothing ended the turn before its end."""
    return not result.is_error and bool(result.num_turns) and result.terminal_reason not in BY_TERMINAL_REASON


def _stopped_by_hook(result: ResultMessage, turn: list[Any]) -> RunError | None:
    """Return the error of a turn that a hook ended, or whose prompt a hook kept from the model.

    The CLI calls both a success: nothing failed. But there is no answer, and nobody should take it for one.
    """
    outcomes = [m.prompt_submit_outcome for m in turn if isinstance(m, InformationalMessage)]
    kept = next((outcome for outcome in outcomes if outcome is not None and outcome.kind), None)
    if kept is not None:
        reason = f": {kept.reason}" if kept.reason else ""
        return errors.HookStoppedError(f"a hook kept the prompt from the model ({kept.kind}){reason}")
    if BY_TERMINAL_REASON.get(result.terminal_reason or "") is errors.HookStoppedError:
        return errors.HookStoppedError(f"a hook ended the run ({result.terminal_reason})")
    return None


def _turn_of(result: ResultMessage, history: list[Any]) -> list[Any]:
    """Return the messages of the turn that the result ends: a run may have had others, before and after."""
    results = [index for index, message in enumerate(history) if isinstance(message, ResultMessage)]
    end = next((index for index in results if history[index] == result), len(history))
    begin = max((index + 1 for index in results if index < end), default=0)
    return history[begin:end]


def _classify(result: ResultMessage, spoken: AssistantMessage | None, turn: list[Any]) -> type[RunError]:
    """Find the class: what ended the turn, then what the failure is called, then the HTTP status."""
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
    """Say what happened, in the CLI's words where it has any."""
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
