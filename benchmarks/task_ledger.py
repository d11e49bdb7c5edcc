"""The cost of tracking 10 000 tasks with 200 000 messages. The cost per message must not grow with the tasks.

    python -m benchmarks.task_ledger [tasks] [messages per task]

Tasks run in waves of 20, as the CLI runs them. Each sends its start, progress, messages and end, and every start and
end is followed by the list of live tasks. Decoding is not measured.
"""

import gc
import itertools
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.measuring import memory_mib
from claude_agent_py.tasks import TaskIntake, TaskManager
from claude_agent_py.testing import frames
from claude_agent_py.wire.codec import decode

SIDE_BY_SIDE = 20
PARTS = 10


def message(frame: dict[str, Any]) -> Any:
    """Return a message, decoded as a session does."""
    return decode(json.dumps(frame).encode())


def level(live: list[str]) -> dict[str, Any]:
    tasks = [{"task_id": id, "run_id": f"0-{id}", "task_type": "local_agent", "description": "x"} for id in live]  # noqa: A001
    return frames.system("background_tasks_changed", tasks=tasks)


def wave(first: int, messages: int) -> Iterator[dict[str, Any]]:
    """Yield the frames of concurrent tasks."""
    ids = [f"a{number:016x}" for number in range(first, first + SIDE_BY_SIDE)]
    for count, task_id in enumerate(ids, 1):
        yield level(ids[:count])
        yield frames.task_started(task_id)
    for number in range((messages - 5) // 2):
        for task_id in ids:
            yield frames.task_progress(task_id, f"step {number}")
            yield frames.assistant("working", agent_id=task_id, parent_tool_use_id=f"toolu_{task_id}")
    for count, task_id in enumerate(ids, 1):
        yield frames.task_updated(task_id)
        yield frames.task_notification(task_id)
        yield level(ids[count:])


class Unobserved:
    """A session without listeners."""

    def wants_event(self, kind: object, /) -> bool:
        return False

    def number_events(self, events: object, /) -> None:
        pass

    def take_events(self, events: object, /) -> None:
        pass


def main(tasks: int = 10_000, messages: int = 20) -> None:
    intake = TaskIntake(host=Unobserved())
    manager = TaskManager(intake=intake)
    per_part = tasks // SIDE_BY_SIDE // PARTS
    waves = itertools.count(0, SIDE_BY_SIDE)
    total = 0
    print(f"{'tasks':>8} {'messages':>9} {'us CPU each':>11} {'MiB':>6}")
    for _ in range(PARTS):
        batch = [message(frame) for _ in range(per_part) for frame in wave(next(waves), messages)]
        gc.collect()
        begin = time.process_time()
        for one in batch:
            intake.track(one)
        took = time.process_time() - begin
        total += len(batch)
        print(f"{len(manager):>8} {total:>9} {took / len(batch) * 1e6:>11.2f}", end=" ", flush=True)
        print(f"{memory_mib():>6.0f}")
    assert manager.live_ids() == frozenset()
    begin = time.process_time()
    for _ in range(100_000):
        manager.live_ids()
    print(f"live_ids(): {(time.process_time() - begin) / 100_000 * 1e6:.2f} us")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
