"""The states of a connection and their transitions.

=========  =====================================================================================
NEW        nothing has been sent; the CLI is starting
OPEN       frames go both ways
EXITING    the CLI was asked to exit (`end_session`) and has not refused; it may end at any time
LEFT       the client sends no more prompts; the CLI finishes its work, and its requests are answered
CLOSING    the client is closing the connection; the CLI may still write, and send requests
DIED       the CLI exited unexpectedly
EXITED     the CLI exited because it was asked to
CLOSED     closed by the client
=========  =====================================================================================

Prompts and requests can be sent in OPEN and EXITING, answers as long as the CLI reads.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from claude_agent_py._base.errors import LocalProtocolError


class State(StrEnum):
    """The state of a connection."""

    NEW = "new"
    OPEN = "open"
    EXITING = "exiting"
    LEFT = "left"
    CLOSING = "closing"
    DIED = "died"
    EXITED = "exited"
    CLOSED = "closed"


class Step(StrEnum):
    """An event that changes the state of a connection."""

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
        LocalProtocolError: The step is not allowed in this state.
    """
    try:
        return TRANSITIONS[state][step]
    except KeyError:
        raise LocalProtocolError(f"cannot {step.value}: the connection is in state {state.value!r}") from None
