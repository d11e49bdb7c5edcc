"""`PooledRun`: a run on a process of a pool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from claude_agent_py._runtime.runs.prompts import Prompt
from claude_agent_py.client import Client
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.runs import OneShot

if TYPE_CHECKING:
    from claude_agent_py._protocol.open_runs import Until
    from claude_agent_py._runtime.session.ending import TasksAtClose
    from claude_agent_py.pool.pooled_process import PooledProcess


class PooledRun(OneShot):
    """A run that acquires a process at the first message or await, and ends it in the background after the run."""

    def __init__(
        self,
        take: Callable[[ClientOptions, float | None], Awaitable[PooledProcess]],
        options: ClientOptions,
        prompt: Prompt,
        until: Until,
        timeout: float | None,
    ) -> None:
        super().__init__(options, prompt, until, timeout, None)
        self._take_process = take
        self._process: PooledProcess | None = None

    async def _open_client(self) -> Client:
        self._process = await self._take_process(self._options, None)
        return self._process.client

    async def _close_client(self, client: Client, tasks: TasksAtClose) -> None:
        if self._process is not None:
            self._process.end(tasks)

    def __del__(self) -> None:
        process: PooledProcess | None = vars(self).get("_process")
        if process is not None and not process.is_ending:
            # `abort` works in any thread. The worker of the process then cleans up.
            process.client.abort()
