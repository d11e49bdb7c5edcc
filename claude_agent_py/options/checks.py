"""What makes options right: how a value is read, which ones exclude each other, which do nothing.

Owns the readings of single options (they accept the official SDKs' shapes as well), the rules over several, the doubts
that become warnings, and what to use instead of a name from another SDK. Knows nothing of the CLI's flags. The options
themselves are in `options`.
"""

import difflib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from claude_agent_py.agents.guide import DelegationGuide
from claude_agent_py.callbacks import callback_name, takes_arguments
from claude_agent_py.configuration import MAX_REPR_CHARS, inner_text
from claude_agent_py.errors import OptionsError
from claude_agent_py.options.output_shape import OutputShape
from claude_agent_py.untrusted import read_json
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.mcp import MCPHTTPServer, MCPSSEServer, MCPStdioServer, mcp_server_from_wire
from claude_agent_py.wire.rule_lists import survives_splitting, tool_of

if TYPE_CHECKING:
    from claude_agent_py.options.client_options import ClientOptions

# Reading single options -----------------------------------------------------------------------------------------------


def optional(reader: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a reading that lets None through."""
    checked = part_of_an_option(reader)
    return lambda value: None if value is None else checked(value)


def part_of_an_option(reader: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a reading whose error about a part becomes an error about the option."""

    def read(value: Any) -> Any:
        try:
            return reader(value)
        except OptionsError as error:
            problem = ValueError(inner_text(error))
        raise problem

    return read


def text(value: Any) -> str:
    """Read text that says something."""
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {type(value).__name__}")
    if not value.strip():
        raise ValueError("must not be empty; leave it out instead")
    return value


def names(value: Any) -> list[str]:
    """Read a list of texts. A single text is a mistake: it would be read letter by letter."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"must be a list, not {type(value).__name__}")
    return [text(name) for name in value]


def path(value: Any) -> Path:
    """Read a path; `~` is the home directory."""
    return Path(value if isinstance(value, Path) else text(value)).expanduser()


def paths(value: Any) -> list[Path]:
    """Read a list of paths."""
    if isinstance(value, str | Path) or not isinstance(value, Iterable):
        raise ValueError(f"must be a list, not {type(value).__name__}")
    return [path(one) for one in value]


def function(value: Any) -> Any:
    """Refuse what cannot be called."""
    if not callable(value):
        raise ValueError(f"must be a function, not {type(value).__name__}")
    return value


def function_of(*arguments: str) -> Callable[[Any], Any]:
    """Make a reading that refuses what cannot be called with these arguments."""
    told = f"{'one argument' if len(arguments) == 1 else 'two arguments'}: ({', '.join(arguments)})"

    def read(value: Any) -> Any:
        if not takes_arguments(function(value), len(arguments)):
            raise ValueError(f"{callback_name(value)} must take {told}")
        return value

    return read


def flag_or_text(value: Any) -> bool | str:
    """Read a switch that may say more."""
    return value if isinstance(value, bool) else text(value)


def system_user(value: Any) -> str | int:
    """Read a user of the operating system: a name or a number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else text(value)


def session_id(value: Any) -> str:
    """Read a UUID."""
    try:
        return str(UUID(str(value)))
    except ValueError:
        raise ValueError("must be a UUID; make one with uuid.uuid4()") from None


def environment(value: Any) -> Any:
    """Refuse names and values that no environment can hold."""
    for name, content in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise ValueError(f"{name!r} is no name for a variable")
        if isinstance(content, str) and "\0" in content:
            raise ValueError(f"the value of {name} holds a NUL character")
    return value


def rules(value: Any) -> list[str]:
    """Read permission rules, and refuse those that the CLI would read as something else."""
    for rule in (given := names(value)):
        if not survives_splitting(rule) and survives_splitting(f"{rule})"):
            raise ValueError(f"a parenthesis of the rule {rule!r} is not closed")
        if not survives_splitting(rule):
            raise ValueError(
                f"the rule {rule!r} falls into pieces when the CLI reads the list: no comma or space may stand outside "
                "of parentheses or after the first ')'. Put it into settings={'permissions': {...}} instead"
            )
    return given


def built_in_tools(value: Any) -> list[str] | str:
    """Read the set of built-in tools: names, or all (`default`, or an official SDK's preset)."""
    if value == "default" or (isinstance(value, Mapping) and value.get("type") == "preset"):
        return "default"
    for name in (given := names(value)):
        if not re.fullmatch(r"[\w-]+", name):
            raise ValueError(f"{name!r} is no name of a built-in tool; rules such as 'Bash(git *)' go to allowed_tools")
    return given


def skills(value: Any) -> list[str] | str:
    """Read skills: names, or `all`."""
    if value == "all":
        return "all"
    for name in (given := names(value)):
        if not re.fullmatch(r"[^\s(),*]+", name):
            raise ValueError(f"{name!r} is no name of a skill")
    return given


def models(value: Any) -> list[str]:
    """Read models in order: a list, or one text with commas."""
    return names([name.strip() for name in value.split(",")] if isinstance(value, str) else value)


def token_budget(value: Any) -> Any:
    """Read a number of tokens, also from an official SDK's `{total: N}`."""
    return value["total"] if isinstance(value, Mapping) and set(value) == {"total"} else value


def delegation_guide(value: Any) -> DelegationGuide | bool:
    """Read a guide, or whether to give one."""
    if isinstance(value, bool | DelegationGuide):
        return value
    raise ValueError(f"must be a DelegationGuide, True or False, not {type(value).__name__}")


def settings(value: Any) -> JSONObject | Path:
    """Read settings: an object, the JSON text of one, or the path of a file."""
    if isinstance(value, Mapping):
        return _writable_as_json(dict(value))
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return _json_object(value)
    return path(value)


def managed_settings(value: Any) -> JSONObject:
    """Read settings that restrict: an object, or its JSON. The CLI ignores a path here without a word."""
    given = settings(value)
    if isinstance(given, Path):
        raise ValueError("must be an object, or its JSON text; a path has no effect")
    return given


def mcp_servers(value: Any) -> dict[str, Any] | Path:
    """Read MCP servers by name; or the path of a file that has them."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _json_object(value)
    if isinstance(value, str | Path):
        return path(value)
    if isinstance(value, Mapping):
        inner = value.get("mcpServers")
        servers = inner if len(value) == 1 and isinstance(inner, Mapping) and "command" not in inner else value
    elif isinstance(value, Iterable):
        servers = _by_name(value)
    else:
        raise ValueError(f"must map names to servers, or be the path of a file, not {type(value).__name__}")
    _check_prefixes([_server_name(name) for name in servers])
    return {name: _mcp_server(name, server) for name, server in servers.items()}


def _by_name(servers: Iterable[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for server in servers:
        name = getattr(server, "name", "")
        if name and name in named:
            raise ValueError(f"two servers are named {name!r}")
        named[name] = server
    return named


def _check_prefixes(names: list[str]) -> None:
    """Refuse names that are different here and one for the CLI: rules for one would hold for the other."""
    if len(names) < 2:
        return
    from claude_agent_py.tools.names import mcp_server_name

    prefixes: dict[str, str] = {}
    for name in names:
        other = prefixes.setdefault(mcp_server_name(name), name)
        if other != name:
            raise ValueError(f"the tools of the servers {other!r} and {name!r} would have the same names")


def _server_name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"{name!r} is no name of a server; give servers by name")
    return name


def _mcp_server(name: str, server: Any) -> Any:
    if isinstance(server, Mapping):
        if server.get("type") == "sdk":
            return server.get("instance")
        return mcp_server_from_wire(server, name=name)
    if server is None or isinstance(server, str | int | float | list):
        raise ValueError(f"server {name!r} must be an MCP server, not {type(server).__name__}")
    return server


def is_external(server: object) -> bool:
    """Return whether the CLI runs or reaches a server itself; the others run in this process."""
    return isinstance(server, MCPStdioServer | MCPHTTPServer | MCPSSEServer)


def interactions(value: Any) -> Any:
    """Read whether to keep an inbox, or the inbox."""
    if isinstance(value, bool):
        return value
    from claude_agent_py.permissions.interactions import Inbox

    if not isinstance(value, Inbox):
        raise ValueError(f"must be True or an inbox, not {type(value).__name__}")
    return value


def custom_tools(value: Any) -> list[Any]:
    """Read tools that run in this process; a function becomes one."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"must be a list, not {type(value).__name__}")
    from claude_agent_py.tools.server import ToolServer

    try:
        return list(ToolServer("tools", tools=value).tools)
    except OptionsError as error:
        problem = ValueError(str(error))
    raise problem


def hooks(value: Any) -> Any:
    """Read hooks by event."""
    from claude_agent_py.hooks.registry import Hooks

    return Hooks.of(value)


def output_type(value: Any) -> Any:
    """Refuse a type that has no JSON Schema."""
    if inspect.isroutine(value):
        raise ValueError("must be a type, not a function")
    OutputShape(value)
    return value


def extra_args(value: Any) -> Any:
    """Read flags by name; dashes before a name do no harm."""
    if not isinstance(value, Mapping):
        return value
    flags = {str(name).removeprefix("--"): text for name, text in value.items()}
    for name in flags:
        if not re.fullmatch(r"[A-Za-z][\w-]*", name):
            raise ValueError(f"{name!r} is no name of a flag")
        if name in OWN_FLAGS:
            raise ValueError(f"--{name} is what this package sets itself")
    return flags


OWN_FLAGS: Final = frozenset(
    {"output-format", "input-format", "verbose", "print", "await-initialize", "initialize-fields", "sdk-url"}
)


def _writable_as_json(value: JSONObject) -> JSONObject:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        problem = ValueError(f"must hold nothing but JSON values: {error}")
    else:
        return value
    raise problem


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = read_json(text)
    except ValueError as error:
        problem = ValueError(f"is no valid JSON: {error}")
    else:
        assert isinstance(value, dict)  # noqa: S101 - it begins with a brace
        return value
    raise problem


# Several options ------------------------------------------------------------------------------------------------------

HOOKS_OFF: Final = "CLAUDE_CODE_SIMPLE"
"""The variable of the CLI's bare mode, in which it calls no hook, whatever it answers to `initialize`."""

_TRUE_WORDS: Final = frozenset({"1", "true", "yes", "on"})


def turns_hooks_off(variables: object) -> bool:
    """Return whether these variables switch every hook off."""
    given = variables.items() if isinstance(variables, Mapping) else ()
    return any(str(k).upper() == HOOKS_OFF and str(v).strip().lower() in _TRUE_WORDS for k, v in given)


def _env_of(settings: object) -> object:
    return settings.get("env") if isinstance(settings, Mapping) else None


class Conflict(NamedTuple):
    """Options that do not go together."""

    option: str
    holds: Callable[["ClientOptions"], Any]
    problem: str


CONFLICTS: Final = (
    Conflict(
        "env",
        lambda o: o.hooks is not None and turns_hooks_off(o.env),
        f"{HOOKS_OFF} switches every hook off; take it away, or the hooks",
    ),
    Conflict(
        "settings",
        lambda o: o.hooks is not None and turns_hooks_off(_env_of(o.settings)),
        f"{HOOKS_OFF} in their env switches every hook off; take it away, or the hooks",
    ),
    Conflict(
        "extra_args",
        lambda o: o.hooks is not None and "bare" in o.extra_args,
        "--bare switches every hook off; take it away, or the hooks",
    ),
    Conflict(
        "continue_conversation",
        lambda o: o.continue_conversation and o.resume,
        "does not go together with resume: one continues the newest session, the other a named one",
    ),
    Conflict(
        "session_id",
        lambda o: o.session_id and (o.resume or o.continue_conversation) and not o.fork_session,
        "goes together with resume or continue_conversation only where fork_session=True makes a new session",
    ),
    Conflict(
        "fork_session",
        lambda o: o.fork_session and not (o.resume or o.continue_conversation),
        "needs resume or continue_conversation, which name the session to copy",
    ),
    Conflict("resume_session_at", lambda o: o.resume_session_at and not o.resume, "needs resume"),
    Conflict("resume_drops_turn", lambda o: o.resume_drops_turn and not o.resume_session_at, "needs resume_session_at"),
    Conflict(
        "fallback_model",
        lambda o: o.model is not None and o.model in (o.fallback_model or ()),
        "must be another model than model",
    ),
    Conflict(
        "max_thinking_tokens",
        lambda o: o.max_thinking_tokens is not None and o.thinking is not None,
        "is the older form of thinking; give one of them",
    ),
    Conflict(
        "output_format",
        lambda o: o.output_format is not None and o.output_type is not None,
        "and output_type both say what the answer looks like; give one of them",
    ),
    Conflict(
        "permission_prompt_tool_name",
        lambda o: o.permission_prompt_tool_name and o.asks_host,
        "names a tool that answers permission prompts, and a handler of yours does so, too; give one of them",
    ),
    Conflict(
        "supported_dialog_kinds",
        lambda o: o.supported_dialog_kinds and o.on_user_dialog is None,
        "needs on_user_dialog, which answers the dialogs",
    ),
    Conflict(
        "session_mirror",
        lambda o: o.session_mirror and not o.persist_session,
        "needs persist_session=True: the CLI mirrors what it writes to disk",
    ),
    Conflict(
        "delegation_guide",
        lambda o: o.delegation_guide and not o.agents,
        "needs agents: it tells the model which of them to use when",
    ),
)


def conflicts(options: "ClientOptions") -> Iterator[Conflict]:
    """Find what does not go together."""
    return (conflict for conflict in CONFLICTS if conflict.holds(options))


PROMPTING_TOOLS: Final = frozenset({"Bash", "PowerShell", "Write", "Edit", "NotebookEdit", "WebFetch", "WebSearch"})
"""Built-in tools that ask for permission; those of MCP servers do as well."""

_NEVER_ASKS: Final = {
    "bypassPermissions": "allows everything without asking",
    "dontAsk": "denies what it would otherwise ask about",
}


def doubts(options: "ClientOptions") -> Iterator[str]:
    """Find what will not do what it seems to."""
    yield from _unknown_tools(options)
    if options.can_use_tool is None:
        return
    if options.permission_mode in _NEVER_ASKS:
        mode = options.permission_mode
        yield f"can_use_tool will not be called: permission_mode={mode!r} {_NEVER_ASKS[mode]}"
    if options.permission_prompts == "none":
        yield "can_use_tool will not be called: permission_prompts='none' denies what would be asked"
    shadowed = [rule for rule in options.allowed_tools if _prompts(rule)]
    if shadowed:
        yield (
            f"can_use_tool will not be asked about {', '.join(shadowed)}: allowed_tools approves them beforehand "
            "(to restrict which tools there are, use tools)"
        )


def _unknown_tools(options: "ClientOptions") -> Iterator[str]:
    tools = () if isinstance(options.tools, str | None) else options.tools
    for name in filter(_is_unknown_tool, tools):
        yield f"tools: the CLI may leave out {name!r}, which is no built-in tool that is known{_right_tool(name)}"
    for name in filter(_is_unknown_tool, map(tool_of, options.disallowed_tools)):
        yield f"disallowed_tools: {name!r} may take nothing away, which is no tool that is known{_right_tool(name)}"
    for name in filter(_is_unknown_tool, map(tool_of, options.allowed_tools)):
        yield f"allowed_tools: {name!r} may allow nothing, which is no tool that is known{_right_tool(name)}"
    for agent, definition in (options.agents or {}).items():
        for option in ("tools", "disallowed_tools"):
            for name in filter(_is_unknown_tool, map(tool_of, getattr(definition, option, None) or ())):
                yield f"agents: {option} of {agent!r}: {name!r} is no tool that is known{_right_tool(name)}"


def _is_unknown_tool(name: str) -> bool:
    from claude_agent_py.wire.tools.registry import BUILTIN_TOOL_NAMES, LEGACY_TOOL_NAME_ALIASES

    is_plain = re.fullmatch(r"\w+", name) is not None and not name.startswith("mcp__")
    return is_plain and name not in BUILTIN_TOOL_NAMES and name not in LEGACY_TOOL_NAME_ALIASES


def _right_tool(name: str) -> str:
    from claude_agent_py.wire.tools.registry import BUILTIN_TOOL_NAMES

    known = {one.lower(): one for one in BUILTIN_TOOL_NAMES}
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    return f"; did you mean {known[near[0]]!r}?" if near else ""


def _prompts(rule: str) -> bool:
    """Return whether a rule approves a whole tool that would ask."""
    return tool_of(rule) == rule and (rule in PROMPTING_TOOLS or rule.startswith("mcp__"))


# Names and reprs ------------------------------------------------------------------------------------------------------

RENAMED: Final[Mapping[str, str]] = {
    "abort_controller": "call run.interrupt(), or write `async with run`, which does so when the block is left",
    "add_dirs": "use additional_directories",
    "append_system_prompt": "use system_prompt=SystemPromptPreset(append=...)",
    "continue": "use continue_conversation",
    "debug_stderr": "use on_stderr",
    "disallowed_tools_delivery": "lists that are too long for the command line go through initialize by themselves",
    "executable": "the CLI is a program of its own; give its path as cli_path",
    "executable_args": "the CLI is a program of its own; give its path as cli_path",
    "json_schema": "use output_format, or output_type for a Python type",
    "load_timeout_ms": "there are no session stores here; see session_mirror",
    "managed_settings_delivery": "managed settings always go through initialize",
    "max_buffer_size": "use limits=Limits(max_line_bytes=...)",
    "mcp_servers_delivery": "MCP servers always go through initialize, so that their secrets stay off the command line",
    "on_stderr_line": "use on_stderr",
    "path_to_claude_code_executable": "use cli_path",
    "plugin_delivery": "plugins go by their paths",
    "session_store": "there are none here: session_mirror=True gives you the entries, to store them where you want",
    "session_store_flush": "there are no session stores here; see session_mirror",
    "settings_delivery": "settings always go in a file that only the user can read",
    "spawn_claude_code_process": "give Client(transport=...) a transport of your own",
    "stderr": "use on_stderr",
    "tool_config": "use question_preview_format",
}
"""What to use instead of names of the official SDKs that are not the same here."""


def shown(name: str, value: Any) -> Any:
    """Return what a repr shows of an option: never a value that may be a secret."""
    if name in ("env", "extra_args", "settings", "managed_settings", "mcp_servers", "output_format", "agents"):
        return list(value) if isinstance(value, Mapping) else value
    if value is not None and name.startswith(("on_", "can_use_")):
        return callback_name(value)
    if isinstance(value, str) and len(value) > MAX_REPR_CHARS:
        return f"{value[:MAX_REPR_CHARS]}..."
    return value
