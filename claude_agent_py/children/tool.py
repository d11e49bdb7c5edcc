"""A child agent as a tool that the model calls to start it and wait for its report."""

from dataclasses import replace
from typing import Annotated, Any, TypeAlias

from pydantic import AliasChoices, Field, StringConstraints

from claude_agent_py._errors import ClaudeAgentError, OptionsError, ToolError
from claude_agent_py.children.agent import ChildAgent
from claude_agent_py.children.assignment import Brief, Priority
from claude_agent_py.children.report import ChildReport
from claude_agent_py.client import Client, current_client
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.definition import Tool, tool

Title: TypeAlias = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), Field(description="The task in a few words.")
]
Intent: TypeAlias = Annotated[
    str, Field(description="Everything the agent needs to know; it does not see this conversation.")
]
ArtifactRefs: TypeAlias = Annotated[
    list[str],
    Field(
        alias="artifactRefs",
        validation_alias=AliasChoices("artifactRefs", "artifact_refs"),  # models write either
        description="Files or links that the agent needs: paths or URLs.",
    ),
]
TheirPriority: TypeAlias = Annotated[
    Priority, Field(description="How urgent it is: low, normal, high, or any other word or number.")
]


def child_tool(agent: ChildAgent) -> Tool[..., Any]:
    """Return the tool `create_subtask_<agent id>`, for `custom_tools` or a `ToolServer`.

    It starts the child, **blocks until the child ends** (even while it waits for a person), and returns
    `{taskId, agentId, subTaskStatus, summary, failureReason, finalAssistantMessage}`; `summary` is null if it would
    only repeat another field. Several calls may run concurrently: the tool is marked read-only, because the CLI runs
    only such tools in parallel. The child's permissions apply to its actions.

    Raises:
        OptionsError: `agent` is not a `ChildAgent`.
    """
    if not isinstance(agent, ChildAgent):
        raise OptionsError(f"must be a ChildAgent, not {type(agent).__name__}", option="agent")

    async def create_subtask(
        title: Title,
        intent: Intent = "",
        artifact_refs: ArtifactRefs = [],  # noqa: B006 - never changed
        priority: TheirPriority = "normal",
        *,
        context: ToolContext,
    ) -> dict[str, Any]:
        client = current_client()
        if client is None:
            raise ToolError("child agents can only be started in a running session")
        brief = Brief(title=title, intent=intent, artifacts=tuple(artifact_refs), priority=priority)
        report = await _run_child(agent, client, brief, context)
        return report.to_json(agent.report_chars_under(client))

    make = tool(name=f"create_subtask_{agent.id}", description=_describe(agent), read_only=True, always_load=True)
    return replace(make(create_subtask), agent=agent.definition)


async def _run_child(agent: ChildAgent, client: Client, brief: Brief, context: ToolContext) -> ChildReport:
    """Run a child to its end. If it cannot start, the report has the reason."""
    assignment = agent.assignment(
        brief, brief.prompt(), is_awaited=True, parent=context.task, tool_use_id=context.tool_use_id
    )
    try:
        run = agent.start(client, assignment)
    except ClaudeAgentError as refusal:
        return ChildReport(task_id="", agent_id=agent.id, status="Error", failure_reason=str(refusal))
    try:
        return await run.wait()
    except BaseException:
        if agent.on_parent_cancel == "cancel":
            run.cancel()
        else:
            run.leave()
        raise


def _describe(agent: ChildAgent) -> str:
    return (
        f"Give a subtask to the agent {agent.id!r} and wait for its report. {agent.definition.description}\n\n"
        "The result has its status (subTaskStatus: Success, Error or Cancel), the reason of a failure (failureReason), "
        "its report (finalAssistantMessage), and for a long report a summary."
    )
