"""Where a connection stands, and what moves it: all of it is in the table below.

=========  =====================================================================================
NEW        nothing was sent; the CLI is being started
OPEN       frames go both ways
EXITING    the CLI was asked to exit (`end_session`) and has not refused; it may end at any time
LEFT       this side sends no more prompts; the CLI finishes its work, and its questions are answered
CLOSING    the end has begun on this side; the CLI may still write, and ask
DIED       the CLI ended, and nobody had asked it to
EXITED     the CLI ended because it was asked to exit
CLOSED     over, as this side wanted
=========  =====================================================================================

Prompts and requests can be sent in OPEN and EXITING, answers as long as the CLI reads. This file does not know what a
frame says.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from claude_agent_py.errors import LocalProtocolError


class State(Enum):
    """Where the connection stands."""

    NEW = "new"
    OPEN = "open"
    EXITING = "exiting"
    LEFT = "left"
    CLOSING = "closing"
    DIED = "died"
    EXITED = "exited"
    CLOSED = "closed"


class Step(Enum):
    """What can happen to a connection."""

    START = "start"
    SEND = "send"
    ASK_EXIT = "ask the CLI to exit"
    EXIT_REFUSED = "hear that the CLI refuses to exit"
    LEAVE = "leave the CLI alone"
    CLOSE = "close"
    END_OF_STREAM = "receive the end of the stream"


_AFTER_THE_END: Final = {Step.LEAVE: State.CLOSED, Step.CLOSE: State.CLOSED}

TRANSITIONS: Final[Mapping[State, Mapping[Step, State]]] = {
    State.NEW: {
        Step.START: State.OPEN,
        Step.CLOSE: State.CLOSED,
    },
    State.OPEN: {
        Step.SEND: State.OPEN,
        Step.ASK_EXIT: State.EXITING,
        Step.LEAVE: State.LEFT,
        Step.CLOSE: State.CLOSING,
        Step.END_OF_STREAM: State.DIED,
    },
    State.EXITING: {
        Step.SEND: State.EXITING,
        Step.ASK_EXIT: State.EXITING,
        Step.EXIT_REFUSED: State.OPEN,
        Step.LEAVE: State.LEFT,
        Step.CLOSE: State.CLOSING,
        Step.END_OF_STREAM: State.EXITED,
    },
    State.LEFT: {
        Step.LEAVE: State.LEFT,
        Step.CLOSE: State.CLOSING,
        Step.END_OF_STREAM: State.CLOSED,
    },
    State.CLOSING: {
        Step.LEAVE: State.CLOSING,
        Step.CLOSE: State.CLOSING,
        Step.END_OF_STREAM: State.CLOSED,
    },
    State.DIED: {Step.END_OF_STREAM: State.DIED, **_AFTER_THE_END},
    State.EXITED: {Step.END_OF_STREAM: State.EXITED, **_AFTER_THE_END},
    State.CLOSED: {Step.END_OF_STREAM: State.CLOSED, **_AFTER_THE_END},
}

CAN_SEND: Final = frozenset(state for state, steps in TRANSITIONS.items() if Step.SEND in steps)
"""The states in which prompts and requests can be sent."""

CLI_READS: Final = frozenset({State.OPEN, State.EXITING, State.LEFT, State.CLOSING})
"""The states in which the CLI may still read an answer."""


def advance(state: State, step: Step) -> State:
    """Return the state after a step.

    Raises:
        LocalProtocolError: The step is not possible in that state.
    """
    try:
        return TRANSITIONS[state][step]
    except KeyError:
        raise LocalProtocolError(f"cannot {step.value}: the connection is in state {state.value!r}") from None
