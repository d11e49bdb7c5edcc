"""Runs: prompts, the mailboxes of their messages, `Run` and `RunResult`."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._connection.runs.message_types import (
        RunMessage as RunMessage,
        SessionEvent as SessionEvent,
        SessionMessage as SessionMessage,
    )
    from claude_agent_py._connection.runs.prompts import (
        Prompt as Prompt,
        PromptContent as PromptContent,
        check_keeps_conversation as check_keeps_conversation,
        check_prompt as check_prompt,
    )
    from claude_agent_py._connection.runs.subagents import (
        Subagent as Subagent,
        find_refused_launches as find_refused_launches,
        find_subagents as find_subagents,
    )
else:
    _NAMES = {
        "claude_agent_py._connection.runs.message_types": "RunMessage SessionEvent SessionMessage",
        "claude_agent_py._connection.runs.prompts": "Prompt PromptContent check_keeps_conversation check_prompt",
        "claude_agent_py._connection.runs.subagents": "Subagent find_refused_launches find_subagents",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
