"""`ChildAgent`: an agent that runs in a separate process with its own options."""

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal, TypeAlias

import anyio
from pydantic import AliasChoices, Field, StringConstraints

from claude_agent_py._base.checks import check_type
from claude_agent_py._base.errors import ClaudeAgentError, OptionsError, OptionsWarning, ToolError
from claude_agent_py._connection.live_changes import LiveChanges
from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.agents.guide import DelegationGuide
from claude_agent_py.children.assignment import Brief, ChildReport, Priority, check_priority
from claude_agent_py.children.child_run import ChildRun
from claude_agent_py.children.process_options import (
    build_process_options,
    find_ineffective_fields,
    has_answering_handler,
)
from claude_agent_py.client import Client, current_client
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.conflicts import IDLE_LIMIT
from claude_agent_py.options.variables import surroundings
from claude_agent_py.tasks.task import Task
from claude_agent_py.tools.context import ToolContext, current_tool
from claude_agent_py.tools.definition import Tool, tool
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.settings.rule_lists import describe_whole_tools

REPORT_CHARS: Final = 4000
"""Default maximum length of the report to the parent's model."""

PROGRESS_INTERVAL: Final = 10.0
"""The maximum number of seconds between two reports of progress of a waiting tool call."""

TITLE_CHARS: Final = 80
"""Maximum length of the task description, taken from the first line of the title."""


@dataclass(frozen=True)
class ChildAgent:
    """An agent that runs in a separate CLI process.

    Immutable. May be started any number of times, including concurrently.

    Raises:
        OptionsError: The id is invalid or a number is not positive.

    Warns:
        OptionsWarning: The definition has fields that have no effect in a separate process, or tools that look like
            rules.
    """

    definition: AgentDefinition
    """The agent. The main session of the process runs as this agent."""
    id: str = field(default="", kw_only=True)
    """Letters, digits, `_` and `-`. Defaults to a name made from the description."""
    options: ClientOptions | None = field(default=None, kw_only=True)
    """The options of its process; the definition takes precedence. None inherits the parent's environment, and its
    current model, permissions and settings, but not its conversation, tools or agents. In both cases, the parent's
    handlers answer the child's questions unless the child has any handler of its own, and the parent's tool hooks apply
    unless the child has hooks."""
    on_parent_cancel: Literal["cancel", "leave"] = field(default="cancel", kw_only=True)
    """What happens when the waiting tool call is cancelled (an interrupt, a stop of the calling subagent, the end of
    the parent's process): `cancel` cancels the child; `leave` lets it continue in the background, and the parent's
    model gets its report with the next prompt, or after `reopen`, which cancels a child that still runs. If a time
    limit of the CLI ends the call, the child always continues. Closing the client always ends it."""
    timeout: float | None = field(default=None, kw_only=True)
    """Time limit in seconds, including waits for people. A child that exceeds it ends with `Error`. None means no
    limit."""
    max_report_chars: int | None = field(default=None, kw_only=True)
    """Maximum length of the report to the parent's model. None uses the parent's `delegation_guide`, or 4000. The task
    keeps the full text."""

    def __post_init__(self) -> None:
        check_type(self.definition, AgentDefinition, "ChildAgent.definition")
        if self.options is not None:
            check_type(self.options, ClientOptions, "ChildAgent.options")
        check_type(self.id, str, "ChildAgent.id")
        if self.on_parent_cancel not in ("cancel", "leave"):
            raise OptionsError(
                f"must be 'cancel' or 'leave', not {self.on_parent_cancel!r}", option="ChildAgent.on_parent_cancel"
            )
        name = self.id or "_".join(re.findall(r"[a-z0-9]+", self.definition.description.lower())[:4])
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}", name):
            raise OptionsError("must be 1 to 64 letters, digits, '_' or '-'", option="ChildAgent.id")
        for option in ("timeout", "max_report_chars"):
            value = getattr(self, option)
            if value is not None and (not isinstance(value, int | float) or not value > 0):
                raise OptionsError("must be a positive number", option=f"ChildAgent.{option}")
        if unused := find_ineffective_fields(self.definition, self.options):
            warnings.warn(
                f"child agent {name!r}: {', '.join(unused)} have no effect in a separate process",
                OptionsWarning,
                stacklevel=3,
            )
        if wider := describe_whole_tools(self.definition.tools or ()):
            warnings.warn(f"child agent {name!r}: {wider}", OptionsWarning, stacklevel=3)
        object.__setattr__(self, "id", name)

    async def spawn(
        self,
        client: Client,
        prompt: str,
        *,
        title: str | None = None,
        parent: Task | str | None = None,
        author: str | None = None,
        artifacts: Sequence[str] = (),
        priority: Priority = "normal",
    ) -> Task:
        """Start the child under a client and return its task immediately. The task is pending until a process is free.

        Takes the arguments of `Client.spawn`, and raises the same errors.
        """
        check_type(prompt, str, "prompt")
        check_type(title, str | None, "title")
        for option, given in (("prompt", prompt), ("title", title)):
            if given is not None and not given.strip():
                raise OptionsError("must not be blank", option=option)
        if isinstance(artifacts, str):
            raise OptionsError("must be a list of strings, not one string", option="artifacts")
        check_priority(priority)
        brief = Brief(title=title or prompt, intent=prompt, artifacts=tuple(artifacts), priority=priority)
        return self.start(client, brief, is_awaited=False, parent=_find_parent_task(client, parent), author=author).task

    def start(
        self,
        client: Client,
        brief: Brief,
        *,
        is_awaited: bool,
        parent: Task | None,
        author: str | None = None,
        tool_use_id: str | None = None,
    ) -> ChildRun:
        """Start the child and return the run. `is_awaited` means that a tool call blocks until it ends.

        Raises:
            OptionsError: A limit for children is reached, or the child's options conflict.
            ConnectionClosedError: The client is not open.
        """
        first_line = next(iter(brief.title.strip().splitlines()), "")
        run = ChildRun(
            parent=client,
            options=self.options_under(client),
            agent_id=self.id,
            brief=replace(brief, title=first_line[:TITLE_CHARS]),
            prompt=brief.prompt(with_title=is_awaited),
            is_awaited=is_awaited,
            max_report_chars=self.report_chars_under(client),
            asks_parent=self.options is None or not has_answering_handler(self.options),
            parent_task_id=parent.id if parent is not None else None,
            author=author,
            tool_use_id=tool_use_id,
            timeout=self.timeout,
            changes=client.session.changes.for_child() if self.options is None else LiveChanges(),
        )
        run.begin()
        for session in client.session.lineage:
            session.agents[self.id] = self.definition
        return run

    def options_under(self, client: Client) -> ClientOptions:
        """Return the options of the child's process under a client.

        Raises:
            OptionsError: The options conflict.
        """
        session = client.session
        return build_process_options(
            self.id,
            self.definition,
            self.options,
            session.options_in_effect(client.options),
        )

    def report_chars_under(self, client: Client) -> int:
        """Return the maximum length of the report to a client's model."""
        guide = client.options.delegation_guide
        guide_chars = guide.max_report_chars if isinstance(guide, DelegationGuide) else None
        return self.max_report_chars or guide_chars or REPORT_CHARS


