"""`max_budget_usd` is the budget of a session: what its earlier processes have spent counts."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from claude_agent_py import Client, ClientOptions, run
from claude_agent_py.errors import BudgetExceededError
from claude_agent_py.messages import AssistantMessage
from claude_agent_py.pool import Pool
from claude_agent_py.sessions import MemoryStore, StoredSessions, fork_session, rename_session
from claude_agent_py.testing import Reply, ScriptedModel, Usage

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli, pytest.mark.one_backend]

CALL = 0.4
"""The cost of a call in US dollars."""


def a_model() -> ScriptedModel:
    return ScriptedModel(lambda request: Reply("ok", usage=Usage(input_tokens=100_000, output_tokens=0)))


def kill(client: Client) -> None:
    assert client.pid is not None
    os.kill(client.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


WAYS: dict[str, Callable[[str], dict[str, Any]]] = {
    "by its id": lambda session_id: {"resume": session_id},
    "by its title": lambda session_id: {"resume": "the spender"},
    "the newest": lambda session_id: {"continue_conversation": True},
    "a fork": lambda session_id: {"resume": session_id, "fork_session": True},
}


@pytest.mark.parametrize("store", [None, pytest.param(MemoryStore, marks=pytest.mark.long)])
async def test_a_resumed_session_has_the_rest_of_its_budget(store: type[MemoryStore] | None) -> None:
    with a_model() as model:
        kept = {} if store is None else {"session_store": store()}
        first = await run("one", model.options(max_budget_usd=1.0, **kept))
        assert first.budget_left_usd == pytest.approx(1 - CALL)
        async with Client(model.options(max_budget_usd=1.0, resume=first.session_id, **kept)) as client:
            second = await client.query("two")
            assert second.budget_left_usd == pytest.approx(1 - 2 * CALL)
            assert await client.usage.budget_left_usd() == pytest.approx(1 - 2 * CALL)
        with pytest.raises(BudgetExceededError, match=r"the session has spent 1\.2000 of 1 USD \(max_budget_usd\)$"):
            await run("three", model.options(max_budget_usd=1.0, resume=first.session_id, **kept))
        assert len(model.requests) == 3
        if store is None:
            rename_session(first.session_id, "the spender", config_dir=model.sandbox.home / ".claude")
        for name, way in WAYS.items():
            if store is not None and name == "by its title":
                continue
            with pytest.raises(BudgetExceededError, match=r"has spent 1\.2000 of 1 USD"):
                await run("four", model.options(max_budget_usd=1.0, **way(first.session_id), **kept))
        assert len(model.requests) == 3
        more = await run("five", model.options(max_budget_usd=2.0, resume=first.session_id, **kept))
        assert more.budget_left_usd == pytest.approx(2 - 4 * CALL)


@pytest.mark.long
async def test_a_reopened_session_has_the_rest_of_its_budget() -> None:
    with a_model() as model:
        async with Client(model.options(max_budget_usd=1.0)) as client:
            await client.query("one")
            for spent in (1, 2):
                kill(client)
                await client.connection.session.stream_over.wait()
                await client.reopen()
                assert await client.usage.budget_left_usd() == pytest.approx(1 - spent * CALL)
                if spent == 1:
                    assert (await client.query("two")).budget_left_usd == pytest.approx(1 - 2 * CALL)
            with pytest.raises(BudgetExceededError) as caught:
                await client.query("three")
            assert caught.value.result.budget_left_usd == 0
            kill(client)
            await client.connection.session.stream_over.wait()
            with pytest.raises(BudgetExceededError, match="has spent"):
                await client.reopen()
        assert len(model.requests) == 3


async def run_and_kill(prompt: str, options: ClientOptions) -> str:
    """Return the id of a session whose CLI was killed after a turn."""
    client = Client(options)
    await client.connect()
    session_id = (await client.query(prompt)).session_id
    kill(client)
    await client.close()
    return session_id


@pytest.mark.parametrize("store", [pytest.param(each, marks=pytest.mark.long) for each in (None, MemoryStore)])
async def test_a_killed_process_counts(store: type[MemoryStore] | None) -> None:
    """A store has the cost of each turn, also without a limit. Without a store, the answers are estimated by the prices
    in the note of an earlier process."""
    with a_model() as model:
        options = model.options() if store is None else model.options(session_store=store())
        session_id = (await run("one", options)).session_id if store is None else await run_and_kill("one", options)
        await run_and_kill("two", options.replace(resume=session_id))
        third = await run("three", options.replace(resume=session_id, max_budget_usd=1.5))
        assert third.budget_left_usd == pytest.approx(1.5 - 3 * CALL)


@pytest.mark.parametrize("store", [pytest.param(each, marks=pytest.mark.long) for each in (None, MemoryStore)])
async def test_a_copy_has_the_rest_of_the_budget(store: type[MemoryStore] | None) -> None:
    with a_model() as model:
        kept = None if store is None else store()
        options = model.options() if kept is None else model.options(session_store=kept)
        first = await run("one", options)
        last = [m for m in first.messages if isinstance(m, AssistantMessage)][-1].uuid
        if kept is None:
            copies = [
                fork_session(first.session_id, None, end, config_dir=model.sandbox.config_dir) for end in (None, last)
            ]
        else:
            copies = [await StoredSessions(kept).fork(first.session_id)]
        for copy in copies:
            with pytest.raises(BudgetExceededError, match=r"has spent 0\.4000 of 0\.3 USD"):
                await run("two", options.replace(resume=copy.session_id, max_budget_usd=0.3))
        assert len(model.requests) == 1


@pytest.mark.long
async def test_a_session_of_a_pool_has_the_rest_of_its_budget() -> None:
    """The process of a pooled run is closed in the background, and notes the cost when it exits."""
    with a_model() as model:
        async with Pool(model.options(), size=0) as pool:
            first = await pool.run("one")
            with pytest.raises(BudgetExceededError, match=r"has spent 0\.4000 of 0\.3 USD"):
                await pool.run("two", model.options(resume=first.session_id, max_budget_usd=0.3))
        assert len(model.requests) == 1
