"""Sessions on the processes of a pool: whose they are, what happens if there are none, and that all are given back."""

import asyncio
import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.lowlevel
import pytest
from cancelling import cancel_in_a_row
from serving import TOKEN, served
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp
from test_agui import Page, say
from test_sessions import LIMIT, facts_of, is_end, read_until

from claude_agent_py import ClientOptions
from claude_agent_py.errors import (
    ClaudeAgentError,
    ConnectionClosedError,
    OptionsError,
    PoolTimeoutError,
    SessionNotFoundError,
)
from claude_agent_py.pool import Pool, PoolStats
from claude_agent_py.serve import ServedSession, Sessions, make_agui_app, make_app
from claude_agent_py.testing import FakeCLI, Gate, RecordedRequest, Reply, ScriptedModel, steps

SERVED: Any = {"include_partial_messages": True, "interactions": True}


async def until(pool: Pool, holds: Callable[[PoolStats], bool]) -> None:
    with anyio.fail_after(LIMIT):
        while not holds(pool.stats()):
            await anyio.sleep(0.01)


def fakes(*script: Any) -> ClientOptions:
    cli = FakeCLI(*(script or [steps.turn("done")]))
    return ClientOptions(cli_path="claude", spawn=lambda plan: cli.transport(), **SERVED)


def tell(request: RecordedRequest) -> Reply:
    """Tell how many messages of users the conversation has, and the last one."""
    count = sum(message["role"] == "user" for message in request.messages)
    return Reply(f"{count}: {request.last_user_text}")


async def ask(session: ServedSession, prompt: str) -> str:
    position = f"{session.epoch}.{session.log.last}"
    await session.send(prompt)
    text: str = (await read_until(session, is_end, position))[-1][1]["text"]
    return text


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_cancellations_by_asyncio_in_a_row_leave_no_process_lent(anyio_backend: str) -> None:
    """They come when a process has just been lent."""
    async with Pool(fakes(), size=1, max_size=2) as pool:
        await pool.ready()
        creating = asyncio.create_task(Sessions(pool).create())
        while not pool.stats().used:
            await asyncio.sleep(0)
        await cancel_in_a_row(creating)
        await asyncio.wait([creating])
        assert creating.cancelled()
        await until(pool, lambda stats: not stats.used)


@pytest.mark.anyio
@pytest.mark.real_cli
async def test_users_never_share_a_conversation_and_a_spare_answers_without_a_start() -> None:
    async with ScriptedModel(tell) as model, Pool(model.options(**SERVED), size=1, max_size=3) as pool:
        await pool.ready()
        async with Sessions(pool) as sessions:
            ann = await sessions.create(user="ann")
            assert (ann.state, pool.stats().warm) == ("idle", 1)
            bob = await sessions.create(user="bob", session_id=str(uuid4()))
            assert bob.state == "closed"
            for session in (ann, bob):
                assert await ask(session, f"I am {session.owner}") == f"1: I am {session.owner}"
            assert (pool.stats().used, pool.stats().cold) == (2, 1)
            for mine, other in ((ann, "bob"), (bob, "ann")):
                with pytest.raises(SessionNotFoundError):
                    await sessions.get(mine.id, user=other)
        assert pool.stats().used == 0
        # Another server finds what is stored by the same id.
        async with Sessions(pool, owns=lambda user, session_id: session_id == ann.id) as sessions:
            again = await sessions.get(ann.id, user="ann")
            assert await ask(again, "Still here") == "2: Still here"
            with pytest.raises(SessionNotFoundError):
                await sessions.get(bob.id, user="bob")


