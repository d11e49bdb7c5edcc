"""What a result says of its run: fine, or which error."""

from typing import Any

import pytest
from peers import start_in_memory
from recordings_loader import frames as recorded
from scene import result

from claude_agent_py import errors
from claude_agent_py.errors import RunError
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = pytest.mark.anyio

Frame = dict[str, Any]
NOT_FROM_A_RESULT = {errors.PromptCancelledError, errors.RunTimeoutError, errors.UnreadableResultError}
"""These say that no result came, or none that can be read."""
OF_A_TURN = {"assistant", "rate_limit_event", "result"}


async def errors_of(*turns: list[Frame], **how: Any) -> list[RunError | None]:
    """Return the errors of prompts that are answered with these messages."""
    script: list[Any] = [[steps.wait_for_prompt(), *map(frames.of_prompt, [frames.init(), *turn])] for turn in turns]
    found: list[RunError | None] = []
    async with start_in_memory(FakeCLI(*script)) as client:
        for _ in turns:
            try:
                await client.query("hi", **how)
                found.append(None)
            except RunError as error:
                found.append(error)
    return found


async def error_after(*said: Frame) -> RunError | None:
    """Return the error of a prompt that is answered with these messages."""
    [error] = await errors_of([*said])
    return error


def turns_of(name: str) -> list[list[Frame]]:
    """Return the messages of each turn of a recording."""
    turns: list[list[Frame]] = [[]]
    for frame in recorded(name):
        if frame["type"] in OF_A_TURN or frame.get("subtype") == "informational":
            turns[-1].append(frame)
        if frame["type"] == "result":
            turns.append([])
    return turns[:-1]


async def first_error(name: str) -> RunError:
    """Return the error of the first turn of a recording that fails."""
    return next(error for error in await errors_of(*turns_of(name)) if error is not None)


def failure(text: str = "no", **fields: Any) -> Frame:
    return result(text, **({"is_error": True, "terminal_reason": "api_error"} | fields))


def spoken(kind: str, text: str = "no", **fields: Any) -> Frame:
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
async def test_the_first_bad_result_of_a_recording(name: str, expected: type[RunError], words: str) -> None:
    error = await first_error(name)
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
async def test_recordings_of_what_went_well_in_the_end(name: str) -> None:
    turns = turns_of(name)
    assert turns
    assert await errors_of(*turns) == [None] * len(turns)


async def test_a_prompt_that_a_hook_blocked_is_no_success() -> None:
    assert type(await first_error("turns/prompt_blocked")) is errors.HookStoppedError


@pytest.mark.parametrize("reason", ["hook_stopped", "stop_hook_prevented"])
async def test_a_run_that_a_hook_ended_is_no_success(reason: str) -> None:
    error = await error_after(result("", terminal_reason=reason))
    assert type(error) is errors.HookStoppedError
    assert str(error) == f"a hook ended the run ({reason})"


async def test_a_rate_limit_says_when_it_resets() -> None:
    error = await first_error("control/05_ratelimit_rejected")
    assert isinstance(error, errors.RateLimitedError)
    assert error.resets_at is not None
    assert error.resets_at > 1_700_000_000


# The tables ------------------------------------------------------------------------------------------------------


