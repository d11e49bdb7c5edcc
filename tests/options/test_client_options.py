"""Options: every mistake is an error that names it, and what the official SDKs take is taken."""

import dataclasses
import functools
import re
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from claude_agent_py import (
    AgentDefinition,
    Client,
    ClientOptions,
    Limits,
    MCPHTTPServer,
    MCPStdioServer,
    Timeouts,
    query,
    run_sync,
    tool,
)
from claude_agent_py.agents import DelegationGuide
from claude_agent_py.errors import OptionsError
from claude_agent_py.options import (
    SYSTEM_PROMPT_DYNAMIC_BOUNDARY,
    OptionsWarning,
    PluginConfig,
    SandboxSettings,
    SystemPromptFile,
    SystemPromptPreset,
    SystemPromptText,
    ThinkingAdaptive,
    ThinkingDisabled,
    ThinkingEnabled,
)
from claude_agent_py.permissions import PendingInteractions
from claude_agent_py.tools import ToolServer

REVIEWER = AgentDefinition(description="Reviews code", prompt="You review code.")
DIGGER = AgentDefinition(description="d", prompt="p", max_turns=3)
QUIET_PLUGIN = PluginConfig(path=Path("p"), skip_mcp_discovery=True)
SANDBOX = SandboxSettings.model_validate({"enabled": True, "network": {"allowed_domains": ["a"]}})
SESSION = "5f0d2c6e-8f7a-4c1b-9a55-1d3a0f6a7b21"


def handler(*_: object) -> None:
    """Stand where a handler has to."""


def refused(**given: Any) -> OptionsError:
    with pytest.raises(OptionsError) as caught:
        ClientOptions(**given)
    return caught.value


async def half_ported(tool_name: str, tool_input: dict[str, Any], context: Any = None) -> None: ...


class HalfPorted:
    def __init__(self, tool_name: Any, tool_input: Any, context: Any = None) -> None: ...

    def decide(self, tool_name: Any, input_data: Any) -> None: ...


class CallableHalfPorted:
    async def __call__(self, name: Any, data: Any, context: Any = None) -> None: ...


class Unlisted:
    """A session store that cannot list its sessions."""

    async def append(self, key: Any, entries: Any) -> None: ...

    async def load(self, key: Any) -> Any: ...


def generate(line: str) -> Iterator[str]:
    yield line


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("permisson_mode", "did you mean 'permission_mode'?"),
        ("permissionMode", "did you mean 'permission_mode'?"),
        ("maxTurns", "did you mean 'max_turns'?"),
        ("add_dirs", "use additional_directories"),
        ("stderr", "use on_stderr"),
        ("instructions", "use system_prompt="),
        ("functions", "use custom_tools"),
        ("maxBufferSize", "use limits=Limits(max_line_bytes=...)"),
        ("pathToClaudeCodeExecutable", "use cli_path"),
        ("nonsense_of_mine", "is unknown"),
    ],
)
def test_an_unknown_option_is_refused_with_what_to_use(name: str, hint: str) -> None:
    error = refused(**{name: 1})
    assert error.option == name
    assert str(error).startswith(f"{name}: is unknown")
    assert hint in str(error)


RENAMED = [
    "abort_controller",
    "add_dirs",
    "append_system_prompt",
    "continue",
    "debug_stderr",
    "disallowed_tools_delivery",
    "executable",
    "executable_args",
    "functions",
    "instructions",
    "json_schema",
    "load_timeout_ms",
    "managed_settings_delivery",
    "max_buffer_size",
    "mcp_servers_delivery",
    "on_stderr_line",
    "path_to_claude_code_executable",
    "plugin_delivery",
    "settings_delivery",
    "spawn_claude_code_process",
    "stderr",
    "tool_config",
]
"""Options of other SDKs that are called something else here."""


def hint_for(option: str) -> str:
    """Return what the error for an unknown option says to use."""
    with pytest.raises(OptionsError) as caught:
        ClientOptions(**{option: None})
    return str(caught.value)


