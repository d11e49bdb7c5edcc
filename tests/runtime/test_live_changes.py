"""Changes made to a running session: its next process and its child agents begin with them."""

import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from peers import client_in_turn, crash

from claude_agent_py import AgentDefinition, Allow, Client, ClientOptions, HookMatcher, TaskStatus, guard
from claude_agent_py.children import ChildAgent
from claude_agent_py.errors import CLIExitError, CLIStartError, ControlTimeoutError
from claude_agent_py.permissions import AddRules, PermissionRuleValue, RemoveRules, ReplaceRules, deny_tools
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script"),
]

Start: TypeAlias = Callable[..., Client]
WORKER = AgentDefinition(description="Works", prompt="You work.")
DENY = {"permissions": {"deny": ["Bash"]}}


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Return a function that makes a client whose processes, and those of its children, are these fakes in turn."""
    return partial(client_in_turn, tmp_path)


async def reopen(client: Client) -> None:
    """Let the CLI crash, and reopen the client."""
    await crash(client)
    await client.reopen()


def asked(frames: list[Any]) -> list[dict[str, Any]]:
    """Return the control requests among frames, after `initialize`, and the prompts as `{"subtype": "prompt"}`."""
    requests = [frame.get("request", {"subtype": "prompt"}) for frame in frames if frame["type"] != "control_response"]
    return [request for request in requests if request["subtype"] != "initialize"]


def reply(request_id: Any, **payload: Any) -> dict[str, Any]:
    return {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": request_id, "response": payload},
    }


@pytest.mark.parametrize("timeout", [None, 0.01], ids=["cancelled", "timed out"])
async def test_a_change_that_nobody_waits_for_any_more_is_kept(timeout: float | None, start: Start) -> None:
    gate = Gate()
    fake = FakeCLI(steps.wait_for_request("set_model"), steps.wait_gate(gate), steps.answer({}), steps.turn("ok"))
    with anyio.fail_after(60):
        async with start(fake, model="opus") as client:
            if timeout is None:
                async with anyio.create_task_group() as group:
                    group.start_soon(client.set_model, "haiku")
                    await fake.wait_received({"request": {"subtype": "set_model"}})
                    group.cancel_scope.cancel()
            else:
                with pytest.raises(ControlTimeoutError):
                    await client.control("set_model", model="haiku", timeout=timeout)
            gate.open()
            await client.query("hi")
            await reopen(client)
            assert "--model=haiku" in fake.starts[-1].argv
            assert [request["model"] for request in fake.requests("set_model")] == ["haiku", "haiku"]


async def test_an_exit_that_is_refused_after_its_caller_was_cancelled_does_not_count(start: Start) -> None:
    gate = Gate()
    fake = FakeCLI(
        steps.wait_for_request("end_session"), steps.wait_gate(gate), steps.answer(error="no"), frames.system("status")
    )
    with anyio.fail_after(60):
        async with start(fake) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.request_exit)
                await fake.wait_received({"request": {"subtype": "end_session"}})
                group.cancel_scope.cancel()
            messages = client.messages()
            gate.open()
            await anext(messages)
            await reopen(client)


async def test_changes_are_repeated_in_the_order_in_which_they_were_made(start: Start) -> None:
    fake = FakeCLI()
    with anyio.fail_after(60):
        async with start(fake) as client:
            await client.set_model("haiku")
            await client.mcp.set_permission_mode("jira", "default")
            await client.mcp.toggle("mail", False)
            await client.mcp.toggle("files", False)
            await client.mcp.toggle("files", True)
            await client.settings.apply({"model": "opus", **DENY})
            await client.set_max_thinking_tokens(1024, "omitted")
            await client.set_model("sonnet")
            await client.settings.apply({"outputStyle": "Explanatory"})
            await client.set_max_thinking_tokens(0)
            before = len(fake.received)
            await reopen(client)
            assert asked(fake.received[before:]) == [
                {"subtype": "set_mcp_permission_mode_override", "serverName": "jira", "mode": "default"},
                {"subtype": "mcp_toggle", "serverName": "mail", "enabled": False},
                {"subtype": "apply_flag_settings", "settings": {"model": "opus"}},
                {"subtype": "apply_flag_settings", "settings": DENY},
                {"subtype": "set_model", "model": "sonnet"},
                {"subtype": "apply_flag_settings", "settings": {"outputStyle": "Explanatory"}},
                {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 0, "thinking_display": "omitted"},
            ]


async def test_replies_that_arrive_together_count_in_their_order(start: Start) -> None:
    names = "abcdefgh"
    replies = [reply(f"req_{number}") for number in range(2, 2 + 2 * len(names))]
    first = FakeCLI([steps.wait_for_request("apply_flag_settings")] * len(replies), steps.emit(*replies))
    with anyio.fail_after(60):
        async with start(first, second := FakeCLI()) as client:
            async with anyio.create_task_group() as group:
                for name in names:
                    for value in ("earlier", "later"):
                        group.start_soon(client.settings.apply, {name: value})
                        await anyio.wait_all_tasks_blocked()
            await reopen(client)
    assert [request["settings"] for request in second.requests("apply_flag_settings")] == [
        {name: "later"} for name in names
    ]


async def test_a_status_that_follows_a_reply_counts(start: Start) -> None:
    replied = reply(frames.heard_field("request_id"), mode="acceptEdits")
    mode = frames.system("status", status=None, permissionMode="plan")
    first = FakeCLI(steps.wait_for_request("set_permission_mode"), steps.emit(replied, mode))
    with anyio.fail_after(60):
        async with start(first, second := FakeCLI()) as client:
            await client.set_permission_mode("acceptEdits")
            await reopen(client)
    assert "--permission-mode=plan" in second.starts[0].argv


async def test_commands_that_changed_right_after_the_start_count(start: Start) -> None:
    replied = reply(frames.heard_field("request_id"), **frames.initialize_response())
    changed = frames.system("commands_changed", commands=[{"name": "new", "description": "", "argumentHint": ""}])
    with anyio.fail_after(60):
        async with start(FakeCLI(steps.wait_for_request("initialize"), steps.emit(replied, changed))) as client:
            assert [command.name for command in client.info.commands] == ["new"]


async def test_changes_are_repeated_before_prompts_are_sent_again(start: Start) -> None:
    first = FakeCLI(steps.wait_for_prompt(), steps.die(signal.SIGKILL))
    with anyio.fail_after(60):
        async with start(first, second := FakeCLI(steps.turn("again"))) as client:
            await client.settings.apply(DENY)
            run = client.query("hi")
            with pytest.raises(CLIExitError):
                await run
            await client.reopen()
            assert (await run).text == "again"
    assert [request["subtype"] for request in asked(second.received)] == ["apply_flag_settings", "prompt"]


async def test_hooks_that_were_added_and_removed_stay_so(start: Start) -> None:
    removed = HookMatcher(None, lambda input, context: None)
    first, second, third = FakeCLI(), FakeCLI(), FakeCLI()
    with anyio.fail_after(60):
        async with start(first, second, third, hooks={"Stop": [removed]}) as client:
            added = await client.hooks.add("PreToolUse", guard(deny_tools("Bash")))
            assert await client.hooks.remove(removed)
            await reopen(client)
            assert await client.hooks.remove(added)
            await reopen(client)
    [second_has] = [request["hooks"] for request in second.requests("initialize")[:1]]
    assert second_has.keys() == {"PreToolUse", "PreSkillShellCommand"}
    assert [request.get("hooks") for request in third.requests("initialize")] == [None]


async def test_a_process_that_refuses_the_settings_is_closed(start: Start) -> None:
    with anyio.fail_after(60):
        async with start(FakeCLI(), FakeCLI(answers={"apply_flag_settings": {"error": "no"}})) as client:
            await client.settings.apply(DENY)
            with pytest.raises(CLIStartError, match="rejected 'apply_flag_settings': no"):
                await reopen(client)
            assert not client.is_open


@pytest.mark.parametrize("crashes", [False, True], ids=["before a crash", "after a crash"])
async def test_a_child_begins_with_what_is_in_effect(crashes: bool, start: Start) -> None:
    fake = FakeCLI(steps.turn("done"))
    options = {"model": "opus", "fallback_model": ["haiku", "sonnet"], "permission_mode": "acceptEdits"}
    with anyio.fail_after(60):
        async with start(fake, **options) as client:
            await client.set_permission_mode("default")
            await client.settings.apply({"model": "haiku", "effortLevel": "high", **DENY})
            await client.mcp.set_permission_mode("jira", "default")
            if crashes:
                await reopen(client)
            before = len(fake.received)
            await (await client.spawn(ChildAgent(WORKER, id="worker"), "Do it."))
            assert {"--permission-mode=default", "--model=haiku", "--fallback-model=sonnet"} <= {*fake.starts[-1].argv}
            assert asked(fake.received[before:]) == [
                {"subtype": "apply_flag_settings", "settings": DENY},
                {"subtype": "set_mcp_permission_mode_override", "serverName": "jira", "mode": "default"},
                {"subtype": "prompt"},
            ]


async def test_a_child_with_options_of_its_own_begins_with_these(start: Start) -> None:
    fake = FakeCLI(steps.turn("done"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            await client.set_model("haiku")
            await client.settings.apply(DENY)
            before = len(fake.received)
            own = ClientOptions(cli_path=client.options.cli_path, env=client.options.env)
            await (await client.spawn(ChildAgent(WORKER, id="worker", options=own), "Do it."))
            assert "--model=haiku" not in fake.starts[-1].argv
            assert asked(fake.received[before:]) == [{"subtype": "prompt"}]


async def test_a_child_that_refuses_the_settings_of_its_parent_does_not_work(start: Start) -> None:
    child = FakeCLI(steps.turn("done"), answers={"apply_flag_settings": {"error": "no"}})
    with anyio.fail_after(60):
        async with start(FakeCLI(), child) as client:
            await client.settings.apply(DENY)
            outcome = await (await client.spawn(ChildAgent(WORKER, id="worker"), "Do it."))
            assert outcome.status is TaskStatus.FAILED
    assert child.received_like({"type": "user"}) == []


async def test_what_a_handler_changes_while_the_process_starts_is_not_changed_back(start: Start) -> None:
    async def can_use_tool(request: Any, context: Any) -> Allow:
        await clients[0].set_model("opus")
        return Allow()

    clients: list[Client] = []
    second = FakeCLI(
        steps.wait_for_request("initialize"),
        frames.can_use_tool("r1"),
        steps.wait_for_request("set_model"),
        steps.answer({}),
        reply("req_1", **frames.initialize_response()),
    )
    with anyio.fail_after(60):
        async with start(FakeCLI(), second, can_use_tool=can_use_tool) as client:
            clients.append(client)
            await client.set_model("haiku")
            await reopen(client)
    assert [request["model"] for request in second.requests("set_model")] == ["opus"]


def update(behavior: Any, rule: str, destination: str = "session", kind: Any = AddRules) -> Any:
    tool = PermissionRuleValue.parse(rule)
    return kind(rules=[tool], behavior=behavior, destination=destination)


ASKED: list[Any] = [
    frames.can_use_tool("r1"),
    steps.wait_for_reply("r1"),
    frames.can_use_tool("r2"),
    steps.wait_for_reply("r2"),
]


@pytest.mark.parametrize("crashes", [False, True], ids=["in a child", "in the next process"])
async def test_rules_of_answers_that_restrict_are_managed_settings(crashes: bool, start: Start) -> None:
    answers = iter(
        [
            [
                update("deny", "Bash(touch two)"),
                update("deny", "Bash(ls)"),
                update("deny", "WebSearch()"),
                update("ask", "Read"),
                update("ask", "Write"),
                update("allow", "WebFetch"),
                update("deny", "Glob", "localSettings"),
            ],
            [update("deny", "Bash(ls)", kind=RemoveRules), update("ask", "Edit", kind=ReplaceRules)],
        ]
    )

    async def can_use_tool(request: Any, context: Any) -> Allow:
        return Allow(updated_permissions=next(answers))

    managed = {"permissions": {"deny": ["Grep"], "allow": []}, "model": "opus"}
    fakes = FakeCLI(*ASKED, steps.turn("ok")), FakeCLI(steps.turn("done"))
    with anyio.fail_after(60):
        async with start(*fakes, can_use_tool=can_use_tool, managed_settings=managed) as client:
            await client.query("hi")
            if crashes:
                await reopen(client)
            else:
                await (await client.spawn(ChildAgent(WORKER, id="worker"), "Do it."))
    assert fakes[1].requests("initialize")[0]["managedSettings"] == {
        "permissions": {"deny": ["Grep", "Bash(touch two)", "WebSearch"], "allow": [], "ask": ["Edit"]},
        "model": "opus",
    }


async def test_rules_of_a_hook_that_answers_are_managed_settings(start: Start) -> None:
    rules = [{"toolName": "Bash"}]
    updates = [{"type": "addRules", "behavior": "deny", "destination": "session", "rules": rules}]

    async def answer(*_: object) -> dict[str, Any]:
        decision = {"behavior": "allow", "updatedPermissions": updates}
        return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}

    hook = {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    first = FakeCLI(
        steps.wait_for_prompt(), frames.hook_callback("r1", "hook_0", hook), steps.wait_for_reply("r1"), frames.result()
    )
    with anyio.fail_after(60):
        async with start(
            first, second := FakeCLI(), hooks={"PermissionRequest": [HookMatcher(None, answer)]}
        ) as client:
            await client.query("hi")
            await reopen(client)
    assert second.requests("initialize")[0]["managedSettings"] == {"permissions": {"deny": ["Bash"]}}


@pytest.mark.parametrize("status", ["ok", "needs_trust"])
async def test_handlers_know_the_directory_that_the_cli_has_changed_to(
    status: str, start: Start, tmp_path: Path
) -> None:
    seen: list[str | None] = []

    async def can_use_tool(request: Any, context: Any) -> Allow:
        seen.append(context.cwd)
        return Allow()

    new = str(tmp_path / "new")
    said = {"status": "ok", "cwd": new, "changed": True} if status == "ok" else {"status": status, "directory": new}
    asks = [frames.can_use_tool("r1"), steps.wait_for_reply("r1")]
    fake = FakeCLI(steps.wait_for_prompt(), asks, frames.result(), answers={"set_cwd": {"response": said}})
    with anyio.fail_after(60):
        async with start(fake, can_use_tool=can_use_tool) as client:
            await client.files.set_cwd(new)
            await client.query("hi")
    assert seen == [new if status == "ok" else str(tmp_path)]
