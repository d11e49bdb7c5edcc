"""The link from a child's session to its parent.

Messages are attributed to the child, and its subagents and shells become tasks below the child's task. The child's
message pump calls the link, so it must not block.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claude_agent_py._errors import ControlError, HandlerError, TaskError
from claude_agent_py._handler_context import HandlerContext
from claude_agent_py._runtime.answering.parent import PermissionAnswers
from claude_agent_py._runtime.session.current import running_client
from claude_agent_py.children.assignment import Assignment, ChildUsage
from claude_agent_py.children.tree import TreeNode
from claude_agent_py.client import Client
from claude_agent_py.permissions.prompts import WireRequest
from claude_agent_py.permissions.requests import PermissionContext
from claude_agent_py.tasks import Answered, Asked, Evidence, TaskEvent, TaskFinished, TaskRevised
from claude_agent_py.tasks.files.paths import project_slug
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.system import InitMessage, PermissionDeniedMessage
from claude_agent_py.wire.messages.tasks import (
    CHILD_AGENT,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
)

logger: logging.Logger = logging.getLogger("claude_agent_py")


class ParentLink:
    """The parent's side of one child; implements `ParentSession`, and answers for the parent (`PermissionAnswers`).

    Args:
        client: The child's client.
        parent: The parent's node in the tree.
        assignment: The assignment to which the child's messages are attributed.
        usage: Receives every message of the child's session.
        elapsed: Returns the seconds since the child's process started.
    """

    def __init__(
        self,
        client: Client,
        parent: TreeNode,
        assignment: Assignment,
        usage: ChildUsage,
        elapsed: Callable[[], float],
    ) -> None:
        options = client.options
        self._client = client
        self._parent = parent
        self._assignment = assignment
        self._usage = usage
        self._elapsed = elapsed
        self._keeps_transcripts = options.persist_session
        self._cwd = os.path.abspath(options.cwd or os.curdir)
        self.permissions: PermissionAnswers | None = self if assignment.asks_parent else None

    @property
    def agent_id(self) -> str:
        """The id of the child's task."""
        return self._assignment.task_id

    @property
    def observers(self) -> tuple[Any, ...]:
        """The observers of the sessions of the parent and its ancestors."""
        return self._parent.client.session.request_observers

    def find_task(self, agent_id: str) -> Any:
        """Return the task of an agent as the root tracks it."""
        return self._parent.find_task(agent_id)

    async def answer(self, request: WireRequest, context: HandlerContext) -> dict[str, Any]:
        """Answer a question with the parent's handlers. The context of a nested child's question has its directory."""
        parent = self._parent.client
        own = PermissionContext(**{"cwd": self._cwd, **vars(context), "session_id": parent.session_id})
        with running_client(parent):
            return await parent.session.answers.person.answer(request, own)

    def note_failure(self, error: HandlerError) -> None:
        """Record the failure of a handler in the parent's session."""
        self._parent.client.session.failures.take(error)

    def note_waiting(self, prompt_id: str, agent_id: str, asked: Asked | None) -> None:
        """Notify the ancestors that an agent waits for a person, or with None that the wait has ended."""
        for intake in self._parent.intakes():
            if asked is not None:
                intake.track_prompt(prompt_id, agent_id, asked)
            else:
                intake.track_prompt_end(prompt_id)

    def note_answer(self, agent_id: str, answered: Answered) -> None:
        """Notify the ancestors of a person's answer to an agent."""
        for intake in self._parent.intakes():
            intake.track_answer(agent_id, answered)

    # Messages ----------------------------------------------------------------------------------------------------

    def take(self, message: Any) -> None:
        """Forward a message of the child's session to the parent if needed. Never raises."""
        self._usage.add(message)
        try:
            self._forward(message)
        except Exception:
            logger.exception("a message of the child agent %s was not forwarded", self._assignment.agent_id)

    def _forward(self, message: Any) -> None:
        match message:
            case AssistantMessage() | UserMessage() if message.agent_id is None:
                self._parent.inject_message(self._assignment.attribute(message))
                for call in message.tool_uses if isinstance(message, AssistantMessage) else ():
                    self._report_progress(call.name)
            case PermissionDeniedMessage() if message.agent_id is None:
                self._parent.inject_message(message.replace(agent_id=self._assignment.task_id))
            case InitMessage():
                self._report_transcript(message)
            case TaskStartedMessage():
                self._adopt_task(message)
            case AssistantMessage() | UserMessage() | PermissionDeniedMessage():
                self._parent.inject_message(message)
            case TaskProgressMessage() | TaskUpdatedMessage() | TaskNotificationMessage():
                self._parent.inject_message(message)
            case _:
                pass

    def _report_progress(self, tool_name: str) -> None:
        self._parent.inject_message(
            TaskProgressMessage(
                task_id=self._assignment.task_id,
                run_id=self._assignment.run_id,
                description=f"Running {tool_name}",
                last_tool_name=tool_name,
                usage=self._usage.usage(self._elapsed()),
            )
        )

    def _report_transcript(self, message: InitMessage) -> None:
        """Set the child's transcript as the output of its task, so that the task can be read and followed."""
        config_dir = self._client.session.intake.paths.config_dir
        if self._keeps_transcripts and config_dir and message.cwd and message.session_id:
            folder = Path(config_dir, "projects", project_slug(message.cwd))
            self._parent.writes_to(self._assignment.task_id, str(folder / f"{message.session_id}.jsonl"))

    # The child's own tasks ---------------------------------------------------------------------------------------

    def _adopt_task(self, message: TaskStartedMessage) -> None:
        """Add a task of the child to the parent's tasks, below the child's own task."""
        # Drop the depth: the child's CLI counts it from the child's own session.
        started = message.replace(
            parent_task_id=message.parent_task_id or self._assignment.task_id,
            spawn_depth=None,
        )
        task = self._client.tasks[message.task_id]
        stop = lambda: self._stop(message.task_id)  # noqa: E731
        self._parent.adopt(started, stop, task.brief, task.author or None)
        # A nested child reports the path itself.
        if message.task_type != CHILD_AGENT:
            for path in self._client.session.intake.paths_of(message.task_id)[:1]:
                self._parent.writes_to(message.task_id, path)

    async def _stop(self, task_id: str) -> None:
        try:
            await self._client.tasks.stop(task_id)
        except (ControlError, TaskError):
            # After the process has ended, so has the task.
            if self._client.is_open:
                raise

    def note_events(self, events: list[TaskEvent]) -> None:
        """Forward the ends of tasks that the child's CLI did not report."""
        for event in events:
            if isinstance(event, TaskRevised) and event.outcome.evidence is not Evidence.NOTIFICATION:
                self._parent.inject_message(TaskFinished(event.task_id, event.at, outcome=event.outcome).notification())
            elif isinstance(event, TaskFinished) and event.message is None:
                self._parent.inject_message(event.notification())
