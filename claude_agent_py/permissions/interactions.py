"""`Interaction`: a question that waits for a person. It is answered once; later answers return False."""

import getpass
import os
import platform
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any

from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py.permissions.prompts import KINDS, Kind, Subject, summarize
from claude_agent_py.tasks import Task
from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.wire.base import JSONObject, dump


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """The source of an answer."""

    by: str
    """The name of the answering person."""
    origin: str
    """The process and its machine."""

    @classmethod
    def here(cls, by: str = "") -> "AnswerSource":
        """Return the source of answers from this process."""
        return cls(by or _get_user_name(), f"process {os.getpid()} on {platform.node()}")


def _get_user_name() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        # The user has no name, for example in a container.
        return ""


class Interaction(ABC):
    """A question that waits for a person.

    Attributes:
        id: A short id, suitable for typing.
        kind: `permission`, `question`, `plan`, `elicitation` or `dialog`.
        subject: The question, as a handler of that kind receives it: a `PermissionRequest`, a tuple of `Question`s, a
            `Plan`, an `ElicitationRequest`, or the request for a dialog.
        wire: The request as received.
        session_id: The asking session, for a child agent the session that started it; None if unknown.
        agent_id: The asking subagent, which is also the id of its task; None for the main agent.
        task: The `Task` of that subagent; only set in the process that runs it.
        task_description: The description of that task.
        created_at: The time of the question, in seconds since the epoch.
        deadline: The time of an automatic refusal, in seconds since the epoch; None means never.
    """

    def __init__(
        self,
        kind: Kind,
        wire: Any,
        *,
        id: str,  # noqa: A002
        created_at: float,
        deadline: float | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        task_description: str | None = None,
        context: HandlerContext | None = None,
    ) -> None:
        self.id = id
        self.kind: Kind = kind
        self.wire = wire
        self.created_at = created_at
        self.deadline = deadline
        self.session_id = session_id
        self.agent_id = agent_id
        self.task: Task | None = None if context is None else context.task
        self.task_description = task_description
        self.subject: Subject = KINDS[kind].subject(wire, context)

    def __repr__(self) -> str:
        return f"<Interaction {self.id} {self.kind}{', done' if self.done else ''}>"

    @property
    def summary(self) -> str:
        """The question in one line that is safe to print in a terminal."""
        return summarize(self.kind, self.subject)

    def to_dict(self) -> JSONObject:
        """Return the question as JSON."""
        return {
            "id": self.id,
            "session_id": self.session_id,
            "kind": self.kind,
            "summary": self.summary,
            "agent_id": self.agent_id,
            "created_at": self.created_at,
            "request": dump(self.wire),
        }

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the question was answered, refused or withdrawn."""

    @abstractmethod
    def _settle(self, reply: JSONObject, source: AnswerSource) -> bool:
        """Record the first reply. Return False for later ones."""

    def resolve(self, value: object, *, by: str = "") -> bool:
        """Answer the question. May be called from any thread.

        Args:
            value: A return value of handlers of this kind: `Allow` or `Deny`, answers, `Accept`, ...
            by: The name of the answering person, for records. Empty means the user of this process.

        Returns:
            False if the question was already answered or withdrawn.

        Raises:
            ValueError: The value does not answer this question, which stays pending.
        """
        return self._settle(KINDS[self.kind].read(self.wire, value), AnswerSource.here(by))

    def refuse(self, message: str = "", *, by: str = "") -> bool:
        """Refuse the question: deny, leave unanswered, cancel or dismiss. `by` and the result are as for `resolve`."""
        return self._settle(KINDS[self.kind].refuse(message), AnswerSource.here(by))

    async def answer(self, value: object, *, by: str = "") -> bool:
        """Answer without blocking the event loop. See `resolve`."""
        return await run_file_work(partial(self.resolve, value, by=by))

    async def deny(self, message: str = "", *, by: str = "") -> bool:
        """Refuse without blocking the event loop. See `refuse`."""
        return await run_file_work(partial(self.refuse, message, by=by))


@dataclass(frozen=True, slots=True)
class InteractionOpened:
    """An event of `Client.events()`: a question waits for a person."""

    interaction: Interaction


@dataclass(frozen=True, slots=True)
class InteractionSettled:
    """An event of `Client.events()`: a question no longer waits."""

    interaction: Interaction
    was_answered: bool
    """False if it timed out, the CLI withdrew it, or the session ended."""
    answer: JSONObject | None = None
    """The reply to the CLI; None if the question was not answered."""
    source: AnswerSource | None = None
    """The person and the process that answered; None if unknown."""
