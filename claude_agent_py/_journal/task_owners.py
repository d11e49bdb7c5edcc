"""`TaskOwners`: which runs a task belongs to.

A task belongs to the runs in whose turn it started, and so do its children and the messages of its subagent.
"""

from claude_agent_py._journal.open_runs import OpenRun
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.tasks import TaskStartedMessage


class TaskOwners:
    """The runs of every task so far."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[OpenRun, ...]] = {}
        self._task_of_call: dict[str, str] = {}
        """Tasks by the tool call that launched them, for messages of a subagent that do not name their task."""

    def of(self, task_id: str) -> tuple[OpenRun, ...]:
        """Return the runs of a task; empty if it is unknown."""
        return self._owners.get(task_id, ())

    def start(self, message: TaskStartedMessage, turn_runs: tuple[OpenRun, ...]) -> tuple[OpenRun, ...]:
        """Add a task that starts or resumes in a turn of these runs, and return its runs, with the previous ones."""
        task_id = message.task_id
        if message.tool_use_id is not None:
            self._task_of_call[message.tool_use_id] = task_id
        before = self._owners.get(task_id)
        if before is not None and message.prompt is None:  # it resumed on its own
            return before
        starters = self._owners.get(message.parent_task_id or "", turn_runs)
        owners = self._owners[task_id] = tuple(dict.fromkeys((*before, *starters))) if before else starters
        return owners

    def find_task(self, message: AssistantMessage | UserMessage) -> str | None:
        """Return the task of the subagent that a message belongs to; None if it is unknown."""
        return message.agent_id or self._task_of_call.get(message.parent_tool_use_id or "")

    def drop(self, run: OpenRun) -> None:
        """Remove a run from the owners of its tasks; the tasks stay known."""
        for task_id in run.tasks & self._owners.keys():
            self._owners[task_id] = tuple([owner for owner in self._owners[task_id] if owner is not run])
