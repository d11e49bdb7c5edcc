"""The transition table: what it allows, and that it covers every state and signal."""

import pytest
from folding import TRANSITIONS, Guard, Signal, move, signal_for

from claude_agent_py import TaskStatus
from claude_agent_py.tasks import Evidence

TERMINAL = [status for status in TaskStatus if status.is_terminal]
OPEN = [status for status in TaskStatus if not status.is_terminal]


def test_every_row_is_there_once() -> None:
    keys = [(row.source, row.signal) for row in TRANSITIONS]
    assert len(keys) == len(set(keys))


def test_every_state_but_the_first_can_be_reached() -> None:
    assert {row.target for row in TRANSITIONS} == set(TaskStatus)


@pytest.mark.parametrize("status", OPEN)
def test_every_open_state_can_end_in_every_way(status: TaskStatus) -> None:
    ends = {move(status, signal) for signal in (Signal.COMPLETED, Signal.FAILED, Signal.STOPPED)}
    assert ends == set(TERMINAL)


@pytest.mark.parametrize("status", TERMINAL)
@pytest.mark.parametrize("signal", [signal for signal in Signal if signal is not Signal.NEW_RUN])
def test_a_certain_end_stands(status: TaskStatus, signal: Signal) -> None:
    for now_by in (None, Evidence.UPDATE, Evidence.LEVEL, Evidence.PROCESS_EXIT):
        assert move(status, signal, known_by=Evidence.NOTIFICATION, now_by=now_by) is status


@pytest.mark.parametrize("status", TERMINAL)
def test_only_a_new_run_opens_a_certain_end(status: TaskStatus) -> None:
    assert move(status, Signal.NEW_RUN, known_by=Evidence.NOTIFICATION) is TaskStatus.RUNNING


@pytest.mark.parametrize("status", TERMINAL)
def test_a_sign_of_life_opens_an_inferred_end_only(status: TaskStatus) -> None:
    for evidence in Evidence:
        is_final = evidence.is_certain or evidence is Evidence.PROCESS_EXIT
        expected = status if is_final else TaskStatus.RUNNING
        assert move(status, Signal.ACTIVITY, known_by=evidence) is expected


def test_better_evidence_replaces_worse_and_never_the_other_way_round() -> None:
    for known in Evidence:
        for new in Evidence:
            after = move(TaskStatus.COMPLETED, Signal.FAILED, known_by=known, now_by=new)
            is_later_notification = known is new is Evidence.NOTIFICATION
            expected = TaskStatus.FAILED if new.rank > known.rank or is_later_notification else TaskStatus.COMPLETED
            assert after is expected, (known, new)


def test_evidence_is_certain_where_the_cli_spoke() -> None:
    certain = {evidence for evidence in Evidence if evidence.is_certain}
    assert certain == {Evidence.NOTIFICATION, Evidence.UPDATE, Evidence.TOOL_RESULT}


def test_a_signal_without_a_row_changes_nothing() -> None:
    rows = {(row.source, row.signal) for row in TRANSITIONS}
    for status in TaskStatus:
        for signal in Signal:
            if (status, signal) not in rows:
                assert move(status, signal) is status


def test_every_status_of_an_update_has_a_signal() -> None:
    assert {status: signal_for(status) for status in TaskStatus}[TaskStatus.STOPPED] is Signal.STOPPED
    assert signal_for(TaskStatus.PAUSED) is Signal.PAUSED


def test_pausing_and_asking() -> None:
    assert move(TaskStatus.RUNNING, Signal.PAUSED) is TaskStatus.PAUSED
    assert move(TaskStatus.PAUSED, Signal.ACTIVITY) is TaskStatus.PAUSED
    assert move(TaskStatus.PAUSED, Signal.RESUMED) is TaskStatus.RUNNING
    assert move(TaskStatus.RUNNING, Signal.ASKED) is TaskStatus.AWAITING_USER
    assert move(TaskStatus.AWAITING_USER, Signal.ANSWERED) is TaskStatus.RUNNING


def test_guards_are_only_on_moves_out_of_an_end() -> None:
    assert all(row.source.is_terminal for row in TRANSITIONS if row.guard is not Guard.NONE)
