"""What the CLI is started with, what is not on the command line, and what is refused before there is a process."""

import json
import os
import stat
import sys
import tempfile
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from launched_cli import LONG_LIST_CHARS
from plans import plan_of, refusal_of

from claude_agent_py import AgentDefinition, Client, ClientOptions, MCPHTTPServer, MCPStdioServer
from claude_agent_py.errors import CLIStartError, OptionsError
from claude_agent_py.options import SystemPromptFile, ThinkingEnabled
from claude_agent_py.testing import FakeCLI
from claude_agent_py.tools import ToolServer
from claude_agent_py.transport import LaunchPlan

MAX_ARGUMENT_BYTES = 131_071
"""The longest argument on Linux."""
ALWAYS = ("--output-format=stream-json", "--verbose", "--input-format=stream-json")


POSIX = pytest.mark.skipif(sys.platform == "win32", reason="only POSIX starts programs as another user")


def handler(*_: object) -> None:
    """Stand where a handler has to."""


def plan(**given: Any) -> LaunchPlan:
    return plan_of(ClientOptions(**given))


def test_a_plan_has_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of this process is decoded again only after a change."""
    seen: list[tuple[str | None, str | None]] = []
    for value in ("1", "2", "2", None):
        if value is None:
            monkeypatch.delenv("A_VARIABLE")
        else:
            monkeypatch.setenv("A_VARIABLE", value)
        env = plan(env={"ANOTHER": value}).env
        seen.append((env.get("A_VARIABLE"), env.get("ANOTHER")))
    assert seen == [("1", "1"), ("2", "2"), ("2", "2"), (None, None)]


def test_a_temporary_folder_whose_name_the_cli_would_compose_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = list[str]()
    for form in ("NFD", "NFC"):
        folder = tmp_path / unicodedata.normalize(form, "\u00e9")
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        homes.append(str(plan(home=True).home))
        folder.rmdir()
    assert homes[0].startswith("/tmp/claude-agent-py-")
    assert homes[1].startswith(str(folder))


def flags(**given: Any) -> tuple[str, ...]:
    program, *arguments = plan(**given).argv
    assert program == "claude"
    assert tuple(arguments[:3]) == ALWAYS
    return tuple(arguments[3:])


def refused(**given: Any) -> OptionsError:
    error = refusal_of(ClientOptions(**given))
    assert isinstance(error, OptionsError), error
    return error


def test_options_as_they_come_need_nothing() -> None:
    made = plan()
    assert flags() == ()
    assert made.initialize == {"perTaskStopAffordance": True}
    assert made.files == {}
    assert made.cwd is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"model": "opus"}, ["--model=opus"]),
        ({"model": "--dangerously-skip-permissions"}, ["--model=--dangerously-skip-permissions"]),
        ({"fallback_model": ["a", "b"]}, ["--fallback-model=a,b"]),
        ({"thinking": "adaptive"}, ["--thinking=adaptive"]),
        ({"thinking": "disabled"}, ["--thinking=disabled"]),
        ({"thinking": ThinkingEnabled()}, ["--thinking=adaptive"]),
        (
            {"thinking": ThinkingEnabled(budget_tokens=5, display="omitted")},
            ["--max-thinking-tokens=5", "--thinking-display=omitted"],
        ),
        ({"max_thinking_tokens": 0}, ["--max-thinking-tokens=0"]),
        ({"tools": []}, ["--tools="]),
        ({"tools": ["Bash", "Read"]}, ["--tools=Bash,Read"]),
        ({"tools": "default"}, ["--tools=default"]),
        ({"allowed_tools": ["Read", "Bash(git log *)", "Read"]}, ["--allowedTools=Read,Bash(git log *)"]),
        ({"allowed_tools": ["Read"], "skills": "all"}, ["--allowedTools=Read,Skill"]),
        ({"skills": ["pdf"]}, ["--allowedTools=Skill(pdf)"]),
        ({"disallowed_tools": ["Bash(rm *)"]}, ["--disallowedTools=Bash(rm *)"]),
        ({"setting_sources": []}, ["--setting-sources="]),
        ({"setting_sources": ["user", "local"]}, ["--setting-sources=user,local"]),
        ({"debug": True}, ["--debug"]),
        ({"debug": "api"}, ["--debug=api"]),
        ({"persist_session": False}, ["--no-session-persistence"]),
        ({"session_mirror": True}, ["--session-mirror"]),
        ({"max_budget_usd": 0.5}, ["--max-budget-usd=0.5"]),
        ({"extra_args": {"new": None, "other": "-x"}}, ["--new", "--other=-x"]),
        ({"permission_prompts": "none", "on_question": handler}, ["--disallowedTools=EnterPlanMode,ExitPlanMode",
                                                                  "--permission-prompts=none"]),
        ({"on_question": handler}, ["--disallowedTools=EnterPlanMode,ExitPlanMode", "--permission-prompt-tool=stdio"]),
        ({"can_use_tool": handler}, ["--disallowedTools=AskUserQuestion", "--permission-prompt-tool=stdio"]),
        ({"on_plan": handler, "on_question": handler}, ["--permission-prompt-tool=stdio"]),
        ({"interactions": True}, ["--permission-prompt-tool=stdio"]),
        ({"permission_prompt_tool_name": "mcp__a__b"}, ["--permission-prompt-tool=mcp__a__b"]),
        ({"resume": "-x", "fork_session": True}, ["--resume=-x", "--fork-session"]),
    ],
)  # fmt: skip
def test_flags(given: dict[str, Any], expected: list[str]) -> None:
    assert list(flags(**given)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"system_prompt": "x"}, {"systemPrompt": ["x"]}),
        ({"system_prompt": ""}, {"systemPrompt": [""]}),
        ({"system_prompt": ["a", "b"]}, {"systemPrompt": ["a", "b"]}),
        (
            {"system_prompt": {"type": "preset", "append": "x", "exclude_dynamic_sections": True, "snapshot": False}},
            {"appendSystemPrompt": "x", "excludeDynamicSections": True, "systemPromptSnapshot": False},
        ),
        ({"output_format": {"type": "object"}}, {"jsonSchema": {"type": "object"}}),
        ({"skills": ["pdf"]}, {"skills": ["pdf"]}),
        ({"skills": []}, {"skills": []}),
        ({"skills": "all"}, {}),
        ({"title": "T", "tool_aliases": {"Read": "B"}}, {"title": "T", "toolAliases": {"Read": "B"}}),
        ({"on_user_dialog": handler}, {"supportedDialogKinds": ["refusal_fallback_prompt"]}),
        ({"on_user_dialog": handler, "supported_dialog_kinds": ["x"]}, {"supportedDialogKinds": ["x"]}),
        ({"per_task_stop_affordance": True, "forward_subagent_text": True}, {"forwardSubagentText": True}),
        ({"telemetry": True}, {"forwardSubagentText": True}),
        (
            {"agents": {"a": AgentDefinition(description="d", prompt="p", max_turns=3)}},
            {"agents": {"a": {"description": "d", "prompt": "p", "maxTurns": 3}}},
        ),
        ({"mcp_servers": {"own": ToolServer("own")}}, {}),
    ],
)
def test_fields_of_initialize(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert plan(**given).initialize == {"perTaskStopAffordance": True, **expected}


def test_directories_are_seen_from_where_the_session_works(tmp_path: Path) -> None:
    for name in ("a", "-b"):
        (tmp_path / name).mkdir()
    told = flags(additional_directories=["a", "-b", tmp_path], cwd=tmp_path)
    assert told == ("--add-dir=a", "--add-dir=-b", f"--add-dir={tmp_path}")


def test_a_debug_file_may_be_in_a_directory_that_is_to_be_made(tmp_path: Path) -> None:
    file = tmp_path / "new/one/log"
    assert flags(debug_file=file) == (f"--debug-file={file}",)
    assert isinstance(refusal_of(ClientOptions(debug_file=file)), CLIStartError)  # the program is started


def test_nothing_is_said_about_stopping_tasks_where_it_is_switched_off() -> None:
    assert plan(per_task_stop_affordance=False).initialize == {}


def test_servers_and_managed_settings_go_through_stdin_and_are_confirmed() -> None:
    server = MCPStdioServer(command="x", env={"K": "SECRET"})
    made = plan(mcp_servers={"a": server}, managed_settings={"permissions": {"deny": ["SECRET"]}})
    assert made.argv[4:] == ("--await-initialize", "--managed-settings-in-initialize")
    assert made.initialize["mcpServers"] == {"a": {"type": "stdio", "command": "x", "env": {"K": "SECRET"}}}
    made.check_reply({"mcp_servers_applied": True, "managed_settings_applied": True})
    with pytest.raises(OptionsError, match=r"^mcp_servers: the CLI did not accept it") as caught:
        made.check_reply({"mcp_servers_applied": False, "managed_settings_applied": True})
    assert caught.value.option == "mcp_servers"
    with pytest.raises(OptionsError, match=r"^managed_settings: .*is None"):
        made.check_reply({"mcp_servers_applied": True})


def test_no_secret_is_on_the_command_line_or_in_a_repr() -> None:
    made = plan(
        env={"TOKEN": "SECRET"},
        settings={"env": {"K": "SECRET"}},
        managed_settings={"apiKeyHelper": "SECRET"},
        mcp_servers={"a": MCPHTTPServer(url="https://h/SECRET", headers={"A": "SECRET"})},
        system_prompt="SECRET",
        agents={"a": AgentDefinition(description="SECRET", prompt="SECRET")},
    )
    assert "SECRET" not in " ".join(made.argv)
    assert "SECRET" not in repr(made)
    assert made.env["TOKEN"] == "SECRET"


@given(st.text(min_size=1).filter(lambda text: text.strip() and "\0" not in text))
def test_no_text_becomes_a_flag(text: str) -> None:
    given = {"model": text, "resume": text, "agent": text, "resume_session_at": text, "client_app": text}
    assert set(flags(**given)) == {f"--{name}={text}" for name in ("model", "agent", "resume", "resume-session-at")}


@pytest.mark.parametrize("text", ["x" * 20_000_000])
def test_long_texts_stay_off_the_command_line(text: str) -> None:
    made = plan(
        system_prompt={"type": "preset", "append": text},
        plan_mode_instructions=text,
        append_subagent_system_prompt=text,
        agents={"a": AgentDefinition(description="d", prompt=text)},
        output_format={"description": text},
        settings={"a": text},
        title=text,
    )
    assert sum(map(len, made.argv)) < 1000


def test_long_lists_stay_off_the_command_line() -> None:
    rules = [f"mcp__server__tool_{number}" for number in range(LONG_LIST_CHARS // 10)]
    made = plan(allowed_tools=rules, disallowed_tools=rules, settings={"permissions": {"allow": ["A"], "deny": ["B"]}})
    [(file, text)] = made.files.items()
    assert made.argv[4:] == (
        f"--settings={file}",
        "--await-initialize",
        "--initialize-fields=disallowedTools",
    )
    assert made.initialize["disallowedTools"] == rules
    assert json.loads(text) == {"permissions": {"allow": ["A", *rules], "deny": ["B"]}}
    assert made.confirmations == {"disallowed_tools_applied": "disallowed_tools"}


@pytest.mark.parametrize(
    ("given", "option", "says"),
    [
        ({"cwd": "/does/not/exist"}, "cwd", "does not exist"),
        ({"cwd": __file__}, "cwd", "is not a directory"),
        pytest.param({"user": "nobody-of-this-name"}, "user", "user 'nobody-of-this-name' does not exist", marks=POSIX),
        ({"settings": "/does/not/exist.json"}, "settings", "does not exist"),
        ({"mcp_servers": "/does/not/exist.json"}, "mcp_servers", "no such file"),
        ({"system_prompt": SystemPromptFile(path=Path("/does/not/exist"))}, "system_prompt", "no such file"),
        ({"settings": {"sandbox": 5}, "sandbox": {"enabled": True}}, "settings", "sandbox must be an object, not int"),
        ({"model": "x" * MAX_ARGUMENT_BYTES}, "model", "is too long for a command line"),
        ({"resume": "a\0b"}, "resume", "must not contain a NUL character"),
        ({"resume": "a\ud800"}, "resume", "must not contain half a character"),
        ({"extra_args": {f"x{n}": "y" * 100_000 for n in range(11)}}, "extra_args", "the command line has"),
        ({"additional_directories": ["/does/not/exist"]}, "additional_directories", "no such directory"),
        ({"additional_directories": ["x" * 100_000]}, "additional_directories", "no such directory"),
        ({"additional_directories": [__file__]}, "additional_directories", "no such directory"),
        ({"plugins": ["/does/not/exist"]}, "plugins", "no such plugin"),
        ({"project_config_root": "/does/not/exist"}, "project_config_root", "no such directory"),
        ({"debug_file": f"{__file__}/below/a/file"}, "debug_file", "cannot create"),
        ({"debug_file": Path(__file__).parent}, "debug_file", "cannot create"),
        (
            {"extra_args": {"settings": "x"}, "sandbox": {"enabled": True}},
            "extra_args",
            "is already set by the option settings",
        ),
        ({"extra_args": {"model": "x"}, "model": "y"}, "extra_args", "is already set by the option model"),
        ({"extra_args": {"x": "y" * MAX_ARGUMENT_BYTES}}, "extra_args", "is too long for a command line"),
    ],
)
def test_an_invalid_launch_is_refused(given: dict[str, Any], option: str, says: str) -> None:
    error = refused(**given)
    assert error.option == option
    assert says in str(error)


def test_a_settings_file_goes_as_it_is_unless_something_is_joined(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"model": "x", "sandbox": {"network": {"deniedDomains": ["a"]}}}')
    assert flags(settings=path) == (f"--settings={path}",)
    made = plan(settings=path, sandbox={"enabled": True, "network": {"denied_domains": ["b"]}})
    [text] = made.files.values()
    assert json.loads(text) == {
        "model": "x",
        "sandbox": {"enabled": True, "failIfUnavailable": True, "network": {"deniedDomains": ["a", "b"]}},
    }


@pytest.mark.parametrize("text", ["[]", "{", "\ufeff[1"])
def test_a_settings_file_that_cannot_be_joined_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    assert str(refused(settings=path, sandbox={"enabled": True})).startswith(f"settings: {path} ")


def test_files_are_written_for_this_user_only_and_removed() -> None:
    made = plan(settings={"a": "ü"})
    [path] = made.files
    scratch = path.parent
    assert not scratch.exists()
    made.prepare()
    assert json.loads(path.read_text()) == {"a": "ü"}
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
    with pytest.raises(OptionsError, match="for the CLI cannot be written"):
        replace(made).prepare()
    made.clean_up()
    made.clean_up()
    assert not scratch.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
def test_a_home_that_others_can_read_leaves_no_files(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "home").mkdir(parents=True, mode=0o755)
    plan = LaunchPlan(
        argv=["claude"], env={}, files={scratch / "settings.json": "{}"}, home=scratch / "home", is_new_home=True
    )
    with pytest.raises(OptionsError, match="open to other users"):
        plan.prepare()
    assert not scratch.exists()


def test_a_home_has_the_name_under_which_the_cli_finds_it(tmp_path: Path) -> None:
    made = plan(home=tmp_path / "e\u0301")
    assert made.home == tmp_path / "\u00e9"
    assert made.env["HOME"] == str(made.home)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_a_home_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "home").symlink_to(tmp_path / "private")
    plan = LaunchPlan(argv=["claude"], env={}, home=tmp_path / "home")
    with pytest.raises(OptionsError, match=r"home: .* is not a folder"):
        plan.prepare()


def test_a_home_whose_name_is_no_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="home: cannot be created"):
        LaunchPlan(argv=["claude"], env={}, home=tmp_path / "a\0b").prepare()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_home_of_another_user_is_refused_unless_it_is_the_clis(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, 12345, 12345)
    with pytest.raises(OptionsError, match="belongs to another user"):
        LaunchPlan(argv=["claude"], env={}, home=home).prepare()
    LaunchPlan(argv=["claude"], env={}, home=home, user=12345).prepare()
    assert (home / ".claude").stat().st_uid == 12345


def test_files_of_a_forgotten_plan_are_removed(tmp_path: Path) -> None:
    made = LaunchPlan(argv=["claude"], env={}, files={tmp_path / "scratch" / "settings.json": "{}"})
    made.prepare()
    assert list(tmp_path.iterdir())
    del made
    assert not list(tmp_path.iterdir())


def test_two_plans_do_not_share_files() -> None:
    one, two = (plan(settings={"a": 1}) for _ in range(2))
    assert not one.files.keys() & two.files.keys()


@POSIX
@pytest.mark.anyio
async def test_the_cli_starts_in_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    fake = FakeCLI()
    async with Client(ClientOptions(cwd="work", cli_path=fake.install(tmp_path / "bin"))):
        [start] = fake.starts
    assert start.cwd == os.fspath(tmp_path / "work")


def test_the_environment_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", "/elsewhere")
    assert plan(cwd="work").env["PWD"] == os.fspath(tmp_path / "work")


def test_the_user_is_passed_on() -> None:
    assert plan(user="nobody").user == "nobody"


def test_the_environment_can_be_forgotten() -> None:
    made = plan(env={"TOKEN": "SECRET"})
    made.forget_environment()
    assert dict(made.env) == {}
