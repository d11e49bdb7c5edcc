"""`AgentDefinition`: a subagent's fields and their validation.

The CLI silently drops *all* agents when one field of one is invalid, so fields are checked here.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from claude_agent_py._base.configuration import ConfigModel, inner_text
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.json_object import check_values
from claude_agent_py.formatting.encoders import import_yaml
from claude_agent_py.formatting.truncation import text_length
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.settings.choices import ChosenEffort, ChosenPermissionMode, MemoryScope
from claude_agent_py.wire.settings.mcp_servers import MCPServerConfig, mcp_server_from_wire

MIN_COMPACT_WINDOW: Final = 100_000
"""In tokens; the minimum of CLI 2.1.328."""

MAX_OBSERVERS: Final = 4

MAX_REMINDER_CHARS: Final = 10_000
"""In UTF-16 code units. If a hook adds a longer text, the CLI (2.1.328) writes it to a file and shows its beginning."""

FENCE: Final = "---"
"""The line around the front matter of an agent file."""

AgentMCPServerSpec: TypeAlias = str | dict[str, MCPServerConfig]
"""The name of a server of the session, or the agent's own servers by name."""


class AgentModel(StrEnum):
    """Short names of models. A full model name may be used in their place."""

    INHERIT = "inherit"
    """The model of the agent's parent."""
    FABLE = "fable"
    OPUS = "opus"
    SONNET = "sonnet"
    HAIKU = "haiku"


def _reject_blank(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("must not be empty")
    return value


def _read_mcp_specs(value: object) -> object:
    if isinstance(value, Mapping):
        value = [value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_read_mcp_spec(spec) for spec in value]
    return value


def _read_mcp_spec(spec: object) -> object:
    if isinstance(spec, str):
        return _reject_blank(spec)
    if isinstance(spec, Mapping):
        return {name: _read_mcp_server(name, server) for name, server in spec.items()}
    raise ValueError("must contain server names or {name: server}")


def _read_mcp_server(name: str, server: object) -> MCPServerConfig:
    if isinstance(server, MCPServerConfig):
        return server
    if isinstance(server, Mapping):
        try:
            return mcp_server_from_wire(server, name=name)
        except OptionsError as error:
            raise ValueError(inner_text(error)) from None
    raise ValueError(f"server {name!r} must be an MCPStdioServer, MCPHTTPServer or MCPSSEServer; an in-process server "
                     "belongs in the option mcp_servers, where the agent can refer to it by name")  # fmt: skip


def _read_observers(value: object) -> object:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if isinstance(names, list) and any(isinstance(name, str) and "," in name for name in names):
        raise ValueError("must not contain a name with a comma")
    return names


Text: TypeAlias = Annotated[str, BeforeValidator(_reject_blank)]


def _read_effort(value: object) -> object:
    if value in get_args(ChosenEffort):
        return value
    is_number = isinstance(value, int) or (isinstance(value, str) and value.isdecimal())
    why = ": if it is a number, the CLI sends no effort to the model" if is_number else ""
    raise ValueError(f"must be low, medium, high, xhigh or max{why}")


def _check_length(value: str | None) -> str | None:
    if value is not None and text_length(value) > MAX_REMINDER_CHARS:
        raise ValueError(f"must not be longer than {MAX_REMINDER_CHARS:,} characters")
    return value


class AgentDefinition(ConfigModel):
    """A kind of subagent that the model can start, or that the main session can run as (option `agent`).

    Only `description` and `prompt` are required. Fields that are None are left to the CLI. The descriptions of the
    fields follow observations of the CLI (2.1.328) and of its requests to the model.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel)
    KNOWN_BY: ClassVar[str] = "description"

    description: Text
    """When to use the agent. The model sees only this when it decides whether to delegate."""
    prompt: Annotated[str, Field(repr=False)]
    """The agent's system prompt, to which the CLI adds a few notes. The subagent sees this and its task, not the
    conversation."""
    tools: list[Text] | None = None
    """The tools it has; None means all tools of the session. The tools of its own `mcp_servers` are added. The CLI
    ignores what is in parentheses, except for `Agent(reviewer)`: with `Bash(ls *)` it has the whole tool."""
    disallowed_tools: list[Text] | None = None
    """Tools it does not have. `mcp__server` or `mcp__server__*` removes a whole server, `mcp__*` all of them."""
    model: Text | None = None
    """An `AgentModel` or a full model name. None uses the CLI's default for subagents, or the session's model."""
    effort: Annotated[ChosenEffort, BeforeValidator(_read_effort)] | None = None
    """How much it thinks. Numbers are refused: the CLI accepts them, but then sends no effort to the model."""
    max_turns: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of model calls. If it stops there, its report says so."""
    permission_mode: ChosenPermissionMode | None = None
    """How its calls without a matching rule are decided, if the session's mode is `default` or `dontAsk`. In a session
    in the modes `acceptEdits` or `bypassPermissions` it has the session's mode; `bypassPermissions` is ignored."""
    mcp_servers: Annotated[list[AgentMCPServerSpec], BeforeValidator(_read_mcp_specs)] | None = None
    """Additional servers, `{name: server}`. The agent always has the session's servers, within `tools` and
    `disallowed_tools`, so the *name* of a session's server has no effect. Only a child agent gets that server from its
    parent. The CLI ignores unknown names."""
    skills: list[Text] | None = None
    """Skills whose text is in its context at the start."""
    background: bool | None = None
    """True: always run in the background. False and None leave it to the model, which also uses the background by
    default."""
    memory: MemoryScope | None = None
    """Where it keeps its memory between sessions: `~/.claude/agent-memory`, `.claude/agent-memory` or
    `.claude/agent-memory-local`. Its system prompt explains the memory, with the content of `<name>/MEMORY.md`."""
    isolation: Literal["worktree", "remote"] | None = None
    """`worktree`: it works in its own temporary git worktree; outside of a repository it cannot be started. `remote`
    needs Claude's cloud. Without access to it, the CLI uses a worktree, and outside of a repository silently isolates
    nothing."""
    initial_prompt: Annotated[str | None, Field(repr=False)] = None
    """The first prompt if the main session is this agent; your prompt follows. No effect on subagents. The CLI reads
    the `@files` and runs the `/command` in it, also with `verbatim_prompts` and where a guard watches."""
    auto_compact_window: Annotated[int, Field(ge=MIN_COMPACT_WINDOW)] | None = None
    """Compact its conversation at this many tokens. Can only lower the default."""
    omit_claude_md: bool | None = None
    """True: it does not get the CLAUDE.md files."""
    critical_system_reminder: Annotated[
        str | None, AfterValidator(_check_length), Field(alias="criticalSystemReminder_EXPERIMENTAL", repr=False)
    ] = None
    """Text that is added at the agent's start and after each of its tool calls, so that every request to the model has
    it. At most 10,000 characters. The CLI accepts such a field but never delivers it. This package delivers it with
    hooks, for agents of the option `agents` and for child agents, but not for agents that the CLI reads from files."""
    observer: Annotated[list[Text], Field(max_length=MAX_OBSERVERS), BeforeValidator(_read_observers)] | None = None
    """Up to four agents that watch it in the background. They see digests and report, but take no part. They cost
    model calls, and the CLI does not report them as tasks. Experimental in the CLI; the option `agents` sets the
    variable that enables it."""
    observer_message: Annotated[str | None, Field(repr=False)] = None
    """Text added to every digest for its observers."""
    observe_subagents: bool | None = None
    """False: its observers do not watch the agents that it starts."""
    observe_tool_results: bool | None = None
    """False, on an observer: its digests omit tool results."""
    hooks: Annotated[Annotated[JSONObject, AfterValidator(check_values)] | None, Field(repr=False)] = None
    """Command hooks that apply while it runs, as in a settings file. `Stop` runs when the agent stops; `SubagentStart`
    does not run. For Python functions use the option `hooks`."""
    color: str | None = None
    """Its colour in the CLI's interface. Only written to files; no effect here."""

    def to_wire(self) -> JSONObject:
        """Return the JSON object for `initialize`. Omits fields that are None, because the CLI rejects null."""
        wire = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"mcp_servers", "color"})
        if self.observer is not None:
            wire["observer"] = ", ".join(self.observer)
        if self.mcp_servers is not None:
            wire["mcpServers"] = [entry for spec in self.mcp_servers for entry in _spec_to_wire(spec)]
        return wire

    def to_markdown(self, name: str) -> str:
        """Return the Markdown file that defines this agent for the CLI (`.claude/agents/<name>.md`).

        Requires the extra `agents`.
        """
        header = {"name": check_name(name), **self.to_wire()}
        if self.color:
            header["color"] = self.color
        prompt = header.pop("prompt")
        text = import_yaml().safe_dump(header, sort_keys=False, allow_unicode=True, width=10_000)
        return f"{FENCE}\n{text}{FENCE}\n\n{prompt.strip()}\n"


