"""A child agent at work: its process, its task, its report.

Owns the life of one child. It is a task of its parent's from the start, `pending` until a process is free, then
`running`, and ends with a report whatever happens: a crash, a failed start, a time limit, a cancellation. It runs in a
worker of the parent's session, so that closing the parent ends it. Waiting for it is by an event. How the parent hears
of what it does is in `line`.
"""

import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio

from claude_agent_py.children.account import Account
from claude_agent_py.children.family import Membership
from claude_agent_py.children.line import Line, Signature
from claude_agent_py.children.report import TASK_STATUS, ChildReport, SubTaskStatus
from claude_agent_py.client import Client
from claude_agent_py.errors import ClaudeAgentError
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.tasks import (
    CHILD_AGENT,
    TaskNotificationMessage,
    TaskPatch,
    TaskStartedMessage,
    TaskStatus,
    TaskUpdatedMessage,
)

logger: logging.Logger = logging.getLogger("claude_agent_py")


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What one child is started for."""

    agent_id: str
    prompt: str
    title: str
    is_awaited: bool
    """Whether a tool call blocks until it is over."""
    asks_parent: bool = True
    """Whether the parent answers for people, and not handlers of its own."""
    parent_task_id: str | None = None
    tool_use_id: str | None = None
    timeout: float | None = None
    """Seconds; None is without limit."""


class ChildRun:
    """One child, from its start to its report."""

    def __init__(self, assignment: Assignment, membership: Membership, options: ClientOptions) -> None:
        self._assignment = assignment
        self._membership = membership
        self._parent = membership.client
        self._options = options
        self._signature = Signature(
            task_id=f"c{secrets.token_hex(8)}",
            run_id=f"{int(time.time() * 1000):x}-{secrets.token_hex(4)}",
            agent_id=assignment.agent_id,
            title=assignment.title,
            tool_use_id=assignment.tool_use_id,
        )
        self._account = Account()
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        self._began: float | None = None
        self.report: ChildReport | None = None
        """None until it is over."""

    @property
    def task(self) -> Task:
        """The child as a task of the client that started it."""
        return self._parent.tasks[self._signature.task_id]

    def begin(self) -> None:
        """Make the task and start the worker.

        Raises:
            OptionsError: A limit for children is reached.
            ConnectionClosedError: The client is not open.
        """
        session = self._parent.session
        session.check_open()
        self._membership.admit(self._assignment.agent_id)
        session.children.add(self.cancel)
        self._membership.adopt(self._started(), self.stop)
        self._tell_status(TaskStatus.PENDING)
        session.start_soon(self._live)

    async def wait(self) -> ChildReport:
        """Wait for the report. Cancelling disturbs nothing."""
        await self._over.wait()
        assert self.report is not None  # noqa: S101 - set before the event
        return self.report

    async def stop(self) -> None:
        """Cancel the child, and wait until it is over and its process gone."""
        self.cancel()
        await self._over.wait()

    def cancel(self) -> None:
        """Cancel the child; returns at once."""
        self._scope.cancel()

    def leave(self) -> None:
        """Let it go on without anybody who waits for it."""
        if self.report is None:
            self._tell(TaskUpdatedMessage, patch=TaskPatch(is_backgrounded=True))

    # The worker --------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        status: SubTaskStatus = "Cancel"
        reason: str | None = "it was cancelled"
        try:
            with self._scope:
                status, reason = await self._work()
        finally:
            self._finish(status, reason)

    async def _work(self) -> tuple[SubTaskStatus, str | None]:
        """Run the child to its end; give how it ended. What goes wrong is a report, too."""
        try:
            async with self._membership.family.places(self._membership.generation):
                self._began = anyio.current_time()
                self._tell_status(TaskStatus.RUNNING)
                error = await self._talk()
        except ClaudeAgentError as failure:
            error = failure
        except Exception as failure:
            logger.exception("the child agent %s failed", self._assignment.agent_id)
            return "Error", f"{type(failure).__name__}: {failure}"
        return ("Success", None) if error is None else ("Error", str(error))

    async def _talk(self) -> ClaudeAgentError | None:
        """Start the process, have it do its work, and end it; give the error that its result is."""
        client = _ChildClient(self._options, self._line_of)
        self._membership.child(client, self._assignment.agent_id)
        try:
            await client.connect()
            result = await client.query(
                self._assignment.prompt, until="idle", timeout=self._assignment.timeout
            ).result()
        except BaseException:  # it failed or was cancelled: nothing is left to be said to it, and time counts
            client.abort()
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()
        self._account.last_words = result.text or self._account.last_words
        return result.error()

    def _line_of(self, client: Client) -> Line:
        return Line(
            client,
            self._membership,
            self._signature,
            self._account,
            self._elapsed,
            asks_parent=self._assignment.asks_parent,
        )

    def _elapsed(self) -> float:
        return 0.0 if self._began is None else anyio.current_time() - self._began

    def _finish(self, status: SubTaskStatus, reason: str | None) -> None:
        self.report = report = ChildReport(
            task_id=self._signature.task_id,
            agent_id=self._assignment.agent_id,
            status=status,
            failure_reason=reason,
            final_assistant_message=self._account.last_words,
            usage=self._account.usage(self._elapsed()),
        )
        self._parent.session.children.discard(self.cancel)
        try:
            self._tell(
                TaskNotificationMessage,
                status=TASK_STATUS[status],
                summary=reason or report.final_assistant_message,
                summary_is_report=reason is None,
                output_file=self.task.output_file or "",
                usage=report.usage,
            )
        finally:
            self._over.set()

    # Telling the parent ------------------------------------------------------------------------------------------

    def _started(self) -> TaskStartedMessage:
        assignment = self._assignment
        return TaskStartedMessage(
            task_id=self._signature.task_id,
            run_id=self._signature.run_id,
            task_type=CHILD_AGENT,
            description=assignment.title,
            prompt=assignment.prompt,
            subagent_type=assignment.agent_id,
            is_backgrounded=not assignment.is_awaited,
            parent_task_id=assignment.parent_task_id,
            tool_use_id=assignment.tool_use_id,
        )

    def _tell_status(self, status: TaskStatus) -> None:
        self._tell(TaskUpdatedMessage, patch=TaskPatch(status=status.value))

    def _tell(self, message: type[TaskUpdatedMessage] | type[TaskNotificationMessage], **fields: Any) -> None:
        signature = self._signature
        self._membership.tell(message(task_id=signature.task_id, run_id=signature.run_id, **fields))


class _ChildClient(Client):
    """The client of a child, with a line to its parent."""

    def __init__(self, options: ClientOptions, line_of: Callable[[Client], Line]) -> None:
        super().__init__(options)
        self._above = line = line_of(self)
        self.session.intake.observe(line.note_events, wants_progress=lambda: False)
