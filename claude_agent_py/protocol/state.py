"""The states of a connection and what moves it from one to the next: all of it is in the table below.

============  ==========================================================================
OPEN          frames go both ways
INPUT_ENDED   we will send no more; the CLI finishes what it has, and may still write
CLOSED        the CLI will write no more; nothing can be sent
============  ==========================================================================

Sending is legal in OPEN only. This file does not know what a frame says.
"""

from enum import Enum
from typing import Final

from claude_agent_py.errors import LocalProtocolError


class State(Enum):
    """Where the connection stands."""

    OPEN = "open"
    INPUT_ENDED = "input ended"
    CLOSED = "closed"


class Step(Enum):
    """What can happen to a connection."""

    SEND = "send a frame"
    END_INPUT = "end the input"
    END_OF_STREAM = "receive the end of the stream"


TRANSITIONS: Final[dict[tuple[State, Step], State]] = {
    (State.OPEN, Step.SEND): State.OPEN,
    (State.OPEN, Step.END_INPUT): State.INPUT_ENDED,
    (State.OPEN, Step.END_OF_STREAM): State.CLOSED,
    (State.INPUT_ENDED, Step.END_INPUT): State.INPUT_ENDED,
    (State.INPUT_ENDED, Step.END_OF_STREAM): State.CLOSED,
    (State.CLOSED, Step.END_INPUT): State.CLOSED,
    (State.CLOSED, Step.END_OF_STREAM): State.CLOSED,
}


def advance(state: State, step: Step) -> State:
    """Give the state after the step.

    Raises:
        LocalProtocolError: The step is not possible in that state.
    """
    try:
        return TRANSITIONS[state, step]
    except KeyError:
        raise LocalProtocolError(f"cannot {step.value}: the connection is in state {state.value!r}") from None
