"""Run a child agent: its process, its task and its report.

The child is a task of its parent from the start: `pending` until a process is free, then `running`. It always ends with
a report, even after a crash, a failed start, a timeout or a cancellation. It runs in the parent's task group, so
closing the parent ends it.
"""

import contextlib
import functools
import itertools
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
from msgspec.structs import replace

from claude_agent_py._base.errors import ClaudeAgentError, CLIExitError, ControlError, TaskError
from claude_agent_py._base.log import logger
from claude_agent_py._connection.connection import Connection
from claude_agent_py._connection.current import running_client
from claude_agent_py._connection.live_changes import LiveChanges
from claude_agent_py._connection.runs.prompts import prompt_message
from claude_agent_py._connection.runs.result import RunTimeoutError
from claude_agent_py._connection.runs.run import Run
from claude_agent_py._connection.session import ChildLink
from claude_agent_py._journal.tasks.outcome import EndedBy
from claude_agent_py.children.assignment import SUMMARY_CHARS, TASK_STATUS, Brief, ChildReport, SubTaskStatus
from claude_agent_py.children.tree import Tree, tree_of
from claude_agent_py.client import Client
from claude_agent_py.formatting.truncation import take, text_length
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.permissions.contexts import PermissionContext
from claude_agent_py.permissions.prompts import WireRequest
from claude_agent_py.tasks import Evidence, TaskEvent, TaskFinished, TaskIntake, TaskRevised
from claude_agent_py.tasks.files.paths import project_slug
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage, UserContent, UserMessage
from claude_agent_py.wire.messages.system import InitMessage, PermissionDeniedMessage
from claude_agent_py.wire.messages.tasks import (
    CHILD_AGENT,
    TaskNotificationMessage,
    TaskPatch,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskStatus,
    TaskUpdatedMessage,
    TaskUsage,
)

SUMMARY_TIMEOUT: Final = 30.0
"""Seconds for the summary of a long report."""


