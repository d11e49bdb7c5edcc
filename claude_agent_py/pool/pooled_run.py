"""`PooledRun`: a run with a process of a pool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from claude_agent_py._runtime.runs.prompts import Prompt, check_prompt, check_run_arguments, is_stream
from claude_agent_py.client import Client
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.runs import OneShot

if TYPE_CHECKING:
    from claude_agent_py._protocol.open_runs import Until
    from claude_agent_py._runtime.session.ending import TasksAtClose
    from claude_agent_py.pool.member import Member


class PooledRun(OneShot):
    """A run that takes a process with the first message or await, and ends it in the background after the run."""

    def __init__(
        self,
        take: Callable[[ClientOptions, float | None], Awaitable[Member]],
        options: ClientOptions,
        prompt: Prompt,
        until: Until,
        timeout: float | None,
    ) -> None:
        check_run_arguments(until, timeout)
        if not is_stream(prompt):
            check_prompt(prompt)
        super().__init__(options, prompt, until, timeout, None)
        self._take_process = take
        self._member: Member | None = None

    async def _open_client(self) -> Client:
        self._member = await self._take_process(self._options, None)
        return self._member.client

    async def _close_client(self, client: Client, tasks: TasksAtClose) -> None:
        if self._member is not None:
            self._member.end(tasks)

    def __del__(self) -> None:
        member: Member | None = vars(self).get("_member")
        if member is not None and not member.is_ending:
            member.client.abort()  # in any thread; its worker does the rest
