"""Event streams and listeners: slow ones, raising ones, and the end of the session."""

import threading
from collections.abc import AsyncIterator
from typing import Any, Literal, get_args, get_origin, get_overloads, get_type_hints

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from bounds import set_bound
from folding import EVENT_TYPES, HASTY, deliver, deliver_in, intake_of, kinds, level, message, tracking

from claude_agent_py import TaskEvent, TaskManager, TaskNotificationMessage
from claude_agent_py.errors import HandlerError, OptionsError
from claude_agent_py.tasks import TaskFinished, TaskProgressed
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio

LIFE = [frames.task_started("a1"), frames.task_progress("a1"), *frames.task_end("a1", summary="fine")]


# Streams


async def test_events_come_in_order_and_end_with_the_session() -> None:
    manager = TaskManager()
    events = manager.events()
    tracking(manager, *LIFE)
    intake_of(manager).process_exited("over")
    with anyio.fail_after(30):
        assert kinds([event async for event in events]) == ["started", "progressed", "status_changed", "finished"]
        assert [event async for event in manager.events()] == []


async def test_a_stream_begins_when_it_is_asked_for() -> None:
    manager = TaskManager()
    early, late = manager.events("finished"), None
    tracking(manager, frames.task_started("a1"), frames.task_notification("a1"))
    late = manager.events(TaskFinished)
    tracking(manager, frames.task_started("a2"), frames.task_notification("a2"))
    intake_of(manager).process_exited("over")
    assert [event.task_id async for event in early] == ["a1", "a2"]
    assert [event.task_id async for event in late] == ["a2"]


def test_every_event_name_has_a_typed_overload() -> None:
    manager = TaskManager()
    of_all: AsyncIterator[TaskEvent] = manager.events()
    of_ends: AsyncIterator[TaskFinished] = manager.events("finished")
    of_progress: AsyncIterator[TaskProgressed] = manager.events(TaskProgressed)
    assert len({of_all, of_ends, of_progress}) == 3
    with_kinds = [get_type_hints(overload)["what"] for overload in get_overloads(TaskManager.on)]
    said = {kind for hint in with_kinds if get_origin(hint) is Literal for kind in get_args(hint)}
    assert said == {"notification", *(kind.kind for kind in EVENT_TYPES)}


async def test_several_readers_each_get_everything() -> None:
    manager = TaskManager()
    seen: list[list[str]] = []

    async def read(events: AsyncIterator[TaskEvent]) -> None:
        seen.append(kinds([event async for event in events]))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as readers:
            for _ in range(3):
                readers.start_soon(read, manager.events())
            await wait_all_tasks_blocked()
            tracking(manager, *LIFE)
            intake_of(manager).process_exited("over")
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2] != []


async def test_a_stream_that_nobody_reads_leaves_out_progress_only(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "QUEUE_LIMIT", 10)
    manager = TaskManager()
    tracking(manager, frames.task_started("a1"))
    stream = manager.events()
    tracking(manager, *[frames.task_progress("a1", usage={"total_tokens": number}) for number in range(50)])
    tracking(manager, frames.task_started("a2"))
    intake_of(manager).process_exited("over")
    seen = kinds([event async for event in stream])
    assert (seen.count("progressed"), stream.skipped, "started" in seen) == (10, 40, True)


def test_an_unknown_kind_of_event_is_refused() -> None:
    with pytest.raises(OptionsError, match="must be one of notification, started"):
        TaskManager().events("finnished")


# Listeners


async def play(manager: TaskManager, *later: dict[str, Any]) -> list[HandlerError]:
    """Track frames, end the session, and run the listeners until their queues are empty."""
    reported: list[HandlerError] = []
    tracking(manager, *later)
    intake_of(manager).process_exited("over")
    await deliver(manager, reported.append)
    return reported


async def test_plain_and_async_listeners_of_all_and_of_some() -> None:
    manager = TaskManager()
    seen: dict[str, list[Any]] = {name: [] for name in ("all", "some", "word", "decorated", "notified")}
    threads: set[int] = set()

    def plain(event: TaskEvent) -> None:
        threads.add(threading.get_ident())
        seen["all"].append(event.kind)

    async def only_ends(event: TaskFinished) -> None:
        seen["some"].append(event.outcome.summary)

    manager.on(plain)
    manager.on(TaskFinished, only_ends)
    manager.on("started", lambda event: seen["word"].append(event.task_id))

    @manager.on("progressed")
    def decorated(event: TaskProgressed) -> None:
        seen["decorated"].append(event.activity)

    manager.on("notification", seen["notified"].append)
    assert await play(manager, *LIFE) == []
    assert seen["all"] == ["started", "progressed", "status_changed", "finished"]
    assert (seen["some"], seen["word"], seen["decorated"]) == (["fine"], ["a1"], ["Running"])
    assert [type(one) for one in seen["notified"]] == [TaskNotificationMessage]
    assert threads == {threading.get_ident()}


async def test_a_notification_is_reported_once_however_often_it_comes() -> None:
    manager = TaskManager()
    told: list[TaskNotificationMessage] = []
    manager.on("notification", told.append)
    end = frames.task_notification("a1", summary="fine")
    await play(manager, frames.task_started("a1"), end, end, end)
    assert [(one.task_id, one.status, one.summary) for one in told] == [("a1", "completed", "fine")]
    assert told[0].uuid == end["uuid"]


