"""The ledger converges to the truth for any order, repetitions and gaps of messages."""

from dataclasses import dataclass

from folding import Desk, Frame, child, level
from hypothesis import given, strategies as st

from claude_agent_py.tasks import TaskFinished
from claude_agent_py.testing import frames

STATUSES = st.sampled_from(["completed", "failed", "stopped"])


@dataclass(frozen=True)
class Truth:
    """What really happened in one run of a task."""

    task_id: str
    number: int
    status: str
    progress: int
    has_update: bool
    has_notification: bool

    @property
    def run_id(self) -> str:
        return f"{self.number}-{self.task_id}"

    def frames(self) -> list[Frame]:
        """Return the frames that the CLI sends about it, in order."""
        task_id, run_id = self.task_id, self.run_id
        sent = [frames.task_started(task_id, run_id=run_id, tool_use_id=f"toolu_{run_id}")]
        for number in range(self.progress):
            sent.append(frames.task_progress(task_id, f"step {number}", run_id=run_id))
            sent.append(child(task_id, f"text {number}", call=f"toolu_0-{task_id}"))
        if self.has_update:
            word = "killed" if self.status == "stopped" else self.status
            sent.append(frames.task_updated(task_id, word) | {"run_id": run_id})
        if self.has_notification:
            sent.append(frames.task_notification(task_id, self.status, f"end of {run_id}", run_id=run_id))
        return sent

    @property
    def end(self) -> tuple[str, str]:
        return (self.status, f"end of {self.run_id}" if self.has_notification else "")


@st.composite
def truths(draw: st.DrawFn, max_runs: int = 3) -> list[list[Truth]]:
    """Some tasks, each with its runs, every one of which ends."""
    tasks = []
    for index in range(draw(st.integers(1, 4))):
        runs = []
        for number in range(draw(st.integers(1, max_runs))):
            ending = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
            runs.append(Truth(f"a{index}", number, draw(STATUSES), draw(st.integers(0, 3)), *ending))
        tasks.append(runs)
    return tasks


@st.composite
def interleaved(draw: st.DrawFn, tasks: list[list[Truth]]) -> list[Frame]:
    """All frames, in order within each task, with repeated earlier frames and outdated lists."""
    queues = [[frame for run in runs for frame in run.frames()] for runs in tasks]
    order: list[Frame] = []
    listed: set[str] = set()
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        order.append(queue.pop(0))
        listed ^= {order[-1]["task_id"]} if order[-1].get("subtype") in ("task_started", "task_notification") else set()
        if draw(st.booleans()):
            order.append(draw(st.sampled_from([order[-1], draw(st.sampled_from(order)), level(*sorted(listed))])))
    return order


def ends(desk: Desk) -> dict[str, list[tuple[str, str]]]:
    """Return how each run ended, by task."""
    return {
        task_id: [(str(run.status), run.summary) for run in record.runs]
        for task_id, record in desk.ledger.records.items()
    }


def settle(desk: Desk) -> None:
    """Let the grace periods pass for reports that never arrive."""
    desk.pass_time(1.0)


@given(st.data())
def test_every_interleaving_ends_in_the_truth(data: st.DataObject) -> None:
    tasks = data.draw(truths())
    desk = Desk()
    desk.fold(*data.draw(interleaved(tasks)))
    settle(desk)
    assert ends(desk) == {runs[0].task_id: [run.end for run in runs] for runs in tasks}
    assert desk.ledger.live_ids() == frozenset()


@given(st.data())
def test_every_run_finishes_exactly_once(data: st.DataObject) -> None:
    tasks = data.draw(truths())
    desk = Desk()
    desk.fold(*data.draw(interleaved(tasks)))
    settle(desk)
    finished = [(event.task_id, event.run_id) for event in desk.events if isinstance(event, TaskFinished)]
    assert sorted(finished) == sorted((run.task_id, run.run_id) for runs in tasks for run in runs)


@given(st.data())
def test_even_without_any_order_the_last_run_ends_in_the_truth(data: st.DataObject) -> None:
    tasks = data.draw(truths())
    everything = [frame for runs in tasks for run in runs for frame in run.frames()]
    desk = Desk()
    desk.fold(*data.draw(st.permutations(everything)))
    settle(desk)
    last = {task_id: runs[-1] for task_id, runs in ends(desk).items()}
    assert last == {runs[0].task_id: runs[-1].end for runs in tasks}
    assert desk.ledger.live_ids() == frozenset()


@given(st.data())
def test_gaps_are_harmless_if_the_end_is_reported(data: st.DataObject) -> None:
    tasks = data.draw(truths(max_runs=1))
    everything = data.draw(interleaved(tasks))
    is_end = [frame.get("subtype") in ("task_notification", "task_updated") for frame in everything]
    kept = [frame for frame, end in zip(everything, is_end, strict=True) if end or data.draw(st.booleans())]
    desk = Desk()
    desk.fold(*kept)
    settle(desk)
    assert ends(desk) == {runs[0].task_id: [runs[0].end] for runs in tasks}


@given(st.data())
def test_whatever_is_lost_nothing_stays_open_after_the_process(data: st.DataObject) -> None:
    everything = data.draw(interleaved(data.draw(truths())))
    desk = Desk()
    desk.fold(*(frame for frame in everything if data.draw(st.booleans())))
    desk.intake.process_exited("gone")
    assert desk.ledger.live_ids() == frozenset()
    assert all(run.outcome is not None for record in desk.ledger.records.values() for run in record.runs[-1:])


@given(st.data())
def test_a_run_that_seems_to_have_ended_waits_to_be_resolved(data: st.DataObject) -> None:
    desk = Desk()
    for frame in data.draw(interleaved(data.draw(truths()))):
        desk.fold(frame)
        if data.draw(st.booleans()):
            settle(desk)
        runs = [record.run for record in desk.ledger.records.values() if record.run.outcome is None]
        assert set(desk.ledger.unresolved) == {
            run for run in runs if run.status.is_terminal or run.suspicion is not None
        }
        assert all(run.outcome is not None for run in desk.ledger.uncounted)