BY_SUBTYPE = {
    "error_max_turns": errors.MaxTurnsError,
    "error_max_budget_usd": errors.BudgetExceededError,
    "error_max_structured_output_retries": errors.StructuredOutputError,
}
BY_TERMINAL_REASON = {
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
BY_STATUS = {
    400: errors.InvalidRequestError,
    401: errors.AuthenticationError,
    402: errors.BillingError,
    403: errors.AuthenticationError,
    404: errors.ModelNotFoundError,
    413: errors.InvalidRequestError,
    429: errors.RateLimitedError,
    529: errors.OverloadedError,
    500: errors.ServerError,
    503: errors.ServerError,
}
BY_ASSISTANT_ERROR = {
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
    "invalid_request": errors.InvalidRequestError,
    "server_error": errors.ServerError,
}


@pytest.mark.parametrize(("subtype", "expected"), BY_SUBTYPE.items())
async def test_by_subtype(subtype: str, expected: type[RunError]) -> None:
    assert type(await error_after(failure(subtype=subtype, terminal_reason=None))) is expected


@pytest.mark.parametrize(("reason", "expected"), BY_TERMINAL_REASON.items())
async def test_by_terminal_reason(reason: str, expected: type[RunError]) -> None:
    assert type(await error_after(failure(terminal_reason=reason, subtype="error_during_execution"))) is expected


@pytest.mark.parametrize(("status", "expected"), BY_STATUS.items())
async def test_by_the_status_of_the_api(status: int, expected: type[RunError]) -> None:
    assert type(await error_after(spoken("unknown"), failure(api_error_status=status))) is expected


@pytest.mark.parametrize(("kind", "expected"), BY_ASSISTANT_ERROR.items())
async def test_by_what_the_assistant_message_calls_the_error(kind: str, expected: type[RunError]) -> None:
    assert type(await error_after(spoken(kind), failure())) is expected


@pytest.mark.parametrize("position", ["result", "message"])
async def test_by_what_the_api_calls_the_error(position: str) -> None:
    named = {"api_error": "org_disabled_credential"}
    said = [spoken("unknown"), failure(**named)] if position == "result" else [spoken("unknown", **named), failure()]
    assert type(await error_after(*said)) is errors.BillingError


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
async def test_a_refusal(said: list[Frame]) -> None:
    assert type(await error_after(*said)) is errors.RefusalError


def test_every_error_class_can_be_reached() -> None:
    tables = (BY_SUBTYPE, BY_TERMINAL_REASON, BY_STATUS, BY_ASSISTANT_ERROR)
    reached = {errors.RefusalError, *(error for table in tables for error in table.values())}
    assert reached == set(RunError.__subclasses__()) - NOT_FROM_A_RESULT


# What outweighs what ---------------------------------------------------------------------------------------------


async def test_a_result_that_is_no_error_has_none_whatever_else_was_said() -> None:
    assert await error_after(spoken("rate_limit"), result("fine", terminal_reason="aborted_tools")) is None


async def test_the_terminal_reason_outweighs_the_status_and_the_status_the_name() -> None:
    assert type(await error_after(spoken("server_error"), failure(api_error_status=529))) is errors.OverloadedError
    hit = failure(terminal_reason="max_turns", api_error_status=529)
    assert type(await error_after(hit)) is errors.MaxTurnsError


async def test_an_unknown_failure_is_a_plain_run_error() -> None:
    error = await error_after(spoken("brand_new"), failure("hm", terminal_reason="brand_new", api_error_status=418))
    assert type(error) is RunError
    assert str(error) == "hm (brand_new, HTTP 418)"


def test_a_retry_makes_sense_for_what_passes() -> None:
    retryable = {cls for cls in RunError.__subclasses__() if cls.is_retryable}
    assert retryable == {errors.RateLimitedError, errors.OverloadedError, errors.ServerError}


async def test_an_error_of_a_subagent_is_not_the_runs() -> None:
    of_task = spoken("rate_limit", agent_id="t", parent_tool_use_id="toolu_t")
    error = await error_after(frames.task_started("t"), of_task, *frames.task_end("t"), failure())
    assert type(error) is RunError


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([spoken("rate_limit"), result("It answers.")], [spoken("server_error"), failure()], errors.ServerError),
        ([spoken("server_error"), failure()], [spoken("rate_limit"), failure("limit")], errors.ServerError),
        ([spoken("overloaded"), result("It answers.")], [failure()], RunError),
    ],
)
async def test_another_turn_of_the_run_says_nothing_of_this_one(
    first: list[Frame], second: list[Frame], expected: type[RunError]
) -> None:
    *said, last = second
    asked = [frames.task_started("a1"), *map(frames.of_prompt, first), frames.task_end("a1")]
    follow_up = [frames.init(), *said, last | {"origin": frames.task_origin("a1")}]
    async with start_in_memory(FakeCLI(steps.wait_for_prompt(), asked, follow_up)) as client:
        with pytest.raises(RunError) as caught:
            await client.query("hi", until="idle")
    assert type(caught.value) is expected
    assert len(caught.value.result.results) == 2


# Words -----------------------------------------------------------------------------------------------------------


async def test_the_words_are_the_clis() -> None:
    assert str(await error_after(failure("boom", api_error_status=500))) == "boom (api_error, HTTP 500)"
    several = result("", subtype="error_during_execution", errors=["one", "two"], terminal_reason=None)
    assert str(await error_after(several)) == "one; two"
    assert str(await error_after(spoken("unknown", "said before"), failure("", terminal_reason=None))) == "said before"


async def test_without_details_the_subtype_decides() -> None:
    silent = result("", subtype="error_during_execution", errors=[], terminal_reason=None)
    assert str(await error_after(silent)) == "the run ended with error_during_execution"
