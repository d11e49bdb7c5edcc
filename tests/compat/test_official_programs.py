"""Programs of the official SDK on the real CLI, with its names."""

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

import claude_agent_py.compat as claude_agent_sdk
from claude_agent_py.compat import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    InMemorySessionStore,
    MirrorErrorMessage,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultError,
    ResultMessage,
    SessionKey,
    SessionStoreEntry,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    get_session_messages_from_store,
    project_key_for_directory,
    query,
    tool,
)
from claude_agent_py.options import find_cli
from claude_agent_py.testing import Failure, FakeCLI, ScriptedModel, steps, text, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


def options(model: ScriptedModel, **fields: Any) -> ClaudeAgentOptions:
    ready = model.options()
    variables = {name: value for name, value in ready.env.items() if value is not None}
    return ClaudeAgentOptions(cwd=ready.cwd, cli_path=ready.cli_path, env=variables, **fields)


def results(messages: list[Any]) -> list[ToolResultBlock]:
    users = [message for message in messages if isinstance(message, UserMessage)]
    return [block for user in users for block in user.content if isinstance(block, ToolResultBlock)]


def make_server() -> Any:
    """Return a server of one tool."""

    @tool("add", "Add two numbers", {"a": float, "b": float})
    async def add(args: dict[str, Any]) -> dict[str, Any]:
        if args["b"] == 13:
            raise ValueError("unlucky")
        if args["b"] == 14:
            return {"content": [{"type": "text"}]}
        return {"content": [{"type": "text", "text": f"{args['a'] + args['b']}"}]}

    return create_sdk_mcp_server("calc", tools=[add])


async def keep_all(messages: AsyncIterator[Any], kept: list[Any]) -> None:
    async for message in messages:
        kept.append(message)  # noqa: PERF401 - what came before an error stays


async def test_query_yields_the_official_messages_until_the_process_exits() -> None:
    with anyio.fail_after(240):
        async with ScriptedModel([text("hello")]) as model:
            chosen = options(model)
            messages = [message async for message in query(prompt="hi", options=chosen)]
    init, answer, result = messages
    assert type(init) is SystemMessage
    assert init.subtype == "init"
    assert init.data["cwd"] == str(chosen.cwd)
    assert isinstance(answer, AssistantMessage)
    assert answer.content == [TextBlock(text="hello")]
    assert isinstance(answer.usage, dict)
    assert isinstance(result, ResultMessage)
    assert (result.subtype, result.is_error, result.result) == ("success", False, "hello")
    assert result.model_usage is not None
    assert all("inputTokens" in usage for usage in result.model_usage.values())


@pytest.mark.long
async def test_an_error_result_is_raised_when_the_process_has_exited() -> None:
    messages: list[Any] = []
    with anyio.fail_after(240):
        async with ScriptedModel([Failure(400, "no such thing")] * 4) as model:
            with pytest.raises(ResultError, match="no such thing") as raised:
                await keep_all(query(prompt="hi", options=options(model)), messages)
    assert isinstance(messages[-1], ResultMessage)
    assert raised.value.exit_code == 1
    assert raised.value.data["uuid"] == messages[-1].uuid
    assert isinstance(raised.value, claude_agent_sdk.ProcessError)


@pytest.mark.long
async def test_prompts_of_an_iterable_are_all_answered_and_its_error_only_ends_them() -> None:
    async def prompts() -> Any:
        for content in ("one", "two"):
            yield {"type": "user", "message": {"role": "user", "content": content}}
            await answered.wait()
        raise RuntimeError("no more")

    answered = anyio.Event()
    answers = []
    with anyio.fail_after(240):
        async with ScriptedModel([text("first"), text("second")]) as model:
            async for message in query(prompt=prompts(), options=options(model)):
                if isinstance(message, ResultMessage):
                    answers.append(message.result)
                    answered.set()
    assert answers == ["first", "second"]


