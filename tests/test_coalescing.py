"""Calls in a thread that are shared by all who ask at the same time."""

import threading

import anyio
import pytest
from anyio.lowlevel import RunVar

from claude_agent_py._base.coalescing import SharedCall
from claude_agent_py._base.event_loop import PerLoop, in_event_loop

pytestmark = pytest.mark.anyio


async def test_callers_during_a_call_share_the_next_one() -> None:
    calls: list[list[int]] = []
    release = threading.Event()

    def double(numbers: list[int]) -> list[int]:
        assert not in_event_loop()
        calls.append(list(numbers))
        assert release.wait(60)
        return [2 * number for number in numbers]

    shared, found = SharedCall(double), dict[int, int | None]()

    async def ask(number: int) -> None:
        found[number] = await shared(number)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as others, anyio.create_task_group() as second:
            others.start_soon(ask, 1)
            while not calls:
                await anyio.sleep(0.001)
            second.start_soon(ask, 2)
            await anyio.wait_all_tasks_blocked()
            for number in (3, 4, 5):
                others.start_soon(ask, number)
            await anyio.wait_all_tasks_blocked()
            second.cancel_scope.cancel()
            release.set()
    assert found == {1: 2, 3: 6, 4: 8, 5: 10}
    assert calls[0] == [1]
    assert sorted(calls[-1]) == [3, 4, 5]


async def test_an_error_reaches_everybody_who_asked() -> None:
    def fail(keys: list[int]) -> list[int]:
        raise OSError(keys)

    shared, errors = SharedCall(fail), list[OSError]()

    async def ask(key: int) -> None:
        with pytest.raises(OSError, match=r"\[") as caught:
            await shared(key)
        errors.append(caught.value)

    async with anyio.create_task_group() as group:
        for key in range(3):
            group.start_soon(ask, key)
    assert len(errors) == 3


async def test_values_of_a_loop_are_separate_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """anyio 4.9 finds the value of a run variable by its name, and not by the variable."""
    monkeypatch.setattr(RunVar, "__eq__", lambda one, other: repr(one) == repr(other))
    monkeypatch.setattr(RunVar, "__hash__", lambda one: hash(repr(one)))
    first, second = PerLoop[object](list), PerLoop[object](dict)
    assert (first.get(), second.get()) == ([], {})
    found: list[object] = []
    calls = [SharedCall[int, str](lambda keys: ["one"]), SharedCall[int, str](lambda keys: ["two"])]

    async def ask(call: SharedCall[int, str]) -> None:
        found.append(await call(1))

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(ask, call)
    assert sorted(map(str, found)) == ["one", "two"]
