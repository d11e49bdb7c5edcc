"""The line from a child to its parent: what the child's session says, as the parent is to hear it.

Owns the translation: the child's messages get its name, its own subagents and shells become tasks below its task, and
what became of them is told whatever happens to the child. The child's pump calls it, so it is quick. What a child does
and how it ends is the business of `run`.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from claude_agent_py.children.account import Account
from claude_agent_py.children.family import Membership
from claude_agent_py.children.relay import Relay
from claude_agent_py.client import Client
from claude_agent_py.errors import ControlError, HandlerError, TaskError
from claude_agent_py.launch.environment import config_directory, environment
from claude_agent_py.runtime.answers import PermissionAnswers
from claude_agent_py.tasks import Evidence, TaskEvent, TaskFinished, TaskRevised
from claude_agent_py.tasks.files.paths import project_slug
from claude_agent_py.wire.messages import AssistantMessage, UserMessage
from claude_agent_py.wire.system import InitMessage, PermissionDeniedMessage
from claude_agent_py.wire.tasks import (
    CHILD_AGENT,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
)

logger: logging.Logger = logging.getLogger("claude_agent_py")


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What marks a message as a child's."""

    task_id: str
    run_id: str
    agent_id: str
    title: str
    tool_use_id: str | None

    def on(self, message: Any) -> Any:
        """Give the message with the child's name on it."""
        return message.replace(
            agent_id=self.task_id,
            parent_tool_use_id=self.tool_use_id or self.task_id,
            subagent_type=self.agent_id,
            task_description=self.title,
        )


class Line:
    """What is above one child: its parent. See `runtime.above.Above`.

    Args:
        client: The child's.
        parent: Its parent's place in the family.
        signature: What marks its messages.
        account: Is told everything that the child's session says.
        elapsed: Gives the seconds that the child has worked.
        asks_parent: Whether the parent answers for people, and not the child's own handlers.
    """

    def __init__(
        self,
        client: Client,
        parent: Membership,
        signature: Signature,
        account: Account,
        elapsed: Callable[[], float],
        *,
        asks_parent: bool,
    ) -> None:
        options = client.options
        self._client = client
        self._parent = parent
        self._signature = signature
        self._account = account
        self._elapsed = elapsed
        self._keeps_transcripts = options.persist_session
        self._config_dir = config_directory(environment(options, os.environ))
        self.permissions: PermissionAnswers | None = (
            Relay(parent.client, os.path.abspath(options.cwd or os.curdir)) if asks_parent else None
        )
        self._takers: Final[dict[type, Callable[[Any], None]]] = {
            AssistantMessage: self._take_assistant,
            UserMessage: self._take_conversation,
            PermissionDeniedMessage: self._take_denial,
            InitMessage: self._take_init,
            TaskStartedMessage: self._take_start,
            TaskProgressMessage: parent.tell,
            TaskUpdatedMessage: parent.tell,
            TaskNotificationMessage: parent.tell,
        }

    @property
    def agent_id(self) -> str:
        """The id of the child's task."""
        return self._signature.task_id

    def find_task(self, agent_id: str) -> Any:
        """Give the task of an agent as it is known above."""
        return self._parent.find_task(agent_id)

    def note_failure(self, error: HandlerError) -> None:
        """Keep the failure of a handler where those of the parent's are kept."""
        self._parent.client.session.failures.take(error)

    def note_waiting(self, prompt_id: str, agent_id: str, waiting: bool) -> None:
        """Let all above know that an agent waits for a person, or no longer."""
        self._parent.note_waiting(prompt_id, agent_id, waiting)

    # Messages ----------------------------------------------------------------------------------------------------

    def take(self, message: Any) -> None:
        """Pass on a message of the child's session that the parent is to hear of. Never raises."""
        self._account.take(message)
        taker = self._takers.get(type(message))
        if taker is None:
            return
        try:
            taker(message)
        except Exception:
            logger.exception("a message of the child agent %s was not passed on", self._signature.agent_id)

    def _take_conversation(self, message: AssistantMessage | UserMessage) -> None:
        self._parent.tell(message if message.agent_id is not None else self._signature.on(message))

    def _take_assistant(self, message: AssistantMessage) -> None:
        self._take_conversation(message)
        if message.agent_id is None:
            for call in message.tool_uses:
                self._tell_progress(call.name)

    def _tell_progress(self, tool_name: str) -> None:
        self._parent.tell(
            TaskProgressMessage(
                task_id=self._signature.task_id,
                run_id=self._signature.run_id,
                description=f"Running {tool_name}",
                last_tool_name=tool_name,
                usage=self._account.usage(self._elapsed()),
            )
        )

    def _take_denial(self, message: PermissionDeniedMessage) -> None:
        own = message.agent_id is None
        self._parent.tell(message.replace(agent_id=self._signature.task_id) if own else message)

    def _take_init(self, message: InitMessage) -> None:
        """Say where the child's transcript is, so that its task can be read and followed."""
        if self._keeps_transcripts and message.cwd and message.session_id:
            folder = Path(self._config_dir, "projects", project_slug(message.cwd))
            self._parent.writes_to(self._signature.task_id, str(folder / f"{message.session_id}.jsonl"))

    # The child's own tasks ---------------------------------------------------------------------------------------

    def _take_start(self, message: TaskStartedMessage) -> None:
        """Take a task of the child as one of the parent's, below the child's."""
        place = {
            "parent_task_id": message.parent_task_id or self._signature.task_id,
            "spawn_depth": None,  # it is counted from the child
        }
        self._parent.adopt(message.replace(**place), lambda: self._stop(message.task_id))
        if message.task_type != CHILD_AGENT:  # which says itself where it writes
            for path in self._client.session.intake.paths_of(message.task_id)[:1]:
                self._parent.writes_to(message.task_id, path)

    async def _stop(self, task_id: str) -> None:
        try:
            await self._client.tasks.stop(task_id)
        except (ControlError, TaskError):
            if self._client.is_open:
                raise  # else the task has ended with its process

    def note_events(self, events: list[TaskEvent]) -> None:
        """Pass on the ends of the child's tasks that its CLI never told: they were inferred, or it is gone."""
        for event in events:
            if isinstance(event, TaskRevised) and event.outcome.evidence is not Evidence.NOTIFICATION:
                self._parent.tell(TaskFinished(event.task_id, event.at, outcome=event.outcome).notification())
            elif isinstance(event, TaskFinished) and event.message is None:
                self._parent.tell(event.notification())
