"""Gates block until opened, and every wait ends."""

import threading

import anyio
import pytest

from claude_agent_py.testing import Gate


def test_a_gate_holds_until_it_is_open() -> None:
    gate, passed = Gate(), threading.Event()

    def walk() -> None:
        if gate.hold(lambda: False):
            passed.set()

    walker = threading.Thread(target=walk)
    walker.start()
    assert not passed.wait(0.05)
    gate.open()
    walker.join(10)
    assert passed.is_set()
    assert gate.hold(lambda: False)
    assert gate.reached == 2


def test_a_gate_gives_up_if_its_visitor_has_gone() -> None:
    assert not Gate().hold(lambda: True)


@pytest.mark.anyio
async def test_waiting_until_it_is_reached() -> None:
    gate = Gate()
    async with anyio.create_task_group() as workers:
        workers.start_soon(anyio.to_thread.run_sync, gate.hold, lambda: False)
        with anyio.fail_after(60):
            await gate.wait_reached()
        gate.open()
    with pytest.raises(TimeoutError, match="reached 1 times"):
        await gate.wait_reached(2, timeout=0.05)


def test_callbacks_come_once_the_gate_is_open() -> None:
    gate, calls = Gate(), list[str]()
    gate.when_open(lambda: calls.append("early"))
    assert calls == []
    gate.open()
    gate.open()
    gate.when_open(lambda: calls.append("late"))
    assert calls == ["early", "late"]
