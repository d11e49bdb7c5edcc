"""`TaskOwners`: which runs a task belongs to.

A task belongs to the runs in whose turn it started, and so do its children and the messages of its subagent.
"""

from claude_agent_py._protocol.open_runs import OpenRun
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.tasks import CHILD_AGENT, TaskStartedMessage


class TaskOwners:
    """The runs of every task so far, and which tasks cause a follow-up turn when they end."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[OpenRun, ...]] = {}
        self._task_of_call: dict[str, str] = {}
        """Tasks by the tool call that launched them, for messages of a subagent that do not name their task."""
        self._foreground: set[str] = set()
        self._elsewhere: set[str] = set()
        """Child agents and their tasks. The CLI does not know them, so their ends cause no follow-up turn."""

    def of(self, task_id: str) -> tuple[OpenRun, ...]:
        """Return the runs of a task; empty if it is unknown."""
        return self._owners.get(task_id, ())

    def start(self, message: TaskStartedMessage, turn_runs: tuple[OpenRun, ...]) -> tuple[OpenRun, ...]:
        """Add a task that starts or resumes in a turn of these runs, and return its runs, with the previous ones."""
        task_id = message.task_id
        if message.tool_use_id is not None:
            self._task_of_call[message.tool_use_id] = task_id
        if message.task_type == CHILD_AGENT or message.parent_task_id in self._elsewhere:
            self._elsewhere.add(task_id)
        if message.is_backgrounded is False:
            self._foreground.add(task_id)
        else:
            self._foreground.discard(task_id)
        before = self.of(task_id)
        if task_id not in self._owners or message.prompt is not None:  # otherwise it resumed on its own
            starters = self._owners.get(message.parent_task_id or "", turn_runs)
            self._owners[task_id] = tuple(dict.fromkeys((*before, *starters)))
        return self._owners[task_id]

    def move_to_background(self, task_id: str) -> None:
        """Note that a task that started in the foreground is in the background now."""
        self._foreground.discard(task_id)

    def causes_follow_up(self, task_id: str) -> bool:
        """Return whether the end of a task causes a follow-up turn, as those in the background do."""
        return task_id not in self._foreground and task_id not in self._elsewhere

    def find_task(self, message: AssistantMessage | UserMessage) -> str | None:
        """Return the task of the subagent that a message belongs to; None if it is unknown."""
        return message.agent_id or self._task_of_call.get(message.parent_tool_use_id or "")

    def drop(self, run: OpenRun) -> None:
        """Remove a run from the owners of its tasks; the tasks stay known."""
        for task_id in run.tasks & self._owners.keys():
            self._owners[task_id] = tuple([owner for owner in self._owners[task_id] if owner is not run])