def test_a_replacement_that_an_error_names_exists() -> None:
    hints = {option: hint_for(option) for option in RENAMED}
    assert not [hint for hint in hints.values() if "did you mean" in hint]
    words = {word.strip("(),=.") for hint in hints.values() for word in hint.replace("=", " ").split()}
    named = {"additional_directories", "system_prompt", "continue_conversation", "on_stderr", "cli_path", "limits"}
    assert named | {"output_format", "output_type", "question_preview_format"} <= words
    assert not set(RENAMED) & ClientOptions.model_fields.keys()
    assert named <= ClientOptions.model_fields.keys()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"max_turns": "many"}, "max_turns: must be a valid integer, not str"),
        ({"max_turns": "3"}, "max_turns: must be a valid integer, not str"),
        ({"max_turns": True}, "max_turns: must be a valid integer, not bool"),
        ({"max_budget_usd": "1"}, "max_budget_usd: must be a valid number, not str"),
        ({"include_partial_messages": "no"}, "include_partial_messages: must be a valid boolean, not str"),
        ({"inherit_env": 0}, "inherit_env: must be a valid boolean, not int"),
        ({"timeouts": {"run": "60"}}, "timeouts: run must be a valid number, not str"),
        ({"timeouts": {"run": True}}, "timeouts: run must be a valid number, not bool"),
        ({"limits": {"child_total": 1.0}}, "limits: child_total must be a valid integer, not float"),
        ({"max_turns": 0}, "max_turns: must be greater than or equal to 1"),
        ({"max_budget_usd": -1}, "max_budget_usd: must be greater than 0"),
        ({"permission_mode": "ask"}, "permission_mode: must be 'default', 'manual', 'acceptEdits'"),
        ({"effort": "huge"}, "effort: must be 'low'"),
        ({"model": ""}, "model: must not be empty"),
        ({"model": 5}, "model: must be text, not int"),
        ({"resume": "  "}, "resume: must not be empty"),
        ({"cwd": 5}, "cwd: must be text, not int"),
        ({"cwd": ""}, "cwd: must not be empty"),
        ({"user": True}, "user: must be text, not bool"),
        ({"debug": 1.5}, "debug: must be text, not float"),
        ({"can_use_tool": "ask"}, "can_use_tool: must be a function, not str"),
        ({"can_use_tool": lambda: 1}, "<lambda> must take two arguments: (request, context)"),
        ({"on_question": lambda questions: 1}, "<lambda> must take two arguments: (request, context)"),
        ({"on_stderr": 5}, "on_stderr: must be a function, not int"),
        ({"on_stderr": generate}, "on_stderr: must not be a generator function"),
        ({"on_stderr": lambda: 1}, "<lambda> must take one argument: (line)"),
        ({"on_task_notification": lambda: 1}, "<lambda> must take one argument: (notification)"),
        ({"on_task_event": lambda event, more: 1}, "<lambda> must take one argument: (event)"),
        ({"interactions": "x"}, "interactions: must be True or an inbox, not str"),
        ({"custom_tools": handler}, "custom_tools: must be a list, not function"),
        ({"custom_tools": [5]}, "custom_tools: tool 'int': must be a function or a Tool"),
        ({"custom_tools": [Path("x")]}, "custom_tools: tool 'pathlib."),
        ({"env": {"A=B": "x"}}, "env: 'A=...' is not a valid variable name"),
        ({"env": {"A": "x\0y"}}, "env: the value of A holds a NUL character"),
        ({"env": {"A": 5}}, "env: A must be a valid string, not int"),
        ({"env": [1]}, "env: must be a valid dictionary, not list"),
        ({"extra_args": {"verbose": None}}, "extra_args: --verbose is set by this package"),
        ({"extra_args": {"a b": None}}, "extra_args: 'a b' is not a valid flag name"),
        ({"extra_args": "x"}, "extra_args: must be a valid dictionary, not str"),
        ({"betas": "x"}, "betas: must be a list, not str"),
        ({"setting_sources": "user"}, "setting_sources: must be a list, not str"),
        ({"betas": 5}, "betas: must be a list, not int"),
        ({"tools": "Read"}, "tools: must be a list, not str"),
        ({"tools": [handler]}, "tools: names built-in tools; pass functions and tools as custom_tools"),
        ({"tools": [tool(name="f")(lambda: None)]}, "pass functions and tools as custom_tools"),
        ({"tools": ToolServer("own")}, "servers as mcp_servers"),
        ({"tools": ["Bash(git *)"]}, "tools: 'Bash(git *)' is not the name of a built-in tool"),
        ({"allowed_tools": "Read"}, "allowed_tools: must be a list, not str"),
        ({"allowed_tools": ["Bash("]}, "allowed_tools: a parenthesis in the rule 'Bash(' is not closed"),
        ({"disallowed_tools": ["Bash(rm *"]}, "disallowed_tools: a parenthesis in the rule 'Bash(rm *' is not closed"),
        ({"allowed_tools": ["Bash(a (b) c)"]}, "allowed_tools: the CLI would split the rule 'Bash(a (b) c)'"),
        (
            {"disallowed_tools": ["Bash\nRead"]},
            r"disallowed_tools: the tool of the rule 'Bash\nRead' contains white space",
        ),
        ({"disallowed_tools": ["mcp__my server"]}, "disallowed_tools: the CLI would split the rule 'mcp__my server'"),
        ({"skills": "pdf"}, "skills: must be a list, not str"),
        ({"skills": ["a,b"]}, "skills: 'a,b' is not a valid skill name"),
        ({"additional_directories": "x"}, "additional_directories: must be a list, not str"),
        ({"setting_sources": ["usr"]}, "setting_sources: [0] must be 'user', 'project' or 'local'"),
        ({"system_prompt": 5}, "system_prompt: must be text, blocks of text or a SystemPrompt..., not int"),
        ({"system_prompt": {"type": "wat"}}, "system_prompt: must have a type: custom, preset, file"),
        ({"system_prompt": {"type": "preset", "preset": "x"}}, "system_prompt: must be 'claude_code', the only preset"),
        ({"system_prompt": {"type": "preset", "apend": "x"}}, "apend is unknown; did you mean 'append'?"),
        ({"thinking": "hard"}, "thinking: must be ThinkingAdaptive(), ThinkingEnabled() or ThinkingDisabled()"),
        ({"thinking": {"type": "enabled", "budgetTokens": 0}}, "thinking: budget_tokens must be greater than or equal"),
        ({"delegation_guide": "yes"}, "delegation_guide: must be a DelegationGuide, True or False, not str"),
        ({"plugins": "x"}, "plugins: must be a list, not str"),
        ({"plugins": [5]}, "plugins: must hold paths of plugins"),
        ({"plugins": [{"type": "remote", "path": "x"}]}, "plugins: must hold plugins of type 'local'"),
        ({"settings": "{oops"}, "settings: is not valid JSON"),
        ({"settings": 5}, "settings: must be text, not int"),
        ({"settings": {"a": object()}}, "settings: must hold only JSON values: Object of type object"),
        ({"settings": {"a": float("nan")}}, "settings: must hold only JSON values"),
        ({"managed_settings": {"a": {1}}}, "managed_settings: must hold only JSON values"),
        ({"managed_settings": "some/path"}, "managed_settings: must be an object, or its JSON text"),
        ({"sandbox": {"network": {"alowed_domains": []}}}, "sandbox: network.alowed_domains is unknown; did you mean"),
        ({"agents": ["x"]}, "agents: must map names to agent definitions, not be a list"),
        ({"agents": {"r": {"description": "d"}}}, "agents: agent 'r': prompt is missing"),
        ({"agents": {"r": {"prompt": "p"}}}, "agents: agent 'r': description is missing"),
        ({"agents": {"r": {"description": " ", "prompt": "p"}}}, "agents: agent 'r': description must not be empty"),
        (
            {"agents": {"r": {"description": "d", "prompt": "p", "hooks": {"a": {1}}}}},
            "hooks must hold only JSON values",
        ),
        ({"max_budget_usd": float("inf")}, "max_budget_usd: must be a finite number"),
        ({"agents": {"r": "x"}}, "agents: agent 'r' must be an AgentDefinition, not str"),
        ({"mcp_servers": {"a": {"command": "x", "timeout": 500}}}, "mcp_servers: server 'a': timeout must be greater"),
        ({"mcp_servers": {"a": "x"}}, "mcp_servers: server 'a' must be an MCP server, not str"),
        ({"mcp_servers": {"": MCPStdioServer(command="x")}}, "mcp_servers: '' is not a server name"),
        ({"mcp_servers": [MCPStdioServer(command="x")]}, "pass servers as"),
        ({"mcp_servers": [ToolServer("s"), ToolServer("s")]}, "mcp_servers: two servers are named 's'"),
        (
            {"mcp_servers": {"a.b": ToolServer("x"), "a_b": ToolServer("y")}},
            "'a.b' and 'a_b' would have the same names",
        ),
        (
            {"mcp_servers": {"a": ToolServer("x"), "a__b": ToolServer("y")}},
            "a rule for the tools of one of the servers 'a' and 'a__b' covers the other's",
        ),
        ({"cwd": "~nobody-of-this-name/x"}, "cwd: there is no home for '~nobody-of-this-name'"),
        ({"mcp_servers": 5}, "mcp_servers: must map names to servers, or be the path of a file, not int"),
        ({"hooks": {"PreToolUse": [lambda: 1]}}, "must take two arguments: the input and the context"),
        ({"hooks": {"PreToolUs": [handler]}}, "hooks: unknown hook event 'PreToolUs'; did you mean 'PreToolUse'?"),
        ({"output_type": Callable[[], int]}, "output_type: must be a type that has a JSON Schema"),
        ({"can_use_tool": generate}, "can_use_tool: must not be a generator function"),
        ({"output_type": 5}, "output_type: must be a type that pydantic can validate"),
        ({"output_type": handler}, "output_type: must be a type, not a function"),
        ({"output_format": "{}"}, "output_format: must be a JSON Schema (a dict), not str"),
        ({"output_format": [1]}, "output_format: must be a JSON Schema (a dict), not list"),
        ({"output_format": {"type": "array"}}, "output_format: must describe an object, not 'array'"),
        ({"output_format": {"type": "json_schema", "schema": None}}, "must be a JSON Schema (a dict), not NoneType"),
        ({"timeouts": {"conect": 1}}, "timeouts: conect is unknown; did you mean 'connect'?"),
        ({"timeouts": {"close": 0}}, "timeouts: close must be greater than 0"),
        ({"limits": {"max_line_bytes": 0}}, "limits: max_line_bytes must be greater than 0"),
        ({"session_id": "nine"}, "session_id: must be a UUID"),
        ({"persist_session": "perhaps"}, "persist_session: must be a valid boolean"),
        ({"question_preview_format": "pdf"}, "question_preview_format: must be 'markdown' or 'html'"),
    ],
)
def test_a_wrong_value_is_refused_by_name(given: dict[str, Any], says: str) -> None:
    error = refused(**given)
    assert says in str(error)
    assert error.option == next(iter(given))


