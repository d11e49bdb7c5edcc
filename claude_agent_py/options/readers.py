"""Readers of single options, which check a value and also accept the shapes of the official SDKs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias
from uuid import UUID

from claude_agent_py import agents as agents_room, hooks as hooks_room, permissions, tools  # load on first use
from claude_agent_py._base.bounded_reading import read_json
from claude_agent_py._base.callbacks import (
    GENERATOR,
    PORT_PERMISSIONS,
    callback_name,
    check_two_arguments,
    is_generator_callable,
    takes_arguments,
)
from claude_agent_py._base.configuration import inner_text, validate_part
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.json_object import JSONObject, check_values
from claude_agent_py.observe.telemetry import Telemetry
from claude_agent_py.options.output_shape import OutputShape
from claude_agent_py.wire import settings as wire_settings
from claude_agent_py.wire.settings.rule_lists import survives_splitting, tool_of
from claude_agent_py.wire.tools.names import mcp_server_name

RENAMED: Final[Mapping[str, str]] = {
    "abort_controller": "call run.interrupt(), or use `async with run`, which interrupts the run on exit",
    "add_dirs": "use additional_directories",
    "append_system_prompt": "use system_prompt=SystemPromptPreset(append=...)",
    "continue": "use continue_conversation",
    "debug_stderr": "use on_stderr",
    "disallowed_tools_delivery": "lists that are too long for the command line are sent in initialize automatically",
    "executable": "the CLI is a standalone program; pass its path as cli_path",
    "executable_args": "the CLI is a standalone program; pass its path as cli_path",
    "functions": "use custom_tools",
    "instructions": "use system_prompt=SystemPromptPreset(append=...), or a text to replace the CLI's prompt",
    "json_schema": "use output_format, or output_type for a Python type",
    "load_timeout_ms": "use load_timeout, in seconds",
    "managed_settings_delivery": "managed settings are always sent in initialize",
    "max_buffer_size": "use limits=Limits(max_line_bytes=...)",
    "mcp_servers_delivery": "MCP servers are always sent in initialize, which keeps their secrets off the command line",
    "on_stderr_line": "use on_stderr",
    "path_to_claude_code_executable": "use cli_path",
    "plugin_delivery": "plugins are passed by path",
    "settings_delivery": "settings always go in a file that only the user can read",
    "spawn_claude_code_process": "use spawn",
    "stderr": "use on_stderr",
    "tool_config": "use question_preview_format",
}
"""The replacements of option names of other SDKs that differ here."""


Reader: TypeAlias = Callable[[Any], object]
"""Checks the value of an option and returns it in the form that the option has."""


def part_of_an_option(reader: Reader) -> Reader:
    """Return a reader whose errors about a part of the value become errors about the option."""

    def read(value: object) -> object:
        try:
            return reader(value)
        except OptionsError as error:
            problem = inner_text(error)
        except ValueError as error:
            problem = str(error)
        raise ValueError(problem)  # outside of `except`: the context would show the values

    return read


def text(value: object) -> str:
    """Read text that is not empty."""
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {type(value).__name__}")
    if not value.strip():
        raise ValueError("must not be empty; leave it out instead")
    return value


def items(value: object) -> Iterable[Any]:
    """Refuse a value that is not a list. A single string would be read letter by letter."""
    if isinstance(value, str | Path | Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"must be a list, not {type(value).__name__}")
    return value


def names(value: object) -> list[str]:
    """Read a list of strings."""
    return [text(name) for name in items(value)]


def path(value: object) -> Path:
    """Read a path; `~` is the home directory."""
    given = Path(value if isinstance(value, Path) else text(value))
    try:
        return given.expanduser()
    except RuntimeError:
        raise ValueError(f"there is no home for {given.parts[0]!r}") from None


def home(value: object) -> Path | bool | None:
    """Read a home directory, or whether to use a new one."""
    return (value or None) if isinstance(value, bool) else path(value)


def paths(value: object) -> list[Path]:
    """Read a list of paths."""
    return [path(item) for item in items(value)]


def function_of(argument: str) -> Reader:
    """Return a reader that refuses a value that cannot be called with this argument."""

    def read(value: object) -> object:
        if not callable(value):
            raise ValueError(f"must be a function, not {type(value).__name__}")
        if not takes_arguments(value, 1):
            raise ValueError(f"{callback_name(value)} must take one argument: ({argument})")
        if is_generator_callable(value):
            raise ValueError(GENERATOR)
        return value

    return read


def permission_handler(value: object) -> object:
    """Read a handler of requests for permission, questions, plans, elicitations, messages and dialogs."""
    if not callable(value):
        raise ValueError(f"must be a function, not {type(value).__name__}")
    if is_generator_callable(value):
        raise ValueError(GENERATOR)
    check_two_arguments(value, "(request, context)", port=PORT_PERMISSIONS)
    return value


def flag_or_text(value: object) -> bool | str:
    """Read a bool or text."""
    return value if isinstance(value, bool) else text(value)


def system_user(value: object) -> str | int:
    """Read a user of the operating system: a name or a number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else text(value)


