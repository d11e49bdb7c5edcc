"""Cancel work at each of its awaits, one after another, and a CLI in memory that answers whatever it is sent."""

import asyncio
import json
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from typing import Any, Literal, TypeAlias

import anyio
import anyio.lowlevel

from claude_agent_py.testing import frames
from claude_agent_py.testing.frames import JSONObject
from claude_agent_py.transport import Transport

How: TypeAlias = Literal["scope", "task", "task twice"]
"""Cancel a scope around the work; its task, as `asyncio.Task.cancel` does; or also the await that follows."""
Work: TypeAlias = Callable[[], Coroutine[Any, Any, object]]

PATIENCE = 20.0
"""Seconds until work that has been cancelled counts as hanging."""


async def cancel_in_a_row(task: asyncio.Task[Any]) -> None:
    """Cancel a task as `asyncio.Task.cancel` does, in four turns of the event loop in a row."""
    for _ in range(4):
        task.cancel()
        await asyncio.sleep(0)


@types.coroutine
def stepped(work: Coroutine[Any, Any, object], on_await: Callable[[], None]) -> Generator[Any, Any, Any]:
    """Run a coroutine, and call a function whenever it waits for the event loop."""
    value: Any = None
    failure: BaseException | None = None
    while True:
        try:
            waits_for = work.send(value) if failure is None else work.throw(failure)
        except StopIteration as end:
            return end.value
        on_await()
        value = failure = None
        try:
            value = yield waits_for
        except BaseException as error:
            failure = error


EXITING = 5
"""How many turns of the event loop the program takes to exit."""


class Cancelling:
    """Cancels one piece of work at its await number `at`, `late` turns of the event loop after it begins to wait.

    With `late`, what it waits for may have happened: the cancellation arrives with its result.
    """

    def __init__(self, how: How, at: int, late: int) -> None:
        self._how = how
        self._at = at
        self._late = late
        self._scope = anyio.CancelScope()
        self._task: asyncio.Task[object] | None = None
        self._awaits = 0
        self._group: Any = None
        self.was_reached = False
        """Whether the work waited that often."""

    @property
    def is_strict(self) -> bool:
        """Whether the work must end as cancelled: a scope does not interrupt what has its result already."""
        return self.was_reached and self._how != "scope" and not self._late

    async def run(self, work: Work) -> bool:
        """Run the work, and return whether it ended because it was cancelled."""
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as self._group:
                try:
                    await (self._run_in_scope(work) if self._how == "scope" else self._run_in_task(work))
                finally:
                    self._group.cancel_scope.cancel()
        return self._scope.cancelled_caught or (self._task is not None and self._task.cancelled())

    async def _run_in_scope(self, work: Work) -> None:
        with self._scope:
            await stepped(work(), self._on_await)

    async def _run_in_task(self, work: Work) -> None:
        async def stepping() -> object:
            return await stepped(work(), self._on_await)

        self._task = asyncio.create_task(stepping())
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    def _on_await(self) -> None:
        self._awaits += 1
        if self._awaits == self._at:
            self.was_reached = True
            if self._late:
                self._group.start_soon(self._cancel_later)
            else:
                self._cancel()
        elif self.was_reached and self._how == "task twice" and self._awaits == self._at + 1:
            self._cancel()

    async def _cancel_later(self) -> None:
        for _ in range(self._late):
            await anyio.lowlevel.checkpoint()
        self._cancel()

    def _cancel(self) -> None:
        if self._task is None:
            self._scope.cancel()
        else:
            self._task.cancel()


async def cancel_everywhere(how: How, late: int, attempt: Callable[[Cancelling], Awaitable[None]]) -> int:
    """Make an attempt for each await of the work, and return how many there were.

    An attempt runs the work with the object that it gets, and checks what is left.
    """
    for at in range(1, 2000):
        cancelling = Cancelling(how, at, late)
        try:
            await attempt(cancelling)
        except BaseException as error:
            error.add_note(f"cancelled at await {at}")
            raise
        if not cancelling.was_reached:
            return at - 1
    raise AssertionError("the work does not end")


