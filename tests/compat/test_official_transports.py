"""Programs that bring a transport of the official SDK, and options that do not start a program."""

import copy
import json
from collections.abc import AsyncIterator, Callable
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given, strategies as st
from later import Later
from recordings_loader import all_frames

from claude_agent_py.compat import (
    CanUseToolShadowedWarning,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    HookMatcher,
    MessageParseError,
    PermissionResultAllow,
    PermissionUpdate,
    ProcessError,
    ResultError,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    Transport,
    query,
)
from claude_agent_py.compat.messages import parse_message

if TYPE_CHECKING:
    import claude_agent_sdk._internal.message_parser as official_parser
else:
    official_parser = Later("claude_agent_sdk._internal.message_parser")

pytestmark = [pytest.mark.anyio, pytest.mark.each_backend]

RESULT: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "duration_ms": 1,
    "duration_api_ms": 1,
    "is_error": False,
    "num_turns": 1,
    "session_id": "s",
    "result": "done",
}


class Recorder(Transport):
    """A program elsewhere that answers each control request, and gives one answer."""

    def __init__(self, *messages: dict[str, Any], failure: Exception | None = None) -> None:
        self.written: list[str] = []
        self.calls: list[str] = []
        self._messages = messages
        self._failure = failure
        self._arrived = anyio.Event()

    async def connect(self) -> None:
        self.calls.append("connect")

    async def write(self, data: str) -> None:
        assert data.endswith("\n")
        assert data.count("\n") == 1
        self.written.append(data)
        self._arrived.set()

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        read = 0
        while not {"end_input", "close"} & set(self.calls):
            await self._arrived.wait()
            self._arrived = anyio.Event()
            for line in self.written[read:]:
                read += 1
                frame = json.loads(line)
                if frame["type"] == "control_request":
                    reply = {"subtype": "success", "request_id": frame["request_id"], "response": {}}
                    yield {"type": "control_response", "response": reply}
                    continue
                for message in self._messages:
                    yield message
                if self._failure is not None:
                    raise self._failure

    async def close(self) -> None:
        self.calls.append("close")
        self._arrived.set()

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        self.calls.append("end_input")
        self._arrived.set()

    @property
    def prompts(self) -> list[dict[str, Any]]:
        frames = [json.loads(line) for line in self.written]
        return [frame for frame in frames if frame["type"] == "user"]


async def all_of(prompt: Any, transport: Transport, options: ClaudeAgentOptions | None = None) -> list[Any]:
    with anyio.fail_after(60):
        return [message async for message in query(prompt=prompt, options=options, transport=transport)]


async def test_query_runs_over_a_transport_of_the_official_sdk() -> None:
    unknown = {"type": "tool_progress", "uuid": "u", "session_id": "s"}
    hidden = {"type": "system", "subtype": "session_state_changed", "state": "idle", "sdk_host_only": True}
    event = {"type": "stream_event", "uuid": "u", "session_id": "s", "event": {"type": "message_stop"}}
    line = {"type": "system", "subtype": "status", "text": "a line\u2028separator"}
    transport = Recorder(event, unknown, hidden, line, RESULT)
    messages = await all_of("a\u2028b", transport)
    assert [type(message) for message in messages] == [StreamEvent, SystemMessage, ResultMessage]
    assert messages[0].event == event["event"]
    assert messages[1].data == line
    assert transport.calls == ["connect", "end_input", "close"]
    [prompt] = transport.prompts
    assert prompt["message"] == {"role": "user", "content": "a\u2028b"}


