"""Running a handler whose failure must not go unnoticed."""

import threading
from typing import Any

import anyio
import pytest

from claude_agent_py.callbacks import Callback
from claude_agent_py.errors import HandlerError
from claude_agent_py.protocol.handlers import Cancellation

pytestmark = pytest.mark.anyio


def same(value: Any) -> Any:
    return value


async def test_the_answer_is_what_the_reader_makes_of_the_value() -> None:
    async def handler(a: int, b: int) -> int:
        return a + b

    assert await Callback(handler).answer(1, 2, read=str) == "3"


async def test_a_plain_function_runs_in_another_thread() -> None:
    assert await Callback(threading.get_ident).answer(read=same) != threading.get_ident()


async def test_an_exception_is_a_failure_with_its_cause_and_without_its_text() -> None:
    def handler() -> None:
        raise RuntimeError("sk-secret")

    with pytest.raises(HandlerError, match="raised RuntimeError") as caught:
        await Callback(handler).answer(read=same)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "sk-secret" not in str(caught.value)
    assert "handler" in caught.value.handler


async def test_rubbish_is_a_failure_that_says_why() -> None:
    with pytest.raises(HandlerError, match="no answer: invalid literal"):
        await Callback(lambda: "x").answer(read=int)


async def test_a_slow_async_handler_is_cancelled() -> None:
    cancelled = anyio.Event()

    async def handler() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with anyio.fail_after(5), pytest.raises(HandlerError, match=r"within 0\.01 s"):
        await Callback(handler).answer(read=same, timeout=0.01)
    assert cancelled.is_set()


async def test_a_slow_plain_handler_is_abandoned_and_can_notice() -> None:
    cancellation, noticed = Cancellation(), threading.Event()

    def handler() -> str:
        if cancellation.wait(5):
            noticed.set()
        return "too late"

    with anyio.fail_after(5), pytest.raises(HandlerError, match="did not answer"):
        await Callback(handler).answer(read=same, timeout=0.01, cancellation=cancellation)
    assert noticed.wait(5)


async def test_a_cancellation_of_the_caller_is_no_failure() -> None:
    started, failures = anyio.Event(), []

    async def handler() -> None:
        started.set()
        await anyio.sleep_forever()

    async def ask() -> None:
        try:
            await Callback(handler).answer(read=same, timeout=5)
        except HandlerError as error:
            failures.append(error)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await started.wait()
            group.cancel_scope.cancel()
    assert failures == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_the_handler_met_elsewhere_is_a_failure() -> None:
    import asyncio

    async def handler() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    with pytest.raises(HandlerError, match="raised CancelledError"):
        await Callback(handler).answer(read=same)


async def test_a_timeout_error_of_the_handler_is_not_taken_for_the_time_limit() -> None:
    async def handler() -> None:
        raise TimeoutError

    with pytest.raises(HandlerError, match="raised TimeoutError"):
        await Callback(handler).answer(read=same, timeout=5)
