"""Handlers and listeners that are slow, fail or misbehave: the pump never notices, and nobody waits for ever."""

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from bounds import set_bound
from peers import MakeClient, start_in_memory

from claude_agent_py import (
    Allow,
    Client,
    ClientOptions,
    HookMatcher,
    PermissionRequest,
    TaskNotificationMessage,
    Timeouts,
    ToolServer,
    tool,
)
from claude_agent_py.errors import ConnectionClosedError, HandlerError
from claude_agent_py.messages import HandlerFailed
from claude_agent_py.testing import FakeCLI, frames, steps
from claude_agent_py.tools import Resource

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def start() -> MakeClient:
    """Return a function that makes clients of fakes in memory. Handlers cannot know what carries the bytes."""
    return start_in_memory


def reply_to(request_id: str) -> dict[str, Any]:
    return {"type": "control_response", "response": {"request_id": request_id}}


def pre_tool_use(request_id: str) -> dict[str, Any]:
    data = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t"}
    return frames.hook_callback(request_id, "hook_0", data)


async def raises(*args: Any) -> Any:
    raise LookupError("my handler is broken")


def raises_in_a_thread(*args: Any) -> Any:
    raise LookupError("my handler is broken")


async def cancels_itself(*args: Any) -> Any:
    raise anyio.get_cancelled_exc_class()


async def exits(*args: Any) -> Any:
    raise SystemExit(3)


def exits_in_a_thread(*args: Any) -> Any:
    raise SystemExit(3)


async def gives_nonsense(*args: Any) -> Any:
    return object()


async def fails_in_a_group(*args: Any) -> Any:
    async with anyio.create_task_group() as group:
        group.start_soon(raises)


async def raises_generator_exit(*args: Any) -> Any:
    raise GeneratorExit


def raises_generator_exit_in_a_thread(*args: Any) -> Any:
    raise GeneratorExit


async def awaits_a_generator_exit(*args: Any) -> Any:
    """On asyncio, this closes the coroutine of whoever awaits the handler."""
    await anyio.to_thread.run_sync(raises_generator_exit_in_a_thread)


class Unreadable(dict[str, Any]):
    """A dict of a user that raises when it is read, and no Exception."""

    def _raise(self, *args: Any) -> Any:
        raise GeneratorExit

    __iter__ = keys = items = __len__ = __repr__ = __str__ = _raise


def gives_what_raises_when_read(*args: Any) -> Any:
    return Allow(updated_input=Unreadable(command="rm"))


async def raises_a_base_group(*args: Any) -> Any:
    raise BaseExceptionGroup("", [SystemExit(3), LookupError()])


async def raises_an_old_cancellation(*args: Any) -> Any:
    """What asyncio raises where something that is awaited was cancelled; trio knows it as a Cancelled that was kept."""
    kept: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as error:
            kept.append(error)
    raise kept[0]


NO_EXCEPTIONS = [exits, raises_generator_exit, raises_a_base_group, raises_an_old_cancellation]
BROKEN = [raises, raises_in_a_thread, exits, exits_in_a_thread, gives_nonsense, fails_in_a_group, *NO_EXCEPTIONS[1:]]
BROKEN += [raises_generator_exit_in_a_thread]


def each_in_memory(name: str, handlers: list[Any]) -> pytest.MarkDecorator:
    """Try all handlers in memory; with a program, which no handler knows of, the plainest failure and the worst one."""
    cases = [("memory", handler) for handler in handlers] + [("process", raises), ("process", raises_a_base_group)]
    return pytest.mark.parametrize(("start", name), cases, indirect=["start"])


