"""`query`: one prompt, or several, in a process of their own, with the messages until it exits."""

import math
import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final

import anyio

from claude_agent_py._base.log import get_logger
from claude_agent_py.compat import types
from claude_agent_py.compat.messages import read_message
from claude_agent_py.compat.session import Session
from claude_agent_py.compat.transport import Transport
from claude_agent_py.wire import JSONObject

_logger = get_logger("claude_agent_py.compat")

CEILING: Final = "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"
"""The variable with the longest wait between turns, in milliseconds; 0 means no limit."""

_DEFAULT_CEILING: Final = 600_000

_FOLLOWED_UP: Final = frozenset({"local_agent", "local_workflow"})
"""The tasks whose end starts a turn. Shells may run forever, so nothing waits for them."""


async def query(
    *,
    prompt: str | AsyncIterable[JSONObject],
    options: types.ClaudeAgentOptions | None = None,
    transport: Transport | None = None,
) -> AsyncIterator[types.Message]:
    """Send a prompt to a new session and iterate over its messages until the process exits.

    The process exits when all prompts are answered, no background agent runs, and no turn is to follow.

    Raises:
        CLINotFoundError, CLIConnectionError: The process did not start.
        ResultError: It exited with an error after a result that says why.
        ProcessError: It exited with another error.
    """
    chosen = types.ClaudeAgentOptions() if options is None else options
    session = Session(chosen, transport)
    try:
        await session.connect()
        end = RunEnd(chosen.env)
        session.send(end.watch(prompt), "")
        async with aclosing(_frames(session, end)) as frames:
            async for frame in frames:
                message = read_message(frame)
                if message is not None:
                    yield message
    finally:
        await session.close()


async def _frames(session: Session, end: "RunEnd") -> AsyncGenerator[JSONObject, None]:
    """Yield the frames until the process exits, which it does at the end of its input: once the run is over."""
    while True:
        if end.is_over():
            end.has_left = True
            await session.client.close(tasks="leave")
        elif end.is_late():
            end.has_left = True
            await session.close()
        frame = None
        with end.waiting():
            frame = await session.next_frame()
            if frame is None:
                return
            end.note(frame)
        if frame is not None:
            yield frame


class RunEnd:
    """Decides when a session with a fixed number of prompts is over.

    Args:
        env: The option `env`, which may have the ceiling.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._ceiling = _read_ceiling(env.get(CEILING, os.environ.get(CEILING)))
        self._scope = anyio.CancelScope()
        self._all_sent = True
        self._is_answered = False
        """Whether the last turn has a result, which ends the turn, and is younger than the last prompt."""
        self._state: object = None
        self._agents: set[object] = set()
        self._deadline = math.inf
        self.has_left = False
        """Whether the end of the input was sent."""

    def watch(self, prompt: str | AsyncIterable[JSONObject]) -> str | AsyncIterable[JSONObject]:
        """Return a prompt, or an iterable that notes when its prompts are sent."""
        return prompt if isinstance(prompt, str) else self._watch(prompt)

    async def _watch(self, prompts: AsyncIterable[JSONObject]) -> AsyncIterator[JSONObject]:
        self._all_sent, self._is_answered = False, True
        try:
            async for prompt in prompts:
                self._is_answered = False
                yield prompt
        except Exception:
            _logger.exception("the prompts failed; those that were sent are answered")
        self._all_sent = True
        self._scope.cancel()

    def waiting(self) -> anyio.CancelScope:
        """Return the scope for waiting for a frame. It ends earlier if there is something to decide."""
        self._scope = anyio.CancelScope(deadline=self._deadline if self._may_end() else math.inf)
        return self._scope

    def note(self, frame: Mapping[str, object]) -> None:
        """Note a frame of the CLI."""
        kind = frame["type"]
        if kind == "system":
            self._note_task(frame)
        if frame.get("subtype") == "session_state_changed":
            self._state = frame.get("state")
        elif kind == "result":
            self._is_answered = True
        elif kind in ("assistant", "stream_event") and frame.get("parent_tool_use_id") is None:
            self._is_answered = False
        else:
            return
        waits = self._is_answered and self._state != "requires_action"
        self._deadline = anyio.current_time() + self._ceiling if waits else math.inf

    def _note_task(self, frame: Mapping[str, Any]) -> None:
        status = (frame.get("patch") or {}).get("status")
        if frame.get("task_type") in _FOLLOWED_UP and frame.get("subtype") == "task_started":
            self._agents.add(frame.get("task_id"))
        elif frame.get("subtype") == "task_notification" or status in types.TERMINAL_TASK_STATUSES:
            self._agents.discard(frame.get("task_id"))

    def _may_end(self) -> bool:
        return self._all_sent and self._is_answered and not self._agents and not self.has_left

    def is_over(self) -> bool:
        """Return whether all prompts are answered and no turn is to follow."""
        return self._may_end() and self._state in (None, "idle")

    def is_late(self) -> bool:
        """Return whether no turn has followed for too long."""
        return self._may_end() and anyio.current_time() >= self._deadline


def _read_ceiling(text: str | None) -> float:
    try:
        milliseconds = int(text or "")
    except ValueError:
        milliseconds = _DEFAULT_CEILING
    if milliseconds < 0:
        milliseconds = _DEFAULT_CEILING
    return milliseconds / 1000 or math.inf