def _find_parent_task(client: Client, parent: Task | str | None) -> Task | None:
    """Return the parent task of a child: the given one, or the subagent that called the running tool."""
    if parent is not None:
        return client.tasks[parent]
    tool = current_tool()
    return client.tasks.get(tool.agent_id) if tool is not None else None


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
    Priority, Field(description="Which waiting subtask starts first: low, normal, high, or a number (higher is first).")
]


def child_tool(agent: ChildAgent) -> Tool:
    """Return the tool `create_subtask_<agent id>`, for `custom_tools` or a `ToolServer`.

    It starts the child, **blocks until the child ends** (even while it waits for a person), and returns
    `{taskId, agentId, subTaskStatus, summary, failureReason, finalAssistantMessage}`; `summary` is the child's own
    summary of a report that is cut, otherwise null. Several calls may run concurrently: the tool is marked read-only,
    because the CLI runs only such tools in parallel. The child's permissions apply to its actions.

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
    ) -> JSONObject:
        client = current_client()
        if client is None:
            raise ToolError("child agents can only be started in a running session")
        brief = Brief(title=title, intent=intent, artifacts=tuple(artifact_refs), priority=priority)
        report = await _run_child(agent, client, brief, context)
        return report.to_json(agent.report_chars_under(client))

    make = tool(name=f"create_subtask_{agent.id}", description=_describe(agent), read_only=True, always_load=True)
    return replace(make(create_subtask), agent=agent.definition)


async def _wait_for(run: ChildRun, client: Client, context: ToolContext) -> ChildReport:
    """Wait for the report of a child, and meanwhile report progress, so that the CLI does not end the call."""
    interval = _find_progress_interval(client.options)
    waited = 0
    while True:
        with anyio.move_on_after(interval):
            return await run.wait()
        waited += 1
        context.report_progress(waited)


def _find_progress_interval(options: ClientOptions) -> float:
    """Return the seconds between progress reports: a third of the CLI's limit for calls without progress, if it is set.

    The CLI raises a smaller limit to one second (measured with 2.1.328).
    """
    environ = {**(surroundings() if options.inherit_env else {}), **options.env}
    try:
        limit = float(environ.get(IDLE_LIMIT) or math.inf) / 1000
    except ValueError:
        limit = 0.0
    return min(max(limit, 1.0) / 3, PROGRESS_INTERVAL)


def _is_cut_by_limit(client: Client, context: ToolContext) -> bool:
    """Return whether a time limit of the CLI ended a call, not an interrupt or the end of the calling subagent.

    Measured with CLI 2.1.328: interrupts and an exit have a word as the reason. A stopped subagent has the same reason
    as the limit for calls without progress, so only a call by the main agent is known to have reached that limit.
    """
    reason = context.cancellation.reason
    call = client.session.intake.ledger.calls.get(context.tool_use_id)
    is_of_main_agent = call is not None and call.agent_id is None
    return reason.endswith("timed out") or (reason == "AbortError: The operation was aborted." and is_of_main_agent)


async def _run_child(agent: ChildAgent, client: Client, brief: Brief, context: ToolContext) -> ChildReport:
    """Run a child to its end. If it cannot start, the report has the reason."""
    try:
        run = agent.start(client, brief, is_awaited=True, parent=context.task, tool_use_id=context.tool_use_id)
    except ClaudeAgentError as refusal:
        return ChildReport(task_id="", agent_id=agent.id, status="Error", failure_reason=str(refusal))
    try:
        return await _wait_for(run, client, context)
    except BaseException:
        if agent.on_parent_cancel == "leave" or _is_cut_by_limit(client, context):
            run.leave()
        else:
            run.cancel()
        raise


def _describe(agent: ChildAgent) -> str:
    return (
        f"Give a subtask to the agent {agent.id!r} and wait for its report. {agent.definition.description}\n\n"
        "The result has its status (subTaskStatus: Success, Error or Cancel), the reason of a failure (failureReason), "
        "its report (finalAssistantMessage), and its summary of a report that is cut."
    )