HANDLERS = ["can_use_tool", "on_question", "on_plan", "on_elicitation", "on_user_dialog"]


@pytest.mark.parametrize("option", HANDLERS)
@pytest.mark.parametrize(
    "handler",
    [
        half_ported,
        functools.partial(half_ported, context=None),
        functools.wraps(half_ported)(lambda *given: None),
        HalfPorted,
        HalfPorted("", {}).decide,
        CallableHalfPorted(),
        lambda toolName, input=None, options=None: None,
        lambda name, tool_input, *rest: None,
        lambda request, input: None,
        lambda request, context, more=None: None,
    ],
)
def test_a_half_ported_handler_is_refused_with_how_to_port_it(option: str, handler: Any) -> None:
    error = refused(**{option: handler})
    assert error.option == option
    assert "must take two arguments: (request, context), but '" in str(error)
    assert "take (request, context) and read request.tool_name and request.raw_input" in str(error)


def test_an_annotation_shows_a_half_ported_handler() -> None:
    def decide(name: str, data: dict[str, Any]) -> None: ...

    assert "'name' is annotated as str, which it never gets" in str(refused(can_use_tool=decide))


@pytest.mark.parametrize("option", HANDLERS)
def test_a_handler_of_two_arguments_is_accepted(option: str) -> None:
    @functools.wraps(half_ported)
    def adapter(request: Any, context: Any) -> None: ...

    def on_behalf(audit: Any, tool_input: Any, request: Any, context: Any = None) -> None: ...

    handlers: list[Any] = [
        adapter,
        functools.partial(on_behalf, None, None),
        functools.partial(lambda request, context, database: None, database=None),
        lambda request, context, *, tool_input=None: None,
        lambda request, *more: None,
        lambda request, context=None: None,
    ]
    for each in handlers:
        ClientOptions(**{option: each})