@pytest.mark.parametrize("fails", [False, True])
async def test_prompts_of_an_iterable_are_all_answered_even_if_it_fails(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def prompts() -> AsyncIterator[dict[str, Any]]:
        for content in ("one", "two"):
            yield {"type": "user", "message": {"role": "user", "content": content}}
        if fails:
            raise RuntimeError("no more")

    transport = Recorder(RESULT)
    messages = await all_of(prompts(), transport)
    assert [type(message) for message in messages] == [ResultMessage] * 2
    assert [prompt["message"]["content"] for prompt in transport.prompts] == ["one", "two"]
    assert ("the prompts failed" in caplog.text) is fails


@pytest.mark.parametrize("ceiling", ["-1", "", "soon", "0", "60000"])
async def test_a_run_ends_with_its_result_whatever_the_ceiling_is(ceiling: str) -> None:
    options = ClaudeAgentOptions(env={"CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS": ceiling})
    assert [type(message) for message in await all_of("hi", Recorder(RESULT), options)] == [ResultMessage]


async def test_a_client_sends_each_message_of_an_iterable_in_its_session() -> None:
    async def prompts() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "user", "message": {"role": "user", "content": "one"}}
        yield {"type": "user", "message": {"role": "user", "content": "two"}, "session_id": "own"}

    transport = Recorder(RESULT)
    with anyio.fail_after(60):
        async with ClaudeSDKClient(transport=transport) as client:
            await client.query(prompts(), "mine")
            for _ in range(2):
                assert [type(each) async for each in client.receive_response()] == [ResultMessage]
            await client.query("three", "mine")
            assert [type(each) async for each in client.receive_response()] == [ResultMessage]
    sent = [(prompt["message"]["content"], prompt["session_id"]) for prompt in transport.prompts]
    assert sent == [("one", "mine"), ("two", "own"), ("three", "mine")]
    assert transport.calls.count("close") == 1


async def test_a_response_without_a_result_ends_with_the_session() -> None:
    status = {"type": "system", "subtype": "status"}
    client = ClaudeSDKClient(transport=Recorder(status))
    with anyio.fail_after(60):
        await client.connect("hi")
        seen = []
        async for message in client.receive_response():
            seen.append(type(message))
            await client.disconnect()
    assert seen == [SystemMessage]


async def test_the_methods_of_a_client_send_what_the_cli_knows() -> None:
    transport = Recorder(RESULT)
    with anyio.fail_after(60):
        async with ClaudeSDKClient(transport=transport) as client:
            await client.reconnect_mcp_server("a")
            await client.toggle_mcp_server("a", False)
            await client.stop_task("t1")
    requests = [json.loads(line)["request"] for line in transport.written if '"control_request"' in line]
    assert requests[1:] == [
        {"subtype": "mcp_reconnect", "serverName": "a"},
        {"subtype": "mcp_toggle", "serverName": "a", "enabled": False},
        {"subtype": "stop_task", "task_id": "t1"},
    ]


async def test_a_transport_that_does_not_connect_raises_its_own_error() -> None:
    class Unreachable(Recorder):
        async def connect(self) -> None:
            raise ConnectionRefusedError("nobody there")

    with pytest.raises(ConnectionRefusedError, match="nobody there"):
        await all_of("hi", Unreachable())


@pytest.mark.parametrize("message", ["text", None, {}, {"type": ""}])
async def test_a_message_without_a_type_is_an_error(message: Any) -> None:
    with pytest.raises(MessageParseError, match=r"Invalid message data type|Message missing 'type' field"):
        parse_message(message)


async def test_updates_that_the_cli_would_drop_are_left_out_of_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def decide(name: str, data: dict[str, Any], context: Any) -> PermissionResultAllow:
        return PermissionResultAllow(updated_permissions=[PermissionUpdate(type="setMode")])

    asked = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t1"}
    question = {"type": "control_request", "request_id": "q1", "request": asked}

    class Asking(Recorder):
        async def write(self, data: str) -> None:
            frame = json.loads(data)
            if frame["type"] == "control_response":
                self.answers.append(frame["response"]["response"])
                self.answered.set()
            await super().write(data)

        answered, answers = anyio.Event(), list[Any]()

    transport = Asking(question)
    with anyio.fail_after(60):
        async with ClaudeSDKClient(ClaudeAgentOptions(can_use_tool=decide), transport) as client:
            await client.query("hi")
            await transport.answered.wait()
    assert transport.answers[0]["behavior"] == "allow"
    assert not transport.answers[0].get("updatedPermissions")
    assert "its updated_permissions are not applied" in caplog.text


