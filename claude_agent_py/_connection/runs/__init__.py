"""Runs: prompts, the mailboxes of their messages, `Run` and `RunResult`."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._connection.runs.subagents import (
        find_refused_launches as find_refused_launches,
        find_subagents as find_subagents,
    )
else:
    __getattr__, __dir__ = attach(
        __name__, {"claude_agent_py._connection.runs.subagents": "find_refused_launches find_subagents"}
    )