@pytest.mark.parametrize(
    ("given", "option", "says"),
    [
        ({"resume": "x", "continue_conversation": True}, "continue_conversation", "conflicts with resume"),
        ({"resume": "x", "session_id": SESSION}, "session_id", "fork_session=True"),
        ({"resume_session_at": "x"}, "resume_session_at", "needs resume"),
        ({"fork_session": True}, "fork_session", "needs resume or continue_conversation"),
        ({"resume_interrupted_turn": True}, "resume_interrupted_turn", "needs resume or continue_conversation"),
        ({"resume": "x", "resume_drops_turn": "x"}, "resume_drops_turn", "needs resume_session_at"),
        ({"model": "a", "fallback_model": "b, a"}, "fallback_model", "must differ from model"),
        ({"thinking": "adaptive", "max_thinking_tokens": 5}, "max_thinking_tokens", "older form"),
        ({"output_type": int, "output_format": {}}, "output_format", "use only one of them"),
        (
            {"can_use_tool": handler, "permission_prompt_tool_name": "mcp__a__b"},
            "permission_prompt_tool_name",
            "one of",
        ),
        ({"session_store": Unlisted(), "continue_conversation": True}, "session_store", "needs list_sessions"),
        ({"supported_dialog_kinds": ["x"]}, "supported_dialog_kinds", "needs on_user_dialog"),
        ({"session_mirror": True, "persist_session": False}, "session_mirror", "needs persist_session=True"),
    ],
)
def test_options_that_exclude_each_other_are_refused(given: dict[str, Any], option: str, says: str) -> None:
    error = refused(**given)
    assert error.option == option
    assert says in str(error)