@pytest.mark.long
@pytest.mark.anyio
@pytest.mark.real_cli
async def test_an_idle_session_gives_its_process_to_another_and_a_busy_one_lets_it_wait() -> None:
    gate = Gate()
    async with ScriptedModel([Reply("Busy.", after=gate), *["Yes."] * 4]) as model:
        async with Pool(model.options(**SERVED), size=0, max_size=1) as pool, Sessions(pool) as sessions:
            busy, other = await sessions.create(), await sessions.create()
            await busy.send("Think")
            async with anyio.create_task_group() as group:
                group.start_soon(other.send, "Hello")
                await until(pool, lambda stats: stats.waiting == 1)
                assert pool.stats().free == -1
                gate.open()
            assert (await read_until(other, is_end))[-1][1]["text"] == "Yes."
            assert (busy.state, other.state) == ("closed", "idle")
            assert await ask(busy, "Once more") == "Yes."  # takes the place of the other one
            assert (busy.state, other.state) == ("idle", "closed")
            with anyio.fail_after(LIMIT):  # also a caller who is no session
                assert (await pool.run("Who waits?")).text == "Yes."
            assert busy.state == "closed"


@pytest.mark.anyio
async def test_a_prompt_that_waits_for_too_long_fails_and_one_that_waits_ends_with_the_server() -> None:
    options = fakes(steps.wait_for_prompt(), steps.hang())
    async with Pool(options, size=0, max_size=1, timeout=0.2) as pool, Sessions(pool) as sessions:
        busy, other = await sessions.create(), await sessions.create()
        await busy.send("Think")
        with pytest.raises(PoolTimeoutError):
            await other.send("Hello")
        assert (pool.stats().waiting, other.state) == (0, "closed")
    failed = list[ClaudeAgentError]()

    async def send(session: ServedSession) -> None:
        try:
            await session.send("Hello")
        except ClaudeAgentError as error:
            failed.append(error)

    async with Pool(options, size=0, max_size=1) as pool:
        async with pool.client():  # somebody else has the only process
            sessions = Sessions(pool)
            async with anyio.create_task_group() as group:
                with anyio.fail_after(LIMIT):
                    group.start_soon(send, await sessions.create())
                    await until(pool, lambda stats: stats.waiting == 1)
                    await sessions.close()
            assert (pool.stats().waiting, pool.stats().used) == (0, 1)
    assert [(type(error), str(error)) for error in failed] == [
        (ConnectionClosedError, "the server of the session ends")
    ]


@pytest.mark.long
@pytest.mark.anyio
@pytest.mark.real_cli
async def test_a_process_that_dies_is_given_back_and_the_next_prompt_gets_another() -> None:
    async with ScriptedModel(tell) as model, Pool(model.options(**SERVED), size=1, max_size=2) as pool:
        await pool.ready()
        async with Sessions(pool) as sessions:
            session = await sessions.create()
            assert await ask(session, "One") == "1: One"
            assert session.client is not None
            assert session.client.pid is not None
            position = f"{session.epoch}.{session.log.last}"
            os.kill(session.client.pid, signal.SIGKILL)
            closed = (await read_until(session, lambda event: event["type"] == "closed", position))[-1][1]
            assert "exit code -9" in closed["error"]
            await until(pool, lambda stats: stats.used == stats.closing == 0)
            assert await ask(session, "Two") == "2: Two"
            await session.close()  # as after a while without use
            await until(pool, lambda stats: stats.used == stats.closing == 0)
            assert await ask(session, "Three") == "3: Three"
            await session.close()
            await until(pool, lambda stats: stats.used == stats.closing == 0)


@pytest.mark.anyio
async def test_new_sessions_take_ready_spares_only_and_no_more_than_may_be_open() -> None:
    async with Pool(fakes(), size=2, max_size=4) as pool, Sessions(pool, max_open=1) as sessions:
        await pool.ready()
        made: list[Any] = []
        async with anyio.create_task_group() as group:
            for _ in range(4):

                async def create() -> None:
                    made.append(await sessions.create())

                group.start_soon(create)
        assert len({session.id for session in made}) == 4
        assert pool.stats().used <= 1
        for session in made:
            await session.close()
        await pool.ready()
        first, second = await sessions.create(), await sessions.create()
        assert (first.state, second.state, pool.stats().cold) == ("idle", "closed", 0)
        await second.send("Hello")
        assert (first.state, second.client is None) == ("closed", False)
    with pytest.raises(OptionsError, match="include_partial_messages=True and interactions=True"):
        Sessions(Pool(ClientOptions()))
    with pytest.raises(OptionsError, match="size"):
        Sessions(Pool(fakes()), ready=1)


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_a_pool_that_is_not_open_or_is_closed_has_no_new_sessions(tmp_path: Path) -> None:
    pool = Pool(fakes().replace(cwd=tmp_path), size=0, max_size=1)  # where no stored session is
    sessions = Sessions(pool)
    for session_id in (None, str(uuid4())):
        with pytest.raises(ConnectionClosedError, match="not open"):
            await sessions.create(session_id=session_id)
    async with pool:
        session = await sessions.create()
    for session_id in (None, str(uuid4())):
        with pytest.raises(ConnectionClosedError, match="closed"):
            await sessions.create(session_id=session_id)
    with pytest.raises(ConnectionClosedError, match="closed"):
        await session.send("Hello")
    assert [each.state for each in await sessions.list()] == ["closed"]
    await sessions.close()