async def test_a_notification_that_never_came_is_reported_all_the_same() -> None:
    manager = TaskManager(grace=HASTY)
    told: list[TaskNotificationMessage] = []
    manager.on("notification", told.append)
    tracking(manager, level("a1"), frames.task_started("a1"), level())
    await manager.wait("a1")
    await play(manager, frames.task_started("a2"))
    assert [(one.task_id, one.status, one.summary) for one in told] == [
        ("a1", "completed", ""),
        ("a2", "failed", "over"),
    ]
    assert {one.uuid for one in told} == {""}


@pytest.mark.parametrize("what", ["bogus", 5, str, int])
def test_an_unknown_event_is_refused(what: Any) -> None:
    manager = TaskManager()
    with pytest.raises(OptionsError, match="what: "):
        manager.events(what)
    with pytest.raises(OptionsError, match="what: "):
        manager.on(what, print)
    with pytest.raises(OptionsError, match="listener: must be a function, not 5"):
        manager.on("finished", 5)  # type: ignore[call-overload]


async def test_a_failed_listener_is_reported_and_affects_no_other(caplog: pytest.LogCaptureFixture) -> None:
    manager = TaskManager()
    seen: list[str] = []

    def broken(event: TaskEvent) -> None:
        raise ValueError("broken on purpose")

    manager.on(broken)
    manager.on(lambda event: seen.append(event.kind))
    reported = await play(manager, *LIFE)
    assert seen == ["started", "progressed", "status_changed", "finished"]
    assert len(reported) == 4  # it goes on being told
    assert isinstance(reported[0], HandlerError)
    assert "ValueError: broken on purpose" in str(reported[0])
    assert caplog.text == ""  # whom it is reported to logs it


async def test_without_anyone_to_report_to_a_listener_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    manager = TaskManager()

    def broken(event: TaskEvent) -> None:
        raise ValueError("broken on purpose")

    manager.on("started", broken)
    tracking(manager, *LIFE)
    intake_of(manager).process_exited("over")
    await deliver(manager)
    assert caplog.text.count("ValueError: broken on purpose\n") == 2  # the line, and the end of its traceback
    assert len(caplog.records) == 1


async def test_a_slow_listener_delays_only_itself() -> None:
    manager = TaskManager()
    gate, all_told = anyio.Event(), anyio.Event()
    slow: list[str] = []
    quick: list[str] = []

    async def wait_for_gate(event: TaskEvent) -> None:
        await gate.wait()
        slow.append(event.kind)

    async def at_once(event: TaskEvent) -> None:
        quick.append(event.kind)
        if event.kind == "finished":
            all_told.set()

    manager.on(wait_for_gate)
    manager.on(at_once)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            deliver_in(workers, manager)
            tracking(manager, *LIFE)
            await all_told.wait()
            assert slow == []
            gate.set()
            intake_of(manager).process_exited("over")
    assert slow == quick


async def test_listeners_may_come_and_go_while_the_session_runs() -> None:
    manager = TaskManager()
    seen: list[str] = []
    told = anyio.Event()

    async def listener(event: TaskEvent) -> None:
        seen.append(event.kind)
        told.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            deliver_in(workers, manager)
            await wait_all_tasks_blocked()
            manager.on("started", listener)
            tracking(manager, frames.task_started("a1"))
            await told.wait()
            manager.off(listener)
            manager.off(listener)
            tracking(manager, frames.task_started("a2"))
            intake_of(manager).process_exited("over")
    assert seen == ["started"]


async def test_of_two_equal_listeners_the_given_one_is_removed() -> None:
    class Equal(list[str]):
        def __call__(self, event: TaskEvent) -> None: ...

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Equal)

        __hash__ = None

    manager, seen = TaskManager(), list[TaskEvent]()
    one, other = manager.on(Equal()), manager.on(Equal())
    manager.off(one)
    assert (manager.listens(one), manager.listens(other)) == (False, True)
    manager.on(seen.append)
    manager.off(seen.append)
    assert not manager.listens(seen.append)


async def test_a_listener_that_falls_behind_is_not_told_of_progress_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_bound(monkeypatch, "QUEUE_LIMIT", 5)
    manager = TaskManager()
    seen: list[str] = []
    manager.on(lambda event: seen.append(event.kind))
    progress = [frames.task_progress("a1", f"step {number}") for number in range(10)]
    await play(manager, frames.task_started("a1"), *progress, *frames.task_end("a1"))
    assert seen == ["started", *["progressed"] * 4, "status_changed", "finished"]
    assert "missed 6 items" in caplog.text


async def test_waiting_for_a_listener_does_not_hold_up_tracking() -> None:
    manager = TaskManager()

    async def never(event: TaskEvent) -> None:
        await anyio.sleep_forever()

    manager.on(never)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            deliver_in(workers, manager)
            await wait_all_tasks_blocked()
            for number in range(1000):
                manager.track(message(frames.task_started(f"a{number}")))
            assert len(manager) == 1000
            workers.cancel_scope.cancel()


def test_a_generator_function_is_no_listener() -> None:
    async def generate(event: TaskEvent) -> AsyncIterator[TaskEvent]:
        yield event

    with pytest.raises(OptionsError, match="must not be a generator function"):
        TaskManager().on(generate)