def test_all_mistakes_are_reported_at_once() -> None:
    error = refused(max_turns=0, effort="huge", limits={"stderr_bytes": "x"})
    for complaint in ("stderr_bytes must be", "effort must be", "max_turns must be"):
        assert complaint in str(error)
    assert error.__context__ is None


def test_an_error_does_not_show_the_value() -> None:
    error = refused(env={"TOKEN": ["SECRET"]}, model={"SECRET": 1}, settings=5)
    assert "SECRET" not in str(error)


@dataclasses.dataclass
class AsDataclass:
    x: int


class AsTypedDict(TypedDict):
    x: int


class AsModel(BaseModel):
    x: int


@pytest.mark.parametrize("output_type", [AsModel, AsDataclass, AsTypedDict, list[AsModel], int | str, dict[str, int]])
def test_an_answer_may_have_any_type_that_has_a_schema(output_type: Any) -> None:
    shape = ClientOptions(output_type=output_type).output_shape
    assert shape is not None
    assert shape.schema["type"] == "object"


@pytest.mark.parametrize(
    ("name", "given", "becomes"),
    [
        ("system_prompt", "Be brief.", SystemPromptText(text="Be brief.")),
        (
            "system_prompt",
            ["a", SYSTEM_PROMPT_DYNAMIC_BOUNDARY, "b"],
            SystemPromptText(text=["a", SYSTEM_PROMPT_DYNAMIC_BOUNDARY, "b"]),
        ),
        ("system_prompt", {"type": "custom", "prompt": "x"}, SystemPromptText(text="x")),
        (
            "system_prompt",
            {"type": "preset", "preset": "claude_code", "append": "x", "excludeDynamicSections": True},
            SystemPromptPreset(append="x", exclude_dynamic_sections=True),
        ),
        ("system_prompt", {"type": "file", "path": "x"}, SystemPromptFile(path=Path("x"))),
        ("system_prompt", SystemPromptPreset(), SystemPromptPreset()),
        ("thinking", "adaptive", ThinkingAdaptive()),
        ("thinking", {"type": "enabled", "budgetTokens": 5}, ThinkingEnabled(budget_tokens=5)),
        ("thinking", {"type": "enabled", "budget_tokens": 5}, ThinkingEnabled(budget_tokens=5)),
        ("thinking", {"type": "disabled"}, ThinkingDisabled()),
        ("tools", {"type": "preset", "preset": "claude_code"}, "default"),
        ("tools", (), []),
        ("skills", "all", "all"),
        ("skills", ("pdf", "kit:docx"), ["pdf", "kit:docx"]),
        ("fallback_model", "a, b", ["a", "b"]),
        ("task_budget", {"total": 5}, 5),
        ("output_format", {"type": "json_schema", "schema": {"type": "object"}}, {"type": "object"}),
        ("plugins", [{"type": "local", "path": "p", "skipMcpDiscovery": True}], [QUIET_PLUGIN]),
        ("plugins", ["p"], [PluginConfig(path=Path("p"))]),
        ("settings", '{"a": 1}', {"a": 1}),
        ("settings", "some/file.json", Path("some/file.json")),
        ("cwd", "~", Path.home()),
        ("extra_args", {"--a": "1", "b": None}, {"a": "1", "b": None}),
        ("session_id", uuid.UUID(SESSION), SESSION),
        ("agents", {"r": {"description": "d", "prompt": "p", "maxTurns": 3}}, {"r": DIGGER}),
        ("timeouts", {"connect": 5}, Timeouts(connect=5.0)),
        ("limits", {"stderr_bytes": 5}, Limits(stderr_bytes=5)),
        ("sandbox", {"enabled": True, "network": {"allowedDomains": ["a"]}}, SANDBOX),
        ("mcp_servers", {"a": {"command": "x", "timeout": 5000}}, {"a": MCPStdioServer(command="x", timeout=5.0)}),
        ("mcp_servers", {"mcpServers": {"a": {"type": "http", "url": "http://x"}}}, {"a": MCPHTTPServer(url="http://x")}),
        ("mcp_servers", '{"mcpServers": {"a": {"command": "x"}}}', {"a": MCPStdioServer(command="x")}),
        ("mcp_servers", "servers.json", Path("servers.json")),
        ("delegation_guide", False, False),
    ],
)  # fmt: skip
def test_a_value_is_read(name: str, given: Any, becomes: Any) -> None:
    options = ClientOptions(**{name: given})
    assert getattr(options, name) == becomes
    assert getattr(options.replace(model="m"), name) == becomes


