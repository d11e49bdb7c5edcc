"""A child agent as a tool that the model calls to start it and wait for its report."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from claude_agent_py.children.agent import ChildAgent
from claude_agent_py.children.report import ChildReport
from claude_agent_py.client import current_client
from claude_agent_py.errors import ClaudeAgentError, OptionsError, ToolError
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.definition import Tool, tool

Priority: TypeAlias = Literal["low", "normal", "high"] | str | int
"""Any word or number; passed to the child as it is."""


def child_tool(agent: ChildAgent) -> Tool[..., Any]:
    """Return the tool `create_subtask_<agent id>`, for `custom_tools` or a `ToolServer`.

    It starts the child, **blocks until the child ends** (even while it waits for a person), and returns
    `{taskId, agentId, subTaskStatus, summary, failureReason, finalAssistantMessage}`. Several may run at once: the
    tool is marked read-only, because the CLI runs only such tools in parallel. The child's own permissions decide what
    it may do.

    Raises:
        OptionsError: `agent` is not a `ChildAgent`.
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
            raise ToolError("child agents can only be started in a running session")
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
    return replace(make(create_subtask), agent=agent.definition)


def _description(agent: ChildAgent) -> str:
    return (
        f"Give a subtask to the agent {agent.id!r} and wait for its report. {agent.definition.description}\n\n"
        "title: the task in a few words. intent: everything the agent needs to know; it does not see this "
        "conversation. artifact_refs: files or links it needs. The result has its status "
        "(subTaskStatus: Success, Error or Cancel) and its report."
    )


def prompt_of(title: str, intent: str, artifact_refs: Sequence[str], priority: Priority) -> str:
    """Return the prompt of a child."""
    parts = [title]
    if intent:
        parts.append(intent)
    if artifact_refs:
        parts.append("Artifacts:\n" + "\n".join(f"- {ref}" for ref in artifact_refs))
    if priority != "normal":
        parts.append(f"Priority: {priority}")
    return "\n\n".join(parts)