def session_id(value: object) -> str:
    """Read a UUID."""
    try:
        return str(UUID(str(value)))
    except ValueError:
        raise ValueError("must be a UUID; make one with uuid.uuid4()") from None


def session_store(value: object) -> object:
    """Refuse a value that is not a session store."""
    from claude_agent_py.sessions.stores.protocol import find_problem  # few sessions have a store

    if problem := find_problem(value):
        raise ValueError(problem)
    return value


def telemetry(value: object) -> object:
    """Refuse a value that is neither a bool nor a `Telemetry`."""
    if value is not None and not isinstance(value, bool | Telemetry):
        raise ValueError(f"must be True, False or a Telemetry, not {type(value).__name__}")
    return value


def environment(value: object) -> object:
    """Refuse names and values that are invalid in an environment."""
    for name, content in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            shown = re.sub("=.*", "=...", name) if isinstance(name, str) else name  # a whole assignment has a value
            raise ValueError(f"{shown!r} is not a valid variable name")
        if isinstance(content, str) and "\0" in content:
            raise ValueError(f"the value of {name} holds a NUL character")
    return value


def rules(value: object) -> list[str]:
    """Read permission rules, and refuse rules that the CLI would misread."""
    for rule in (given := names(value)):
        if any(char.isspace() and char != " " for char in tool_of(rule)):
            raise ValueError(f"the tool of the rule {rule!r} contains white space")
        if not survives_splitting(rule) and survives_splitting(f"{rule})"):
            raise ValueError(f"a parenthesis in the rule {rule!r} is not closed")
        if not survives_splitting(rule):
            raise ValueError(
                f"the CLI would split the rule {rule!r}: commas and spaces are not allowed outside "
                "of parentheses or after the first ')'. Put it into settings={'permissions': {...}} instead"
            )
    return given


def built_in_tools(value: object) -> list[str] | str:
    """Read the built-in tools: names, or all of them (`default`, or an official SDK's preset)."""
    if value == "default" or (isinstance(value, Mapping) and value.get("type") == "preset"):
        return "default"
    for tool in value if isinstance(value, list | tuple) else [value]:
        if callable(tool) or hasattr(tool, "tools"):
            raise ValueError("names built-in tools; pass functions and tools as custom_tools, servers as mcp_servers")
    for name in (given := names(value)):
        if not re.fullmatch(r"[\w-]+", name):
            raise ValueError(
                f"{name!r} is not the name of a built-in tool; put rules such as 'Bash(git *)' into allowed_tools"
            )
    return given


def skills(value: object) -> list[str] | str:
    """Read skills: names, or `all`."""
    if value == "all":
        return "all"
    for name in (given := names(value)):
        if not re.fullmatch(r"[^\s(),*]+", name):
            raise ValueError(f"{name!r} is not a valid skill name")
    return given


def models(value: object) -> list[str]:
    """Read models in order: a list, or one string with commas."""
    return names([name.strip() for name in value.split(",")] if isinstance(value, str) else value)


def token_budget(value: object) -> object:
    """Read a number of tokens: from an official SDK's `{total: N}`, or as is."""
    return value["total"] if isinstance(value, Mapping) and set(value) == {"total"} else value


def agents(value: object) -> object:
    """Read agents by name."""
    from claude_agent_py.agents.definition import validate_agents

    return validate_agents(value)


def delegation_guide(value: object) -> object:
    """Read a guide; True is the default one, False is none."""
    if value is True:
        return agents_room.DelegationGuide()
    if value is False or isinstance(value, agents_room.DelegationGuide):
        return value
    raise ValueError(f"must be a DelegationGuide, True or False, not {type(value).__name__}")


def sandbox(value: object) -> object:
    """Read the settings of the sandbox."""
    return validate_part(wire_settings.SandboxSettings, value)


