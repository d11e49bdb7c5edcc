"""Every recording of the real CLI: the ledger agrees with the CLI's last frames."""

import pytest
from each import for_each
from folding import Clock, Desk, fold_recording, kinds, tracking
from msgspec.structs import replace
from recordings_loader import frames, names, records

from claude_agent_py.tasks import Evidence, TaskFinished, TaskManager, TaskReopened, TaskRevised

WITH_TASKS = [
    name for name in names() if any(str(frame.get("subtype", "")).startswith("task_") for frame in frames(name))
]
Run = tuple[str, str | None]


def said_ends(name: str) -> dict[Run, str]:
    """Return the status in each notification, by task and run."""
    said = [frame for frame in frames(name) if frame.get("subtype") == "task_notification"]
    return {(frame["task_id"], frame.get("run_id")): frame["status"] for frame in said}


def times_of(name: str, subtype: str) -> dict[str, float]:
    """Return the time of the last message of this kind about each run."""
    out = [record for record in records(name) if record.direction == "out"]
    return {record.value["run_id"]: record.at for record in out if record.value.get("subtype") == subtype}


def test_there_are_recordings_with_tasks() -> None:
    assert len(WITH_TASKS) > 30


def test_every_end_is_found_once_as_the_cli_reported_it() -> None:
    def check(name: str) -> None:
        events = fold_recording(name).events
        found = [event for event in events if isinstance(event, TaskFinished)]
        by_run = {(event.task_id, event.run_id): event.outcome for event in found}
        assert len(by_run) == len(found)
        said = said_ends(name)
        assert {run: str(outcome.status) for run, outcome in by_run.items() if run in said} == said
        inferred = [outcome for run, outcome in by_run.items() if run not in said]
        assert all(outcome.evidence is Evidence.PROCESS_EXIT and outcome.status == "failed" for outcome in inferred)
        for event in events:
            if isinstance(event, TaskRevised):  # a result has told the price
                assert replace(event.outcome, usage=event.old.usage, models=event.old.models) == event.old
                assert event.outcome.usage is not None
                assert event.outcome.usage.cost_usd

    for_each(WITH_TASKS, check)


def test_starts_and_ends_are_paired() -> None:
    def check(name: str) -> None:
        desk = fold_recording(name)
        events = desk.events
        open_runs: set[str] = set()
        orphans = {record.id for record in desk.ledger.records.values() if not record.run.is_announced}
        for event in events:
            if event.kind in ("started", "reopened"):
                assert event.task_id not in open_runs
                open_runs.add(event.task_id)
            elif event.kind == "finished" and event.task_id not in orphans:
                open_runs.remove(event.task_id)
            elif event.task_id not in orphans and event.kind not in ("output_available", "revised"):
                assert event.task_id in open_runs, event
        assert open_runs == desk.ledger.live_ids()

    for_each(WITH_TASKS, check)


def test_repeated_messages_change_nothing() -> None:
    def check(name: str) -> None:
        once, twice = fold_recording(name), fold_recording(name)
        before = len(twice.events)
        events = fold_recording(name, twice).events[before:]
        assert kinds(events).count("finished") == 0
        assert kinds(events).count("reopened") == 0
        assert _states(twice) == _states(once)

    for_each(WITH_TASKS, check)


def _states(desk: Desk) -> dict[str, list[tuple[str | None, str, str]]]:
    return {
        task_id: [(run.run_id, str(run.status), run.summary) for run in record.runs]
        for task_id, record in desk.ledger.records.items()
    }


def test_parents_and_depths_of_nested_agents() -> None:
    desk = fold_recording("tasks/s04_nested_bg")
    depths = {record.description: (record.spawn_depth, record.parent_id) for record in desk.ledger.records.values()}
    ids = {record.description: record.id for record in desk.ledger.records.values()}
    assert depths == {"depth 1": (1, None), "depth 2": (2, ids["depth 1"]), "depth 3": (3, ids["depth 2"])}


def test_a_resumed_agent_has_two_runs() -> None:
    desk = fold_recording("tasks/s08_agent_teams_try")
    events = desk.events
    record = next(iter(desk.ledger.records.values()))
    assert len(record.runs) == 2
    assert record.runs[0].tool_use_id != record.runs[1].tool_use_id
    assert any(isinstance(event, TaskReopened) for event in events)


def test_notifications_of_a_previous_process_come_before_the_initialize_reply() -> None:
    desk = fold_recording("tasks/s10_resume_after_kill2")
    events = desk.events
    assert [str(record.run.status) for record in desk.ledger.records.values()] == ["stopped", "stopped"]
    assert kinds(events) == ["output_available", "finished", "finished"]


def test_sigint_drops_the_last_frames_of_an_agent() -> None:
    desk = fold_recording("tasks/s07_sigint_bg")
    outcomes = {record.description: record.run.outcome for record in desk.ledger.records.values()}
    assert outcomes["bgb"] is not None
    assert (outcomes["bgb"].status, outcomes["bgb"].evidence) == ("stopped", Evidence.NOTIFICATION)
    assert outcomes["helper"] is not None
    assert (outcomes["helper"].status, outcomes["helper"].evidence) == ("failed", Evidence.PROCESS_EXIT)


def test_shells_report_their_exit_codes_and_output_files() -> None:
    desk = fold_recording("tasks/s02_bg_bash_completed_failed_stopped")
    found = {record.description: record.run.outcome for record in desk.ledger.records.values()}
    codes = {description: outcome.exit_code for description, outcome in found.items() if outcome}
    assert codes == {"okb": 0, "failing": 3, "longb": None, "bg with timeout": None}
    assert all(outcome and outcome.output_file for outcome in found.values())


def test_an_interrupt_kills_background_agents_and_spares_shells() -> None:
    desk = fold_recording("tasks/s10_interrupt_with_bg_tasks")
    by_type = {(record.type, str(record.run.status)) for record in desk.ledger.records.values()}
    assert by_type == {("local_agent", "stopped"), ("local_bash", "stopped")}  # the shells by `stop_task`, later


def test_moving_to_the_background_is_seen_once_each() -> None:
    events = fold_recording("tasks/s05_background_tasks_control").events
    assert kinds(events).count("backgrounded") == 3


def test_a_task_that_the_model_stopped_says_so() -> None:
    desk = fold_recording("tasks/s06_taskstop_by_model")
    outcomes = [record.run.outcome for record in desk.ledger.records.values()]
    assert [(outcome.status, outcome.failure_reason) for outcome in outcomes if outcome] == [
        ("stopped", "stopped by the model (TaskStop)")
    ] * 2


@pytest.mark.parametrize("name", ["tasks/s02_bg_bash_completed_failed_stopped", "tasks/s02_bg_stopped"])
def test_a_replay_takes_as_long_as_the_session_did(name: str) -> None:
    starts, ends = times_of(name, "task_started"), times_of(name, "task_updated")
    manager = tracking(TaskManager(clock=Clock(4e9)), *frames(name))  # much later
    outcomes = [outcome for task in manager for outcome in task.outcomes if outcome.run_id in ends]
    assert outcomes
    for outcome in outcomes:
        assert outcome.run_id is not None
        assert outcome.duration == pytest.approx(ends[outcome.run_id] - starts[outcome.run_id], abs=0.1)
