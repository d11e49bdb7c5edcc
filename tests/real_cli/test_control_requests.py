"""Every control method against the real CLI, and what the important ones bring about."""

import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest

from claude_agent_py import Allow, Client, ControlRejectedError, OptionsError, ToolServer, tool
from claude_agent_py._runtime.controls.conversation import ConversationControls
from claude_agent_py._runtime.controls.files import FileControls
from claude_agent_py._runtime.controls.mcp import MCPControls
from claude_agent_py._runtime.controls.session_controls import SessionControls
from claude_agent_py._runtime.controls.settings import SettingsControls
from claude_agent_py._runtime.controls.usage import UsageControls
from claude_agent_py.errors import MCPNotReadyError
from claude_agent_py.testing import Gate, Reply, ScriptedModel, text, tool_use
from claude_agent_py.wire.settings.mcp_servers import MCPStdioServer

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

SERVER = MCPStdioServer(command=sys.executable, args=[str(Path(__file__).with_name("stdio_mcp_server.py"))])
NOBODY = "d4d2a37a-0369-4dcd-b80b-ab57f578e432"
Ask: TypeAlias = Callable[[Client], Awaitable[Any]]
Check: TypeAlias = Callable[[Any], bool]


def refused(words: str) -> tuple[type[Exception], str]:
    return ControlRejectedError, words