async def test_callbacks_of_the_official_sdk_are_called_and_none_fails_open(swallowed_faults: list[str]) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []
    seen: list[tuple[str, str | None]] = []

    async def can_use_tool(name: str, data: dict[str, Any], context: Any) -> Any:
        asked.append((name, data))
        assert context.signal is None
        assert context.tool_use_id
        answers = {
            2: PermissionResultAllow(updated_input={"a": 20, "b": 2}),
            3: PermissionResultDeny(message="not three"),
            4: RuntimeError("broken"),
            5: True,
        }
        answer = answers.get(data["a"], PermissionResultAllow())
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def note(data: Any, tool_use_id: str | None, context: Any) -> Any:
        seen.append((data["hook_event_name"], tool_use_id))
        if data["tool_input"]["a"] == 1:
            raise RuntimeError("a hook that fails decides nothing")
        return {}

    async def refuse(data: Any, tool_use_id: str | None, context: Any) -> Any:
        if data["tool_input"]["a"] == 6:
            raise RuntimeError("a guard that fails")
        return {}

    async def deny(data: Any, tool_use_id: str | None, context: Any) -> Any:
        specific = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "unknown": 1}
        return {"hookSpecificOutput": specific} if data["tool_input"]["a"] == 7 else {}

    calls = [tool_use("mcp__calc__add", {"a": number, "b": 13 if number == 8 else 2}) for number in range(1, 9)]
    invalid = tool_use("mcp__calc__add", {"a": 9, "b": "two"})
    script = [*calls, invalid, text("done")]
    async with ScriptedModel(script) as model:
        chosen = options(
            model,
            mcp_servers={"calc": make_server()},
            can_use_tool=can_use_tool,
            permission_mode="default",
            hooks={
                "PreToolUse": [
                    HookMatcher(matcher="mcp__calc__add", hooks=[note, deny]),
                    HookMatcher(hooks=[refuse], on_failure="block"),
                    HookMatcher(matcher="Bash"),
                ]
            },
        )
        with anyio.fail_after(240):
            async with ClaudeSDKClient(chosen) as client:
                await client.query("calculate")
                messages = [message async for message in client.receive_response()]
    uses = [block for message in messages if isinstance(message, AssistantMessage) for block in message.content]
    assert [block.id for block in uses if isinstance(block, ToolUseBlock)] == [tool_use_id for _, tool_use_id in seen]
    assert {event for event, _ in seen} == {"PreToolUse"}
    assert [data["a"] for _, data in asked] == [1, 2, 3, 4, 5, 8, 9]
    texts = [str(result.content) for result in results(messages)]
    expected = ("3", "22", "not three", *["can_use_tool failed"] * 2, *["hook"] * 2, "unlucky", "'two' is not of type")
    assert len(texts) == len(expected)
    for given, part in zip(texts, expected, strict=True):
        assert part in given
    assert [bool(result.is_error) for result in results(messages)] == [False, False, *[True] * 7]
    assert "can_use_tool must return" in swallowed_faults.pop()


@pytest.mark.long
async def test_a_late_guard_blocks_and_an_input_that_is_edited_in_place_runs() -> None:
    async def can_use_tool(name: str, data: dict[str, Any], context: Any) -> Any:
        data["a"] += 20
        return PermissionResultAllow()

    async def be_late(data: Any, tool_use_id: str | None, context: Any) -> Any:
        if data["tool_input"]["a"] == 2:
            await anyio.sleep_forever()
        return {}

    async def be_late_afterwards(data: Any, tool_use_id: str | None, context: Any) -> Any:
        await anyio.sleep_forever()

    calls = [tool_use("mcp__calc__add", {"a": a, "b": b}) for a, b in ((1, 2), (2, 2), (3, 14))]
    async with ScriptedModel([*calls, text("done")]) as model:
        chosen = options(
            model,
            mcp_servers={"calc": make_server()},
            can_use_tool=can_use_tool,
            permission_mode="default",
            hooks={
                "PreToolUse": [HookMatcher(hooks=[be_late], timeout=0.5, on_failure="continue")],
                "PostToolUse": [HookMatcher(hooks=[be_late_afterwards], timeout=0.5)],
            },
        )
        with anyio.fail_after(240):
            async with ClaudeSDKClient(chosen) as client:
                await client.query("calculate")
                messages = [message async for message in client.receive_response()]
    edited, blocked, incomplete = results(messages)
    assert "23" in str(edited.content)
    assert blocked.is_error
    assert "did not answer within 0.5 s" in str(blocked.content)
    assert incomplete.is_error


