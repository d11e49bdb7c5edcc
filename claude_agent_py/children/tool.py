"""A child agent as a tool: the model starts it and waits for its report.

Owns the tool's name, its parameters and the prompt that they become.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from claude_agent_py.children.agent import ChildAgent
from claude_agent_py.children.report import ChildReport
from claude_agent_py.client import current_client
from claude_agent_py.errors import ClaudeAgentError, OptionsError, ToolError
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.definition import Tool, tool

Priority: TypeAlias = Literal["low", "normal", "high"] | str | int
"""Any word or number will do: it is told to the child as it is."""


def child_tool(agent: ChildAgent) -> Tool[..., Any]:
    """Make the tool `create_subtask_<agent id>`, to be given as one of `custom_tools` or to a `ToolServer`.

    It starts the child, **blocks until the child is over** (also while it waits for a person), and gives the model
    `{taskId, agentId, subTaskStatus, summary, failureReason, finalAssistantMessage}`. Several may run at once: it says
    of itself that it is read-only, because the CLI runs only such tools in parallel; what a child may do is decided by
    its own permissions.

    Raises:
        OptionsError: `agent` is something else.
    """
    if not isinstance(agent, ChildAgent):
        raise OptionsError(f"must be a ChildAgent, not {type(agent).__name__}", option="agent")

    async def create_subtask(
        title: str,
        intent: str = "",
        artifact_refs: Sequence[str] = (),
        priority: Priority = "normal",
        *,
        context: ToolContext,
    ) -> dict[str, Any]:
        client = current_client()
        if client is None:
            raise ToolError("child agents can only be started inside a running session")
        prompt = prompt_of(title, intent, artifact_refs, priority)
        assignment = agent.assignment(
            prompt, title, is_awaited=True, parent_task=context.task, tool_use_id=context.tool_use_id
        )
        try:
            run = agent.start(client, assignment)
        except ClaudeAgentError as refusal:
            return ChildReport(task_id="", agent_id=agent.id, status="Error", failure_reason=str(refusal)).to_json()
        try:
            report = await run.wait()
        except BaseException:
            (run.cancel if agent.on_parent_cancel == "cancel" else run.leave)()
            raise
        return report.to_json(agent.report_chars_under(client))

    make = tool(name=f"create_subtask_{agent.id}", description=_description(agent), read_only=True, always_load=True)
    return make(create_subtask)


def _description(agent: ChildAgent) -> str:
    return (
        f"Give a subtask to the agent {agent.id!r} and wait for its report. {agent.definition.description}\n\n"
        "title: what is to be done, in a few words. intent: everything that the agent has to know, it sees nothing of "
        "this conversation. artifact_refs: files or links that it needs. The result says how it ended "
        "(subTaskStatus: Success, Error or Cancel) and what it reports."
    )


def prompt_of(title: str, intent: str, artifact_refs: Sequence[str], priority: Priority) -> str:
    """Give the prompt of a child."""
    parts = [title]
    if intent:
        parts.append(intent)
    if artifact_refs:
        parts.append("Artifacts:\n" + "\n".join(f"- {ref}" for ref in artifact_refs))
    if priority != "normal":
        parts.append(f"Priority: {priority}")
    return "\n\n".join(parts)
