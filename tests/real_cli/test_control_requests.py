"""Every control method against the real CLI, and what the important ones bring about."""

import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import msgspec
import pytest
from one_session import OneSession

from claude_agent_py import Allow, Client, ControlRejectedError, MCPStdioServer, OptionsError, ToolServer, tool
from claude_agent_py.control import AppliedSettings, GetHooksListingReply, GetSettingsReply
from claude_agent_py.errors import MCPNotReadyError
from claude_agent_py.testing import Gate, Reply, ScriptedModel, text, tool_use

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


GROUPS = ("mcp", "settings", "files", "conversation", "usage")
"""The properties of a client that group control requests."""


def _folder(client: Client) -> Path:
    return Path(str(client.options.cwd)) / "sub"


def public_methods(cls: type) -> set[str]:
    return {name for name, value in vars(cls).items() if callable(value) and not name.startswith("_")}


async def test_every_method_is_answered_as_its_documentation_says() -> None:
    controls = next(each for each in Client.__mro__ if "set_model" in vars(each))
    assert set(EVERY_METHOD) == public_methods(controls).union(
        *({f"{name}.{method}" for method in public_methods(type(getattr(Client(), name)))} for name in GROUPS)
    )
    with ScriptedModel([text("Hello there.")], side=text("Because.")) as model:
        (model.sandbox.cwd / "a.txt").write_text("original\n")
        (model.sandbox.cwd / "sub").mkdir()
        options = model.options(
            enable_file_checkpointing=True, mcp_servers={"small": SERVER}, permission_mode="default"
        )
        with anyio.fail_after(240):
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


# What they bring about ------------------------------------------------------------------------------------------------


async def another_model_and_another_thinking_are_used_from_the_next_turn_on(one: OneSession) -> None:
    client = one.client
    one.answers()
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
    first, thinking, without, usual, last = (request.body for request in one.requests_of())
    assert thinking["model"] == chosen.model == "claude-haiku-4-5"
    assert last["model"] == default.model
    assert thinking["model"] not in (first["model"], last["model"])
    assert thinking["thinking"]["budget_tokens"] == 2000
    assert without.get("thinking", {}).get("type") in ("disabled", None)
    assert usual["thinking"]["budget_tokens"] > 2000


async def files_are_rewound_to_a_prompt(one: OneSession) -> None:
    old, new = one.model.sandbox.cwd / "old.txt", one.model.sandbox.cwd / "new.txt"
    old.write_text("before\n")
    result = await one.ask(
        tool_use("Write", {"file_path": str(new), "content": "made\n"}),
        tool_use("Read", {"file_path": str(old)}),
        tool_use("Edit", {"file_path": str(old), "old_string": "before", "new_string": "after"}),
        "Done.",
    )
    assert result.message is not None
    prompt = (result.message.user_message_uuids or [""])[0]
    preview = await one.client.files.rewind(prompt, dry_run=True)
    assert (old.read_text(), new.exists()) == ("after\n", True)
    rewound = await one.client.files.rewind(prompt)
    assert sorted(Path(name).name for name in preview.files_changed or ()) == ["new.txt", "old.txt"]
    assert rewound.can_rewind
    assert (old.read_text(), new.exists()) == ("before\n", False)


async def the_diff_of_a_repository(one: OneSession) -> None:
    cwd = one.model.sandbox.cwd
    (cwd / "a.txt").write_text("one\n")
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "First"]
    for arguments in (["add", "."], commit):
        subprocess.run(["git", *arguments], cwd=cwd, check=True)
    (cwd / "a.txt").write_text("two\n")
    diff = (await one.client.files.diff())["diff"]
    assert diff["stats"] == {"filesCount": 1, "linesAdded": 1, "linesRemoved": 1}


async def an_interrupt_can_drop_the_prompts_that_wait(one: OneSession) -> None:
    gate = Gate()
    one.answers(Reply("late", after=gate))
    running = one.client.query("one")
    await gate.wait_reached()
    waiting = one.client.query("two")
    reply = await one.client.interrupt(cancel_queued=True)
    await running.result()
    await waiting.result()
    gate.open()
    assert reply.outcome == "interrupted"
    assert len(reply.cancelled) == 1
    assert reply.still_queued == ()


