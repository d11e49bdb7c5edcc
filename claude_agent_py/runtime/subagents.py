"""The subagents of a run or a session: each with what it is, how it is, and what it said.

Owns `Subagent`, a view of a task together with the definition of its agent, and which tool calls were to start one and
did not. What becomes of a task is the business of `tasks`; a child agent counts as a subagent here, too.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.agents.reports import shorten_report
from claude_agent_py.tasks.task import Task
from claude_agent_py.tools.traffic import ToolCallRecord
from claude_agent_py.wire.tasks import CHILD_AGENT, TaskStatus, TaskUsage

LAUNCHING_TOOLS: Final = frozenset({"Agent", "Task"})
"""The names of the tool that starts subagents; the second is the older one."""


@dataclass(frozen=True, slots=True)
class Subagent:
    """A subagent: an instance of an agent, at work or over. Two views of the same one are equal."""

    task: Task
    """Its task: wait for it, stop it, read its transcript."""
    definition: AgentDefinition | None = None
    """What it is, where this side knows: None for the CLI's own agents and those in files."""

    def __repr__(self) -> str:
        return f"<Subagent {self.id} {self.name} {self.status.value} {self.description!r}>"

    @property
    def id(self) -> str:
        """Its id, which is that of its task and stands as `agent_id` on its messages."""
        return self.task.id

    @property
    def name(self) -> str:
        """Which agent it is an instance of; empty while that is not known."""
        return self.task.subagent_type or ""

    @property
    def description(self) -> str:
        """What it is for, in a few words."""
        return self.task.description

    @property
    def prompt(self) -> str | None:
        """What it was asked."""
        return self.task.prompt

    @property
    def status(self) -> TaskStatus:
        """Where it is in its life."""
        return self.task.status

    @property
    def usage(self) -> TaskUsage | None:
        """What its current run used so far, without what it started itself."""
        return self.task.usage

    @property
    def is_child(self) -> bool:
        """Whether it is a child agent, with a process of its own."""
        return self.task.type == CHILD_AGENT

    @property
    def messages(self) -> Sequence[Any]:
        """What it said and did so far, as far as the CLI sent it and it is kept (see `Task.messages`)."""
        return self.task.seen_messages

    def follow(self) -> AsyncIterator[Any]:
        """Iterate its messages: those seen so far, then live until it is over."""
        return self.task.messages()

    def report(self, max_chars: int | None = None) -> str:
        """Return what it reported, cut at the end of a sentence to so many characters; empty while it is at work."""
        return shorten_report(self.task.summary, max_chars) if self.task.done else ""

    @property
    def parent(self) -> "Task | None":
        """The task of the subagent that started it; None for the main agent's."""
        return self.task.parent


def subagents_of(tasks: Iterable[Task], definitions: Mapping[str, AgentDefinition]) -> list[Subagent]:
    """Return those of the tasks that are agents, in their order."""
    agents = (task for task in tasks if task.is_agent and not task.is_ambient)
    return [Subagent(task, definitions.get(task.subagent_type or "")) for task in agents]


def refused_launches(calls: Iterable[ToolCallRecord], tasks: Iterable[Task]) -> list[ToolCallRecord]:
    """Return the calls that were to start a subagent and did not: too deep, too many at once, no such agent, denied.

    One that started and failed is not among them: it has a task.
    """
    launched = {call_id for task in tasks for call_id in task.tool_use_ids}
    return [call for call in calls if call.name in LAUNCHING_TOOLS and call.is_error and call.id not in launched]
