"""`Task`: a handle of a task, to inspect it, wait for it, read its output and stop it.

A handle is a view of the task's record. It stays valid when the task is resumed.
"""

import operator
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import Final

import anyio
from msgspec import Struct

from claude_agent_py._base.errors import OptionsError, TaskError, TaskTimeoutError
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py._journal.ports import ControlPort
from claude_agent_py._journal.tasks.events import TaskFinished
from claude_agent_py._journal.tasks.outcome import EndedBy, TaskOutcome
from claude_agent_py._journal.tasks.record import Record, TaskRun
from claude_agent_py._journal.tasks.state import Evidence
from claude_agent_py.tasks.files.follow import AgentDecoder, Follow, ShellDecoder
from claude_agent_py.tasks.files.output_reader import OutputReader
from claude_agent_py.tasks.files.transcript import TranscriptMessage
from claude_agent_py.tasks.intake import TaskIntake
from claude_agent_py.tasks.messages import MessageGap, SubagentConversation, SubagentMessage
from claude_agent_py.tasks.tree import Forest, add_usage, build_label, walk
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage

STOPPED_HERE: Final = "stopped by this program"
"""The reason of a task that was stopped with `stop` or `stop_all`, or by closing the client."""


def check_timeout(timeout: object) -> None:
    """Raise OptionsError unless this is None or a number of seconds."""
    if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
        raise OptionsError(f"must be a number of seconds, 0 or more, or None, not {timeout!r}", option="timeout")


