"""What a result says of its run: fine, or which error."""

import json
from typing import Any

import pytest
from recordings_loader import lines
from scene import result

from claude_agent_py import ResultMessage, errors
from claude_agent_py._connection.runs.result import ERRORS, make_error
from claude_agent_py._journal.run_failure import (
    BY_ASSISTANT_ERROR,
    BY_STATUS,
    BY_SUBTYPE,
    BY_TERMINAL_REASON,
    find_failure,
)
from claude_agent_py.errors import RunError
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

NOT_FROM_A_RESULT = {errors.PromptCancelledError, errors.RunTimeoutError, errors.UnreadableResultError}
"""These say that no result came, or none that can be read."""


def messages(*said: dict[str, Any]) -> list[Any]:
    return [decode(json.dumps(frame).encode()) for frame in said]


def error_of(judged: ResultMessage, heard: list[Any]) -> RunError | None:
    found = find_failure(judged, heard)
    return None if found is None else make_error(found)


def error_after(*said: dict[str, Any]) -> RunError | None:
    """Judge the last of these frames."""
    heard = messages(*said)
    assert isinstance(heard[-1], ResultMessage), heard[-1]
    return error_of(heard[-1], heard)


def failure(text: str = "no", **fields: Any) -> dict[str, Any]:
    return result(text, **({"is_error": True, "terminal_reason": "api_error"} | fields))


def spoken(kind: str, text: str = "no", **fields: Any) -> dict[str, Any]:
    return frames.assistant(text, error=kind, is_api_error_message=True, **fields)


# Recordings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected", "words"),
    [
        ("control/05_err_400", errors.InvalidRequestError, "bad thing (api_error, HTTP 400)"),
        ("control/05_err_413", errors.InvalidRequestError, "Request too large"),
        ("control/03_set_model_then_404", errors.ModelNotFoundError, "no-such-model-xyz"),
        ("control/05_ratelimit_rejected", errors.RateLimitedError, "You've hit your 5-hour limit"),
        ("control/05_err_529_exhausted", errors.OverloadedError, "529 Overloaded"),
        ("control/05_conn_refused", errors.ServerError, "Connection refused"),
        ("turns/stream_fails_for_good", errors.ServerError, "Connection to the API was lost"),
        ("control/05_no_auth", errors.AuthenticationError, "Not logged in"),
        ("control/05_stop_max_tokens_forever", errors.MaxOutputTokensError, "128000 output token maximum"),
        ("control/05_max_turns", errors.MaxTurnsError, "Reached maximum number of turns (1)"),
        ("control/05_max_budget", errors.BudgetExceededError, "Reached maximum budget ($0.01)"),
        ("control/06_user_20mb", errors.PromptTooLongError, "Prompt is too long"),
        ("control/04_interrupt_before_first_byte", errors.InterruptedRunError, "aborted_streaming"),
        ("control/08_sigint_twice", errors.InterruptedRunError, "aborted_tools"),
        ("turns/stream_interrupted", errors.InterruptedRunError, "aborted_streaming"),
        ("control/09_resume_at_bad", RunError, "No message found with message.uuid"),
    ],
)
def test_the_first_bad_result_of_a_recording(name: str, expected: type[RunError], words: str) -> None:
    heard = [decode(line) for line in lines(name)]
    bad = next(message for message in heard if isinstance(message, ResultMessage) and message.is_error)
    error = error_of(bad, heard)
    assert type(error) is expected
    assert words in str(error)


@pytest.mark.parametrize(
    "name",
    [
        "control/05_refusal",  # the model answered after all
        "control/05_err_500_once",
        "control/05_err_529_fallback",
        "control/05_sse_error_event",
        "control/05_stop_pause_turn",
        "control/04_queue_now",  # aborted, but because the next prompt was urgent
        "turns/two_shells",
    ],
)
def test_recordings_of_what_went_well_in_the_end(name: str) -> None:
    heard = [decode(line) for line in lines(name)]
    results = [message for message in heard if isinstance(message, ResultMessage)]
    assert results
    assert [error_of(one, heard) for one in results] == [None] * len(results)


def test_a_prompt_that_a_hook_blocked_is_no_success() -> None:
    heard = [decode(line) for line in lines("turns/prompt_blocked")]
    found = [error_of(message, heard) for message in heard if isinstance(message, ResultMessage)]
    assert [type(error) for error in found if error is not None] == [errors.HookStoppedError]


@pytest.mark.parametrize("reason", ["hook_stopped", "stop_hook_prevented"])
def test_a_run_that_a_hook_ended_is_no_success(reason: str) -> None:
    error = error_after(result("", terminal_reason=reason))
    assert type(error) is errors.HookStoppedError
    assert str(error) == f"a hook ended the run ({reason})"