async def a_side_question_is_answered_while_a_turn_runs(one: OneSession) -> None:
    gate = Gate()
    one.answers(Reply("main", after=gate))
    run = one.client.query("one")
    await gate.wait_reached()
    reply = await one.client.side_question("and?")
    gate.open()
    result = await run
    assert (reply.response, result.text) == ("aside", "main")
    assert all("aside" not in str(message) for message in result.messages)


async def the_commands_are_those_of_now_and_every_field_of_the_settings_has_a_model(one: OneSession) -> None:
    def names(model: type[msgspec.Struct]) -> set[str]:
        return {each.encode_name for each in msgspec.structs.fields(model)}

    client = one.client
    settings = await client.settings.get()
    hooks = await client.settings.hooks()

    before = client.info
    skill = one.model.sandbox.config_dir / "skills/late/SKILL.md"
    assert "late" not in [command.name for command in client.info.commands]
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: late\ndescription: Comes late\n---\nCome late.\n")
    messages = client.messages()
    await client.settings.reload_skills()
    async for message in messages:
        if "late" in str(getattr(message, "commands", "")):
            break
    assert "late" in [command.name for command in client.info.commands]
    assert client.info.claude_code_version == before.claude_code_version
    assert settings.applied is not None
    assert settings.applied.ultracode is False
    assert set(settings.raw) <= names(GetSettingsReply)
    assert set(settings.raw["applied"]) <= names(AppliedSettings)
    assert set(hooks.raw) <= names(GetHooksListingReply)


async def settings_of_the_session_are_applied_as_a_whole_and_taken_back(one: OneSession) -> None:
    settings = one.client.settings
    await settings.apply({"model": "claude-haiku-4-5", "permissions": {"deny": ["WebFetch"]}})
    applied = await settings.get()
    rules = await settings.permission_rules()
    with pytest.raises(ControlRejectedError, match="nothing in this request was applied"):
        await settings.apply({"model": "other", "permissions": "bad"})
    with pytest.raises(OptionsError, match="ignores the deny rule 'bash'"):
        await settings.apply({"permissions": {"deny": ["WebFetch", "bash"]}})
    await settings.apply({"permissions": None})
    left = await settings.get()
    assert applied.applied is not None
    assert applied.applied.model == "claude-haiku-4-5"
    assert "WebFetch" in [rule.rule for rule in rules.state.rules if rule.behavior == "deny"]
    assert left.effective["model"] == "claude-haiku-4-5"
    assert "permissions" not in left.effective


async def the_working_folder_is_changed_only_with_trust(one: OneSession) -> None:
    folder = one.model.sandbox.cwd / "sub"
    folder.mkdir()
    asked = await one.client.files.set_cwd(folder)
    agreed = await one.client.files.set_cwd(folder, trusted_directory=asked.directory)
    assert asked.status == "needs_trust"
    assert (agreed.status, agreed.changed) == ("ok", True)
    assert Path(agreed.cwd or "") == folder


async def the_cli_ends_by_itself_when_asked(one: OneSession) -> None:
    await one.client.request_exit()
    async for _ in one.client.messages():
        pass  # the stream ends with the process
    assert not one.client.is_open


async def test_effects_of_control_methods_in_one_session() -> None:
    one = OneSession(side=lambda request: text("aside"))
    subprocess.run(["git", "init", "-q", "."], cwd=one.model.sandbox.cwd, check=True)
    async with one.open(model="opus", enable_file_checkpointing=True):
        for check in (
            another_model_and_another_thinking_are_used_from_the_next_turn_on,
            files_are_rewound_to_a_prompt,
            the_diff_of_a_repository,
            an_interrupt_can_drop_the_prompts_that_wait,
            a_side_question_is_answered_while_a_turn_runs,
            the_commands_are_those_of_now_and_every_field_of_the_settings_has_a_model,
            settings_of_the_session_are_applied_as_a_whole_and_taken_back,
            the_working_folder_is_changed_only_with_trust,
            the_cli_ends_by_itself_when_asked,
        ):
            with anyio.fail_after(180):
                await check(one)


# MCP servers ----------------------------------------------------------------------------------------------------------


async def ready_waits_for_slow_servers_and_says_which_failed(one: OneSession, sign: Path) -> None:
    await one.client.mcp.status()
    with pytest.raises(MCPNotReadyError) as caught:
        await one.client.mcp.ready(timeout=1)
    sign.touch()
    settled = {server.name: server for server in await one.client.mcp.ready(timeout=60)}
    assert "slow" in caught.value.servers
    states = {name: server.status for name, server in settled.items()}
    assert states == {"slow": "connected", "broken": "failed", "tools": "connected"}
    assert [tool.name for tool in settled["slow"].tools or ()] == ["add"]


