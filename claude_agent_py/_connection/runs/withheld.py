"""Which messages of subagents the CLI sends only because telemetry needs them. Nobody but the journal gets them."""

from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.tasks import CHILD_AGENT


def is_withheld(message: AssistantMessage | UserMessage, task: Task, with_nested_calls: bool) -> bool:
    """Return whether the CLI (2.1.328) withholds a message of a subagent unless `forward_subagent_text` is set.

    Args:
        message: The message.
        task: The task of the subagent.
        with_nested_calls: Whether `forward_nested_subagent_tool_calls` is set.
    """
    above: Task | None = task
    while above is not None:
        if above.type == CHILD_AGENT:  # its own session decides
            return False
        above = above.parent
    if task.is_backgrounded:
        return False
    is_answer = isinstance(message, AssistantMessage)
    parts = message.tool_uses if isinstance(message, AssistantMessage) else message.tool_results
    if task.parent_id is None:  # its calls and their results are sent
        return is_answer and not parts
    return not (parts and with_nested_calls)
