"""What a subagent is: its definition.

Owns the fields, their limits (the CLI drops *all* agents without a word when one field of one is wrong) and the JSON
that `initialize` takes. Files are in `markdown`, ready-made definitions in `presets`.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, get_args

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from claude_agent_py.configuration import ConfigModel, inner_text
from claude_agent_py.errors import OptionsError
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.choices import ChosenEffort, ChosenPermissionMode, MemoryScope
from claude_agent_py.wire.mcp import MCPHTTPServer, MCPServerConfig, MCPSSEServer, MCPStdioServer, mcp_server_from_wire

MIN_COMPACT_WINDOW: Final = 100_000
"""Tokens; the CLI takes no less (2.1.328)."""

MAX_OBSERVERS: Final = 4

AgentMCPServerSpec: TypeAlias = str | dict[str, MCPServerConfig]
"""The name of a server that the session has, or servers of the agent's own by name."""


class AgentModel(StrEnum):
    """The short names of models. Anywhere one is taken, the full name of a model does as well."""

    INHERIT = "inherit"
    """The model of whoever starts the agent."""
    FABLE = "fable"
    OPUS = "opus"
    SONNET = "sonnet"
    HAIKU = "haiku"


def _not_blank(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise ValueError("must not be empty")
    return value


def _mcp_specs(value: Any) -> Any:
    if isinstance(value, Mapping):
        value = [value]
    return [_mcp_spec(spec) for spec in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _mcp_spec(spec: Any) -> Any:
    if isinstance(spec, str):
        return _not_blank(spec)
    if isinstance(spec, Mapping):
        return {name: _mcp_server(name, server) for name, server in spec.items()}
    raise ValueError("must hold names of servers, or {name: server}")


def _mcp_server(name: str, server: Any) -> MCPServerConfig:
    if isinstance(server, MCPStdioServer | MCPHTTPServer | MCPSSEServer):
        return server
    if isinstance(server, Mapping):
        try:
            return mcp_server_from_wire(server, name=name)
        except OptionsError as error:
            raise ValueError(inner_text(error)) from None
    raise ValueError(f"server {name!r} must be an MCPStdioServer, MCPHTTPServer or MCPSSEServer; an in-process server "
                     "belongs into the option mcp_servers, where the agent can name it")  # fmt: skip


def _observers(value: Any) -> Any:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if isinstance(names, list) and any(isinstance(name, str) and "," in name for name in names):
        raise ValueError("must not hold a name with a comma")
    return names


Text: TypeAlias = Annotated[str, BeforeValidator(_not_blank)]


def _effort(value: Any) -> Any:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if value in get_args(ChosenEffort) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError("must be low, medium, high, xhigh, max or a whole number")


class AgentDefinition(ConfigModel):
    """A kind of subagent that the model can start, or that the whole session can be (option `agent`).

    Only `description` and `prompt` are needed. What is None is left to the CLI.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel)

    description: Text
    """When to use the agent. This is all that the model knows of it when it decides to delegate."""
    prompt: str
    """The agent's system prompt. The subagent sees this and the task it is given, not the conversation."""
    tools: list[Text] | None = None
    """The only tools it has; None gives it all that the session has."""
    disallowed_tools: list[Text] | None = None
    """Tools it does not have. `mcp__server` or `mcp__server__*` takes away a whole server, `mcp__*` all of them."""
    model: Text | None = None
    """An `AgentModel`, or a model's full name. None is the CLI's default for subagents, else the session's model."""
    effort: Annotated[ChosenEffort | int, BeforeValidator(_effort)] | None = None
    """How hard it thinks."""
    max_turns: Annotated[int, Field(ge=1)] | None = None
    """It stops after so many calls of the model; its report says that it did."""
    permission_mode: ChosenPermissionMode | None = None
    mcp_servers: Annotated[list[AgentMCPServerSpec], BeforeValidator(_mcp_specs)] | None = None
    """Servers that it has, by name or in full."""
    skills: list[Text] | None = None
    """Skills that are loaded into its context from the start."""
    background: bool | None = None
    """True: it always runs in the background. False and None leave it to the model, which by default does as well."""
    memory: MemoryScope | None = None
    """Where its memory between sessions is kept: `~/.claude/agent-memory`, `.claude/agent-memory` or
    `.claude/agent-memory-local`."""
    isolation: Literal["worktree", "remote"] | None = None
    """`worktree`: it works in a temporary git worktree of its own."""
    initial_prompt: str | None = None
    """The first prompt when the whole session is this agent; your own comes after it."""
    auto_compact_window: Annotated[int, Field(ge=MIN_COMPACT_WINDOW)] | None = None
    """It compacts its conversation at so many tokens. Only ever lowers what it would use."""
    omit_claude_md: bool | None = None
    """True: it does not get the CLAUDE.md files, only what it is told."""
    critical_system_reminder: Annotated[str | None, Field(alias="criticalSystemReminder_EXPERIMENTAL")] = None
    """Text that it is reminded of at every turn. Experimental in the CLI."""
    observer: Annotated[list[Text], Field(max_length=MAX_OBSERVERS), BeforeValidator(_observers)] | None = None
    """Up to four agents that watch it in the background; they see digests and report, and take no part."""
    observer_message: str | None = None
    """What is added to every digest for its observers."""
    observe_subagents: bool | None = None
    """False: the agents that it starts are not watched by its observers."""
    observe_tool_results: bool | None = None
    """False, on an observer: its digests leave out tool results."""
    hooks: dict[str, Any] | None = None
    """Command hooks for as long as it runs, in the shape of a settings file. For Python functions use the option
    `hooks`."""
    color: str | None = None
    """Its colour in the CLI's own interface. Only has a meaning in files."""

    def to_wire(self) -> JSONObject:
        """Give the JSON object that `initialize` takes. What is None is left out: the CLI refuses null."""
        wire = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"mcp_servers", "color"})
        if self.observer is not None:
            wire["observer"] = ", ".join(self.observer)
        if self.mcp_servers is not None:
            wire["mcpServers"] = [entry for spec in self.mcp_servers for entry in _spec_to_wire(spec)]
        return wire

    @classmethod
    def from_markdown(cls, source: str | Path) -> Self:
        """Read a definition from a Markdown file (a `Path`) or from the text of one (a `str`).

        Needs the extra `agents`. The `name` in the front matter is no part of the definition: `agents.read_agent` gives
        both.

        Raises:
            OptionsError: The text is no agent; the error names the file, the line and the field.
            ImportError: PyYAML is not installed.
        """
        from claude_agent_py.agents.markdown import read_agent

        return cls(**dict(read_agent(source).definition))

    def to_markdown(self, name: str) -> str:
        """Give the text of the file that defines this agent for the CLI (`.claude/agents/<name>.md`).

        Needs the extra `agents`.
        """
        from claude_agent_py.agents.markdown import write_agent

        return write_agent(name, self)