def test_servers_in_this_process_are_distinguished() -> None:
    own, far = ToolServer("own"), MCPHTTPServer(url="http://x")
    options = ClientOptions(
        mcp_servers={"own": own, "old": {"type": "sdk", "name": "old", "instance": own}, "far": far}
    )
    assert options.hosted_mcp_servers == {"own": own, "old": own}
    assert ClientOptions(mcp_servers=[own]).hosted_mcp_servers == {"own": own}
    assert ClientOptions(mcp_servers="x.json").hosted_mcp_servers == {}


def test_a_server_of_this_process_without_an_instance_is_refused() -> None:
    with pytest.raises(OptionsError, match="mcp_servers: server 'x' has no instance") as caught:
        ClientOptions(mcp_servers={"x": {"type": "sdk", "name": "x"}})
    assert caught.value.option == "mcp_servers"


def test_options_are_a_value() -> None:
    options = ClientOptions(model="a", agents={"r": REVIEWER})
    assert options == ClientOptions(model="a", agents={"r": REVIEWER})
    assert options.replace(max_turns=3).max_turns == 3
    assert options.replace(model=None).model is None
    assert options.model_copy(update={"model": "b"}).model == "b"
    assert options.model_copy().model == "a"
    with pytest.raises(OptionsError, match=r"^model: cannot be changed; use replace\(\)"):
        options.model = "b"  # type: ignore[misc]
    assert options.model == "a"


@pytest.mark.parametrize("change", [lambda o: o.replace(modle="x"), lambda o: o.model_copy(update={"modle": "x"})])
def test_a_change_is_checked(change: Callable[[ClientOptions], ClientOptions]) -> None:
    with pytest.raises(OptionsError, match="did you mean 'model'"):
        change(ClientOptions())


