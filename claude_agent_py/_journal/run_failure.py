"""Classify results: which error, if any.

An API failure is a result with `subtype: "success"` and `is_error: true`, so the class also depends on
`terminal_reason`, the HTTP status and the `error` of the last assistant message.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final, NamedTuple

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
"""Those that are less specific than the status."""

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


class RunFailure(NamedTuple):
    """Why a run failed."""

    error: str
    """The name of the error class."""
    text: str
    resets_at: float | None = None
    """When a rate limit resets, in seconds since the epoch, if known."""


def find_failure(result: ResultMessage, messages: Sequence[object]) -> RunFailure | None:
    """Return the failure that a result reports, or None on success.

    `messages` are those of the run: the last assistant message has the error of the API, and a rate limit
    message the time of the reset.
    """
    if is_fine(result):
        return None
    readable = messages[:]  # iterating raises if some were dropped on a full disk
    turn = _last_turn(result, readable)
    if not result.is_error:
        return _find_hook_stop(result, turn)
    error_message = _last_error_message(turn)
    error = _classify(result, error_message, turn)
    if error == "InterruptedRunError":  # the CLI's text is about its internals
        return RunFailure(error, f"the run was interrupted ({result.terminal_reason})")
    failure = RunFailure(error, _text(result, error_message))
    if error == "RateLimitedError":
        failure = failure._replace(resets_at=_resets_at(readable))
    return failure


def is_fine(result: ResultMessage) -> bool:
    """Return whether the model answered and the turn completed."""
    return not result.is_error and bool(result.num_turns) and result.terminal_reason not in BY_TERMINAL_REASON


def _find_hook_stop(result: ResultMessage, turn: list[object]) -> RunFailure | None:
    """Return the failure of a turn that a hook ended, or whose prompt a hook blocked, or None.

    The CLI reports both as a success, although there is no answer.
    """
    for message in turn:
        outcome = message.prompt_submit_outcome if isinstance(message, InformationalMessage) else None
        if outcome is not None and outcome.kind:
            reason = f": {outcome.reason}" if outcome.reason else ""
            return RunFailure("HookStoppedError", f"a hook blocked the prompt ({outcome.kind}){reason}")
    if BY_TERMINAL_REASON.get(result.terminal_reason or "") == "HookStoppedError":
        return RunFailure("HookStoppedError", f"a hook ended the run ({result.terminal_reason})")
    return None


def _last_turn(result: ResultMessage, messages: Sequence[object]) -> list[object]:
    """Return the messages of the turn that the result ends; a run may have several turns."""
    heard = list(takewhile(lambda message: message != result, messages))
    begins = [number for number, message in enumerate(heard, 1) if isinstance(message, ResultMessage)]
    return heard[max(begins, default=0) :]


def _classify(result: ResultMessage, error_message: AssistantMessage | None, turn: list[object]) -> str:
    """Return the name of the error class, by what ended the turn, the CLI's error name, or the HTTP status."""
    status = int(result.api_error_status or 0)
    error_name = str(error_message.error) if error_message else ""
    api_error = result.api_error or (error_message.api_error if error_message else None) or ""
    # The most specific fact first: why the turn ended, then the API's error, then the status, which many errors share.
    candidates = (
        BY_STOP_REASON.get(result.stop_reason or ""),
        "RefusalError" if any(isinstance(m, ModelRefusalNoFallbackMessage) for m in turn) else None,
        BY_SUBTYPE.get(result.subtype),
        BY_TERMINAL_REASON.get(result.terminal_reason or ""),
        BY_API_ERROR.get(api_error),
        BY_ASSISTANT_ERROR.get(error_name),
        BY_STATUS.get(status),
        BY_VAGUE_ERROR.get(error_name),
        "ServerError" if status >= 500 else None,
    )
    return next((c for c in candidates if c is not None), "RunError")


def _last_error_message(turn: list[object]) -> AssistantMessage | None:
    for message in reversed(turn):
        if isinstance(message, AssistantMessage) and message.error and not message.is_subagent:
            return message
    return None


def _text(result: ResultMessage, error_message: AssistantMessage | None) -> str:
    """Return the error text, from the CLI if it has one."""
    text = result.result or "; ".join(result.errors or ())
    if not text and error_message is not None:
        text = error_message.text
    if not text:
        text = f"the run ended with {result.subtype}"
    details: list[str] = []
    if result.terminal_reason:
        details.append(result.terminal_reason)
    if result.api_error_status:
        details.append(f"HTTP {result.api_error_status}")
    return f"{text} ({', '.join(details)})" if details else text


def _resets_at(messages: Sequence[object]) -> float | None:
    for message in reversed(messages):
        if isinstance(message, RateLimitMessage | AssistantMessage):
            limit = message.rate_limit_info
            if limit is not None and limit.resets_at is not None:
                return float(limit.resets_at)
    return None
