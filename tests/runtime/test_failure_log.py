"""Failures of user code: logged once, kept, told."""

import logging

import pytest

from claude_agent_py._connection.failures import FailureLog
from claude_agent_py.errors import HandlerError
from claude_agent_py.messages import HandlerFailed


def failure(cause: Exception | None = None) -> HandlerError:
    error = HandlerError("my_hook", "ValueError: my mistake")
    error.__cause__ = cause
    return error


def ignore(error: HandlerFailed) -> None:
    """Do nothing with a failure."""


def test_a_failure_is_logged_once_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("my mistake")
    except ValueError as caught:
        cause = caught
    with caplog.at_level(logging.ERROR, logger="claude_agent_py"):
        FailureLog(ignore).report(failure(cause))
    (record,) = caplog.records
    assert "my_hook" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is cause


def test_a_failure_without_a_cause_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="claude_agent_py"):
        FailureLog(ignore).report(failure())
    assert [record.exc_info for record in caplog.records] == [None]


def test_failures_are_kept_and_told() -> None:
    told: list[HandlerFailed] = []
    above: list[HandlerError] = []
    log = FailureLog(told.append, kept=2, parent=above.append)
    errors = [failure() for _ in range(3)]
    for error in errors:
        log.report(error)
    assert list(log.errors) == errors[1:]
    assert above == errors
    assert told == [HandlerFailed(error.handler, error.reason) for error in errors]
