"""Hooks that the CLI would never call, on the real CLI: no session starts with them, whatever switched them off."""

import json
from pathlib import Path
from typing import Any

import pytest

from claude_agent_py import (
    Client,
    ClientOptions,
    Deny,
    HookContext,
    HookMatcher,
    OptionsError,
    PermissionContext,
    PermissionRequest,
    guard,
)
from claude_agent_py.hooks import HookInput, PreToolUseOutput
from claude_agent_py.permissions import allow_tools, deny_tools, first_of
from claude_agent_py.testing import Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

SWITCH = {"env": {"CLAUDE_CODE_SIMPLE": "1"}}


class DenyAll:
    """A guard that lets nothing through, and remembers what it saw."""

    def __init__(self) -> None:
        self.saw: list[str] = []

    async def __call__(self, input: HookInput, context: HookContext) -> PreToolUseOutput:
        self.saw.append(getattr(input, "tool_name", ""))
        return PreToolUseOutput(permission_decision="deny")

    @property
    def hooks(self) -> Any:
        return {"PreToolUse": [HookMatcher(None, self)]}


def model() -> ScriptedModel:
    call = tool_use("Bash", {"command": "touch ran", "description": "Run it"})
    return ScriptedModel([Reply(call), "done", Reply(call), "done"])


def guarded(model: ScriptedModel, guard: DenyAll, **options: Any) -> ClientOptions:
    return model.options(hooks=guard.hooks, permission_mode="bypassPermissions", **options)


def write_settings(folder: Path, settings: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "settings.json"
    file.write_text(json.dumps(settings))
    return file


def ran(options: ClientOptions) -> bool:
    return (Path(str(options.cwd)) / "ran").exists()


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("env", {"CLAUDE_CODE_SIMPLE": "yes"}),
        ("settings", SWITCH),
        ("settings", json.dumps(SWITCH)),
        ("extra_args", {"bare": None}),
    ],
)
async def test_an_option_that_is_a_switch_is_refused(option: str, given: Any) -> None:
    with pytest.raises(OptionsError, match="disables all hooks") as caught:
        ClientOptions(hooks=DenyAll().hooks, **{option: given})
    assert caught.value.option == option
    ClientOptions(**{option: given})


@pytest.mark.parametrize(
    "where", ["the user's settings", *(pytest.param(each, marks=pytest.mark.long) for each in ("a file", "extra_args"))]
)
async def test_no_session_starts_where_the_cli_calls_no_hook(where: str, tmp_path: Path) -> None:
    async with model() as scripted:
        options = guarded(scripted, DenyAll(), setting_sources=["user"])
        file = write_settings(tmp_path, SWITCH)
        given: dict[str, dict[str, Any]] = {
            "a file": {"settings": file},
            "extra_args": {"extra_args": {"settings": str(file)}},
        }
        if where == "the user's settings":
            write_settings(Path(str(options.env["CLAUDE_CONFIG_DIR"])), SWITCH)
        options = options.replace(**given.get(where, {}))
        with pytest.raises(OptionsError, match="bare mode") as caught:
            await Client(options).connect()
        assert caught.value.option == "hooks"
        async with Client(options.replace(hooks=None)) as client:
            with pytest.raises(OptionsError, match="bare mode"):
                await client.hooks.add("PreToolUse", HookMatcher(None, DenyAll()))


async def test_switches_that_do_not_count_and_those_that_a_running_session_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is inherited, in settings of a user that are not read, and in those of the project switches nothing off."""
    guard = DenyAll()
    async with model() as scripted:
        options = guarded(scripted, guard, inherit_env=True, setting_sources=["project", "local"])
        monkeypatch.setenv("CLAUDE_CODE_SIMPLE", "1")
        write_settings(Path(str(options.env["CLAUDE_CONFIG_DIR"])), SWITCH)
        write_settings(Path(str(options.cwd)) / ".claude", {**SWITCH, "disableAllHooks": True})
        async with Client(options) as client:
            with pytest.raises(OptionsError, match="disables all hooks"):
                await client.settings.apply(SWITCH)
            with pytest.raises(OptionsError, match="disables all hooks"):
                await client.control("apply_flag_settings", settings=SWITCH)
            await client.query("go")
        assert guard.saw == ["Bash"]
        assert not ran(options)


@pytest.mark.parametrize(
    "options",
    [
        {"settings": {"permissions": {"deny": ["bash"]}}},
        pytest.param({"managed_settings": {"permissions": {"deny": "Bash"}}}, marks=pytest.mark.long),
        pytest.param({"managed_settings": {"permissions": {"deny": ["Read", "Bash(rm"]}}}, marks=pytest.mark.long),
    ],
    ids=str,
)
async def test_no_session_starts_with_a_rule_that_would_deny_nothing(options: dict[str, Any]) -> None:
    async with model() as scripted:
        with pytest.raises(OptionsError, match="the CLI ignores the deny rule"):
            await Client(scripted.options(**options)).connect()
        rules = {"permissions": {"deny": ["Bash(rm *)", "Read(//etc/**)"], "ask": ["mcp__*"]}}
        async with Client(scripted.options(settings=rules, managed_settings=rules)):
            pass


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {
            "settings": {"disableAllHooks": True, "env": {"CLAUDE_CODE_SAFE_MODE": "1"}},
            "managed_settings": {
                "disableAllHooks": True,
                "allowManagedHooksOnly": True,
                "strictPluginOnlyCustomization": True,
                **SWITCH,
            },
        },
        pytest.param({"extra_args": {"safe-mode": None}, "env": {"CLAUDE_CODE_SIMPLE": "0"}}, marks=pytest.mark.long),
    ],
    ids=str,
)
async def test_other_switches_leave_hooks_of_the_options_alone(options: dict[str, Any]) -> None:
    guard = DenyAll()
    async with model() as scripted:
        made = guarded(scripted, guard)
        made = made.replace(**{**options, "env": {**made.env, **options.get("env", {})}})
        async with Client(made) as client:
            await client.query("go")
        assert guard.saw == ["Bash"]
        assert not ran(made)


@pytest.mark.long
async def test_permissions_are_asked_without_hooks() -> None:
    asked: list[str] = []

    async def deny(request: PermissionRequest, context: PermissionContext) -> Deny:
        asked.append(request.tool_name)
        return Deny("no")

    async with model() as scripted:
        options = scripted.options(can_use_tool=deny, permission_mode="default", extra_args={"bare": None})
        async with Client(options) as client:
            await client.query("go")
        assert asked == ["Bash"]
        assert not ran(options)


async def test_a_shell_command_in_the_text_of_a_skill_does_not_pass_a_guard() -> None:
    policy = first_of(allow_tools("Skill"), deny_tools("*"))
    async with ScriptedModel([Reply(tool_use("Skill", {"skill": "demo"})), "done", "done"]) as scripted:
        options = scripted.options(
            hooks={"PreToolUse": [guard(policy)]}, setting_sources=["project"], permission_mode="bypassPermissions"
        )
        skill = Path(str(options.cwd), ".claude", "skills", "demo", "SKILL.md")
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: demo\ndescription: d\n---\nOutput: !`touch ran`\n")
        async with Client(options) as client:
            await client.query("use the skill")
            await client.query("/demo")
        asked = json.dumps([request.messages for request in scripted.requests])
        assert "Output: [" in asked
        assert not ran(options)