def _spec_to_wire(spec: AgentMCPServerSpec) -> Sequence[str | JSONObject]:
    """Give the entries for a spec: the CLI takes only one server per entry."""
    return [spec] if isinstance(spec, str) else [{name: server.to_wire()} for name, server in spec.items()]


AgentLike: TypeAlias = AgentDefinition | Mapping[str, Any]


def validate_agents(agents: Mapping[str, AgentLike]) -> dict[str, AgentDefinition]:
    """Check agents by name; a definition may be given as a dict, with Python's names or the CLI's.

    Raises:
        OptionsError: A name or a definition is wrong; the text names the agent and the field.
    """
    if not isinstance(agents, Mapping):
        raise OptionsError(f"must map names to agent definitions, not be a {type(agents).__name__}", option="agents")
    return {check_name(name): _checked(name, agent) for name, agent in agents.items()}


def check_name(name: Any) -> str:
    """Give the name of an agent, if it can be one. Raises OptionsError."""
    if not isinstance(name, str):
        raise OptionsError(f"the name of an agent must be text, not {type(name).__name__}", option="agents")
    if not name.strip() or name != name.strip():
        problem = "must not be empty or begin or end with a space"
    elif name.startswith("-"):
        problem = "must not begin with '-': the CLI drops the agent"
    elif "," in name or not name.isprintable():
        problem = "must not hold a comma or a control character"
    else:
        return name
    raise OptionsError(f"the agent name {name!r} {problem}", option="agents")


def _checked(name: str, agent: Any) -> AgentDefinition:
    if isinstance(agent, AgentDefinition):
        return agent
    if not isinstance(agent, Mapping):
        kind = f"{type(agent).__module__}.{type(agent).__qualname__}".removeprefix("builtins.")  # not all are ours
        raise OptionsError(f"agent {name!r} must be an AgentDefinition, not {kind}", option="agents")
    try:
        return AgentDefinition(**agent)
    except OptionsError as error:
        problem = OptionsError(f"agent {name!r}: {inner_text(error)}", option="agents")
    raise problem
