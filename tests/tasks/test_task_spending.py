"""The usage of subagents, summed from frames in any order: every message counts once, and no count falls."""

from typing import Any

import pytest
from folding import tracking

from claude_agent_py import TaskManager
from claude_agent_py.testing import frames

MODEL = "claude-x"


def said(message_id: str, tokens: int, agent_id: str = "a1") -> dict[str, Any]:
    """One frame of a message."""
    frame = frames.assistant("x", agent_id=agent_id, parent_tool_use_id="toolu_1")
    frame["message"] |= {"id": message_id, "model": MODEL, "usage": {"input_tokens": tokens, "output_tokens": 1}}
    return frame


def used(manager: TaskManager, task_id: str = "a1") -> float:
    usage = manager[task_id].usage
    return 0 if usage is None else usage.total_tokens


def test_the_frames_of_a_message_count_once_also_when_others_come_between() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"))
    tracking(manager, said("m1", 100), said("m2", 50), said("m1", 100), said("m2", 50), said("m1", 120))
    assert used(manager) == 121 + 51


def test_thousands_of_messages_are_all_counted() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"))
    tracking(manager, *(said(f"m{n // 2}", 9) for n in range(6000)))
    assert used(manager) == 30_000


def test_the_count_never_falls() -> None:
    """The CLI reports the tokens of the latest request, which may be less."""
    manager = tracking(TaskManager(), frames.task_started("a1"))
    seen = []
    for frame in (
        said("m1", 100),
        frames.task_progress("a1", usage={"total_tokens": 400, "tool_uses": 2, "duration_ms": 50}),
        frames.task_progress("a1", usage={"total_tokens": 30, "tool_uses": 1, "duration_ms": 40}),
        said("m2", 500),
        frames.task_notification("a1", usage={"total_tokens": 20, "tool_uses": 2, "duration_ms": 60}),
        said("m3", 7),
    ):
        tracking(manager, frame)
        seen.append(used(manager))
    assert seen == [101, 400, 400, 602, 602, 610]


def test_a_cost_is_derived_once_a_price_is_known_and_for_known_models_only() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"), said("m1", 1_000_000))
    tracking(manager, frames.task_notification("a1"))
    usage = manager["a1"].usage
    assert usage is not None
    assert (usage.cost_usd, usage.cost_is_derived) == (None, False)
    spent = {"inputTokens": 500_000, "outputTokens": 100_000, "costUSD": 3.0}
    tracking(manager, frames.result(modelUsage={MODEL: spent}, user_message_uuid="p", user_message_uuids=[]))
    usage, outcome = manager["a1"].usage, manager["a1"].outcome
    assert usage is not None
    assert outcome is not None
    assert usage.cost_usd == pytest.approx(3.000015)
    assert usage.cost_is_derived
    assert outcome.usage == usage