def settings(value: object) -> JSONObject | Path:
    """Read settings: an object, the JSON text of one, or the path of a file."""
    if isinstance(value, Mapping):
        return check_values(dict(value))
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return _parse_object(value)
    return path(value)


def managed_settings(value: object) -> JSONObject:
    """Read managed settings: an object, or its JSON. The CLI silently ignores a path here."""
    given = settings(value)
    if isinstance(given, Path):
        raise ValueError("must be an object, or its JSON text; a path has no effect")
    return given


def mcp_servers(value: object) -> dict[str, object] | Path:
    """Read MCP servers by name, or the path of a configuration file."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _parse_object(value)
    if isinstance(value, str | Path):
        return path(value)
    if isinstance(value, Mapping):
        inner = value.get("mcpServers")
        servers = inner if len(value) == 1 and isinstance(inner, Mapping) and "command" not in inner else value
    elif isinstance(value, Iterable):
        servers = _index_by_name(value)
    else:
        raise ValueError(f"must map names to servers, or be the path of a file, not {type(value).__name__}")
    check_server_names(servers)
    return {name: _read_mcp_server(name, server) for name, server in servers.items()}


def _index_by_name(servers: Iterable[object]) -> dict[str, object]:
    named: dict[str, object] = {}
    for server in servers:
        name = getattr(server, "name", "")
        if name and name in named:
            raise ValueError(f"two servers are named {name!r}")
        named[name] = server
    return named


def check_server_names(names: Iterable[object]) -> None:
    """Raise ValueError for a name that is no server name, and for two whose tools a rule for one of them may mix up.

    The rule `mcp__a` and the pattern `mcp__a__*` also cover the tools of a server `a__b`, which the CLI may even take
    for the server `a`.
    """
    prefixes: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"{name!r} is not a server name; pass servers as {{name: server}}")
        prefix = f"{mcp_server_name(name)}__"
        for known, other in prefixes.items():
            if known == prefix:
                raise ValueError(f"the tools of the servers {other!r} and {name!r} would have the same names")
            if known.startswith(prefix) or prefix.startswith(known):
                raise ValueError(
                    f"a rule for the tools of one of the servers {other!r} and {name!r} covers the other's"
                )
        prefixes[prefix] = name


def _read_mcp_server(name: str, server: object) -> object:
    if isinstance(server, Mapping):
        if server.get("type") == "sdk":
            if server.get("instance") is None:
                raise ValueError(
                    f"server {name!r} has no instance; a server in this process is a ToolServer, or "
                    "{'type': 'sdk', 'name': ..., 'instance': server}"
                )
            return server["instance"]
        return wire_settings.mcp_server_from_wire(server, name=name)
    if server is None or isinstance(server, str | int | float | list):
        raise ValueError(f"server {name!r} must be an MCP server, not {type(server).__name__}")
    return server


def is_external(server: object) -> bool:
    """Return whether the CLI connects to a server itself; other servers run in this process."""
    return isinstance(server, wire_settings.MCPServerConfig)


def interactions(value: object) -> object:
    """Read an inbox, or whether to use one."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, permissions.Inbox):
        raise ValueError(f"must be True or an inbox, not {type(value).__name__}")
    return value


def custom_tools(value: object) -> list[object]:
    """Read tools that run in this process; functions become tools."""
    try:
        return list(tools.ToolServer("tools", tools=items(value)).tools)
    except OptionsError as error:
        raise ValueError(str(error)) from None


def hooks(value: Any) -> object:
    """Read hooks by event."""
    return hooks_room.Hooks.of(value)


def output_type(value: object) -> object:
    """Refuse a type without a JSON Schema."""
    if inspect.isroutine(value):
        raise ValueError("must be a type, not a function")
    OutputShape(value)
    return value


def extra_args(value: object) -> object:
    """Read flags by name, with or without leading dashes."""
    if not isinstance(value, Mapping):
        return value
    flags = {str(name).removeprefix("--"): text for name, text in value.items()}
    for name in flags:
        if not re.fullmatch(r"[A-Za-z][\w-]*", name):
            raise ValueError(f"{name!r} is not a valid flag name")
        if name in OWN_FLAGS:
            raise ValueError(f"--{name} is set by this package")
    return flags


OWN_FLAGS: Final = frozenset(
    {"output-format", "input-format", "verbose", "print", "await-initialize", "initialize-fields", "sdk-url"}
)


def _parse_object(text: str) -> dict[str, object]:
    try:
        value = read_json(text)
    except ValueError as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    assert isinstance(value, dict)  # noqa: S101 - it begins with a brace
    return value