@asynccontextmanager
async def waiting(**more: Any) -> AsyncIterator[tuple[Pool, Sessions, ServedSession]]:
    """Two prompts of a session that wait for the only process, which somebody else has."""
    async with Pool(fakes(), size=0, max_size=1) as pool, Sessions(pool, **more) as sessions:
        session = await sessions.create()
        async with anyio.create_task_group() as group:
            with anyio.fail_after(LIMIT):
                async with pool.client():
                    for prompt in ("Hello", "Are you there?"):
                        group.start_soon(session.send, prompt)
                    await until(pool, lambda stats: stats.waiting == 1)
                    yield pool, sessions, session
                    await until(pool, lambda stats: stats.waiting == 0)
        # Nothing is left that takes the process later.
        await until(pool, lambda stats: stats.used == stats.closing == 0)
        assert session.state == "closed"
        assert [event["status"] for event in await ends(session)] == ["cancelled", "cancelled"]
        assert await ask(session, "Now?") == "done"


async def ends(session: ServedSession) -> list[Any]:
    _, events = await session.read()
    return [event for event in (json.loads(each.data) for each in events) if is_end(event)]


@pytest.mark.anyio
@pytest.mark.each_backend
@pytest.mark.parametrize("how", ["stop", "close"])
async def test_prompts_that_wait_for_a_process_are_taken_back(how: str) -> None:
    async with waiting() as (_, _, session):
        await getattr(session, how)()


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_prompts_that_wait_for_a_process_end_when_everybody_has_left() -> None:
    async with waiting(on_leave="stop", leave_after=0.0):
        pass


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_prompts_of_a_session_wait_together_for_one_timeout() -> None:
    failed: list[str] = []

    async def send(session: ServedSession, prompt: str) -> None:
        with pytest.raises(PoolTimeoutError):
            await session.send(prompt)
        failed.append(prompt)

    async with Pool(fakes(), size=0, max_size=1, timeout=0.2) as pool, Sessions(pool) as sessions:
        session = await sessions.create()
        async with pool.client():
            async with anyio.create_task_group() as group:
                for prompt in "1234":
                    group.start_soon(send, session, prompt)
        assert sorted(failed) == [*"1234"]
        assert pool.stats().timeouts == 1
        await until(pool, lambda stats: stats.closing == 0)
        assert await ask(session, "And now?") == "done"


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_prompts_that_have_waited_are_sent_in_the_order_in_which_they_came() -> None:
    prompts = [*"12345"]
    options = fakes(*[steps.turn("done")] * len(prompts))
    async with Pool(options, size=0, max_size=1) as pool, Sessions(pool) as sessions:
        session = await sessions.create()
        async with anyio.create_task_group() as group, pool.client():
            for prompt in prompts:
                group.start_soon(session.send, prompt)
                await anyio.wait_all_tasks_blocked()
        found = await read_until(session, lambda event: is_end(event) and not session.prompts)
    assert [fact["content"] for fact in facts_of(found, "prompt_sent")] == prompts


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_a_prompt_whose_caller_leaves_the_queue_does_not_take_another_one_of_its_session_with_it() -> None:
    async with Pool(fakes(), size=0, max_size=1) as pool, Sessions(pool) as sessions:
        session = await sessions.create()
        async with anyio.create_task_group() as group, pool.client():
            async with anyio.create_task_group() as leaving:
                leaving.start_soon(session.send, "One")
                await until(pool, lambda stats: stats.waiting == 1)
                group.start_soon(session.send, "Two")
                await anyio.wait_all_tasks_blocked()
                leaving.cancel_scope.cancel()
            await anyio.wait_all_tasks_blocked()
            assert pool.stats().waiting == 1
        (ended,) = [event for _, event in await read_until(session, is_end) if is_end(event)]
        assert (ended["status"], ended["text"]) == ("ok", "done")
        await session.close()
        await until(pool, lambda stats: stats.used == stats.closing == 0)
        # Without any caller left, the wait ends.
        async with pool.client():
            async with anyio.create_task_group() as leaving:
                leaving.start_soon(session.send, "Three")
                await until(pool, lambda stats: stats.waiting == 1)
                leaving.cancel_scope.cancel()
            await until(pool, lambda stats: stats.waiting == 0)


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_a_new_session_whose_caller_leaves_at_any_step_keeps_no_process() -> None:
    async with Pool(fakes(), size=1, max_size=2) as pool, Sessions(pool) as sessions:
        for steps_taken in range(12):
            await pool.ready()
            made: list[ServedSession] = []

            async def create(made: list[ServedSession] = made) -> None:
                made.append(await sessions.create())

            async with anyio.create_task_group() as group:
                group.start_soon(create)
                for _ in range(steps_taken):
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
            for session in made:
                await session.close()  # type: ignore[attr-defined]
            await until(pool, lambda stats: stats.used == stats.closing == 0)