class Task:
    """A background task of the CLI: a subagent, a shell, a workflow, a monitor. `await task` returns its outcome."""

    __slots__ = ("_find", "_intake", "_reader", "_record")

    def __init__(
        self,
        record: Record,
        find: "Callable[[str | None], Task | None]",
        intake: TaskIntake,
        reader: OutputReader,
    ) -> None:
        self._record = record
        self._find = find
        self._intake = intake
        self._reader = reader

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.type} {self.status.value} {self.description!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle it with all tasks of its session, but without the session."""
        return operator.call, (self._find, self.id)

    def __await__(self) -> Generator[object, None, TaskOutcome]:
        return self.wait().__await__()

    # Identity

    @property
    def id(self) -> str:
        """The CLI's id of the task; for a subagent also its agent id."""
        return self._record.id

    @property
    def run_id(self) -> str | None:
        """The id of the current run. A task that is resumed keeps its id and gets a new run id."""
        return self._record.run.run_id

    @property
    def type(self) -> str | None:
        """For example `local_agent` (a subagent) or `local_bash` (a shell); None while unknown."""
        return self._record.type

    @property
    def is_agent(self) -> bool:
        """Whether it is a subagent."""
        return self._record.is_agent

    @property
    def is_shell(self) -> bool:
        """Whether it is a shell or a monitor."""
        return self._record.is_shell

    @property
    def is_ambient(self) -> bool:
        """Whether it is housekeeping of the CLI, which does not count as activity."""
        return self._record.is_ambient

    @property
    def description(self) -> str:
        """A short description of the task."""
        return self._record.description

    @property
    def prompt(self) -> str | None:
        """The prompt of a subagent's current run; the script of a workflow; None for a shell."""
        return self._record.run.prompt

    @property
    def brief(self) -> JSONMapping:
        """The input of a child agent: `title`, `intent`, `artifacts` and `priority`. Empty for other tasks."""
        return self._record.brief or {}

    @property
    def author(self) -> str:
        """The name of the agent that launched it; empty for the main agent and the program."""
        parent = self.parent
        return self._record.author(parent._record if parent else None, acts=False)

    @property
    def subagent_type(self) -> str | None:
        """The name of the agent definition."""
        return self._record.subagent_type

    @property
    def workflow_name(self) -> str | None:
        """The name of a workflow."""
        return self._record.workflow_name

    @property
    def tool_use_id(self) -> str | None:
        """The tool call that launched the current run."""
        return self._record.run.tool_use_id

    @property
    def tool_use_ids(self) -> list[str]:
        """The tool calls that launched its runs, the first run's first."""
        return [run.tool_use_id for run in self._record.runs if run.tool_use_id is not None]

    def list_ends(self) -> list[TaskFinished]:
        """Return the ends of its runs, with their usage as it is known by now."""
        return self._intake.ledger.list_ends(self._record)

    # State

    @property
    def status(self) -> TaskStatus:
        """The status of the current run."""
        return self._record.run.status

    @property
    def done(self) -> bool:
        """Whether it has ended: completed, failed or stopped."""
        return self.status.is_terminal

    @property
    def is_backgrounded(self) -> bool:
        """Whether it runs in the background, so that the agent that launched it continues."""
        return bool(self._record.is_backgrounded)

    @property
    def summary(self) -> str:
        """A subagent's report, its last text if it was stopped, or the CLI's line about the end.

        Before the end, the latest line of progress. Empty if nothing was reported.
        """
        if self._record.run.summary or self.done:
            return self._record.run.summary
        return self._record.progress_summary or ""

    @property
    def activity(self) -> str:
        """Its current activity, for example `Running make test`."""
        return self._record.activity

    @property
    def failure_reason(self) -> str | None:
        """Why it failed or was stopped; None otherwise, or if unknown."""
        return self._record.run.end_reason

    @property
    def output_file(self) -> str | None:
        """The path of its output: a shell's text, a subagent's transcript. None while unknown."""
        return self._record.run.output_file or self._record.output_file

    @property
    def usage(self) -> TaskUsage | None:
        """The usage of the current run so far, summed over its messages; None for a shell.

        While it runs, `total_tokens` is a lower bound that never decreases: output tokens are only in the transcript,
        which is counted at the end. `cost_usd` is derived (see `TaskManager.prices`), or None.
        """
        return self._record.compute_usage(self._record.run, self._intake.ledger.prices)

    @property
    def total_usage(self) -> TaskUsage:
        """The usage of all runs of the task and of everything below it."""
        below = [node.task for node in self.tree().walk()]
        prices = self._intake.ledger.prices
        return add_usage([task._record.compute_usage(run, prices) for task in below for run in task._record.runs])

    @property
    def last_tool_name(self) -> str | None:
        """The tool that a subagent used last."""
        return self._record.last_tool_name

    @property
    def started_at(self) -> float:
        """When the current run began, in seconds since the epoch, by the client's clock (by the CLI's in a replay)."""
        return self._record.run.started_at

    @property
    def ended_at(self) -> float | None:
        """When it ended, in seconds since the epoch; None while it runs."""
        return self._record.run.ended_at if self.done else None

    @property
    def outcome(self) -> TaskOutcome | None:
        """How the current run ended; None while it runs, and until its report arrives."""
        return self._intake.ledger.find_outcome(self._record, self._record.run)

    @property
    def outcomes(self) -> list[TaskOutcome]:
        """How each run ended, the first run first. More than one for a task that was resumed."""
        found = (self._intake.ledger.find_outcome(self._record, run) for run in self._record.runs)
        return [outcome for outcome in found if outcome is not None]

    @property
    def exit_code(self) -> int | None:
        """The exit status of an ended shell, if known."""
        return self._record.run.exit_code

    # Tree

    @property
    def parent_id(self) -> str | None:
        """The id of the subagent that launched it, even if nothing else is known about the subagent."""
        return self._record.parent_id

    @property
    def parent(self) -> "Task | None":
        """The subagent that launched it; None for the main agent, or if unknown."""
        return self._find(self._record.parent_id)

    @property
    def children(self) -> "list[Task]":
        """The subagents and shells that it launched, in the order of their starts."""
        return [child for child in map(self._find, self._record.children) if child is not None]

    @property
    def depth(self) -> int:
        """Its level in the tree: 1 for a task of the main agent."""
        if self._record.spawn_depth is not None:
            return self._record.spawn_depth
        parent = self.parent
        return 1 if parent is None else parent.depth + 1

    def tree(self) -> "TaskNode":
        """Return the task with everything below it."""
        return build_tree([self]).roots[0]

    # Actions

    async def wait(self, timeout: float | None = None) -> TaskOutcome:
        """Wait for the end of the current run, and return its outcome. A failed task also has an outcome.

        For a subagent, this also waits until its transcript has been counted, for at most ten seconds, so that the
        usage in the outcome is complete. Any number of coroutines may wait. A timeout or a cancellation does not affect
        the task or the other waiters. If the task has ended by the timeout but its report has not arrived, the outcome
        lacks the report.

        Args:
            timeout: The maximum time to wait, in seconds; None means no limit.

        Raises:
            TaskTimeoutError: The task did not end in time.
        """
        check_timeout(timeout)
        return await self._wait_for(self._record.run, timeout)

    async def _wait_for(self, run: TaskRun, timeout: float | None) -> TaskOutcome:
        intake = self._intake
        record = self._record

        def has_ended() -> bool:
            return not run.is_live and run not in intake.ledger.uncounted

        with anyio.move_on_after(timeout):
            await intake.wait_until(has_ended, intake.event(record.id))
        outcome = intake.ledger.find_outcome(record, run)
        if outcome is not None:
            return outcome
        if run.status.is_terminal:  # its report is late: return the outcome without it, to this waiter alone
            return intake.ledger.build_outcome(record, run)
        raise TaskTimeoutError(record.id, timeout or 0.0, descriptions={record.id: record.description})

    async def stop(self, timeout: float = 10.0) -> TaskOutcome:
        """Stop the task, wait for its end, and return its outcome. An ended task is not affected.

        Raises:
            TaskTimeoutError: The task did not end within `timeout` seconds of the request.
            ControlError: The request failed.
        """
        check_timeout(timeout)
        if not self.done:
            run = self._record.run
            earlier = run.ended_by
            # Set these before the request, because the end may arrive before the confirmation.
            run.stop_reason = STOPPED_HERE
            run.ended_by = earlier or EndedBy.PROGRAM
            try:
                await self._request_stop()
            except Exception:
                run.stop_reason = None
                run.ended_by = earlier
                raise
        return await self.wait(timeout)

    async def _request_stop(self) -> None:
        intake = self._intake
        stop = intake.stoppers.get(self.id)
        if stop is not None:
            await stop()
            return
        await self._port().control("stop_task", task_id=self.id)
        # The CLI confirms a stop of any id. If no end follows, the task had already ended.
        intake.ledger.suspect(self._record, Evidence.STOP_REQUEST, intake.clock())
        intake.publish()

    async def move_to_background(self, timeout: float = 10.0) -> bool:
        """Move a foreground task to the background, and return whether it runs there now.

        False if the CLI had nothing to move: the task has ended, or is a shell that started only seconds ago.

        Raises:
            ControlError: The request failed, for example because background tasks are disabled.
        """
        check_timeout(timeout)
        if self._is_in_foreground():
            call = self.tool_use_id
            if call is None:
                raise TaskError(f"the tool call that waits for task {self.id!r} is unknown", task_id=self.id)
            reply = await self._port().control("background_tasks", tool_use_id=call)
            if reply.get("backgrounded") is False:
                return False
            with anyio.move_on_after(timeout):
                await self._intake.wait_until(lambda: not self._is_in_foreground(), self._intake.event(self.id))
        return self.is_backgrounded and not self.done

    def _is_in_foreground(self) -> bool:
        return not self.is_backgrounded and not self.done

    def _port(self) -> ControlPort:
        control = self._intake.control
        if control is None:
            raise TaskError("this TaskManager has no session to send requests to", task_id=self.id)
        return control

    async def read_output(self, tail_bytes: int | None = None) -> str:
        """Read the text of a shell so far, or the report of a subagent (its latest text if there is no report).

        The end marker that the CLI appends to the text of a shell is removed; see `exit_code`. Bytes that are not UTF-8
        become U+FFFD.

        Args:
            tail_bytes: Read only about this many bytes from the end, without loading a long output into memory.

        Raises:
            TaskOutputError: The output cannot be read. The error has the path and the reason.
        """
        return (await self._reader.read(self._record, tail_bytes)).text

    def follow(self) -> Follow:
        """Follow the output live: `async for chunk in task.follow()`, from its beginning until the task ends.

        Chunks are pieces of text, not lines. Only one piece of a large file is in memory at a time. After the end of a
        subagent, the iteration waits up to 10 s for the report, because the CLI writes it late. Iterating raises
        TaskOutputError if the file is missing, unreadable or deleted.
        """
        intake = self._intake
        record = self._record
        event = intake.event(record.id)
        return Follow(
            record.id,
            lambda: intake.paths.list_candidates(record),
            lambda: record.is_done or intake.is_copy,
            lambda pause: intake.wait(event, pause),
            AgentDecoder(record) if record.is_agent else ShellDecoder(),
        )

    async def transcript(self, *, nested: bool = True) -> list[TranscriptMessage]:
        """Read the messages of a subagent and, with `nested`, of the subagents below it, in chronological order.

        `agent_id` of a message identifies its subagent. The messages are read from the CLI's file or, if this fails,
        from the messages received so far.

        Raises:
            TaskOutputError: The subagent has no messages yet, or the task is a shell.
        """
        below = [node.task._record for node in self.tree().walk() if node.task.is_agent]
        others = [record for record in below if record is not self._record] if nested else []
        return await self._reader.transcript(self._record, others)

    @property
    def seen_messages(self) -> list[SubagentMessage]:
        """The messages of a subagent received so far. See `messages` for the limits."""
        return self._intake.messages.get(self.id)

    def messages(self) -> AsyncIterator[SubagentMessage | MessageGap]:
        """Iterate over the messages of a subagent: the messages so far, then live messages until the current run ends.

        A foreground subagent sends only its tool calls and their results, unless `forward_subagent_text` is on. A
        `MessageGap` stands for messages that were dropped.
        """
        intake = self._intake
        record = self._record
        event = intake.event(record.id)
        return SubagentConversation(record.id, intake.messages, lambda: not record.is_live, lambda: intake.wait(event))


class TaskNode(Struct, frozen=True):
    """A task with all tasks below it."""

    task: Task
    children: tuple["TaskNode", ...] = ()

    @property
    def label(self) -> str:
        """The task's line in a drawing."""
        task = self.task
        return build_label(task.description or task.id, task.subagent_type or task.type, task.status, task.usage)

    def walk(self) -> Iterator["TaskNode"]:
        """Yield this node and all below it, parents before their children."""
        return walk([self])

    @property
    def usage(self) -> TaskUsage:
        """The usage of the task and all below it. Durations are summed, even of tasks that ran in parallel."""
        return add_usage([node.task.usage for node in self.walk()])


class TaskTree(Forest[TaskNode], frozen=True):
    """All tasks, as a forest. `str()` draws it."""

    @property
    def usage(self) -> TaskUsage:
        """The usage of all tasks."""
        return add_usage([node.task.usage for node in self.walk()])


def build_tree(roots: Sequence[Task]) -> TaskTree:
    """Build the tree below these roots. A task that would be its own ancestor is left out."""

    def node(task: Task, above: frozenset[str]) -> TaskNode:
        path = above | {task.id}
        return TaskNode(task, tuple(node(child, path) for child in task.children if child.id not in path))

    return TaskTree(tuple(node(root, frozenset()) for root in roots))
