"""Run a child agent: its process, its task and its report.

The child is a task of its parent from the start: `pending` until a process is free, then `running`. It always ends with
a report, even after a crash, a failed start, a timeout or a cancellation. It runs in the parent's task group, so
closing the parent ends it.
"""

import logging
from collections.abc import Callable
from typing import Any

import anyio

from claude_agent_py._errors import ClaudeAgentError
from claude_agent_py._runtime.runs.result import RunTimeoutError
from claude_agent_py.children.assignment import TASK_STATUS, Assignment, ChildReport, ChildUsage, SubTaskStatus
from claude_agent_py.children.parent_link import ParentLink
from claude_agent_py.children.tree import TreeNode
from claude_agent_py.client import Client
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.tasks.outcome import EndedBy
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.messages.tasks import (
    CHILD_AGENT,
    TaskNotificationMessage,
    TaskPatch,
    TaskStartedMessage,
    TaskStatus,
    TaskUpdatedMessage,
)

logger: logging.Logger = logging.getLogger("claude_agent_py")


class ChildRun:
    """One run of a child, from start to report."""

    def __init__(self, assignment: Assignment, node: TreeNode, options: ClientOptions) -> None:
        self._assignment = assignment
        self._node = node
        self._parent = node.client
        self._options = options
        self._usage = ChildUsage()
        self._scope = anyio.CancelScope()
        self._finished = anyio.Event()
        self._began: float | None = None
        self.report: ChildReport | None = None
        """The report; None until the child ends."""

    @property
    def task(self) -> Task:
        """The child as a task of the client that started it."""
        return self._parent.tasks[self._assignment.task_id]

    def begin(self) -> None:
        """Create the task and start the worker.

        Raises:
            OptionsError: A limit for children is reached.
            ConnectionClosedError: The client is not open.
        """
        session = self._parent.session
        session.check_open()
        self._node.admit(self._assignment.agent_id)
        session.children.add(self.cancel)
        self._node.adopt(
            self._build_started_message(), self.stop, self._assignment.brief.to_json(), self._assignment.author
        )
        self._report_status(TaskStatus.PENDING)
        session.start_soon(self._run_and_report)

    async def wait(self) -> ChildReport:
        """Wait for the report. Cancelling the wait does not affect the child."""
        await self._finished.wait()
        assert self.report is not None  # noqa: S101 - set before the event
        return self.report

    async def stop(self) -> None:
        """Cancel the child and wait until its process has ended."""
        self.cancel(EndedBy.PROGRAM)
        await self._finished.wait()

    def cancel(self, by: EndedBy = EndedBy.PARENT) -> None:
        """Cancel the child without waiting."""
        if self.report is None:
            self._node.ends_by(self._assignment.task_id, by)
        self._scope.cancel()

    def leave(self) -> None:
        """Mark the child as a background task, after its tool call was cancelled."""
        if self.report is None:
            self._send_to_parent(TaskUpdatedMessage, patch=TaskPatch(is_backgrounded=True))

    # The worker --------------------------------------------------------------------------------------------------

    async def _run_and_report(self) -> None:
        status: SubTaskStatus = "Cancel"
        reason: str | None = "it was cancelled"
        try:
            with self._scope:
                status, reason = await self._run_guarded()
        finally:
            self._finish(status, reason)

    async def _run_guarded(self) -> tuple[SubTaskStatus, str | None]:
        """Run the child to its end and return its status and failure reason."""
        try:
            async with self._node.limiter:
                self._began = anyio.current_time()
                self._report_status(TaskStatus.RUNNING)
                error = await self._run_process()
        except ClaudeAgentError as failure:
            error = failure
            if isinstance(failure, RunTimeoutError):
                self._node.ends_by(self._assignment.task_id, EndedBy.TIMEOUT)
        except Exception as failure:
            logger.exception("the child agent %s failed", self._assignment.agent_id)
            return "Error", f"{type(failure).__name__}: {failure}"
        return ("Success", None) if error is None else ("Error", str(error))

    async def _run_process(self) -> ClaudeAgentError | None:
        """Run the child's process and return the error of its result, or None on success."""
        client = _ChildClient(self._options, self._link_to_parent)
        self._node.add_child(client, self._assignment.agent_id)
        try:
            await client.connect()
            result = await client.query(
                self._assignment.prompt, until="idle", timeout=self._assignment.timeout
            ).result()
        except BaseException:
            # The child failed or was cancelled: kill its process instead of waiting for a clean exit.
            client.session.cancel_children()
            client.abort()
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()
        self._usage.last_text = result.text or self._usage.last_text
        return result.error()

    def _link_to_parent(self, client: Client) -> ParentLink:
        return ParentLink(client, self._node, self._assignment, self._usage, self._elapsed)

    def _elapsed(self) -> float:
        return 0.0 if self._began is None else anyio.current_time() - self._began

    def _finish(self, status: SubTaskStatus, reason: str | None) -> None:
        self.report = report = ChildReport(
            task_id=self._assignment.task_id,
            agent_id=self._assignment.agent_id,
            status=status,
            failure_reason=reason,
            final_assistant_message=self._usage.last_text,
            usage=self._usage.usage(self._elapsed()),
        )
        self._parent.session.children.discard(self.cancel)
        try:
            self._send_to_parent(
                TaskNotificationMessage,
                status=TASK_STATUS[status],
                summary=reason or report.final_assistant_message,
                summary_is_report=reason is None,
                output_file=self.task.output_file or "",
                usage=report.usage,
            )
        finally:
            self._finished.set()

    # Messages to the parent --------------------------------------------------------------------------------------

    def _build_started_message(self) -> TaskStartedMessage:
        assignment = self._assignment
        return TaskStartedMessage(
            task_id=assignment.task_id,
            run_id=assignment.run_id,
            task_type=CHILD_AGENT,
            description=assignment.brief.title,
            prompt=assignment.prompt,
            subagent_type=assignment.agent_id,
            is_backgrounded=not assignment.is_awaited,
            parent_task_id=assignment.parent_task_id,
            tool_use_id=assignment.tool_use_id,
        )

    def _report_status(self, status: TaskStatus) -> None:
        self._send_to_parent(TaskUpdatedMessage, patch=TaskPatch(status=status.value))

    def _send_to_parent(self, message: type[TaskUpdatedMessage] | type[TaskNotificationMessage], **fields: Any) -> None:
        assignment = self._assignment
        self._node.inject_message(message(task_id=assignment.task_id, run_id=assignment.run_id, **fields))


class _ChildClient(Client):
    """The client of a child, linked to its parent."""

    def __init__(self, options: ClientOptions, make_link: Callable[[Client], ParentLink]) -> None:
        super().__init__(options)
        self._parent = link = make_link(self)
        self.session.intake.observe(link.note_events, wants_progress=lambda: False)
