"""`Subagent`: a view of a task together with the definition of its agent. Child agents count as subagents here."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from claude_agent_py._base.display import one_line
from claude_agent_py._journal.tool_calls import ToolCallRecord
from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.agents.guide import shorten_report
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.messages.tasks import CHILD_AGENT, TaskStatus, TaskUsage
from claude_agent_py.wire.settings.rule_lists import AGENT_TOOLS


@dataclass(frozen=True, slots=True)
class Subagent:
    """A running or finished subagent. Two views of the same subagent are equal."""

    task: Task
    """The task: wait for it, stop it, read its transcript."""
    definition: AgentDefinition | None = None
    """The definition of the agent; None for the CLI's own agents and those in files."""

    def __repr__(self) -> str:
        return f"<Subagent {self.id} {one_line(self.name)} {self.status.value} {self.description!r}>"

    @property
    def id(self) -> str:
        """The id of its task, which is the `agent_id` of its messages."""
        return self.task.id

    @property
    def name(self) -> str:
        """The name of the agent; empty if unknown."""
        return self.task.subagent_type or ""

    @property
    def description(self) -> str:
        """A short description of its work."""
        return self.task.description

    @property
    def prompt(self) -> str | None:
        """The prompt that it was given."""
        return self.task.prompt

    @property
    def status(self) -> TaskStatus:
        """The status of its task."""
        return self.task.status

    @property
    def usage(self) -> TaskUsage | None:
        """The usage of its current run so far, without the subagents that it started."""
        return self.task.usage

    @property
    def is_child(self) -> bool:
        """Whether it is a child agent, which has its own process."""
        return self.task.type == CHILD_AGENT

    @property
    def messages(self) -> Sequence[Any]:
        """Its messages so far, if the CLI sends them and they are kept (see `Task.messages`)."""
        return self.task.seen_messages

    def follow(self) -> AsyncIterator[Any]:
        """Iterate over its messages: the earlier ones, then new ones until it ends."""
        return self.task.messages()

    def report(self, max_chars: int | None = None) -> str:
        """Return its report, cut to `max_chars` at the end of a sentence; empty while it is running."""
        return shorten_report(self.task.summary, max_chars) if self.task.done else ""

    @property
    def parent(self) -> Task | None:
        """The task of the subagent that started it; None for the main agent's."""
        return self.task.parent


def find_subagents(tasks: Iterable[Task], definitions: Mapping[str, AgentDefinition]) -> list[Subagent]:
    """Return the agents among the tasks, in order."""
    agents = (task for task in tasks if task.is_agent and not task.is_ambient)
    return [Subagent(task, definitions.get(task.subagent_type or "")) for task in agents]


def find_refused_launches(calls: Iterable[ToolCallRecord], tasks: Iterable[Task]) -> list[ToolCallRecord]:
    """Return the calls that failed to start a subagent: nested too deep, too many at once, unknown, or denied.

    A subagent that started and then failed is not included: it has a task.
    """
    launched = {call_id for task in tasks for call_id in task.tool_use_ids}
    return [call for call in calls if call.name in AGENT_TOOLS and call.is_error and call.id not in launched]
