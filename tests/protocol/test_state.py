"""The states of a connection: what can happen in which, and what can be sent in it."""

import pytest
from hypothesis import given, strategies as st

from claude_agent_py._journal.state import CAN_SEND, CLI_READS, TRANSITIONS, State, Step, advance
from claude_agent_py.errors import LocalProtocolError

STEPS = (Step.START, Step.SEND, Step.ASK_EXIT, Step.EXIT_REFUSED, Step.LEAVE, Step.CLOSE, Step.END_OF_STREAM)
TABLE = {
    #         START  SEND     ASK_EXIT EXIT_REF LEAVE    CLOSE    END_OF_STREAM
    "NEW": "  OPEN   -        -        -        -        CLOSED   -            ",
    "OPEN": " -      OPEN     EXITING  -        LEFT     CLOSING  DIED         ",
    "EXITING": "-    EXITING  EXITING  OPEN     LEFT     CLOSING  EXITED       ",
    "LEFT": " -      -        -        -        LEFT     CLOSING  CLOSED       ",
    "CLOSING": "-    -        -        -        CLOSING  CLOSING  CLOSED       ",
    "DIED": " -      -        -        -        CLOSED   CLOSED   DIED         ",
    "EXITED": "-     -        -        -        CLOSED   CLOSED   EXITED       ",
    "CLOSED": "-     -        -        -        CLOSED   CLOSED   CLOSED       ",
}


@pytest.mark.parametrize("state", State)
def test_a_step_leads_where_the_table_says_or_is_refused(state: State) -> None:
    assert set(STEPS) == set(Step)
    for step, target in zip(STEPS, TABLE[state.name].split(), strict=True):
        if target == "-":
            with pytest.raises(LocalProtocolError, match=f"cannot {step.value}: .*'{state.value}'"):
                advance(state, step)
        else:
            assert advance(state, step) is State[target]


def test_prompts_and_requests_go_to_a_cli_that_reads_them() -> None:
    assert {State.OPEN, State.EXITING} == CAN_SEND
    assert CAN_SEND <= CLI_READS
    assert {state for state in TRANSITIONS if state not in CLI_READS} == {
        State.NEW,
        State.DIED,
        State.EXITED,
        State.CLOSED,
    }


@given(st.lists(st.sampled_from(Step)))
def test_no_state_after_leaving_closing_or_dying_can_send(steps: list[Step]) -> None:
    state = State.NEW
    is_final = False
    for step in steps:
        if step not in TRANSITIONS[state]:
            continue
        state = advance(state, step)
        is_final = is_final or step in (Step.LEAVE, Step.CLOSE, Step.END_OF_STREAM)
        assert (state in CAN_SEND) == (not is_final)
        assert Step.CLOSE in TRANSITIONS[state]