def test_a_repr_is_short() -> None:
    shown = repr(ClientOptions(system_prompt="x" * 10_000, model="x" * 10_000))
    assert "xxx..." in shown
    assert len(shown) < 300


def test_a_repr_shows_names_and_no_secrets() -> None:
    options = ClientOptions(
        env={"TOKEN": "SECRET"},
        settings={"env": {"K": "SECRET"}},
        managed_settings={"k": "SECRET"},
        extra_args={"header": "SECRET"},
        mcp_servers={"far": MCPHTTPServer(url="https://h/?key=SECRET", headers={"Authorization": "SECRET"})},
        tool_aliases={"Read": "SECRET"},
        output_format={"type": "object", "title": "SECRET"},
        spawn=functools.partial(handler, "SECRET"),
        agents={"r": AgentDefinition(description="d", prompt="p", mcp_servers=[{"x": {"command": "SECRET"}}])},
        system_prompt="SECRET",
        plan_mode_instructions="SECRET",
        append_subagent_system_prompt="SECRET",
        on_stderr=handler,
        model="sonnet",
    )
    shown = repr(options)
    assert "SECRET" not in shown
    assert "env=['TOKEN']" in shown
    assert "mcp_servers=['far']" in shown
    assert "on_stderr='handler'" in shown
    assert "spawn='handler'" in shown
    assert "model='sonnet'" in shown
    assert "cwd" not in shown
    assert "system_prompt=SystemPromptText(text='...')" in shown
    assert len(shown) < 500
    for prompt in (["SECRET"], {"type": "preset", "append": "SECRET"}):
        assert "SECRET" not in repr(ClientOptions(system_prompt=prompt))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"permission_mode": "bypassPermissions"},
            "except for ask rules of the settings: .* allows everything without asking",
        ),
        ({"permission_mode": "dontAsk"}, "permission_mode='dontAsk' denies all prompts"),
        ({"permission_prompts": "none"}, "permission_prompts='none' denies all prompts"),
        ({"allowed_tools": ["Bash", "Read"]}, "will not be asked about Bash:"),
        ({"allowed_tools": ["mcp__a__b"]}, "will not be asked about mcp__a__b:"),
    ],
)
def test_a_handler_that_is_not_called_is_warned_about(given: dict[str, Any], says: str) -> None:
    with pytest.warns(OptionsWarning, match=says) as caught:
        ClientOptions(can_use_tool=handler, **given)
    assert caught[0].filename == __file__


def test_a_handler_that_ask_rules_call_in_any_mode_is_not_warned_about() -> None:
    ask = {"permissions": {"ask": ["Bash(touch:*)"]}}
    ClientOptions(can_use_tool=handler, permission_mode="bypassPermissions", settings=ask)  # warnings are errors
    ClientOptions(can_use_tool=handler, permission_mode="bypassPermissions", managed_settings=ask)
    with pytest.warns(OptionsWarning, match="denies all prompts"):
        ClientOptions(can_use_tool=handler, permission_mode="dontAsk", settings=ask)


def greet(name: str) -> str:
    """Greet."""
    return f"Hello, {name}!"


@pytest.mark.parametrize(
    "served", [{"custom_tools": [greet]}, {"mcp_servers": {"tools": ToolServer("tools", [greet])}}]
)
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"allowed_tools": ["greet"]}, "so it may have no effect; the custom tool is 'mcp__tools__greet'"),
        ({"disallowed_tools": ["greet"]}, "so it may have no effect; the custom tool is 'mcp__tools__greet'"),
        ({"tools": ["Read", "greet"]}, "custom tools are always available, so leave it out"),
        (
            {"agents": {"a": AgentDefinition(description="x", prompt="y", tools=["greet"])}},
            "agents: tools of 'a': 'greet' is not a known tool; the custom tool is 'mcp__tools__greet'",
        ),
    ],
)
def test_the_short_name_of_a_custom_tool_is_answered_with_what_to_write(
    served: dict[str, Any], given: dict[str, Any], says: str
) -> None:
    with pytest.warns(OptionsWarning, match=re.escape(says)):
        ClientOptions(**served, **given)


