"""The interface of a child agent's session to its parent. `children/run.py` implements it."""

from collections.abc import Iterable
from typing import Any, Protocol

from claude_agent_py._errors import HandlerError
from claude_agent_py.permissions.requests import PermissionContext
from claude_agent_py.tasks import TaskEvent, TaskIntake


class PermissionAnswers(Protocol):
    """What answers permission prompts, questions, plans, elicitations and dialogs."""

    async def answer(self, request: Any, context: PermissionContext) -> dict[str, Any]:
        """Return the reply to a `CanUseToolRequest`, an `ElicitationRequest` or a `UserDialogRequest`."""
        ...


class ParentSession(Protocol):
    """The parent's session, as seen by the child's. Called in the thread of the event loop; must not block."""

    @property
    def agent_id(self) -> str:
        """The id of the child's main agent in the parent's session, which is the id of its task."""
        ...

    @property
    def observers(self) -> tuple[Any, ...]:
        """The observers of the requests that its child agents make."""
        ...

    @property
    def permissions(self) -> PermissionAnswers | None:
        """The parent's permission handlers; None if the child has its own."""
        ...

    def find_task(self, agent_id: str) -> Any:
        """Return the parent's task of an agent, or None if the parent does not know it."""
        ...

    def take(self, message: Any) -> None:
        """Receive a message of the child's session. The child's tasks have received it already."""
        ...

    def take_events(self, events: list[TaskEvent]) -> None:
        """Receive the events of the tasks of the child's session."""
        ...

    def note_failure(self, error: HandlerError) -> None:
        """Receive an error of a handler or listener of the child's session. It has been logged."""
        ...

    def intakes(self) -> Iterable[TaskIntake]:
        """Return the task intakes of the parent and its ancestors."""
        ...