async def test_the_methods_of_a_client_return_what_the_official_ones_return() -> None:
    with anyio.fail_after(240):
        async with ScriptedModel([text("first"), text("second")]) as model:
            client = ClaudeSDKClient(options(model))
            await client.connect("one")
            first = [message async for message in client.receive_response()]
            assert await client.query("two", session_id="other") is None  # type: ignore[func-returns-value]
            second = [message async for message in client.receive_response()]
            assert [each[-1].result for each in (first, second) if isinstance(each[-1], ResultMessage)] == [
                "first",
                "second",
            ]
            info = await client.get_server_info()
            assert info is not None
            assert info["commands"]
            assert (await client.get_mcp_status())["mcpServers"] == []
            assert (await client.get_context_usage())["maxTokens"] > 0
            await client.set_model("opus")
            await client.set_permission_mode("plan")
            await client.interrupt()
            with pytest.raises(Exception, match="File rewinding is not enabled") as raised:
                await client.rewind_files("11111111-1111-4111-8111-111111111111")
            assert type(raised.value) is Exception
            await client.disconnect()
            await client.disconnect()
            with pytest.raises(claude_agent_sdk.CLIConnectionError, match=r"Not connected\. Call connect\(\) first\."):
                await client.interrupt()


async def test_what_does_not_start_raises_an_error_of_the_official_sdk(tmp_path: Path) -> None:
    missing = ClaudeAgentOptions(cli_path=tmp_path / "no-claude")
    with pytest.raises(claude_agent_sdk.CLINotFoundError, match="Claude Code not found"):
        await ClaudeSDKClient(missing).connect()
    elsewhere = ClaudeAgentOptions(cli_path=find_cli(), cwd=tmp_path / "nowhere")
    with pytest.raises(claude_agent_sdk.CLIConnectionError, match="nowhere"):
        await ClaudeSDKClient(elsewhere).connect()
    unwilling = FakeCLI(steps.stderr("No conversation found"), steps.exit(1)).install(tmp_path / "cli")
    with anyio.fail_after(60), pytest.raises(claude_agent_sdk.ProcessError):
        await ClaudeSDKClient(ClaudeAgentOptions(cli_path=unwilling, cwd=tmp_path)).connect()


class FullDisk(InMemorySessionStore):
    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        raise OSError("disk full")


@pytest.mark.long
async def test_who_reads_a_result_finds_its_turn_in_the_session_store() -> None:
    store = InMemorySessionStore()
    found: list[list[Any]] = []
    with anyio.fail_after(240):
        async with ScriptedModel([text("hello"), text("again")]) as model:
            chosen = options(model, session_store=store)
            directory = str(chosen.cwd)
            async for message in query(prompt="hi", options=chosen):
                if isinstance(message, ResultMessage):
                    key = {"project_key": project_key_for_directory(directory), "session_id": message.session_id}
                    found.append(store.get_entries(cast("SessionKey", key)))
            resumed = dataclasses.replace(chosen, resume=key["session_id"])
            ends = [each async for each in query(prompt="more", options=resumed) if isinstance(each, ResultMessage)]
            messages = await get_session_messages_from_store(store, key["session_id"], directory)
            failing = dataclasses.replace(chosen, session_store=FullDisk())
            errors = [each async for each in query(prompt="x", options=failing) if isinstance(each, MirrorErrorMessage)]
    assert "assistant" in [entry["type"] for entry in found[0]]
    assert [end.session_id for end in ends] == [key["session_id"]]
    assert [message.type for message in messages] == ["user", "assistant"] * 2
    assert "disk full" in errors[0].error
    assert errors[0].key is not None
    assert errors[0].key["project_key"] == key["project_key"]


async def test_questions_of_the_model_and_plans_are_calls_that_can_use_tool_answers() -> None:
    asked: list[tuple[str, Any]] = []
    question = {
        "question": "Which colour?",
        "header": "Colour",
        "multiSelect": False,
        "options": [{"label": "Blue", "description": "b"}, {"label": "Red", "description": "r"}],
    }

    async def can_use_tool(name: str, data: dict[str, Any], context: Any) -> PermissionResultAllow:
        asked.append((name, data.get("questions")))
        assert context.tool_use_id
        given = {**data, "answers": {"Which colour?": "Blue"}} if name == "AskUserQuestion" else None
        return PermissionResultAllow(updated_input=given)

    script = [tool_use("AskUserQuestion", {"questions": [question]}), tool_use("ExitPlanMode", {}), text("done")]
    with anyio.fail_after(240):
        async with ScriptedModel(script) as model:
            chosen = options(model, can_use_tool=can_use_tool, permission_mode="plan")
            async with ClaudeSDKClient(chosen) as client:
                await client.query("ask me")
                messages = [message async for message in client.receive_response()]
    assert asked == [("AskUserQuestion", [question]), ("ExitPlanMode", None)]
    assert '"Which colour?"="Blue"' in str(results(messages)[0].content)
