"""The background work of a session: what fails is logged, and nothing begins once the session has ended."""

import logging
from typing import Any

import anyio
import pytest

from claude_agent_py._base.listeners import ListenerQueue
from claude_agent_py._connection.workers import Workers

pytestmark = pytest.mark.anyio


def live() -> tuple[Workers, list[BaseException]]:
    """Return the workers of an open session, and the errors that end it."""
    errors = list[BaseException]()
    workers = Workers(lambda: None, errors.append)
    workers.is_live = True
    return workers, errors


async def test_work_that_has_not_begun_when_the_session_ends_does_not_begin() -> None:
    workers, errors = live()
    begun = list[str]()

    async def work() -> None:
        begun.append("work")

    workers.start(work)
    await workers.end()
    await anyio.wait_all_tasks_blocked()
    assert (begun, errors) == ([], [])


async def test_background_work_that_fails_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    workers, errors = live()

    async def work() -> None:
        raise LookupError("not there")

    with caplog.at_level(logging.CRITICAL):
        workers.start_logged(work)
        await anyio.wait_all_tasks_blocked()
        await workers.end()
    assert errors == []


async def test_a_listener_that_comes_after_the_end_is_not_called() -> None:
    workers, _ = live()
    called = list[Any]()
    await workers.end()
    queue = ListenerQueue(called.append, called.append)
    queue.put("news")
    workers.deliver(queue)
    await anyio.wait_all_tasks_blocked()
    assert called == []
    assert not workers.listening