def test_a_limit_that_cuts_child_agents_is_warned_about() -> None:
    with pytest.warns(OptionsWarning, match="CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT ends calls") as caught:
        ClientOptions(env={"CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT": "60000"})
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"tools": ["Reed"]},
            "tools: 'Reed' is not a known built-in tool, so the CLI may ignore it; did you mean 'Read'?",
        ),
        (
            {"tools": ["Read", "bash"]},
            "'bash' is not a known built-in tool, so the CLI may ignore it; did you mean 'Bash'?",
        ),
        ({"tools": ["Frobnicate"]}, "'Frobnicate' is not a known built-in tool"),
        (
            {"disallowed_tools": ["bash(rm *)"]},
            "disallowed_tools: 'bash' is not a known tool, so it may have no effect; did you mean 'Bash'?",
        ),
        ({"tool_aliases": {"bash": "mcp__a__b"}}, "tool_aliases: 'bash' is not a known tool"),
        ({"tool_aliases": {"Bash": "mcp__a__b"}}, "tool_aliases: Monitor also runs shell commands"),
        (
            {"agents": {"a": {"description": "d", "prompt": "p", "tools": ["Read", "Bash(ls *)", "Agent(b)"]}}},
            "agents: 'a': Bash(ls *) in tools gives it the whole Bash",
        ),
    ],
)
def test_a_tool_that_is_not_known_is_warned_about(given: dict[str, Any], says: str) -> None:
    with pytest.warns(OptionsWarning, match=re.escape(says)) as caught:
        ClientOptions(**given)
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "given",
    [
        {
            "tools": ["Read", "Task", "Agent", "mcp__a__b"],
            "disallowed_tools": ["Bash(echo ( *)", "mcp__a", "*", "Task(x)"],
        },
        {"permission_mode": "bypassPermissions", "allowed_tools": ["Bash"]},
        {"can_use_tool": handler, "permission_mode": "acceptEdits"},
        {"can_use_tool": handler, "allowed_tools": ["Read", "Grep", "Bash(git log *)"]},
    ],
)
def test_effective_options_cause_no_warning(given: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClientOptions(**given)


@pytest.mark.parametrize(
    ("given", "asks"),
    [
        ({}, False),
        ({"can_use_tool": handler}, True),
        ({"on_question": handler}, True),
        ({"on_plan": handler}, True),
        ({"interactions": True}, True),
        ({"interactions": PendingInteractions()}, True),
        ({"interactions": False}, False),
        ({"on_elicitation": handler}, False),
        ({"permission_prompts": "host"}, True),
    ],
)
def test_options_that_make_the_cli_ask_this_process(given: dict[str, Any], asks: bool) -> None:
    assert ClientOptions(**given).asks_host == asks


def test_a_guide_is_made_for_the_agents() -> None:
    guide = DelegationGuide(delegate_when=["asked to"])
    assert ClientOptions(agents={"r": REVIEWER}, delegation_guide=guide).delegation_guide == guide


@pytest.mark.parametrize(
    "start", [Client, lambda options: query("hi", options), lambda options: run_sync("hi", options)]
)
@pytest.mark.parametrize("wrong", [{"model": "x"}, {}, "opus"])
def test_a_value_that_is_no_options_is_refused_at_once(start: Callable[[Any], object], wrong: Any) -> None:
    with pytest.raises(OptionsError, match=f"^options: must be ClientOptions, not {type(wrong).__name__}") as caught:
        start(wrong)
    assert ("ClientOptions(**options)" in str(caught.value)) is isinstance(wrong, dict)


def test_an_unknown_name_in_replace_is_an_error() -> None:
    with pytest.raises(OptionsError, match="modle: is unknown; did you mean 'model'"):
        ClientOptions().replace(modle="opus")


def test_an_option_that_is_passed_as_an_argument_names_the_place_for_it() -> None:
    calls: list[Any] = [Client, functools.partial(query, "hi"), functools.partial(run_sync, "hi")]
    for call in calls:
        with pytest.raises(TypeError, match=r"pass ClientOptions\(model=\.\.\., max_turns=\.\.\.\)"):
            call(model="haiku", max_turns=1)
        with pytest.raises(TypeError, match=r"got nonsense$"):
            call(nonsense=1)