EVERY_METHOD: dict[str, tuple[Ask, Check | tuple[type[Exception], str]]] = {
    "interrupt": (lambda c: c.interrupt(), lambda r: (r.still_queued, r.cancelled) == ((), ())),
    "conversation.cancel_prompt": (lambda c: c.conversation.cancel_prompt(NOBODY), lambda r: r.cancelled is False),
    "files.rewind": (lambda c: c.files.rewind(NOBODY), refused("No file checkpoint")),
    "side_question": (lambda c: c.side_question("why?", history=[("who?", "me")]), lambda r: r.response == "Because."),
    "conversation.generate_title": (lambda c: c.conversation.generate_title("a test"), lambda r: r.title is None),
    "conversation.rename": (lambda c: c.conversation.rename("A test"), lambda r: r is None),
    "conversation.export": (lambda c: c.conversation.export(), lambda r: "Hello there." in r.text),
    "set_model": (lambda c: c.set_model("sonnet"), lambda r: "sonnet" in r.model),
    "list_models": (lambda c: c.list_models(), lambda r: "default" in [model.value for model in r.models]),
    "set_permission_mode": (lambda c: c.set_permission_mode("plan"), lambda r: r.mode == "plan"),
    "set_max_thinking_tokens": (lambda c: c.set_max_thinking_tokens(2000, None), lambda r: r is None),
    "settings.get": (lambda c: c.settings.get(), lambda r: r.applied is not None),
    "settings.apply": (lambda c: c.settings.apply({"outputStyle": "Concise"}), lambda r: r is None),
    "settings.update": (lambda c: c.settings.update("userSettings", {"effortLevel": "low"}), lambda r: r is None),
    "settings.permission_rules": (lambda c: c.settings.permission_rules(), lambda r: r.state.original_cwd != ""),
    "settings.hooks": (lambda c: c.settings.hooks(), lambda r: r.event_catalog[0].name == "PreToolUse"),
    "settings.reload_plugins": (lambda c: c.settings.reload_plugins(), lambda r: r.error_count == 0 and r.agents != []),
    "settings.reload_skills": (lambda c: c.settings.reload_skills(), lambda r: r.skills != []),
    "settings.reload_output_styles": (
        lambda c: c.settings.reload_output_styles(),
        lambda r: "default" in r.available_output_styles,
    ),
    "usage.context": (lambda c: c.usage.context("full"), lambda r: 0 < r.total_tokens < r.max_tokens),
    "usage.session": (lambda c: c.usage.session(), lambda r: r.session.total_cost_usd > 0),
    "usage.cost": (lambda c: c.usage.cost(), lambda r: "cost" in r.text),
    "usage.budget_left_usd": (lambda c: c.usage.budget_left_usd(), lambda r: r is None),
    "status": (lambda c: c.status(), lambda r: any(row.label == "Version" for row in r.sections[0].rows)),
    "version": (lambda c: c.version(), lambda r: r.version.startswith("2.")),
    "conversation.plan": (lambda c: c.conversation.plan(), lambda r: r.exists is False),
    "files.diff": (lambda c: c.files.diff(), lambda r: r["diff"] is None),
    "files.read": (lambda c: c.files.read("a.txt", max_bytes=3), lambda r: (r.contents, r.truncated) == ("ori", True)),
    "files.suggest": (lambda c: c.files.suggest("a"), lambda r: isinstance(r.suggestions, list)),
    "files.seed_read_state": (lambda c: c.files.seed_read_state("a.txt", 0.0), lambda r: r is None),
    "files.add_root": (lambda c: c.files.add_root(_folder(c)), lambda r: r.directory.endswith("sub")),
    "files.set_cwd": (lambda c: c.files.set_cwd(_folder(c)), lambda r: r.status == "needs_trust" and r.directory),
    "mcp.status": (lambda c: c.mcp.status(), lambda r: [server.name for server in r] == ["small"]),
    "mcp.call": (lambda c: c.mcp.call("mcp__small__add", {"a": 1}), lambda r: r.structured_content == {"total": 2}),
    "mcp.read_resource": (
        lambda c: c.mcp.read_resource("small", "ui://page"),
        lambda r: r.contents[0].text == "<p>hi</p>",
    ),
    "mcp.set_permission_mode": (
        lambda c: c.mcp.set_permission_mode("nobody", "default"),
        lambda warning: "not yet known" in warning,
    ),
    "mcp.authenticate": (
        lambda c: c.mcp.authenticate("small"),
        refused('Server type "stdio" does not support OAuth authentication'),
    ),
    "mcp.submit_oauth_callback": (
        lambda c: c.mcp.submit_oauth_callback("small", "http://localhost/?code=1"),
        refused("No active OAuth flow for server: small"),
    ),
    "mcp.clear_auth": (lambda c: c.mcp.clear_auth("small"), refused('Cannot clear auth for server type "stdio"')),
    "mcp.reconnect": (lambda c: c.mcp.reconnect("nobody"), refused("Server not found: nobody")),
    "mcp.toggle": (lambda c: c.mcp.toggle("small", False), lambda r: r is None),
    "mcp.set_servers": (
        lambda c: c.mcp.set_servers({"other": SERVER}),
        lambda r: (r.added, r.errors) == (["other"], {}),
    ),
    "mcp.ready": (lambda c: c.mcp.ready(), lambda r: r[-1].name == "other"),
    "request_exit": (lambda c: c.request_exit(), lambda r: r is None),
}


GROUPS = {
    "mcp": MCPControls,
    "settings": SettingsControls,
    "files": FileControls,
    "conversation": ConversationControls,
    "usage": UsageControls,
}


def _folder(client: Client) -> Path:
    return Path(str(client.options.cwd)) / "sub"


def public_methods(cls: type) -> set[str]:
    return {name for name, value in vars(cls).items() if callable(value) and not name.startswith("_")}


async def test_every_method_is_answered_as_its_documentation_says() -> None:
    assert set(EVERY_METHOD) == public_methods(SessionControls).union(
        *({f"{name}.{method}" for method in public_methods(group)} for name, group in GROUPS.items())
    )
    with ScriptedModel([text("Hello there.")], side=text("Because.")) as model:
        (model.sandbox.cwd / "a.txt").write_text("original\n")
        (model.sandbox.cwd / "sub").mkdir()
        options = model.options(
            enable_file_checkpointing=True, mcp_servers={"small": SERVER}, permission_mode="default"
        )
        with anyio.fail_after(60):
            async with Client(options) as client:
                await client.query("hi")
                await client.mcp.ready(timeout=60)
                for name, (ask, expected) in EVERY_METHOD.items():
                    await _expect(name, ask(client), expected)


