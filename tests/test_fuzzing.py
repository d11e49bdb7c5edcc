"""Broken sessions are read without an exception, a dropped item or a wait; `make fuzz` plays many more of them."""

import logging

import fuzzing
import pytest

from claude_agent_py import TaskManager


@pytest.mark.parametrize("first", [0, 20, 40])
def test_broken_sessions_are_read(first: int) -> None:
    assert sum(map(fuzzing.play, range(first, first + 20))) > 200


def test_a_failure_that_is_only_logged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        try:
            raise ValueError("cannot be shown")
        except ValueError:
            logging.getLogger("claude_agent_py.tasks").exception("dropped")

    monkeypatch.setattr(TaskManager, "track", fail)
    with pytest.raises(fuzzing.Problem, match=r"seed 1: (?s:.*)cannot be shown"):
        fuzzing.play(1)
