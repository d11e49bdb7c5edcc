"""Failures of user code: logged once, kept, told."""

import logging

import pytest

from claude_agent_py import Client
from claude_agent_py.errors import HandlerError


def failure(cause: Exception | None = None) -> HandlerError:
    error = HandlerError("my_hook", "ValueError: my mistake")
    error.__cause__ = cause
    return error


def test_a_failure_is_logged_once_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("my mistake")
    except ValueError as caught:
        cause = caught
    with caplog.at_level(logging.ERROR, logger="claude_agent_py"):
        Client().session.report(failure(cause))
    (record,) = caplog.records
    assert "my_hook" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is cause


def test_a_failure_without_a_cause_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="claude_agent_py"):
        Client().session.report(failure())
    assert [record.exc_info for record in caplog.records] == [None]


def test_the_last_thousand_failures_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    client = Client()
    errors = [failure() for _ in range(1001)]
    with caplog.at_level(logging.CRITICAL, logger="claude_agent_py"):
        for error in errors:
            client.session.report(error)
    assert client.handler_errors == errors[1:]
