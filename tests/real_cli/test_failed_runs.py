"""Runs that fail, against the real CLI: no login, failures as text ends, limits that say when they reset, retries."""

import logging
import time

import anyio
import pytest
from one_session import OneSession
from peers import read_into

from claude_agent_py import AuthenticationError, Client, RateLimitedError, RetryPolicy, run
from claude_agent_py.errors import OverloadedError, RunFailed, ServerError
from claude_agent_py.testing import Failure, ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

ONCE = {"CLAUDE_CODE_MAX_RETRIES": "0"}


async def test_without_a_login_a_run_ends_at_once_and_says_how_to_get_one(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedModel(["never asked"]) as model, caplog.at_level(logging.WARNING, "claude_agent_py"):
        async with Client(model.options(env={"ANTHROPIC_API_KEY": ""})) as client:
            assert "neither an API key nor a login" in caplog.text  # before anything is asked
            with anyio.fail_after(240), pytest.raises(AuthenticationError, match="ANTHROPIC_API_KEY") as caught:
                await client.query("hi")
            assert client.is_open
    assert "claude auth login" in str(caught.value)
    assert "claude-agent-py demo" in str(caught.value)
    assert not model.requests


@pytest.mark.long
async def test_a_key_in_a_header_is_not_taken_for_a_missing_login(caplog: pytest.LogCaptureFixture) -> None:
    env = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_CUSTOM_HEADERS": "x-api-key: secret"}
    with ScriptedModel(["hello"]) as model, caplog.at_level(logging.WARNING, "claude_agent_py"), anyio.fail_after(240):
        assert (await run("hi", model.options(env=env))).text == "hello"
    assert not caplog.records


async def test_text_that_streams_raises_what_awaiting_raises_and_a_policy_tries_again() -> None:
    """That it does so without streaming is tested in `test_runs.py`."""
    pieces: list[str] = []
    one = OneSession()
    async with one.open(env=ONCE, include_partial_messages=True) as client:
        one.answers(*[Failure(529)] * 20)
        run = client.query("hi")
        with anyio.fail_after(240):
            with pytest.raises(OverloadedError) as read:
                await read_into(pieces, run.text_stream())
            with pytest.raises(OverloadedError) as awaited:
                await run
        assert pieces == []
        assert str(read.value) == str(awaited.value)

        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        one.answers(Failure(529), Failure(500), "Here I am.")
        policy = RetryPolicy(sleep=sleep, chance=lambda: 0.0)
        result = await policy.run(lambda: client.query("Are you there?"))
        assert result.text == "Here I am."
        assert waits == [1.0, 2.0]

        with pytest.raises(RunFailed) as caught:  # one except catches whatever ends a run
            await one.ask(Failure(500))
        assert isinstance(caught.value, ServerError)
        assert caught.value.result is not None
        assert caught.value.result.is_error

        # With an API key no frame carries the header (2.1.328), so that nobody here knows when the limit resets.
        with pytest.raises(RateLimitedError) as limited:
            await one.ask(Failure(429, retry_after=3600))
        assert limited.value.resets_at is None
        assert limited.value.is_retryable


async def test_a_usage_limit_says_when_it_resets() -> None:
    resets_at = int(time.time()) + 3600
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(resets_at),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "retry-after": "3600",
    }
    env = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-scripted"}
    with ScriptedModel([], on_exhausted=Failure(429, headers=headers)) as model, anyio.fail_after(240):
        with pytest.raises(RateLimitedError) as caught:
            await run("hi", model.options(env=env))
    assert caught.value.resets_at == resets_at