async def _expect(name: str, asked: Awaitable[Any], expected: Check | tuple[type[Exception], str]) -> None:
    if isinstance(expected, tuple):
        error, words = expected
        with pytest.raises(error, match=words):
            await asked
    else:
        reply = await asked
        assert expected(reply), f"{name}: {reply!r}"


# The conversation -----------------------------------------------------------------------------------------------------


async def test_files_are_rewound_to_a_prompt() -> None:
    with ScriptedModel([]) as model:
        old, new = model.sandbox.cwd / "old.txt", model.sandbox.cwd / "new.txt"
        old.write_text("before\n")
        script: list[Any] = [
            tool_use("Write", {"file_path": str(new), "content": "made\n"}),
            tool_use("Read", {"file_path": str(old)}),
            tool_use("Edit", {"file_path": str(old), "old_string": "before", "new_string": "after"}),
            text("Done."),
        ]
        with ScriptedModel(script) as scripted:
            options = scripted.options(enable_file_checkpointing=True, cwd=model.sandbox.cwd)
            with anyio.fail_after(60):
                async with Client(options) as client:
                    result = await client.query("write")
                    assert result.message is not None
                    prompt = (result.message.user_message_uuids or [""])[0]
                    preview = await client.files.rewind(prompt, dry_run=True)
                    there = (old.read_text(), new.exists())
                    rewound = await client.files.rewind(prompt)
                    later = (old.read_text(), new.exists())
    assert there == ("after\n", True)
    assert sorted(Path(name).name for name in preview.files_changed or ()) == ["new.txt", "old.txt"]
    assert rewound.can_rewind
    assert later == ("before\n", False)


async def test_an_interrupt_can_drop_the_prompts_that_wait() -> None:
    gate = Gate()
    with ScriptedModel([Reply("late", after=gate)]) as model, anyio.fail_after(60):
        async with Client(model.options()) as client:
            running = client.query("one")
            await gate.wait_reached()
            waiting = client.query("two")
            reply = await client.interrupt(cancel_queued=True)
            await running.result()
            await waiting.result()
            gate.open()
    assert reply.outcome == "interrupted"
    assert len(reply.cancelled) == 1
    assert reply.still_queued == ()


async def test_a_side_question_is_answered_while_a_turn_runs() -> None:
    gate = Gate()
    with ScriptedModel([Reply("main", after=gate)], side=text("aside")) as model, anyio.fail_after(60):
        async with Client(model.options()) as client:
            run = client.query("one")
            await gate.wait_reached()
            reply = await client.side_question("and?")
            gate.open()
            result = await run
    assert (reply.response, result.text) == ("aside", "main")
    assert all("aside" not in str(message) for message in result.messages)


async def test_the_cli_ends_by_itself_when_asked() -> None:
    with ScriptedModel([]) as model, anyio.fail_after(60):
        async with Client(model.options()) as client:
            await client.request_exit()
            async for _ in client.messages():
                pass  # the stream ends with the process
            assert not client.is_open


# Settings -------------------------------------------------------------------------------------------------------------


async def test_another_model_and_another_thinking_are_used_from_the_next_turn_on() -> None:
    with ScriptedModel([]) as model, anyio.fail_after(60):
        async with Client(model.options(model="opus")) as client:
            await client.query("as it is")
            chosen = await client.set_model("claude-haiku-4-5")
            await client.set_max_thinking_tokens(2000)
            await client.query("another model")
            await client.set_max_thinking_tokens(0)
            await client.query("without thinking")
            await client.set_max_thinking_tokens(None)
            await client.query("with the default")
            default = await client.set_model(None)
            await client.query("the default")
    first, thinking, without, usual, last = (request.body for request in model.requests_of("main"))
    assert thinking["model"] == chosen.model == "claude-haiku-4-5"
    assert last["model"] == default.model
    assert thinking["model"] not in (first["model"], last["model"])
    assert thinking["thinking"]["budget_tokens"] == 2000
    assert without.get("thinking", {}).get("type") in ("disabled", None)
    assert usual["thinking"]["budget_tokens"] > 2000


