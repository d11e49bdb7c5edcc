"""The values of a `ScriptedModel`'s script: `Reply`, `Failure`, `CutStream`, content blocks, and a `Gate`.

All values are frozen, so any number of models can share a script; only a `Gate` has state.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from anyio import from_thread, to_thread

from claude_agent_py.testing.requests import RecordedRequest

POLL = 0.02
"""Seconds between two checks for cancellation. Opening a gate wakes waiters immediately."""


class Gate:
    """Blocks a scripted peer until `open()` is called, from any thread or task. An open gate stays open."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.is_open: bool = False
        """Whether `open()` was called."""
        self.reached: int = 0
        """How many peers have reached this gate so far."""
        self._on_open: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<Gate {'open' if self.is_open else 'closed'}, reached {self.reached} times>"

    def open(self) -> None:
        """Open the gate for all current and future waiters."""
        with self._changed:
            self.is_open = True
            self._changed.notify_all()
            callbacks, self._on_open = self._on_open, []
        for callback in callbacks:
            callback()

    def when_open(self, callback: Callable[[], object]) -> None:
        """Call a function when the gate opens, in the thread that opens it; immediately if it is open."""
        with self._changed:
            if not self.is_open:
                self._on_open.append(callback)
                return
        callback()

    async def wait_reached(self, count: int = 1, *, timeout: float = 60.0) -> None:
        """Wait until `count` peers have reached the gate. Raises TimeoutError after `timeout` seconds."""
        await wait_in_thread(self._changed, lambda: self.reached >= count, timeout, f"{self!r}, wanted {count}")

    def hold(self, abandoned: Callable[[], bool]) -> bool:
        """Block the calling thread until the gate is open. Returns False once `abandoned()` returns true."""
        with self._changed:
            self.reached += 1
            self._changed.notify_all()
            while not self.is_open:
                if abandoned():
                    return False
                self._changed.wait(POLL)
        return True


async def wait_in_thread(changed: threading.Condition, done: Callable[[], bool], timeout: float, what: str) -> None:
    """Wait on `changed` in a worker thread until `done()` returns true. Cancellable.

    Raises TimeoutError, which mentions `what`, after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout

    def wait() -> None:
        with changed:
            while not done():
                from_thread.check_cancelled()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"timed out after {timeout:g} s: {what}")
                changed.wait(POLL)

    await to_thread.run_sync(wait)


# Blocks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A text block."""

    text: str


@dataclass(frozen=True)
class Thinking:
    """A thinking block, with the signature that the API puts on it."""

    thinking: str
    signature: str = "c2lnbmF0dXJl"


@dataclass(frozen=True)
class ToolCall:
    """A tool call. If `id` is None, the model generates one."""

    name: str
    input: Mapping[str, object] = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True)
class RawBlock:
    """A content block as JSON, for example `redacted_thinking`, a server tool or an unknown type."""

    json: Mapping[str, object]


Block: TypeAlias = Text | Thinking | ToolCall | RawBlock
"""A block of a scripted answer."""


text = Text
"""The short name of `Text`."""
thinking = Thinking
"""The short name of `Thinking`."""


def tool_use(name: str, input: Mapping[str, object] | None = None, *, id: str | None = None) -> ToolCall:  # noqa: A002
    """Return a tool call. The tool that launches a subagent is named `Agent`, even if messages show another name."""
    return ToolCall(name, input or {}, id)


# Replies ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Usage:
    """The token counts of a reply."""

    input_tokens: int = 100
    output_tokens: int = 10
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