@each_in_memory("handler", [*BROKEN, gives_what_raises_when_read])
async def test_a_permission_handler_that_fails_denies(
    start: MakeClient, handler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeCLI(frames.can_use_tool("r1"), steps.wait_for_reply("r1"), steps.turn("still here"))
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(60):
        async with start(fake, can_use_tool=handler) as client:
            messages = client.messages()
            [frame] = await fake.wait_received(reply_to("r1"))
            assert (await client.query("hi")).text == "still here"
            events = [message for message in [await anext(messages)] if isinstance(message, HandlerFailed)]
            errors = client.handler_errors
    assert frame["response"]["response"]["behavior"] == "deny"
    assert len(errors) == 1
    assert handler.__name__ in str(errors[0])
    assert [event.handler for event in events] == [errors[0].handler]


@each_in_memory("handler", BROKEN)
async def test_a_guarding_hook_that_fails_blocks(
    start: MakeClient, handler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeCLI(pre_tool_use("r1"), steps.wait_for_reply("r1"), steps.turn("still here"))
    hooks = {"PreToolUse": [HookMatcher("Bash", handler, on_failure="block")]}
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(60):
        async with start(fake, hooks=hooks) as client:
            [frame] = await fake.wait_received(reply_to("r1"))
            assert (await client.query("hi")).text == "still here"
            assert len(client.handler_errors) == 1
    assert "deny" in str(frame) or "block" in str(frame)


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "permission"])
async def test_a_handler_whose_coroutine_is_closed_from_within_still_refuses(
    start: MakeClient, event: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = {"tool_name": "Bash", "tool_input": {}, "tool_response": {"stdout": "sk-secret"}, "tool_use_id": "t"}
    hook = frames.hook_callback("r1", "hook_0", {"hook_event_name": event, **data})
    fake = FakeCLI(frames.can_use_tool("r1") if event == "permission" else hook, steps.wait_for_reply("r1"))
    guard = HookMatcher("Bash", awaits_a_generator_exit, on_failure="block")
    options: dict[str, Any] = (
        {"can_use_tool": awaits_a_generator_exit} if event == "permission" else {"hooks": {event: [guard]}}
    )
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(60):
        async with start(fake, **options):
            [frame] = await fake.wait_received(reply_to("r1"))
    answer = frame["response"]
    assert answer["subtype"] == "error" or any(word in str(answer) for word in ("deny", "withheld"))
    assert event == "permission" or answer["subtype"] == "success"


async def test_a_handler_that_is_cancelled_from_within_is_a_failure(
    start: MakeClient, anyio_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """On asyncio whatever a handler awaits may raise CancelledError; nobody asked the handler itself to end."""
    if anyio_backend == "trio":
        pytest.skip("trio has no cancellation without a scope")

    async def awaits_what_was_cancelled(*args: Any) -> Any:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    fake = FakeCLI(frames.can_use_tool("r1"), steps.wait_for_reply("r1"), steps.turn("still here"))
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(60):
        async with start(fake, can_use_tool=awaits_what_was_cancelled) as client:
            [frame] = await fake.wait_received(reply_to("r1"))
            assert (await client.query("hi")).text == "still here"
    assert frame["response"]["response"]["behavior"] == "deny"


async def test_a_handler_leaves_no_context_to_the_next(start: MakeClient) -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    found: list[str] = []

    async def can_use_tool(request: PermissionRequest, context: Any) -> Allow:
        found.append(user.get())
        user.set("somebody")
        if request.tool_use_id == "waits":
            await anyio.sleep(0)
            found.append(user.get())
        return Allow()

    fake = FakeCLI(
        frames.can_use_tool("r1"),
        steps.wait_for_reply("r1"),
        frames.can_use_tool("r2", tool_use_id="waits"),
        steps.wait_for_reply("r2"),
        frames.can_use_tool("r3"),
        steps.wait_for_reply("r3"),
        steps.turn("ok"),
    )
    with anyio.fail_after(60):
        async with start(fake, can_use_tool=can_use_tool) as client:
            assert (await client.query("hi")).text == "ok"
    assert found == ["nobody", "nobody", "somebody", "nobody"]


@each_in_memory("function", BROKEN)
async def test_a_failed_tool_is_reported_to_the_model(
    start: MakeClient, function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def broken() -> Any:
        """Fail."""
        if function is gives_nonsense:
            raise RecursionError
        outcome = function()
        return await outcome if hasattr(outcome, "__await__") else outcome

    call = frames.mcp_message("r1", "tools", "tools/call", name="broken", arguments={})
    fake = FakeCLI(call, steps.wait_for_reply("r1"), steps.turn("still here"))
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(60):
        async with start(fake, custom_tools=[broken]) as client:
            [frame] = await fake.wait_received(reply_to("r1"))
            assert (await client.query("hi")).text == "still here"
    assert frame["response"]["response"]["mcp_response"]["result"]["isError"] is True


# Slow ones -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_slow_handler_delays_no_other(start: MakeClient, kind: str) -> None:
    release = threading.Event()
    begun: list[str] = []

    async def slow(request: PermissionRequest, context: Any) -> Allow:
        begun.append(context.request_id)
        while context.request_id == "slow" and not release.is_set():
            await anyio.sleep(0.005)
        return Allow()

    def slow_in_a_thread(request: PermissionRequest, context: Any) -> Allow:
        begun.append(context.request_id)
        if context.request_id == "slow":
            assert release.wait(120)
        return Allow()

    fake = FakeCLI(
        frames.can_use_tool("slow"),
        frames.can_use_tool("quick"),
        steps.wait_for_reply("quick"),
        steps.turn("meanwhile"),
        steps.wait_for_reply("slow"),
    )
    handler = slow if kind == "async" else slow_in_a_thread
    with anyio.fail_after(60):
        async with start(fake, can_use_tool=handler) as client:
            assert (await client.query("hi")).text == "meanwhile"
            assert await client.control("anything") == {}
            release.set()
            await fake.wait_received(reply_to("slow"))
    assert sorted(begun) == ["quick", "slow"]


async def test_more_plain_handlers_than_threads_do_not_hold_up_the_session(start: MakeClient) -> None:
    """anyio has 40 threads by default; the 41st handler waits, but nothing else does."""
    release = threading.Event()

    def slow(request: PermissionRequest, context: Any) -> Allow:
        release.wait(120)
        return Allow()

    asks = [frames.can_use_tool(f"r{number}") for number in range(60)]
    fake = FakeCLI(*asks, steps.turn("meanwhile"))
    with anyio.fail_after(60):
        async with start(fake, can_use_tool=slow) as client:
            assert (await client.query("hi")).text == "meanwhile"
            release.set()
            await fake.wait_received({"type": "control_response"}, count=60)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_closing_does_not_wait_for_a_handler(start: MakeClient, kind: str) -> None:
    release, begun = threading.Event(), threading.Event()

    async def never(request: PermissionRequest, context: Any) -> Allow:
        begun.set()
        await anyio.sleep_forever()
        return Allow()

    def never_in_a_thread(request: PermissionRequest, context: Any) -> Allow:
        begun.set()
        release.wait(120)
        return Allow()

    fake = FakeCLI(frames.can_use_tool("r1"))
    try:
        with anyio.fail_after(60):
            async with start(fake, can_use_tool=never if kind == "async" else never_in_a_thread) as client:
                while not begun.is_set():
                    await anyio.sleep(0.005)
            assert not client.is_open
    finally:
        release.set()


async def test_a_slow_hook_is_cut_off_at_its_timeout(start: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    async def slow(data: Any, context: Any) -> None:
        await anyio.sleep_forever()

    hooks = {"PreToolUse": [HookMatcher("Bash", slow, timeout=0.05, on_failure="block")]}
    fake = FakeCLI(pre_tool_use("r1"), steps.wait_for_reply("r1"), steps.turn("still here"))
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(60):
        async with start(fake, hooks=hooks) as client:
            [frame] = await fake.wait_received(reply_to("r1"))
            assert (await client.query("hi")).text == "still here"
    assert "deny" in str(frame) or "block" in str(frame)


# Listeners -------------------------------------------------------------------------------------------------------


def tasks_that_end(count: int) -> list[Any]:
    names = [f"t{number}" for number in range(count)]
    return [frames.task_started(name) for name in names] + [frames.task_notification(name) for name in names]


async def test_a_slow_listener_only_falls_behind(start: MakeClient) -> None:
    told: list[str] = []
    release = anyio.Event()

    async def slow(message: TaskNotificationMessage) -> None:
        await release.wait()
        told.append(message.task_id)

    fake = FakeCLI(steps.turn(tasks_that_end(50)), steps.turn("second"))
    with anyio.fail_after(60):
        async with start(fake, on_task_notification=slow) as client:
            await client.query("first")
            assert (await client.query("second")).text == "second"
            assert told == []
            release.set()
            while len(told) < 50:
                await anyio.sleep(0.005)
    assert told == [f"t{number}" for number in range(50)]


@each_in_memory("listener", [raises, raises_in_a_thread, exits_in_a_thread, fails_in_a_group, *NO_EXCEPTIONS])
async def test_a_listener_that_raises_is_told_the_next_thing_all_the_same(
    start: MakeClient, listener: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeCLI(steps.turn(tasks_that_end(3)), steps.turn("second"))
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(60):
        async with start(fake, on_task_notification=listener) as client:
            await client.query("first")
            assert (await client.query("second")).text == "second"
            while len(client.handler_errors) < 3:
                await anyio.sleep(0.005)


async def test_stderr_before_the_end_reaches_the_listener(start: MakeClient) -> None:
    """The last notifications come while the session is closed; they must not be lost with it."""
    told: list[str] = []

    async def slow(message: TaskNotificationMessage) -> None:
        await anyio.sleep(0.01)
        told.append(message.task_id)

    fake = FakeCLI(steps.turn(tasks_that_end(5)))
    with anyio.fail_after(60):
        async with start(fake, on_task_notification=slow) as client:
            await client.query("first")
    assert told == [f"t{number}" for number in range(5)]


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listeners get less time at the end, so that a test of one that needs longer takes less."""
    set_bound(monkeypatch, "LISTENER_GRACE", 0.2)


@pytest.mark.usefixtures("short_grace")
async def test_a_listener_that_never_ends_does_not_hold_up_the_close(
    start: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(message: TaskNotificationMessage) -> None:
        await anyio.sleep_forever()

    fake = FakeCLI(steps.turn(tasks_that_end(1)))
    with anyio.fail_after(60):
        async with start(fake, on_task_notification=never, timeouts=Timeouts(close=50)) as client:
            await client.query("first")
    assert "close() stops waiting" not in caplog.text


@pytest.mark.parametrize("listener", [raises, raises_in_a_thread, *NO_EXCEPTIONS])
async def test_a_stderr_listener_that_raises(
    start_process: MakeClient, listener: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeCLI(steps.stderr("one\ntwo\n"), steps.turn("still here"))
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(60):
        async with start_process(fake, on_stderr=listener) as client:
            assert (await client.query("hi")).text == "still here"
            while len(client.handler_errors) < 2:
                await anyio.sleep(0.005)


@pytest.mark.parametrize("error", NO_EXCEPTIONS)
async def test_prompts_that_raise_fail_their_run_alone(start: MakeClient, error: Any) -> None:
    async def prompts() -> AsyncIterator[str]:
        yield "one"
        await error()

    fake = FakeCLI(steps.wait_for_prompt(), steps.turn("still here"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            with pytest.raises(HandlerError, match="it raised") as caught:
                await client.query(prompts())
            assert not isinstance(caught.value.__cause__, Exception)
            assert (await client.query("hi")).text == "still here"


@pytest.mark.parametrize("error", NO_EXCEPTIONS)
async def test_a_resource_and_a_prompt_that_raise_are_reported(
    start: MakeClient, error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = ToolServer("mine", resources=[Resource("memo:1", error)])
    call = frames.mcp_message("r1", "mine", "resources/read", uri="memo:1")
    fake = FakeCLI(call, steps.wait_for_reply("r1"), steps.turn("still here"))
    with caplog.at_level(logging.CRITICAL), anyio.fail_after(60):
        async with start(fake, mcp_servers={"mine": server}) as client:
            [frame] = await fake.wait_received(reply_to("r1"))
            assert (await client.query("hi")).text == "still here"
            assert ["resources/read" in failure.handler for failure in client.handler_errors] == [True]
    assert "error" in frame["response"]["response"]["mcp_response"]


async def test_handlers_that_block_and_listeners_that_wait_hold_up_no_guard(start: MakeClient) -> None:
    release = threading.Event()

    def blocks(*args: Any) -> None:
        release.wait(120)

    def guard(*args: Any) -> Any:
        return {"decision": "block", "reason": "guarded"}

    asks = [frames.can_use_tool(f"p{number}") for number in range(60)]
    fake = FakeCLI(*asks, pre_tool_use("r1"), steps.wait_for_reply("r1"), steps.turn("meanwhile"))

    async def waits(event: Any) -> None:
        await anyio.sleep_forever()

    options = {"can_use_tool": blocks, "hooks": {"PreToolUse": [HookMatcher("Bash", guard)]}, "on_task_event": waits}
    with anyio.fail_after(60):
        async with start(fake, **options) as client:
            try:
                with anyio.fail_after(60):
                    await fake.wait_received(reply_to("r1"))
                    assert (await client.query("hi")).text == "meanwhile"
            finally:
                release.set()
            await fake.wait_received({"type": "control_response"}, count=61)


# Floods of stderr ------------------------------------------------------------------------------------------------

LINES = 100_000


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_flood_of_stderr_reaches_a_listener_whole(start_process: MakeClient, kind: str) -> None:
    told: list[str] = []

    async def listen(line: str) -> None:
        told.append(line)

    text = "".join(f"line {number}\n" for number in range(LINES))
    fake = FakeCLI(steps.stderr(text), steps.turn("still here"))
    with anyio.fail_after(60):
        async with start_process(fake, on_stderr=listen if kind == "async" else told.append) as client:
            assert (await client.query("hi")).text == "still here"
            while len(told) < LINES:  # `close()` would not wait for long
                await anyio.sleep(0.01)
    assert client.stderr_lines_dropped == 0
    assert (len(told), told[0], told[-1]) == (LINES, "line 0", f"line {LINES - 1}")


@pytest.mark.usefixtures("short_grace")
async def test_lines_that_a_stderr_listener_missed_are_counted(
    start_process: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    async def hangs(line: str) -> None:
        told.append(line)
        await anyio.sleep_forever()

    fake = FakeCLI(steps.stderr("line\n" * 1000), steps.turn("still here"))
    with anyio.fail_after(60):
        async with start_process(fake, on_stderr=hangs) as client:
            assert (await client.query("hi")).text == "still here"
    assert (told, client.stderr_lines_dropped) == (["line"], 999)
    [warning] = [record.getMessage() for record in caplog.records if "missed" in record.getMessage()]
    assert "hangs missed 999 items" in warning


async def test_a_handler_may_use_the_client(start: MakeClient) -> None:
    clients: list[Client] = []

    async def can_use_tool(request: Any, context: Any) -> Allow:
        await clients[0].control("set_model", model="opus")
        return Allow()

    fake = FakeCLI(frames.can_use_tool("r1"), steps.wait_for_reply("r1"), steps.turn("ok"))
    client = start(fake, can_use_tool=can_use_tool)
    clients.append(client)
    with anyio.fail_after(60):
        async with client:
            assert (await client.query("hi")).text == "ok"
    assert fake.requests("set_model") == [{"subtype": "set_model", "model": "opus"}]


@pytest.mark.parametrize("kind", ["handler", "listener"])
async def test_a_handler_may_close_the_client(start: MakeClient, kind: str) -> None:
    clients: list[Client] = []
    returned: list[bool] = []

    async def closes(*args: Any) -> Any:
        await clients[0].close()
        returned.append(True)

    said = [
        steps.wait_for_request("set_model"),
        *([frames.can_use_tool("r1")] if kind == "handler" else tasks_that_end(1)),
    ]
    options = {"can_use_tool": closes} if kind == "handler" else {"on_task_notification": closes}
    client = start(FakeCLI(*said), **options)
    clients.append(client)
    with anyio.fail_after(60):
        await client.connect()
        messages = client.messages()
        with contextlib.suppress(ConnectionClosedError):
            await client.set_model("opus")
        async for _ in messages:
            pass  # until the end
        await client.close()
    assert not client.is_open
    assert returned == [True]


async def test_listeners_may_be_given_outside_of_an_event_loop() -> None:
    made: list[Client] = []
    told: list[str] = []
    fake = FakeCLI(steps.turn(tasks_that_end(1)))

    def make() -> None:
        options = ClientOptions(on_task_notification=lambda message: told.append(message.task_id), on_stderr=print)
        made.append(Client(options, transport=fake.transport()))

    await anyio.to_thread.run_sync(make)
    with anyio.fail_after(60):
        async with made[0] as client:
            await client.query("hi")
    assert told == ["t0"]