async def a_server_is_switched_off_and_on_and_connected_again(one: OneSession) -> None:
    async def status() -> str:
        return {server.name: server.status for server in await one.client.mcp.status()}["slow"]

    await one.client.mcp.toggle("slow", False)
    off = await status()
    with pytest.raises(ControlRejectedError, match="disabled"):
        await one.client.mcp.reconnect("slow")
    await one.client.mcp.toggle("slow", True)
    await one.client.mcp.reconnect("slow")
    assert (off, await status()) == ("disabled", "connected")


async def a_failing_tool_says_why_and_permissions_are_asked_on_request(one: OneSession, asked: list[str]) -> None:
    with pytest.raises(ControlRejectedError, match="a is missing"):
        await one.client.mcp.call("mcp__slow__add", {})
    assert asked == []
    reply = await one.client.mcp.call("mcp__slow__add", {"a": 41}, check_permissions=True)
    assert reply.structured_content == {"total": 42}
    assert asked == ["mcp__slow__add"]


@tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@tool
def part(name: str) -> str:
    """Say farewell."""
    return f"Farewell, {name}!"


async def servers_in_this_process_are_set_and_replaced_while_the_session_runs(one: OneSession) -> None:
    first = await one.client.mcp.set_servers({"manners": ToolServer("manners", [greet])})
    hello = await one.ask(tool_use("mcp__manners__greet", {"name": "Ann"}), "one")
    await one.client.mcp.set_servers({"manners": ToolServer("manners", [part])})
    farewell = await one.ask(tool_use("mcp__manners__part", {"name": "Ann"}), "two")
    gone = await one.ask(tool_use("mcp__tools__greet", {"name": "Ann"}), "three")
    told = [str(result.tool_calls[0].result) for result in (hello, farewell, gone)]
    assert (first.added, first.removed) == (["manners"], ["tools"])
    assert "Hello, Ann!" in told[0]
    assert "Farewell, Ann!" in told[1]
    assert "No such tool" in told[2]


async def servers_are_set_by_name_while_the_session_runs(one: OneSession, program: Path) -> None:
    mcp = one.client.mcp
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {SERVER.args[0]}\n")
    program.chmod(0o755)
    second = await mcp.set_servers({"second": MCPStdioServer(command=SERVER.command, args=SERVER.args)})
    third = await mcp.set_servers({"third": SERVER, "failing": MCPStdioServer(command="/nonexistent")})
    states = {server.name: server.status for server in await mcp.status()}
    bare = await mcp.set_servers({"bare": MCPStdioServer(command=str(program))})
    unnamed: Any = [SERVER]
    with pytest.raises(OptionsError, match="by name"):
        await mcp.set_servers(unnamed)
    assert (second.added, second.removed, second.errors) == (["second"], ["manners"], {})
    assert (sorted(third.added), third.removed, list(third.errors)) == (["failing", "third"], ["second"], ["failing"])
    assert states == {"slow": "connected", "broken": "failed", "third": "connected", "failing": "failed"}
    assert (bare.added, bare.errors) == (["bare"], {})


async def test_servers_in_one_session(tmp_path: Path) -> None:
    asked: list[str] = []

    def decide(request: Any, context: Any) -> Any:
        asked.append(request.tool_name)
        return Allow()

    sign = tmp_path / "go on"
    slow = SERVER.replace(args=[*SERVER.args, "--wait-for", str(sign)])
    servers = {"slow": slow, "broken": MCPStdioServer(command="/nonexistent")}
    one = OneSession()
    async with one.open(mcp_servers=servers, custom_tools=[greet], permission_mode="default", can_use_tool=decide):
        with anyio.fail_after(240):
            await ready_waits_for_slow_servers_and_says_which_failed(one, sign)
            await a_server_is_switched_off_and_on_and_connected_again(one)
            await a_failing_tool_says_why_and_permissions_are_asked_on_request(one, asked)
            await servers_in_this_process_are_set_and_replaced_while_the_session_runs(one)
            await servers_are_set_by_name_while_the_session_runs(one, tmp_path / "server")