class Answers(Transport):
    """A CLI in memory that answers each prompt by its text, and each request.

    `task` starts a background task, which `stop_task` and `end_task` end; `wait` is answered once it is interrupted;
    `ask` asks for permission. Other prompts are answered with `re: ` and their text.
    """

    ignores_options = True

    def __init__(self) -> None:
        self._output: list[bytes] = []
        self._changed = anyio.Event()
        self._exit_code: int | None = None
        self.was_started = False
        self._waiting: JSONObject | None = None
        self._tasks: list[str] = []
        self._asked: dict[str, JSONObject] = {}
        self._requests = 0
        self.received: list[JSONObject] = []
        """Every frame, in order."""

    @property
    def needs_run(self) -> bool:
        return False

    async def start(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.was_started = True

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        while not self._output and self._exit_code is None:
            self._changed = anyio.Event()
            await self._changed.wait()
        return self._output.pop(0) if self._output else b""

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        for line in data.splitlines():
            self._take(json.loads(line))

    async def end_input(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def close(self, *, grace: float = 5.0) -> None:
        try:
            for _ in range(EXITING):
                await anyio.lowlevel.checkpoint()
        finally:
            self._end()

    @property
    def exit_code(self) -> int | None:
        return self._exit_code

    def _end(self) -> None:
        self._exit_code = 0
        self._changed.set()

    def _emit(self, *found: JSONObject) -> None:
        self._output.append(frames.encode(*found))
        self._changed.set()

    def _take(self, frame: JSONObject) -> None:
        self.received.append(frame)
        match frame:
            case {"type": "user", "uuid": str(uuid), "message": {"content": str(text)}}:
                self._begin(text, {"user_message_uuid": uuid, "user_message_uuids": [uuid]})
            case {"type": "control_request", "request_id": str(request), "request": {"subtype": str(subtype), **body}}:
                self._answer(request, subtype, dict(body))
            case {"type": "control_response", "response": {"request_id": str(request)}} if request in self._asked:
                self._finish("allowed", self._asked.pop(request))

    def _begin(self, text: str, prompt: JSONObject) -> None:
        self._emit(frames.init(**prompt))
        if text == "wait":
            self._waiting = prompt
        elif text == "ask":
            self._requests += 1
            self._asked[f"cli_{self._requests}"] = prompt
            self._emit(frames.can_use_tool(f"cli_{self._requests}"))
        elif text == "task":
            task = f"a{len(self._tasks):016x}"
            self._tasks.append(task)
            self._emit(frames.task_started(task), frames.background_tasks(task))
            self._finish("started", prompt)
        else:
            self._finish(f"re: {text}", prompt)

    def _finish(self, text: str, prompt: JSONObject) -> None:
        self._emit(frames.assistant(text, **prompt))
        self._emit(frames.result(text, **prompt))

    def withdraw(self) -> None:
        """Withdraw the open requests for permission, and end their turns."""
        asked, self._asked = self._asked, {}
        for request, prompt in asked.items():
            self._emit(frames.control_cancel(request))
            self._finish("withdrawn", prompt)

    def end_task(self) -> None:
        """End the latest background task."""
        self._emit(*frames.task_end(self._tasks[-1]))

    def _answer(self, request: str, subtype: str, body: dict[Any, Any]) -> None:
        response: JSONObject = {}
        if subtype == "initialize":
            agents = [{"name": name, **agent} for name, agent in (body.get("agents") or {}).items()]
            response = frames.initialize_response(agents=agents)
        elif subtype == "interrupt":
            response = {"still_queued": []}
        self._emit(
            {
                "type": "control_response",
                "response": {"subtype": "success", "request_id": request, "response": response},
            }
        )
        if subtype == "stop_task":
            self._emit(*frames.task_end(body["task_id"], "stopped"))
        if subtype == "interrupt" and self._waiting is not None:
            fields = {"terminal_reason": "aborted_tools", **self._waiting}
            self._emit(frames.result("", subtype="error_during_execution", is_error=True, **fields))
            self._waiting = None


async def until(is_true: Callable[[], bool]) -> None:
    """Wait for a condition. Raises TimeoutError."""
    with anyio.fail_after(PATIENCE):
        while not is_true():
            await anyio.lowlevel.checkpoint()


async def prompts(*texts: str) -> AsyncIterator[str]:
    """Yield prompts, with an await before each."""
    for text in texts:
        await anyio.lowlevel.checkpoint()
        yield text