def _spec_to_wire(spec: AgentMCPServerSpec) -> Sequence[str | JSONObject]:
    """Return the entries for a spec. The CLI expects one server per entry."""
    return [spec] if isinstance(spec, str) else [{name: server.to_wire()} for name, server in spec.items()]


AgentLike: TypeAlias = AgentDefinition | Mapping[str, object]
"""An agent as a definition, or as the dict of its fields."""


def validate_agents(agents: object) -> dict[str, AgentDefinition]:
    """Validate agents by name. A definition may be a dict, with Python's field names or the CLI's.

    Raises OptionsError, which names the agent and the field.
    """
    if not isinstance(agents, Mapping):
        raise OptionsError(f"must map names to agent definitions, not be a {type(agents).__name__}", option="agents")
    return {check_name(name): _check_agent(name, agent) for name, agent in agents.items()}


def _check_agent(name: str, agent: object) -> AgentDefinition:
    if isinstance(agent, AgentDefinition):
        return agent
    if not isinstance(agent, Mapping):
        kind = f"{type(agent).__module__}.{type(agent).__qualname__}".removeprefix("builtins.")
        raise OptionsError(f"agent {name!r} must be an AgentDefinition, not {kind}", option="agents")
    try:
        return AgentDefinition(**agent)
    except OptionsError as error:
        problem = OptionsError(f"agent {name!r}: {inner_text(error)}", option="agents")
    raise problem


def check_name(name: object) -> str:
    """Return the name of an agent if the CLI accepts it. Raises OptionsError for other names."""
    if not isinstance(name, str):
        raise OptionsError(f"the name of an agent must be a string, not {type(name).__name__}", option="agents")
    if not name.strip() or name != name.strip():
        problem = "must not be empty or begin or end with a space"
    elif name.startswith("-"):
        problem = "must not begin with '-': the CLI drops the agent"
    elif "," in name or not name.isprintable():
        problem = "must not contain a comma or a control character"
    else:
        return name
    raise OptionsError(f"the agent name {name!r} {problem}", option="agents")