async def test_query_ends_when_no_turn_follows_for_as_long_as_the_ceiling() -> None:
    running = {"type": "system", "subtype": "session_state_changed", "state": "running"}
    started = {
        "type": "system",
        "subtype": "task_started",
        "task_id": "a",
        "task_type": "local_agent",
        "description": "d",
    }
    started |= {"uuid": "u", "session_id": "s"}
    ended = {"type": "system", "subtype": "task_updated", "task_id": "a", "patch": {"status": "completed"}}
    options = ClaudeAgentOptions(env={"CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS": "50"})
    transport = Recorder(running, RESULT, started, RESULT, ended, running)
    messages = await all_of("hi", transport, options)
    assert [type(message) for message in messages].count(ResultMessage) == 2
    assert transport.calls[-1] == "close"


async def test_the_error_of_a_transport_reaches_the_program() -> None:
    failed = {**RESULT, "is_error": True, "subtype": "error_max_turns", "errors": ["too many"]}
    with pytest.raises(ResultError, match="error result: too many") as raised:
        await all_of("hi", Recorder(failed, failure=ProcessError("gone", 1)))
    assert isinstance(raised.value.__cause__, ProcessError)
    with pytest.raises(ZeroDivisionError):
        await all_of("hi", Recorder(failure=ZeroDivisionError()))


class Unreachable(Recorder):
    """A program that cannot be reached, and a connection that has nothing to close."""

    async def connect(self) -> None:
        raise OSError("no route")

    async def close(self) -> None:
        raise AttributeError("it has no socket")


class Deaf(Recorder):
    """A program that does not take prompts."""

    async def write(self, data: str) -> None:
        if json.loads(data)["type"] == "user":
            raise ZeroDivisionError
        await super().write(data)


@pytest.mark.parametrize(("transport", "error"), [(Unreachable, OSError), (Deaf, ZeroDivisionError)])
async def test_the_error_of_a_connection_or_a_write_reaches_the_program(
    transport: type[Recorder], error: type[Exception]
) -> None:
    async def talk() -> None:
        async with ClaudeSDKClient(transport=transport(RESULT)) as client:
            await client.query("hi")
            async for _ in client.receive_response():
                pass

    with pytest.raises(error):
        await all_of("hi", transport(RESULT))
    with anyio.fail_after(60), pytest.raises(error):
        await talk()


async def test_a_message_without_a_part_that_it_needs_is_an_error() -> None:
    with pytest.raises(MessageParseError, match="Missing required field in result message: 'num_turns'"):
        await all_of("hi", Recorder({name: value for name, value in RESULT.items() if name != "num_turns"}))


async def test_several_readers_share_the_messages_and_early_ones_are_kept() -> None:
    transport = Recorder(*[{"type": "system", "subtype": "status", "n": number} for number in range(4)], RESULT)
    client = ClaudeSDKClient(transport=transport)
    seen: list[list[Any]] = [[], []]

    async def read(into: list[Any]) -> None:
        async for message in client.receive_messages():
            into.append(message)
            await anyio.sleep(0)
            if len(seen[0]) + len(seen[1]) == 5:
                await client.disconnect()

    with anyio.fail_after(60):
        await client.connect("hi")
        async with anyio.create_task_group() as group:
            for into in seen:
                group.start_soon(read, into)
    assert sorted(message.data["n"] for message in seen[0] + seen[1] if type(message) is SystemMessage) == [0, 1, 2, 3]
    with pytest.raises(CLIConnectionError, match="Not connected"):
        [message async for message in client.receive_messages()]


async def allow(name: str, data: dict[str, Any], context: Any) -> PermissionResultAllow:
    return PermissionResultAllow()


