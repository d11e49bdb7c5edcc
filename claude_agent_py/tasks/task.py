"""One task, as a user sees it.

Owns the `Task` handle: what is known of the task now, waiting for it, reading what it brings, stopping it. It is a
view: everything it says comes from the ledger's entry, and everything it does goes through the manager. A task keeps
its handle for life, also when it is resumed.
"""

import operator
from collections.abc import AsyncIterator, Generator
from typing import TYPE_CHECKING, Any

from claude_agent_py.tasks.entry import Entry
from claude_agent_py.tasks.message_log import MessageGap, SubagentMessage
from claude_agent_py.tasks.outcome import TaskOutcome
from claude_agent_py.tasks.transcript import TranscriptMessage
from claude_agent_py.tasks.tree import TaskNode, add_usage, build_tree
from claude_agent_py.wire.tasks import TaskStatus, TaskUsage

if TYPE_CHECKING:
    from claude_agent_py.tasks.follow import Follow
    from claude_agent_py.tasks.manager import TaskManager


class Task:
    """A background task of the CLI: a subagent, a shell, a workflow, a monitor. `await task` gives its outcome."""

    __slots__ = ("_entry", "_manager")

    def __init__(self, entry: Entry, manager: "TaskManager") -> None:
        self._entry = entry
        self._manager = manager

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.type} {self.status.value} {self.description!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it with all tasks of its session, which it may be asked for, but without the session."""
        return operator.getitem, (self._manager, self.id)

    def __await__(self) -> Generator[Any, Any, TaskOutcome]:
        return self.wait().__await__()

    # What it is

    @property
    def id(self) -> str:
        """The CLI's id of the task; for a subagent also its agent id."""
        return self._entry.id

    @property
    def run_id(self) -> str | None:
        """The id of the current run. A task that is resumed keeps its id and gets a new run id."""
        return self._entry.run.run_id

    @property
    def type(self) -> str | None:
        """For example `local_agent` (a subagent) or `local_bash` (a shell); None while it is not known."""
        return self._entry.type

    @property
    def is_agent(self) -> bool:
        """Whether it is a subagent."""
        return self._entry.is_agent

    @property
    def is_shell(self) -> bool:
        """Whether it is a shell or a monitor."""
        return self._entry.is_shell

    @property
    def is_ambient(self) -> bool:
        """Whether it is housekeeping of the CLI, and no activity."""
        return self._entry.is_ambient

    @property
    def description(self) -> str:
        """What it is for, in a few words."""
        return self._entry.description

    @property
    def prompt(self) -> str | None:
        """What a subagent was asked in the current run; the script of a workflow; None for a shell."""
        return self._entry.run.prompt

    @property
    def subagent_type(self) -> str | None:
        """The name of the agent definition."""
        return self._entry.subagent_type

    @property
    def workflow_name(self) -> str | None:
        """The name of a workflow."""
        return self._entry.workflow_name

    @property
    def tool_use_id(self) -> str | None:
        """The tool call that launched the current run."""
        return self._entry.run.tool_use_id

    @property
    def tool_use_ids(self) -> list[str]:
        """The tool calls that launched its runs, the first run's first."""
        return [run.tool_use_id for run in self._entry.runs if run.tool_use_id is not None]

    # How it is

    @property
    def status(self) -> TaskStatus:
        """Where it is in its life."""
        return self._entry.run.status

    @property
    def done(self) -> bool:
        """Whether it is over: completed, failed or stopped."""
        return self.status.is_terminal

    @property
    def is_backgrounded(self) -> bool:
        """Whether it runs in the background, so that nothing waits for it."""
        return bool(self._entry.is_backgrounded)

    @property
    def summary(self) -> str:
        """A subagent's report, its last words where it was stopped, or the CLI's line about the end.

        Before the end: the latest line of progress. Empty where none of these came.
        """
        return self._entry.run.summary or ("" if self.done else self._entry.progress_summary or "")

    @property
    def activity(self) -> str:
        """What it does now, for example `Running make test`."""
        return self._entry.activity

    @property
    def failure_reason(self) -> str | None:
        """Why it failed, or by whom it was stopped; None otherwise, and where nothing says so."""
        return self._entry.run.end_reason

    @property
    def output_file(self) -> str | None:
        """Where it writes to: a shell its text, a subagent its transcript. None while it is not known."""
        return self._entry.run.output_file or self._entry.output_file

    @property
    def usage(self) -> TaskUsage | None:
        """What the current run used so far, added up from its messages; None for a shell.

        While it runs `total_tokens` is a lower bound, because the CLI tells the output tokens only in the transcript,
        which is counted at the end; it never falls. `cost_usd` is derived (see `TaskManager.prices`), or None.
        """
        return self._entry.usage_of(self._entry.run, self._manager._ledger.book.prices)

    @property
    def total_usage(self) -> TaskUsage:
        """What all runs of the task and of everything below it used."""
        below = [node.task for node in self.tree().walk()]
        prices = self._manager._ledger.book.prices
        return add_usage([task._entry.usage_of(run, prices) for task in below for run in task._entry.runs])

    @property
    def last_tool_name(self) -> str | None:
        """The tool that a subagent used last."""
        return self._entry.last_tool_name

    @property
    def started_at(self) -> float:
        """When the current run began, in seconds since the epoch, by this side's clock (by the CLI's in a replay)."""
        return self._entry.run.started_at

    @property
    def ended_at(self) -> float | None:
        """When it ended, in seconds since the epoch; None while it runs."""
        return self._entry.run.ended_at if self.done else None

    @property
    def outcome(self) -> TaskOutcome | None:
        """How the current run ended; None while it runs, and until its report is there."""
        return self._entry.run.outcome

    @property
    def outcomes(self) -> list[TaskOutcome]:
        """How each run ended, the first run first. More than one for a task that was resumed."""
        return [run.outcome for run in self._entry.runs if run.outcome is not None]

    @property
    def exit_code(self) -> int | None:
        """The exit status of a shell that is over, where it is known."""
        return self._entry.run.exit_code

    # Its place in the tree

    @property
    def parent(self) -> "Task | None":
        """The subagent that launched it; None for the main agent, and for one that is not known."""
        return self._manager.get(self._entry.parent_id) if self._entry.parent_id else None

    @property
    def children(self) -> "list[Task]":
        """The subagents and shells that it launched, in the order of their starts."""
        return [child for child in map(self._manager.get, self._entry.children) if child is not None]

    @property
    def depth(self) -> int:
        """Its level in the tree: 1 for a task of the main agent."""
        if self._entry.spawn_depth is not None:
            return self._entry.spawn_depth
        parent = self.parent
        return 1 if parent is None else parent.depth + 1

    def tree(self) -> TaskNode:
        """Give it with everything below it."""
        return build_tree([self], lambda task: task.children).roots[0]

    # What to do with it

    async def wait(self, timeout: float | None = None) -> TaskOutcome:
        """Wait for the end of the current run.

        Any number of workers may wait. A timeout or a cancellation of the wait never disturbs the task, and a task
        that failed has an outcome like any other: nothing is raised for it.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Raises:
            TaskTimeoutError: It was not over in time.
        """
        return await self._manager.wait(self.id, timeout)

    async def stop(self, timeout: float = 10.0) -> TaskOutcome:
        """Stop it, and give the outcome once the stop took effect. A task that is over is left alone.

        Raises:
            TaskTimeoutError: It was not over `timeout` seconds after the request.
            ControlError: The request did not succeed.
        """
        return await self._manager.stop(self.id, timeout)

    async def move_to_background(self, timeout: float = 10.0) -> bool:
        """Move a foreground task to the background, and give whether it is there now.

        False where the CLI had nothing to move: the task ended meanwhile, or is a shell younger than some seconds.

        Raises:
            ControlError: The request did not succeed, for example because background tasks are disabled.
        """
        return await self._manager.move_to_background(self.id, timeout)

    async def read_output(self, tail_bytes: int | None = None) -> str:
        """Read what it brought: a shell's text so far, a subagent's report (its last words, where there is no report).

        The end marker that the CLI writes behind a shell's text is not part of it; see `exit_code`. Bytes that are no
        UTF-8 come as U+FFFD.

        Args:
            tail_bytes: Only about the last so many bytes. A long output is not read into memory then.

        Raises:
            TaskOutputError: There is nothing to read, with the path and the reason.
        """
        return (await self._manager.reader.read(self._entry, tail_bytes)).text

    def follow(self) -> "Follow":
        """Follow the output live: `async for chunk in task.follow()`, from its beginning until the task is over.

        Chunks are text as it came, not lines. One piece of a large file is in memory at a time. Iterating raises
        TaskOutputError where the file is missing, unreadable or deleted.
        """
        return self._manager.follow(self.id)

    async def transcript(self, *, nested: bool = True) -> list[TranscriptMessage]:
        """Read the messages of a subagent, and with `nested` those of the subagents below it, in the order of time.

        `agent_id` of a message says whose it is. Read from the CLI's file; from the messages that were seen where that
        cannot be read.

        Raises:
            TaskOutputError: Neither is there, or it is a shell, which has no messages.
        """
        below = [node.task._entry for node in self.tree().walk() if node.task.is_agent]
        others = [entry for entry in below if entry is not self._entry] if nested else []
        return await self._manager.reader.transcript(self._entry, others)

    @property
    def seen_messages(self) -> list[SubagentMessage]:
        """The messages of a subagent that came so far, as far as they are kept. See `messages` for which come."""
        return self._manager.seen_messages(self.id)

    def messages(self) -> AsyncIterator[SubagentMessage | MessageGap]:
        """Iterate the messages of a subagent: those seen so far, then live until the current run is over.

        A foreground subagent sends only its tool calls and their results, unless `forward_subagent_text` is on. A
        `MessageGap` stands for messages that are no longer kept.
        """
        return self._manager.messages_of(self.id)
