"""A child agent at work: its process, its task, its report.

Owns the life of one child: it is a task of its parent's from the start, `pending` until a process is free, then
`running`, and ends with a report whatever happens: a crash, a failed start, a cancellation. It runs in a worker of the
parent's session, so that closing the parent ends it. Waiting for it is by an event.
"""

import contextlib
import secrets
import time
from typing import Any, Final

import anyio

from claude_agent_py.agents import shorten_report
from claude_agent_py.children.family import Membership
from claude_agent_py.children.relay import Relay
from claude_agent_py.children.report import TASK_STATUS, ChildReport, SubTaskStatus
from claude_agent_py.client import Client
from claude_agent_py.errors import ClaudeAgentError
from claude_agent_py.options import ClientOptions
from claude_agent_py.tasks import Task
from claude_agent_py.wire.messages import AssistantMessage, UserMessage
from claude_agent_py.wire.tasks import (
    TaskNotificationMessage,
    TaskPatch,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    TaskUsage,
)

TASK_TYPE: Final = "child_agent"

TASK_MESSAGES: Final = (TaskStartedMessage, TaskProgressMessage, TaskUpdatedMessage, TaskNotificationMessage)
"""What a child's own tasks report and its parent is told. Not the list of live tasks, which would replace its own."""


class ChildRun:
    """One child, from its start to its report."""

    def __init__(
        self,
        agent_id: str,
        membership: Membership,
        options: ClientOptions,
        *,
        prompt: str,
        title: str,
        is_awaited: bool,
        parent_task_id: str | None,
        tool_use_id: str | None,
        timeout: float | None,
        max_report_chars: int,
    ) -> None:
        self._agent_id = agent_id
        self._membership = membership
        self._options = options
        self._prompt = prompt
        self._title = title
        self._is_awaited = is_awaited
        self._parent_task_id = parent_task_id
        self._tool_use_id = tool_use_id
        self._timeout = timeout
        self._max_report_chars = max_report_chars
        self._id = f"c{secrets.token_hex(8)}"
        self._run_id = f"{int(time.time() * 1000):x}-{secrets.token_hex(4)}"
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        self._tool_uses = 0
        self._began = 0.0
        self.report: ChildReport | None = None

    @property
    def task(self) -> Task:
        """The child as a task of the client that started it."""
        return self._membership.client.tasks[self._id]

    def begin(self) -> None:
        """Make the task and start the worker.

        Raises:
            ConnectionClosedError: The client is not open.
        """
        parent = self._membership.client
        connection = parent._session.connection
        if not connection.is_open:
            raise connection.failure()
        started = TaskStartedMessage(
            task_id=self._id,
            run_id=self._run_id,
            task_type=TASK_TYPE,
            description=self._title,
            prompt=self._prompt,
            subagent_type=self._agent_id,
            is_backgrounded=not self._is_awaited,
            parent_task_id=self._parent_task_id,
            **({"tool_use_id": self._tool_use_id} if self._tool_use_id else {}),
        )
        self._membership.adopt(started, self.stop)
        connection.start_soon(self._live)

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

    # The worker --------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        report = self._report("Cancel", failure_reason="it was cancelled")
        try:
            with self._scope:
                report = await self._work()
        finally:
            self._finish(report)

    async def _work(self) -> ChildReport:
        """Run the child to its end; give how it ended. What goes wrong is a report, too."""
        places = self._membership.family.places(self._membership.generation)
        if places.available_tokens < 1:
            self._tell_status("pending")
        try:
            async with places:
                self._began = anyio.current_time()
                self._tell_status("running")
                return await self._talk()
        except ClaudeAgentError as error:
            return self._report("Error", failure_reason=str(error))
        except Exception as error:
            return self._report("Error", failure_reason=f"{type(error).__name__}: {error}")

    async def _talk(self) -> ChildReport:
        client = Client(self._options)
        client._permissions = Relay(self._membership.client._session.features.answering_permissions, self.task)
        membership = self._membership.child(client, self._agent_id, self._id)
        try:
            await client.connect()
            run = client.query(self._prompt, until="idle", timeout=self._timeout)
            async for message in run:
                self._relay_message(client, membership, message)
            result = await run.result()
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()
        error = result.error()
        if error is not None:
            return self._report("Error", failure_reason=str(error), said=result.text)
        return self._report("Success", said=result.text)

    def _relay_message(self, client: Client, membership: Membership, message: Any) -> None:
        """Let the parent know what the child says and does, and what its own tasks do."""
        if isinstance(message, AssistantMessage | UserMessage):
            if message.agent_id is None:
                self._membership.tell(message.model_copy(update=self._signature()))
                self._tell_progress(message)
            else:
                self._membership.tell(message)
        elif isinstance(message, TaskStartedMessage):
            membership.adopt_above(message, lambda: client.tasks.stop(message.task_id))
        elif isinstance(message, TASK_MESSAGES):
            membership.tell_above(message)

    def _signature(self) -> dict[str, Any]:
        """Give what marks a message as the child's."""
        return {
            "agent_id": self._id,
            "parent_tool_use_id": self._tool_use_id or self._id,
            "subagent_type": self._agent_id,
            "task_description": self._title,
        }

    # Telling -----------------------------------------------------------------------------------------------------

    def _tell_progress(self, message: AssistantMessage | UserMessage) -> None:
        calls = message.tool_uses if isinstance(message, AssistantMessage) else []
        for call in calls:
            self._tool_uses += 1
            self._membership.tell(
                TaskProgressMessage(
                    task_id=self._id,
                    run_id=self._run_id,
                    description=f"Running {call.name}",
                    last_tool_name=call.name,
                    usage=self._usage(),
                )
            )

    def _usage(self) -> TaskUsage:
        duration = int((anyio.current_time() - self._began) * 1000) if self._began else 0
        return TaskUsage(total_tokens=0, tool_uses=self._tool_uses, duration_ms=duration)

    def _tell_status(self, status: str) -> None:
        self._membership.tell(TaskUpdatedMessage(task_id=self._id, run_id=self._run_id, patch=TaskPatch(status=status)))

    def _report(self, status: SubTaskStatus, *, failure_reason: str | None = None, said: str = "") -> ChildReport:
        return ChildReport(
            task_id=self._id,
            agent_id=self._agent_id,
            status=status,
            summary=shorten_report(said, self._max_report_chars) if said else failure_reason or "",
            failure_reason=failure_reason,
            final_assistant_message=said,
        )

    def _finish(self, report: ChildReport) -> None:
        self.report = report
        with contextlib.suppress(ClaudeAgentError):  # the parent may be gone already
            self._membership.tell(
                TaskNotificationMessage(
                    task_id=self._id,
                    run_id=self._run_id,
                    status=TASK_STATUS[report.status],
                    summary=report.summary,
                    output_file="",
                    usage=self._usage(),
                    **({"tool_use_id": self._tool_use_id} if self._tool_use_id else {}),
                )
            )
        self._over.set()