async def test_tools_that_other_options_allow_are_named_once() -> None:
    shadowed = ClaudeAgentOptions(can_use_tool=allow, allowed_tools=["Write(*)", "Bash(ls:*)", "mcp__a__b", "Write"])
    with pytest.warns(CanUseToolShadowedWarning) as caught:
        await all_of("hi", Recorder(RESULT), shadowed)
    assert len(caught) == 1
    assert "Write, mcp__a__b:" in str(caught[0].message)
    with pytest.warns(CanUseToolShadowedWarning, match="allows everything"):
        await all_of(
            "hi", Recorder(RESULT), ClaudeAgentOptions(can_use_tool=allow, permission_mode="bypassPermissions")
        )


@pytest.mark.parametrize(
    "options",
    [
        ClaudeAgentOptions(can_use_tool=allow, permission_prompt_tool_name="mcp__a__b"),
        ClaudeAgentOptions(hooks={"Notification": [HookMatcher(hooks=[allow], on_failure="block")]}),  # type: ignore[list-item]
        ClaudeAgentOptions(plugins=[{"type": "remote", "path": "p"}]),  # type: ignore[typeddict-item]
    ],
    ids=["two that answer", "a hook that guards nothing", "a plugin elsewhere"],
)
async def test_options_that_would_fail_open_are_a_value_error(options: ClaudeAgentOptions) -> None:
    with pytest.raises(ValueError):
        await ClaudeSDKClient(options).connect()


async def test_messages_of_every_kind_are_those_of_the_official_sdk() -> None:
    key = {"projectKey": "-work", "sessionId": "s"}
    limit = {"status": "allowed", "resetsAt": 5, "rateLimitType": "five_hour"}
    frames = (
        {"type": "system", "subtype": "hook_started", "hook_event": "Stop", "uuid": "u", "session_id": "s"},
        {"type": "system", "subtype": "mirror_error", "key": key, "error": "full", "uuid": "u", "session_id": "s"},
        {"type": "rate_limit_event", "rate_limit_info": limit, "uuid": "u", "session_id": "s"},
    )
    hook, mirror, rate, _ = await all_of("hi", Recorder(*frames, RESULT))
    assert (type(hook).__name__, hook.hook_event_name) == ("HookEventMessage", "Stop")
    assert (type(mirror).__name__, mirror.error) == ("MirrorErrorMessage", "full")
    assert mirror.key == {"project_key": "-work", "session_id": "s"}
    assert (type(rate).__name__, rate.rate_limit_info.resets_at) == ("RateLimitEvent", 5)


ODD: tuple[Any, ...] = (None, True, 5, "", "text", [], {}, [[]], {"type": "text"}, [{"type": "text", "text": "x"}])
"""Values that replace others in a frame."""


def break_at_random(value: Any, rate: float, random: Random) -> Any:
    """Return a copy of a part of a frame in which some parts are odd or missing."""
    if random.random() < rate:
        return copy.deepcopy(random.choice(ODD))
    if isinstance(value, dict):
        return {key: break_at_random(part, rate, random) for key, part in value.items() if random.random() > rate}
    return [break_at_random(part, rate, random) for part in value] if isinstance(value, list) else value


def read_with(parse: Callable[[Any], Any], frame: Any) -> str:
    """Return the name and the fields of the message, or the text of the error."""
    try:
        return repr(parse(copy.deepcopy(frame)))
    except Exception as error:
        is_of_field = isinstance(error, TypeError) or "Invalid field" in str(error)
        return "an error of a field" if is_of_field else str(error)  # the official SDK does not wrap a TypeError


@given(seed=st.integers(0, 2**32))
def test_broken_messages_are_read_as_by_the_official_sdk(seed: int) -> None:
    random = Random(seed)
    frame = random.choice(sent_by_the_cli())
    broken = break_at_random(frame, random.choice((0.0, 0.01, 0.1)), random)
    assert read_with(parse_message, broken) == read_with(official_parser.parse_message, broken)


@cache
def sent_by_the_cli() -> list[Any]:
    return [frame for _, direction, frame in all_frames() if direction == "out"]
