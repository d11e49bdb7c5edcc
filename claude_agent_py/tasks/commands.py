"""Telling the CLI what to do with tasks: stop them, move them to the background.

Owns these requests, and that each returns when its effect is seen, not when it is confirmed: the CLI confirms a stop of
any id, also of one that it does not know. A task that is not the CLI's is stopped by the function it came with.
"""

from collections.abc import Iterable
from typing import Final

import anyio

from claude_agent_py.errors import TaskError
from claude_agent_py.protocol.ports import ControlPort
from claude_agent_py.tasks.entry import Entry
from claude_agent_py.tasks.intake import Intake
from claude_agent_py.tasks.outcome import TaskOutcome
from claude_agent_py.tasks.waits import TaskOrId, Waits, check_timeout

STOPPED_HERE: Final = "stopped by this program"
"""The reason of a task that was stopped with `stop` or `stop_all`, which closing a client does too."""


class Commands:
    """The requests about the tasks of one session."""

    def __init__(self, intake: Intake, waits: Waits, port: ControlPort | None) -> None:
        self._intake = intake
        self._waits = waits
        self._port = port

    async def stop(self, task: TaskOrId, timeout: float) -> TaskOutcome:
        """Stop a task, and wait for its end."""
        check_timeout(timeout)
        entry = self._waits.entry(task)
        if not entry.run.status.is_terminal:
            await self._request_stop(entry)
        return await self._waits.one(entry.id, timeout)

    async def _request_stop(self, entry: Entry) -> None:
        run = entry.run
        run.stop_reason = STOPPED_HERE  # noted first: the end may come before the confirmation
        try:
            await self._send_stop(entry)
        except Exception:
            run.stop_reason = None
            raise

    async def _send_stop(self, entry: Entry) -> None:
        stop = self._intake.stoppers.get(entry.id)
        if stop is not None:
            await stop()
            return
        await self._control(entry.id).control("stop_task", task_id=entry.id)
        # Said yes, as it does for any id: where no end follows, the task was over before.
        self._intake.publish(self._intake.ledger.stop_confirmed(entry.id, self._intake.clock()))

    async def stop_all(self, timeout: float) -> list[TaskOutcome]:
        """Stop all tasks, subagents first: one that is stopped launches no more, and is not woken by its shells."""
        check_timeout(timeout)
        outcomes: list[TaskOutcome] = []
        failures: list[Exception] = []
        for are_agents in (True, False):
            running = [entry for entry in self._running() if entry.is_agent is are_agents]
            await self._stop_each(running, timeout, outcomes, failures)
        if failures:
            raise failures[0]
        return outcomes

    async def _stop_each(
        self, entries: Iterable[Entry], timeout: float, outcomes: list[TaskOutcome], failures: list[Exception]
    ) -> None:
        async def stop(entry: Entry) -> None:
            try:
                outcomes.append(await self.stop(entry.id, timeout))
            except Exception as error:  # the others are to be stopped all the same
                failures.append(error)

        async with anyio.create_task_group() as stops:
            for entry in entries:
                stops.start_soon(stop, entry)

    def _running(self) -> list[Entry]:
        entries = self._intake.ledger.entries.values()
        return [entry for entry in entries if not entry.run.status.is_terminal and not entry.is_ambient]

    async def move_to_background(self, task: TaskOrId, timeout: float) -> bool:
        """Move a foreground task to the background, and give whether it is there now."""
        check_timeout(timeout)
        entry = self._waits.entry(task)
        task_id = entry.id
        if not self._is_waited_for(entry):
            return self._is_in_background(entry)
        call = entry.run.tool_use_id
        if call is None:
            raise TaskError(f"the tool call that waits for task {task_id!r} is not known", task_id=task_id)
        reply = await self._control(task_id).control("background_tasks", tool_use_id=call)
        if reply.get("backgrounded") is False:
            return False
        with anyio.move_on_after(timeout):
            await self._waits.until(lambda: not self._is_waited_for(entry), self._intake.bell(task_id))
        return self._is_in_background(entry)

    async def move_all_to_background(self) -> None:
        """Move all foreground tasks to the background."""
        await self._control("").control("background_tasks")

    @staticmethod
    def _is_waited_for(entry: Entry) -> bool:
        return not entry.is_backgrounded and not entry.run.status.is_terminal

    @staticmethod
    def _is_in_background(entry: Entry) -> bool:
        return bool(entry.is_backgrounded) and not entry.run.status.is_terminal

    def _control(self, task_id: str) -> ControlPort:
        if self._port is None:
            raise TaskError("this TaskManager has no session to send requests to", task_id=task_id)
        return self._port