def opening(pool: Pool, make: Callable[..., ASGIApp]) -> Callable[..., ASGIApp]:
    """Return what makes an application that opens the pool."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with pool:
            await pool.ready()
            yield

    return lambda sessions, **more: Starlette(routes=[Mount("/", make(sessions, **more))], lifespan=lifespan)


def call(url: str, path: str, body: Any) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {TOKEN}"}
    try:
        request = urllib.request.Request(f"{url}/api/{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_over_http_a_prompt_that_waits_for_a_process_can_be_stopped() -> None:
    pool: Pool = Pool(fakes(steps.wait_for_prompt(), steps.hang()), size=1, max_size=1)
    with served(Sessions(pool), opening(pool, make_app)) as url:
        busy, other = (call(url, "sessions", {})[1]["id"] for _ in range(2))
        assert call(url, f"sessions/{busy}/prompts", {"text": "Hello"})[0] == 202
        with ThreadPoolExecutor(1) as threads:
            sent = threads.submit(call, url, f"sessions/{other}/prompts", {"text": "Hello"})
            give_up = time.monotonic() + LIMIT
            while not pool.stats().waiting and time.monotonic() < give_up:
                time.sleep(0.01)
            assert call(url, f"sessions/{other}/stop", {})[0] == 200
            assert sent.result(LIMIT)[0] == 202


def test_over_http_a_full_pool_is_503() -> None:
    pool: Pool = Pool(fakes(steps.wait_for_prompt(), steps.hang()), size=1, max_size=1, timeout=0.2)
    with served(Sessions(pool), opening(pool, make_app)) as url:
        made = [call(url, "sessions", {})[1]["id"] for _ in range(2)]
        assert call(url, f"sessions/{made[0]}/prompts", {"text": "Hello"})[0] == 202
        status, answer = call(url, f"sessions/{made[1]}/prompts", {"text": "Hello"})
        assert (status, answer["error"].partition(":")[0]) == (503, "no process of the pool was free within 0.2 s")


@pytest.mark.long
@pytest.mark.real_cli
def test_threads_of_agui_run_on_the_pool() -> None:
    with ScriptedModel(tell) as model:
        pool: Pool = Pool(model.options(**SERVED), size=1, max_size=2)
        with served(
            Sessions(pool), opening(pool, make_agui_app), authenticate=lambda request: request.headers["x-user"]
        ) as url:
            ann, bob = Page(url, user="ann"), Page(url, user="bob")
            for prompt, count in (("Hello", 1), ("Again", 2)):
                for page in (ann, bob):
                    assert say(page.run(prompt)) == f"{count}: {prompt}"
