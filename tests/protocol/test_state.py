"""The states of a connection: the table is complete, and nothing is sent but in one state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claude_agent_py.errors import LocalProtocolError
from claude_agent_py.protocol.state import TRANSITIONS, State, Step, advance


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("step", Step)
def test_every_step_is_either_in_the_table_or_refused(state: State, step: Step) -> None:
    if (state, step) in TRANSITIONS:
        assert advance(state, step) is TRANSITIONS[state, step]
    else:
        with pytest.raises(LocalProtocolError, match=f"cannot {step.value}: .*{state.value}"):
            advance(state, step)


def test_sending_needs_an_open_connection() -> None:
    assert [state for state in State if (state, Step.SEND) in TRANSITIONS] == [State.OPEN]


@given(st.lists(st.sampled_from([Step.END_INPUT, Step.END_OF_STREAM])))
def test_there_is_no_way_back(steps: list[Step]) -> None:
    order = list(State)
    state = State.OPEN
    for step in steps:
        after = advance(state, step)
        assert order.index(after) >= order.index(state)
        state = after
    assert (state is State.CLOSED) == (Step.END_OF_STREAM in steps)


def test_both_ends_may_come_in_any_order_and_twice() -> None:
    for steps in ([Step.END_INPUT, Step.END_OF_STREAM], [Step.END_OF_STREAM, Step.END_INPUT]):
        state = State.OPEN
        for step in steps * 2:
            state = advance(state, step)
        assert state is State.CLOSED