@dataclass(kw_only=True, eq=False, repr=False)
class ChildRun:
    """One run of a child, from start to report.

    The child's messages are attributed to it, and its subagents and shells become tasks below its task. The child's
    message pump calls these methods, so they must not block.
    """

    parent: Client
    """The client that starts it, which outlives it."""
    options: ClientOptions
    """The options of its process."""
    agent_id: str
    brief: Brief
    prompt: str
    is_awaited: bool
    """Whether a tool call blocks until the run ends."""
    max_report_chars: int
    """Maximum length of the report to the parent's model."""
    asks_parent: bool
    """Whether the parent's handlers answer the child's questions."""
    parent_task_id: str | None = None
    author: str | None = None
    """The agent that starts the child; None means the agent of the parent task."""
    tool_use_id: str | None = None
    timeout: float | None = None
    """In seconds; None means no limit."""
    changes: LiveChanges = field(default_factory=LiveChanges)
    """The changes of the parent's session that the child's begins with."""
    number: int = field(default_factory=itertools.count().__next__)
    """Counts the runs of this process."""
    task_id: str = field(default_factory=lambda: f"c{secrets.token_hex(8)}")
    run_id: str = field(default_factory=lambda: f"{int(time.time() * 1000):x}-{secrets.token_hex(4)}")

    def __post_init__(self) -> None:
        above = self.parent.run if isinstance(self.parent, _ChildClient) else None
        self.lineage: tuple[str, ...] = (*(above.lineage if above is not None else ()), self.agent_id)
        """The agent ids from the child of the root down to this one."""
        self.tree: Tree = above.tree if above is not None else tree_of(self.parent)
        self._last_text: str = ""
        """Its last message, even if it failed afterwards."""
        self._calls: int = 0
        self._tokens: float = 0
        """The tokens of its turns that have ended. The task of the parent counts those of its messages."""
        self._cost_usd: float | None = None
        """What its CLI reports at the end of each turn. None before: the cost is then derived from its messages."""
        self._client: Client
        """The child's client. Set when its process starts."""
        self._scope = anyio.CancelScope()
        self._cancelled_by: EndedBy | None = None
        self._finished = anyio.Event()
        self._began: float | None = None
        self._sent: UserMessage | None = None
        """The prompt, until its session has begun."""
        self._summary: str | None = None
        self._is_left = False
        """Whether its tool call was cancelled, and it continues."""
        self.report: ChildReport | None = None
        """The report; None until the child ends."""

    @property
    def task(self) -> Task:
        """The child as a task of the client that started it."""
        return self.parent.tasks[self.task_id]

    def begin(self) -> None:
        """Create the task and start the worker.

        Raises:
            OptionsError: A limit for children is reached.
            ConnectionClosedError: The client is not open.
        """
        session = self.parent.session
        session.check_open()
        self.tree.admit(self.lineage)
        self.parent.connection.shutdown.children.add(self.cancel)
        started = TaskStartedMessage(
            task_id=self.task_id,
            run_id=self.run_id,
            task_type=CHILD_AGENT,
            description=self.brief.title,
            prompt=self.prompt,
            subagent_type=self.agent_id,
            is_backgrounded=not self.is_awaited,
            parent_task_id=self.parent_task_id,
            tool_use_id=self.tool_use_id,
        )
        self._adopt(started, self.stop, self.brief.to_json(), self.author)
        self._report_status(TaskStatus.PENDING)
        session.workers.start_logged(self._run_and_report)

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
        """Cancel the child without waiting. Does nothing once its process has ended."""
        self._cancelled_by = self._cancelled_by or by
        self._scope.cancel()

    def leave(self) -> None:
        """Let the child continue in the background after its tool call was cancelled."""
        self._is_left = True
        if self.report is None:
            self._send_to_parent(TaskUpdatedMessage, patch=TaskPatch(is_backgrounded=True))
        else:
            self._hand_over(self.report)

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
            async with self.tree.places(len(self.lineage)).place(self.brief.urgency, self.number):
                self._began = anyio.current_time()
                self._report_status(TaskStatus.RUNNING)
                error = await self._run_process()
        except ClaudeAgentError as failure:
            error = failure
            for kind, cause in ((RunTimeoutError, EndedBy.TIMEOUT), (CLIExitError, EndedBy.PROCESS)):
                if isinstance(failure, kind):
                    self._set_cause(self.task_id, cause)
        except Exception as failure:
            logger.exception("the child agent %s failed", self.agent_id)
            return "Error", f"{type(failure).__name__}: {failure}"
        if error is not None:
            return "Error", str(error)
        return "Success", None

    async def _run_process(self) -> ClaudeAgentError | None:
        """Run the child's process and return the error of its result, or None on success."""
        client = self._client = _ChildClient(self)
        result = None
        try:
            await client.connect()
            self._sent = prompt_message(self.prompt, verbatim=self.options.verbatim_prompts)
            result = await client.query(self._sent, until="idle", timeout=self.timeout).result()
            self._last_text = result.text or self._last_text
            if self.is_awaited and not result.is_error:
                await self._summarize(client)
            return result.error()
        finally:
            if result is None or client.tasks.live_ids():
                self._kill(client)
            with anyio.CancelScope(shield=True):
                await client.close()

    async def _summarize(self, client: Client) -> None:
        """Ask the child for a summary if its report is too long for the caller."""
        limit = self.max_report_chars
        if text_length(self._last_text) <= limit:
            return
        chars = int(min(SUMMARY_CHARS, limit // 4))
        question = f"Summarise your last message in at most {chars} characters, for someone who cannot read all of it."
        with contextlib.suppress(ClaudeAgentError):  # the beginning of the report is still there
            reply = await client.side_question(question, timeout=SUMMARY_TIMEOUT)
            if not reply.synthetic and reply.response:
                self._summary = take(reply.response.strip(), chars) or None

    def _kill(self, client: Client) -> None:
        """Kill the child's process instead of waiting for a clean exit. Its tasks end because the child does."""
        for task_id in client.tasks.live_ids():
            for session in client.session.lineage:
                session.intake.set_cause(task_id, EndedBy.PARENT)
        client.connection.shutdown.cancel_children()
        client.abort()

    def _measure_usage(self) -> TaskUsage:
        """Return the usage so far. Its subagents are tasks with a usage of their own, but the cost includes them."""
        counted = self.task.usage or TaskUsage()
        seconds = 0.0 if self._began is None else anyio.current_time() - self._began
        return counted.replace(
            total_tokens=max(counted.total_tokens, self._tokens),
            tool_uses=self._calls,
            duration_ms=int(seconds * 1000),
            cost_usd=self._cost_usd,
        )

    def _finish(self, status: SubTaskStatus, reason: str | None) -> None:
        """Store the report, send it to the parent as the end of the task, and wake those who wait for it."""
        report = ChildReport(
            task_id=self.task_id,
            agent_id=self.agent_id,
            status=status,
            failure_reason=reason,
            final_assistant_message=self._last_text,
            usage=self._measure_usage(),
            summary=self._summary,
        )
        self.report = report
        if status == "Cancel":
            self._set_cause(self.task_id, self._cancelled_by)
        shutdown = self.parent.connection.shutdown
        shutdown.children.discard(self.cancel)
        shutdown.child_ended.set()
        if self._is_left:
            self._hand_over(report)
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

    def _hand_over(self, report: ChildReport) -> None:
        """Add the report to the parent's conversation without a turn, because the tool call cannot return it.

        `Client.reopen` does so if the parent's process has ended.
        """
        if not (self.parent.is_open and self.parent.session.workers.is_live):
            self.parent.session.late_reports.append(functools.partial(self._hand_over, report))
            return
        text = json.dumps(report.to_json(self.max_report_chars), ensure_ascii=False)
        title = self.brief.title
        content = (
            f"The call that started the subtask {title!r} ended early. The subtask itself has ended now:\n\n{text}"
        )
        # A model wrote the report, so `@file` in it must not read a file.
        message = UserMessage(
            message=UserContent(role="user", content=content), should_query=False, client_composed=True
        )
        self.parent.session.workers.start_logged(_finish_quietly, self.parent.query(message))

    # Messages to the parent --------------------------------------------------------------------------------------

    def _report_status(self, status: TaskStatus) -> None:
        self._send_to_parent(TaskUpdatedMessage, patch=TaskPatch(status=status.value))

    def _send_to_parent(
        self, message: type[TaskProgressMessage | TaskUpdatedMessage | TaskNotificationMessage], **fields: Any
    ) -> None:
        self.parent.connection.inject(message(task_id=self.task_id, run_id=self.run_id, **fields))

    def _attribute(self, message: Any) -> Any:
        """Return a message of the child's session attributed to the child."""
        return message.replace(
            agent_id=self.task_id,
            parent_tool_use_id=self.tool_use_id or self.task_id,
            subagent_type=self.agent_id,
            task_description=self.brief.title,
        )

    def _adopt(
        self,
        message: TaskStartedMessage,
        stop: Callable[[], Awaitable[object]],
        brief: Mapping[str, object] | None,
        author: str | None,
    ) -> None:
        """Add a task that the parent's CLI did not start. The parent's messages announce it to its own parent."""
        self.parent.session.intake.adopt(message, stop, brief=brief, author=author)
        self.parent.connection.inject(message)

    @property
    def _intakes(self) -> list[TaskIntake]:
        """The task intakes of the parent and its ancestors."""
        return [session.intake for session in self.parent.session.lineage]

    def _set_cause(self, task_id: str, by: EndedBy | None, inferred_by: Evidence | None = None) -> None:
        for intake in self._intakes:
            intake.set_cause(task_id, by, inferred_by)

    def _set_path(self, task_id: str, path: str) -> None:
        for intake in self._intakes:
            intake.set_path(task_id, path)

    async def answer(self, request: WireRequest, context: PermissionContext) -> JSONObject:
        """Answer a question of the child with the parent's handlers."""
        announce = self.parent.session.readers.announce_interaction
        own = replace(context, session_id=self.parent.session_id, _announce=announce)
        with running_client(self.parent):
            return await self.parent.connection.handlers.permissions.answer(request, own)

    # The child's messages ----------------------------------------------------------------------------------------

    def take(self, message: object) -> None:
        """Forward a message of the child's session to the parent if needed. Never raises: the pump calls it."""
        try:
            self._forward(message)
        except Exception:
            logger.exception("a message of the child agent %s was not forwarded", self.agent_id)

    def _forward(self, message: object) -> None:
        inject = self.parent.connection.inject
        match message:
            case TaskProgressMessage() | TaskUpdatedMessage() | TaskNotificationMessage():
                inject(message)
            case AssistantMessage() | UserMessage() | PermissionDeniedMessage() if message.agent_id is not None:
                inject(message)  # from a subagent of the child
            case AssistantMessage():
                self._last_text = message.text or self._last_text
                inject(self._attribute(message))
                for call in message.tool_uses:
                    self._calls += 1
                    self._send_to_parent(
                        TaskProgressMessage,
                        description=f"Running {call.name}",
                        last_tool_name=call.name,
                        usage=self._measure_usage(),
                    )
            case UserMessage():
                inject(self._attribute(message))
            case ResultMessage():
                self._tokens += message.usage.total_tokens if message.usage is not None else 0
                self._cost_usd = message.total_cost_usd
            case PermissionDeniedMessage():
                inject(message.replace(agent_id=self.task_id))
            case InitMessage():
                self._report_transcript(message)
                self._begin_conversation(message)
            case TaskStartedMessage():
                self._adopt_task(message)

    def _begin_conversation(self, message: InitMessage) -> None:
        """Add the init message of a turn to the child's conversation, and after the first one the prompt."""
        task_id = self.task_id
        # The parent's runs do not receive it: it would look like the start of a turn of theirs.
        for intake in self._intakes:
            intake.add_message(task_id, message.replace(agent_id=task_id))
        if self._sent is not None:
            self.parent.connection.inject(self._attribute(self._sent.replace(session_id=message.session_id)))
            self._sent = None

    def _report_transcript(self, message: InitMessage) -> None:
        """Set the child's transcript as the output of its task, so that the task can be read and followed."""
        config_dir = self._client.session.intake.paths.config_dir
        if self.options.persist_session and config_dir and message.cwd and message.session_id:
            folder = Path(config_dir, "projects", project_slug(message.cwd))
            self._set_path(self.task_id, str(folder / f"{message.session_id}.jsonl"))

    # The child's own tasks ---------------------------------------------------------------------------------------

    def _adopt_task(self, message: TaskStartedMessage) -> None:
        """Add a task of the child to the parent's tasks, below the child's own task."""
        # Drop the depth: the child's CLI counts it from the child's own session.
        started = message.replace(
            parent_task_id=message.parent_task_id or self.task_id,
            spawn_depth=None,
        )
        task = self._client.tasks[message.task_id]
        stop = lambda: self._stop(message.task_id)  # noqa: E731
        self._adopt(started, stop, task.brief, task.author or None)
        # A nested child reports the path itself.
        if message.task_type != CHILD_AGENT:
            for path in self._client.session.intake.paths_of(message.task_id)[:1]:
                self._set_path(message.task_id, path)

    async def _stop(self, task_id: str) -> None:
        try:
            await self._client.tasks.stop(task_id)
        except (ControlError, TaskError):
            # After the process has ended, so has the task.
            if self._client.is_open:
                raise

    def take_events(self, events: list[TaskEvent]) -> None:
        """Forward the ends of tasks that the child's CLI did not report, with their evidence."""
        for event in events:
            if not isinstance(event, TaskFinished | TaskRevised) or event.outcome.evidence is Evidence.NOTIFICATION:
                continue
            if isinstance(event, TaskRevised) or event.message is None:
                outcome, used = event.outcome, event.outcome.usage
                if used is not None and used.cost_is_derived:  # the cost of the child includes it
                    outcome = replace(outcome, usage=used.replace(cost_usd=None, cost_is_derived=False))
                self._set_cause(event.task_id, outcome.ended_by, outcome.evidence)
                self.parent.connection.inject(TaskFinished(task_id=event.task_id, outcome=outcome).notification())


async def _finish_quietly(run: Run) -> None:
    with contextlib.suppress(ClaudeAgentError):  # the parent's session ends
        await run.result()


class _ChildClient(Client):
    """The client of a child, linked to its parent."""

    def __init__(self, run: ChildRun) -> None:
        super().__init__(run.options)
        self.run = run

    def _make_connection(self, options: ClientOptions, earlier: Connection | None = None) -> Connection:
        run = self.run
        link = ChildLink(
            parent=run.parent.session,
            agent_id=run.task_id,
            take=run.take,
            take_events=run.take_events,
            wanted=(TaskFinished, TaskRevised),
            answer=run.answer if run.asks_parent else None,
            changes=run.changes,
        )
        return Connection(options, link=link)