async def test_settings_of_the_session_are_applied_as_a_whole_and_taken_back() -> None:
    with ScriptedModel([]) as model, anyio.fail_after(60):
        async with Client(model.options()) as client:
            await client.settings.apply({"model": "claude-haiku-4-5", "permissions": {"deny": ["WebFetch"]}})
            applied = await client.settings.get()
            rules = await client.settings.permission_rules()
            with pytest.raises(ControlRejectedError, match="nothing in this request was applied"):
                await client.settings.apply({"model": "other", "permissions": "bad"})
            await client.settings.apply({"permissions": None})
            left = await client.settings.get()
    assert applied.applied is not None
    assert applied.applied.model == "claude-haiku-4-5"
    assert "WebFetch" in [rule.rule for rule in rules.state.rules if rule.behavior == "deny"]
    assert left.effective["model"] == "claude-haiku-4-5"
    assert "permissions" not in left.effective


# Files ----------------------------------------------------------------------------------------------------------------


async def test_the_working_folder_is_changed_only_with_trust() -> None:
    with ScriptedModel([]) as model, anyio.fail_after(60):
        folder = model.sandbox.cwd / "sub"
        folder.mkdir()
        async with Client(model.options()) as client:
            asked = await client.files.set_cwd(folder)
            agreed = await client.files.set_cwd(folder, trusted_directory=asked.directory)
    assert asked.status == "needs_trust"
    assert (agreed.status, agreed.changed) == ("ok", True)
    assert Path(agreed.cwd or "") == folder


async def test_the_diff_of_a_repository() -> None:
    with ScriptedModel([]) as model, anyio.fail_after(60):
        cwd = model.sandbox.cwd
        (cwd / "a.txt").write_text("one\n")
        commit = ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "First"]
        for arguments in (["init", "-q"], ["add", "."], commit):
            subprocess.run(["git", *arguments], cwd=cwd, check=True)
        (cwd / "a.txt").write_text("two\n")
        async with Client(model.options()) as client:
            diff = (await client.files.diff())["diff"]
    assert diff["stats"] == {"filesCount": 1, "linesAdded": 1, "linesRemoved": 1}


# Tasks ----------------------------------------------------------------------------------------------------------------


async def test_a_shell_in_the_background_is_read_and_stopped() -> None:
    shell = tool_use("Bash", {"command": "echo one; sleep 600", "description": "Wait", "run_in_background": True})
    with ScriptedModel([shell, text("Started.")]) as model, anyio.fail_after(60):
        async with Client(model.options()) as client:
            await client.query("go")
            (task,) = client.tasks
            while "one" not in (reply := await client.control("get_task_output", task_id=task.id))["output"]:
                await anyio.lowlevel.checkpoint()
            await client.control("stop_task", task_id=task.id)
            outcome = await task.wait(timeout=60)
    assert reply["total_bytes"] == 4
    assert reply["truncated"] is False
    assert outcome.status == "stopped"


# MCP servers ----------------------------------------------------------------------------------------------------------


async def test_ready_waits_for_slow_servers_and_says_which_failed(tmp_path: Path) -> None:
    sign = tmp_path / "go on"
    slow = SERVER.replace(args=[*SERVER.args, "--wait-for", str(sign)])
    servers = {"slow": slow, "broken": MCPStdioServer(command="/nonexistent")}
    with ScriptedModel([]) as model, anyio.fail_after(60):
        async with Client(model.options(mcp_servers=servers)) as client:
            await client.mcp.status()
            with pytest.raises(MCPNotReadyError) as caught:
                await client.mcp.ready(timeout=1)
            sign.touch()
            settled = await client.mcp.ready(timeout=60)
    assert "slow" in caught.value.servers
    assert {server.name: server.status for server in settled} == {"slow": "connected", "broken": "failed"}
    assert [tool.name for server in settled for tool in server.tools or ()] == ["add"]