def test_a_rate_limit_says_when_it_resets() -> None:
    heard = [decode(line) for line in lines("control/05_ratelimit_rejected")]
    bad = next(message for message in heard if isinstance(message, ResultMessage))
    error = error_of(bad, heard)
    assert isinstance(error, errors.RateLimitedError)
    assert error.resets_at is not None
    assert error.resets_at > 1_700_000_000


# The tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("subtype", "expected"), BY_SUBTYPE.items())
def test_by_subtype(subtype: str, expected: str) -> None:
    assert type(error_after(failure(subtype=subtype, terminal_reason=None))) is ERRORS[expected]


@pytest.mark.parametrize(("reason", "expected"), BY_TERMINAL_REASON.items())
def test_by_terminal_reason(reason: str, expected: str) -> None:
    assert type(error_after(failure(terminal_reason=reason, subtype="error_during_execution"))) is ERRORS[expected]


@pytest.mark.parametrize(("status", "expected"), [*BY_STATUS.items(), (500, "ServerError"), (503, "ServerError")])
def test_by_the_status_of_the_api(status: int, expected: str) -> None:
    assert type(error_after(spoken("unknown"), failure(api_error_status=status))) is ERRORS[expected]


@pytest.mark.parametrize(("kind", "expected"), BY_ASSISTANT_ERROR.items())
def test_by_what_the_assistant_message_calls_the_error(kind: str, expected: str) -> None:
    assert type(error_after(spoken(kind), failure())) is ERRORS[expected]


@pytest.mark.parametrize(
    "said",
    [
        [failure(stop_reason="refusal")],
        [
            frames.system(
                "model_refusal_no_fallback", content="", original_model="m", fallback_model="n", trigger="refusal"
            ),
            failure(),
        ],
    ],
    ids=["stop reason", "message"],
)
def test_a_refusal(said: list[dict[str, Any]]) -> None:
    assert type(error_after(*said)) is errors.RefusalError


def test_every_error_class_can_be_reached() -> None:
    reached: set[type[RunError]] = {errors.RefusalError, errors.ServerError}
    for table in (BY_SUBTYPE, BY_TERMINAL_REASON, BY_STATUS, BY_ASSISTANT_ERROR):
        reached |= {ERRORS[name] for name in table.values()}
    assert reached == set(RunError.__subclasses__()) - NOT_FROM_A_RESULT


# What outweighs what ---------------------------------------------------------------------------------------------


def test_a_result_that_is_no_error_has_none_whatever_else_was_said() -> None:
    assert error_after(spoken("rate_limit"), result("fine", terminal_reason="aborted_tools")) is None


def test_the_terminal_reason_outweighs_the_status_and_the_status_the_name() -> None:
    assert type(error_after(spoken("server_error"), failure(api_error_status=529))) is errors.OverloadedError
    hit = failure(terminal_reason="max_turns", api_error_status=529)
    assert type(error_after(hit)) is errors.MaxTurnsError


def test_an_unknown_failure_is_a_plain_run_error() -> None:
    error = error_after(spoken("brand_new"), failure("hm", terminal_reason="brand_new", api_error_status=418))
    assert type(error) is RunError
    assert str(error) == "hm (brand_new, HTTP 418)"


def test_a_retry_makes_sense_for_what_passes() -> None:
    retryable = {cls for cls in RunError.__subclasses__() if cls.is_retryable}
    assert retryable == {errors.RateLimitedError, errors.OverloadedError, errors.ServerError}


def test_an_error_of_a_subagent_is_not_the_runs() -> None:
    error = error_after(spoken("rate_limit", agent_id="t", parent_tool_use_id="toolu_t"), failure())
    assert type(error) is RunError


@pytest.mark.parametrize("position", ["before", "after"])
def test_another_turn_of_the_run_says_nothing_of_this_one(position: str) -> None:
    other = [spoken("rate_limit"), failure("limit")]
    this = [spoken("server_error"), failure("server")]
    heard = messages(*other, *this) if position == "before" else messages(*this, *other)
    mine = next(message for message in heard if isinstance(message, ResultMessage) and message.result == "server")
    assert type(error_of(mine, heard)) is errors.ServerError


def test_a_result_that_is_not_among_the_messages_is_judged_by_all_that_came_after_the_last_one() -> None:
    (alone,) = messages(failure())
    assert type(error_of(alone, messages(failure("other"), spoken("overloaded")))) is errors.OverloadedError


# Words -----------------------------------------------------------------------------------------------------------


def test_the_words_are_the_clis() -> None:
    assert str(error_after(failure("boom", api_error_status=500))) == "boom (api_error, HTTP 500)"
    several = result("", subtype="error_during_execution", errors=["one", "two"], terminal_reason=None)
    assert str(error_after(several)) == "one; two"
    assert str(error_after(spoken("unknown", "said before"), failure("", terminal_reason=None))) == "said before"


def test_without_details_the_subtype_decides() -> None:
    silent = result("", subtype="error_during_execution", errors=[], terminal_reason=None)
    assert str(error_after(silent)) == "the run ended with error_during_execution"
