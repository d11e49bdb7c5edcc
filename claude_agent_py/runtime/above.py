"""What the session of a child agent has above it: as much of its parent's session as concerns it.

Owns the interface and nothing else, so that a session knows nothing of child agents; they implement it
(`children/line.py`). A session that is nobody's child has nothing above it.
"""

from typing import Any, Protocol

from claude_agent_py.errors import HandlerError
from claude_agent_py.runtime.answers import PermissionAnswers


class Above(Protocol):
    """The parent's session, as the child's sees it. All is called in the event loop's thread and has to be quick."""

    @property
    def agent_id(self) -> str:
        """Under which id the child's main agent is known above: that of its task."""
        ...

    @property
    def permissions(self) -> PermissionAnswers | None:
        """What answers for a person in place of the child's own handlers; None where it has handlers of its own."""
        ...

    def find_task(self, agent_id: str) -> Any:
        """Return the task of an agent as it is known above; None for one that is not."""
        ...

    def take(self, message: Any) -> None:
        """Hear of a message of the child's session. The child's tasks know of it already."""
        ...

    def note_failure(self, error: HandlerError) -> None:
        """Hear that a handler or listener of the child's session failed. It was logged already."""
        ...

    def note_waiting(self, prompt_id: str, agent_id: str, waiting: bool) -> None:
        """Hear that an agent of the child's waits for a person whom the child asks itself, or no longer."""
        ...