@dataclass(frozen=True, init=False)
class Reply:
    """One answer of the model: `Reply("text")`, `Reply(tool_use(...))`, `Reply([thinking("hm"), text("yes")])`."""

    blocks: tuple[Block, ...]
    stop_reason: str | None
    """None means `tool_use` if a tool is called, otherwise `end_turn`."""
    usage: Usage
    delay: float
    """Seconds before the first byte."""
    after: Gate | None
    """Held back until this gate is open."""
    chunk_chars: int | None
    """Characters per delta; None sends each block as one delta."""
    chunk_delay: float
    """Seconds before each delta."""
    headers: Mapping[str, str]
    """Additional response headers, such as rate limits."""

    def __init__(
        self,
        blocks: "Block | str | Sequence[object]" = (),
        *,
        stop_reason: str | None = None,
        usage: Usage | None = None,
        delay: float = 0.0,
        after: Gate | None = None,
        chunk_chars: int | None = None,
        chunk_delay: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if chunk_chars is not None and chunk_chars < 1:
            raise ValueError("chunk_chars must be at least 1")
        vars(self).update(
            blocks=_as_blocks(blocks),
            stop_reason=stop_reason,
            usage=usage or Usage(),
            delay=delay,
            after=after,
            chunk_chars=chunk_chars,
            chunk_delay=chunk_delay,
            headers=dict(headers or {}),
        )


FAILURE_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class Failure:
    """An HTTP error.

    The CLI retries after 401, 408, 409, 429 and 5xx, and then gets the next answer of the script. After 400 and 422 it
    repeats the request with fewer features, and gets the same failure until the conversation continues.
    """

    status: int
    message: str = "scripted failure"
    type: str | None = None
    """None means the usual type for that status."""
    retry_after: float | None = None
    """Seconds, for the `retry-after` header."""
    delay: float = 0.0
    """Seconds before the first byte."""
    after: Gate | None = None
    """Held back until this gate is open."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_retried(self) -> bool:
        """Whether the CLI retries after a delay."""
        return self.status in {401, 408, 409, 429} or self.status >= 500

    @property
    def error_type(self) -> str:
        """The `type` of the error object."""
        return self.type or FAILURE_TYPES.get(self.status, "api_error")


@dataclass(frozen=True, init=False)
class CutStream:
    """A reply whose stream breaks off: the connection is reset after `after_blocks` blocks or `after_chars` characters.

    With neither, it breaks right after `message_start`. With `error`, the server sends an SSE `error` event of that
    type and ends the stream normally, as an overloaded API does.

    A reset discards what the peer has not read yet. With `when` the connection is reset once that gate is open: open it
    after the test has seen the preceding content. Otherwise it is reset after 0.4 s, which may be too short on a busy
    machine.
    """

    reply: Reply
    after_blocks: int | None
    after_chars: int | None
    error: str | None
    when: Gate | None

    def __init__(
        self,
        reply: "Reply | Block | str | Sequence[object]" = "",
        *,
        after_blocks: int | None = None,
        after_chars: int | None = None,
        error: str | None = None,
        when: Gate | None = None,
    ) -> None:
        if after_blocks is not None and after_chars is not None:
            raise ValueError("after_blocks and after_chars are mutually exclusive")
        if after_chars is not None and not isinstance(reply, Reply):
            reply = Reply(reply, chunk_chars=1)
        whole = reply if isinstance(reply, Reply) else Reply(reply)
        vars(self).update(reply=whole, after_blocks=after_blocks, after_chars=after_chars, error=error, when=when)


Answer: TypeAlias = Reply | Failure | CutStream
"""The answer to one request."""

LooseAnswer: TypeAlias = Answer | Block | str | Sequence[Block | str]
"""An item of a script: an answer, or the blocks of a `Reply`."""

Script: TypeAlias = Sequence[LooseAnswer] | Callable[[RecordedRequest], LooseAnswer]
"""Answers in order, or a function of the request, which runs in a thread of the server."""

AnyScript: TypeAlias = Script | LooseAnswer | Sequence[object]
"""The type of `ScriptedModel(main=)`: a `Script`, or a single answer.

Any sequence passes the type checker, because mypy infers `list[object]` for a list of blocks and texts in a variable.
The items are checked when the model is created. Annotate the variable as `Script` to check them statically.
"""


def as_answer(loose: object) -> Answer:
    """Convert an item of a script to an answer. Raises TypeError for an invalid item."""
    return loose if isinstance(loose, Reply | Failure | CutStream) else Reply(_as_blocks(loose))


def _as_blocks(loose: object) -> tuple[Block, ...]:
    parts = loose if isinstance(loose, Sequence) and not isinstance(loose, str) else [loose]
    return tuple(Text(part) if isinstance(part, str) else _check_block(part) for part in parts)


def _check_block(block: object) -> Block:
    if isinstance(block, Text | Thinking | ToolCall | RawBlock):
        return block
    raise TypeError(f"a block of a reply must be text(), thinking(), tool_use() or a RawBlock, not {block!r}")