async def test_servers_are_set_by_name_while_the_session_runs(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {SERVER.args[0]}\n")
    program.chmod(0o755)
    with ScriptedModel([]) as model, anyio.fail_after(60):
        async with Client(model.options(mcp_servers={"first": SERVER})) as client:
            await client.mcp.ready()
            one = await client.mcp.set_servers({"second": MCPStdioServer(command=SERVER.command, args=SERVER.args)})
            two = await client.mcp.set_servers({"third": SERVER, "broken": MCPStdioServer(command="/nonexistent")})
            states = {server.name: server.status for server in await client.mcp.status()}
            bare = await client.mcp.set_servers({"bare": MCPStdioServer(command=str(program))})
            unnamed: Any = [SERVER]
            with pytest.raises(OptionsError, match="by name"):
                await client.mcp.set_servers(unnamed)
    assert (one.added, one.removed, one.errors) == (["second"], [], {})
    assert (sorted(two.added), two.removed, list(two.errors)) == (["broken", "third"], ["second"], ["broken"])
    assert states == {"first": "connected", "third": "connected", "broken": "failed"}
    assert (bare.added, bare.errors) == (["bare"], {})


async def test_a_server_is_switched_off_and_on_and_connected_again() -> None:
    with ScriptedModel([]) as model, anyio.fail_after(60):
        async with Client(model.options(mcp_servers={"small": SERVER})) as client:
            await client.mcp.ready()
            await client.mcp.toggle("small", False)
            off = [server.status for server in await client.mcp.status()]
            with pytest.raises(ControlRejectedError, match="disabled"):
                await client.mcp.reconnect("small")
            await client.mcp.toggle("small", True)
            await client.mcp.reconnect("small")
            on = [server.status for server in await client.mcp.status()]
    assert (off, on) == (["disabled"], ["connected"])


async def test_a_failing_tool_says_why_and_permissions_are_asked_on_request() -> None:
    asked: list[str] = []

    def decide(request: Any, context: Any) -> Any:
        asked.append(request.tool_name)
        return Allow()

    with ScriptedModel([]) as model, anyio.fail_after(60):
        options = model.options(mcp_servers={"small": SERVER}, permission_mode="default", can_use_tool=decide)
        async with Client(options) as client:
            await client.mcp.ready()
            with pytest.raises(ControlRejectedError, match="a is missing"):
                await client.mcp.call("mcp__small__add", {})
            assert asked == []
            reply = await client.mcp.call("mcp__small__add", {"a": 41}, check_permissions=True)
    assert reply.structured_content == {"total": 42}
    assert asked == ["mcp__small__add"]


@tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@tool
def part(name: str) -> str:
    """Say farewell."""
    return f"Farewell, {name}!"


async def test_servers_in_this_process_are_set_and_replaced_while_the_session_runs() -> None:
    script: list[Any] = [
        tool_use("mcp__manners__greet", {"name": "Ann"}),
        text("one"),
        tool_use("mcp__manners__part", {"name": "Ann"}),
        text("two"),
        tool_use("mcp__tools__greet", {"name": "Ann"}),
        text("three"),
    ]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        async with Client(model.options(custom_tools=[greet])) as client:
            first = await client.mcp.set_servers({"manners": ToolServer("manners", [greet])})
            one = await client.query("one")
            await client.mcp.set_servers({"manners": ToolServer("manners", [part])})
            two = await client.query("two")
            three = await client.query("three")
    told = [str(result.tool_calls[0].result) for result in (one, two, three)]
    assert (first.added, first.removed) == (["manners"], ["tools"])
    assert "Hello, Ann!" in told[0]
    assert "Farewell, Ann!" in told[1]
    assert "No such tool" in told[2]
