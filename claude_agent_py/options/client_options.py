"""`ClientOptions`: everything that a session can be told before it starts.

Owns the names and what they mean. A mistake is an `OptionsError` when the options are made, before there is a process.
How single values are read and what goes together is in `checks`, the values themselves are in `values`,
and what an option becomes for the CLI (a flag, a variable, a field of `initialize`) is in `launch/table.py`.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeAlias
from uuid import UUID

from pydantic import BeforeValidator, Field, PlainValidator, StrictBool

from claude_agent_py.agents.definition import AgentLike, validate_agents
from claude_agent_py.agents.guide import DelegationGuide
from claude_agent_py.configuration import ConfigModel
from claude_agent_py.errors import OptionsError
from claude_agent_py.options import checks as read
from claude_agent_py.options.output_shape import Output, OutputShape, check_output_format
from claude_agent_py.options.values import (
    SYSTEM_PROMPT_DYNAMIC_BOUNDARY,
    Limits,
    PluginConfig,
    SystemPrompt,
    SystemPromptFile,
    SystemPromptPreset,
    SystemPromptText,
    ThinkingAdaptive,
    ThinkingConfig,
    ThinkingDisabled,
    ThinkingEnabled,
    Timeouts,
    read_plugins,
    read_system_prompt,
    read_thinking,
)
from claude_agent_py.wire.choices import ChosenEffort, ChosenPermissionMode, SettingSource
from claude_agent_py.wire.sandbox import SandboxSettings

if TYPE_CHECKING:
    from claude_agent_py.hooks.handler_types import HooksByEvent
    from claude_agent_py.hooks.registry import Hooks
    from claude_agent_py.permissions.handlers import (
        CanUseTool,
        DialogHandler,
        ElicitationHandler,
        PlanHandler,
        QuestionHandler,
    )
    from claude_agent_py.permissions.interactions import Inbox
    from claude_agent_py.tasks.events import TaskEvent
    from claude_agent_py.tasks.listeners import TaskListener
    from claude_agent_py.wire.tasks import TaskNotificationMessage
else:  # at run time the readers check what an option is given; loading these would cost every program
    CanUseTool = DialogHandler = ElicitationHandler = PlanHandler = QuestionHandler = Any
    Hooks = HooksByEvent = Inbox = Any
    TaskListener = list
    TaskEvent = TaskNotificationMessage = Any


def _reads(reader: Callable[[Any], Any]) -> PlainValidator:
    """Say how an option is read. What it holds then is narrower than what may be given."""
    return PlainValidator(read.optional(reader))


def _needs(reader: Callable[[Any], Any]) -> PlainValidator:
    """Say how an option is read that cannot be None."""
    return PlainValidator(read.part_of_an_option(reader))


_handler = _reads(read.function_of("request", "context"))
AnyPath: TypeAlias = Annotated[str | Path | None, _reads(read.path)]
Text: TypeAlias = Annotated[str, _needs(read.text)]
Names: TypeAlias = Annotated[Sequence[str], _needs(read.names)]
Rules: TypeAlias = Annotated[Sequence[str], _needs(read.rules)]
Count: TypeAlias = Annotated[int, Field(ge=1, strict=True)]
DIALOG_KINDS: tuple[str, ...] = ("refusal_fallback_prompt",)
"""The dialogs that a CLI is known to ask for."""


def is_any_given(*handlers: Any) -> bool:
    """Return whether any of these handlers or inboxes is there; an inbox that is empty is there, too."""
    return any(handler is not None and handler is not False for handler in handlers)


class OptionsWarning(UserWarning):
    """Options that are valid, but will not do what they seem to."""


class ClientOptions(ConfigModel, Generic[Output]):
    """What a session is told before it starts. Everything has a default; unknown names are refused.

    A value: change some with `options.replace(model="opus")`, which checks like making new ones. Where an official SDK
    takes a dict, the dict works here, too.

    Raises:
        OptionsError: An option is unknown or wrong; `option` names it.

    Warns:
        OptionsWarning: `can_use_tool` would not be called, or a tool is not known.
    """

    QUALIFIED: ClassVar[bool] = False
    RENAMED: ClassVar[Mapping[str, str]] = read.RENAMED

    # The program

    cli_path: AnyPath = None
    """The `claude` program. None looks for it: the variable `CLAUDE_AGENT_CLI`, the cache of `install-cli`, PATH, and
    the usual places."""
    cwd: AnyPath = None
    """The directory that the session works in; its project settings and its sessions on disk belong to it. It must
    exist. None is the directory of this process."""
    env: Annotated[Mapping[str, str | None], BeforeValidator(read.environment)] = Field(default_factory=dict)
    """Variables that are *added* to the environment which the CLI inherits from this process; None takes one away."""
    inherit_env: StrictBool = True
    """False: the CLI starts with the variables of `env` and nothing else. It then needs at least `PATH` and `HOME`."""
    user: Annotated[str | int | None, _reads(read.system_user)] = None
    """The *operating system's* user that the program runs as, where this process may change it. It does not name a user
    of your service: see `client_app`, or keep sessions apart by `cwd` and `env`."""
    client_app: Text | None = None
    """What your application calls itself in the CLI's requests, such as `my-app/1.0`. None names this package."""
    debug: Annotated[bool | str, _needs(read.flag_or_text)] = False
    """Write a debug log; text selects categories, such as `api,hooks`."""
    debug_file: AnyPath = None
    """Where the debug log goes; turns it on."""
    extra_args: Annotated[Mapping[str, str | None], BeforeValidator(read.extra_args)] = Field(default_factory=dict)
    """More flags for the CLI, by name without the dashes; None for one without a value. They stand on the command line,
    where every user of the machine can read them: put no secrets here."""
    timeouts: Timeouts = Field(default_factory=Timeouts)
    """How long things may take."""
    limits: Limits = Field(default_factory=Limits)
    """How much memory things may take."""

    # The model

    model: Text | None = None
    """A model's full name or a short one (`opus`, `sonnet`, `haiku`). None is what settings say, or the default."""
    fallback_model: Annotated[str | Sequence[str] | None, _reads(read.models)] = None
    """Models to use, in order, while `model` is overloaded. The main one is tried again at every turn."""
    thinking: Annotated[
        ThinkingConfig | Literal["adaptive", "disabled"] | Mapping[str, Any] | None, _reads(read_thinking)
    ] = None
    """How the model thinks before it answers."""
    max_thinking_tokens: Annotated[int, Field(ge=0, strict=True)] | None = None
    """The older form of `thinking`: a budget in tokens, 0 for none."""
    effort: ChosenEffort | None = None
    """How much work the model puts into an answer."""
    max_turns: Count | None = None
    """A run ends with an error after so many turns of the model."""
    max_budget_usd: Annotated[float, Field(gt=0, strict=True)] | None = None
    """A run ends with an error when the session has cost so much. Checked between calls of the model, so it can be
    exceeded by one."""
    task_budget: Annotated[Count, BeforeValidator(read.token_budget)] | None = None
    """How many tokens the model is told to make do with, so that it can pace itself. No limit: see `max_budget_usd`."""
    betas: Names = ()
    """Beta features of the API, such as `context-1m-2025-08-07`."""

    # What the model is told

    system_prompt: Annotated[
        SystemPrompt | str | Sequence[str] | Mapping[str, Any] | None, _reads(read_system_prompt)
    ] = None
    """None leaves the CLI's own prompt as it is (the official SDKs send an empty one instead). Text or a list of blocks
    *replaces* it; `SystemPromptPreset(append=...)` adds to it; `SystemPromptFile(path)` is read by the CLI."""
    plan_mode_instructions: Text | None = None
    """What the model is told to do in plan mode, instead of planning a change of code."""
    delegation_guide: Annotated[DelegationGuide | bool, _needs(read.delegation_guide)] = False
    """Tell the model when to hand work to which of `agents`, at the end of the system prompt. True is the guide as it
    comes."""
    title: Text | None = None
    """The session's title. None lets the CLI make one up."""

    # Tools

    tools: Annotated[Sequence[str] | Literal["default"] | Mapping[str, Any] | None, _reads(read.built_in_tools)] = None
    """Which built-in tools *there are*: this is what restricts. `[]` is none, `"default"` and None are the usual ones.
    Tools of MCP servers are not affected."""
    allowed_tools: Rules = ()
    """Rules for what runs *without asking*, such as `Read` or `Bash(git log *)`. This restricts nothing: every other
    tool is still there, and asks. To restrict, use `tools` or `disallowed_tools`. A rule for a command covers that
    command alone, not a loop or a list of commands that begins with it."""
    disallowed_tools: Rules = ()
    """Tools that are taken away, and rules for what is refused, such as `Bash(rm *)`. They win over everything else."""
    tool_aliases: Mapping[Text, Text] = Field(default_factory=dict)
    """Tools to run in place of others: `{"Bash": "mcp__sandbox__bash"}`. Not followed further."""
    skills: Annotated[Sequence[str] | Literal["all"] | None, _reads(read.skills)] = None
    """Skills to have, and to use without asking. None leaves it to the CLI, which does *not* mean none."""
    custom_tools: Annotated[Sequence[Any], _needs(read.custom_tools)] = ()
    """Functions or `Tool`s that run in this process: the short form of a `ToolServer` in `mcp_servers`."""
    mcp_servers: Annotated[Mapping[str, Any] | Iterable[Any] | str | Path, _needs(read.mcp_servers)] = Field(
        default_factory=dict
    )
    """MCP servers by name: `MCPStdioServer`, `MCPHTTPServer`, `MCPSSEServer`, a server in this process (`ToolServer`,
    or one made with the `mcp` package), a dict as in `.mcp.json` (with its names, and milliseconds), or the path of
    such a file. Secrets in them never stand on a command line."""
    strict_mcp_config: StrictBool = False
    """Use no other MCP servers than these: none of the project, the user or plugins."""
    task_list_tools: StrictBool = False
    """Give the model its to-do list (TaskCreate, TaskUpdate, ...). It has nothing to do with background tasks."""
    question_preview_format: Literal["markdown", "html"] | None = None
    """The form of the previews that the model gives with the options of a question."""
    plugins: Annotated[Sequence[PluginConfig | str | Path | Mapping[str, Any]], _needs(read_plugins)] = ()
    """Plugins on this machine, by path."""

    # What is allowed, and who is asked

    permission_mode: ChosenPermissionMode | None = None
    """What happens to calls that no rule decides. `default` asks; `acceptEdits` allows edits of files; `plan` changes
    nothing; `dontAsk` denies; `auto` lets a classifier decide; `bypassPermissions` allows everything. None is what
    settings say, which may be `auto`: give `default` to be sure that `can_use_tool` is asked."""
    can_use_tool: Annotated[CanUseTool | None, _handler] = None
    """Handler that is asked for permission: `(request, context) -> Allow | Deny`. Not called for what a rule, the
    permission mode or `allowed_tools` decides."""
    on_question: Annotated[QuestionHandler | None, _handler] = None
    """Handler for questions of the model: `(questions, context) -> answers`. Without it, the model cannot ask."""
    on_plan: Annotated[PlanHandler | None, _handler] = None
    """Handler for plans that want approval: `(plan, context) -> ...`. Without it, `can_use_tool` is asked; without
    both, there are no plans to approve."""
    on_elicitation: Annotated[ElicitationHandler | None, _handler] = None
    """Handler for MCP servers that ask for input. Without it and without an inbox, they are told `cancel`."""
    on_user_dialog: Annotated[DialogHandler | None, _handler] = None
    """Handler for dialogs that the CLI wants shown."""
    supported_dialog_kinds: Annotated[Sequence[str] | None, _reads(read.names)] = None
    """The dialogs that `on_user_dialog` can show; the CLI asks for no other. None is all that are known."""
    interactions: Annotated[Inbox | bool | None, _reads(read.interactions)] = None
    """True, or an inbox: prompts, questions and plans that no handler answers wait there for a person."""
    permission_prompts: Literal["host", "none"] | None = None
    """`none`: what would be asked is denied at once, and `can_use_tool` is never called."""
    permission_prompt_tool_name: Text | None = None
    """A tool of an MCP server that answers permission prompts, instead of a handler."""
    allow_dangerously_skip_permissions: StrictBool = False
    """Allow to *switch* to `bypassPermissions` later. It does not switch by itself."""
    hooks: Annotated[Hooks | HooksByEvent | None, _reads(read.hooks)] = None
    """Handlers for events, by event: `{"PreToolUse": [HookMatcher("Bash", handler)]}`, or a `Hooks`."""
    additional_directories: Annotated[Sequence[str | Path], _needs(read.paths)] = ()
    """More directories that tools may use. Relative ones are seen from `cwd`."""
    sandbox: SandboxSettings | None = None
    """The sandbox that shell commands run in. Joined with a `sandbox` block in `settings`."""

    # Subagents and background tasks

    agents: Annotated[Mapping[str, AgentLike] | None, _reads(validate_agents)] = None
    """Subagents that the model can start, by name. The CLI's own ones stay; an agent of the same name replaces one."""
    agent: Text | None = None
    """The agent that the *whole session* is: its prompt, tools and model, by its name in `agents` or on disk."""
    forward_subagent_text: StrictBool = False
    """Send what subagents in the foreground write, too. By default only their tool calls arrive."""
    forward_nested_subagent_tool_calls: StrictBool = False
    """Send the tool calls of subagents of subagents, too."""
    agent_progress_summaries: StrictBool = False
    """Have a summary made about every 30 s of what a subagent is doing (`task_progress`); costs tokens."""
    append_subagent_system_prompt: Text | None = None
    """Text at the end of every subagent's system prompt."""
    max_subagent_depth: Count | None = None
    """How deep subagents may start subagents; 1 forbids it to them. None is the CLI's default, 3."""
    max_concurrent_subagents: Count | None = None
    """How many subagents may run at a time; one more is refused. None is the CLI's default."""
    per_task_stop_affordance: StrictBool = True
    """Interrupting spares background tasks, which are then stopped one by one. False: it kills background agents."""

    late_tasks: Literal["stop", "leave"] = "stop"
    """What becomes of background tasks for which `Timeouts.idle` ran out. `leave`: they go on, with `query` and `run`
    as long as the event loop runs. `RunResult.unfinished_tasks` names them either way."""

    # Listeners

    on_task_notification: Annotated[
        TaskListener[TaskNotificationMessage] | None, _reads(read.function_of("notification"))
    ] = None
    """Told when a background task has ended: `(notification)`."""
    on_task_event: Annotated[TaskListener[TaskEvent] | None, _reads(read.function_of("event"))] = None
    """Told about everything that happens to background tasks: `(event)`."""
    on_stderr: Annotated[Callable[[str], object] | None, _reads(read.function_of("line"))] = None
    """Told every line that the CLI writes to stderr: `(line)`. Up to 64 MiB of lines wait for it; others are dropped
    and counted by `Client.stderr_lines_dropped`."""

    # What comes back

    output_type: Annotated[type[Output] | None, _reads(read.output_type)] = None
    """The type that answers have: a pydantic model, dataclass, TypedDict, `list[int]`, ... `RunResult.output` has it,
    also for type checkers. They do not take a union or a `Literal` for a type: `cast(type[int | str], int | str)`."""
    output_format: Annotated[Mapping[str, Any] | None, _reads(check_output_format)] = None
    """A JSON Schema that answers have. `RunResult.output` is plain JSON then."""
    include_partial_messages: StrictBool = False
    """Send text as it is written (`StreamEventMessage`)."""
    include_hook_events: StrictBool = False
    """Send when hooks of the *settings* start and end, as messages of the run. For handlers of yours, a `HookRun`
    stands among `client.messages()` after each."""
    prompt_suggestions: StrictBool = False
    """Send a guess at the next prompt after every result."""
    verbatim_prompts: StrictBool = False
    """Take prompts as they are: no `/commands`, no `@files`. For text that users did not type for the CLI. The CLI also
    leaves out context that it otherwise adds at the start of a turn."""

    # Sessions and settings

    resume: Text | None = None
    """The session to go on with, by id or title."""
    continue_conversation: StrictBool = False
    """Go on with the newest session of `cwd`."""
    session_id: Annotated[str | UUID | None, _reads(read.session_id)] = None
    """The id of the *new* session, a UUID that is not in use. It does not go on with a session: that is `resume`."""
    fork_session: StrictBool = False
    """Go on in a copy with an id of its own, and leave the session as it is. With `resume` or
    `continue_conversation`."""
    resume_session_at: Text | None = None
    """Forget what came after the message with this uuid. With `resume`."""
    resume_drops_turn: Text | None = None
    """Refuse to resume if `resume_session_at` would forget more than the turn of the prompt with this uuid."""
    persist_session: StrictBool = True
    """False: write the session to no disk; it cannot be resumed."""
    session_mirror: StrictBool = False
    """Send every entry that the CLI writes into the session's transcript, as `TranscriptMirrorMessage`, so that you can
    keep a copy elsewhere. Needs `persist_session`."""
    enable_file_checkpointing: StrictBool = False
    """Keep what files were like at every prompt, so that `rewind_files` can bring it back."""
    setting_sources: Sequence[SettingSource] | None = None
    """Settings files to read. None is all of them; `[]` is none, which also leaves out CLAUDE.md. `project` has to be
    there for those of the project."""
    settings: Annotated[Mapping[str, Any] | str | Path | None, _reads(read.settings)] = None
    """More settings, which win over those in files: an object, its JSON, or the path of a file. One wrong value makes
    the CLI ignore *all* of them without a word."""
    managed_settings: Annotated[Mapping[str, Any] | str | None, _reads(read.managed_settings)] = None
    """Restrictions in the form of settings, as an administrator has them. They only ever take away."""
    project_config_root: AnyPath = None
    """The checkout whose settings, agents and servers are used instead of those in `cwd`, for work on a copy that is
    not trusted."""

    def model_post_init(self, context: Any, /) -> None:
        """Check what goes together."""
        for conflict in read.conflicts(self):
            raise OptionsError(conflict.problem, option=conflict.option)
        for doubt in read.doubts(self):
            warnings.warn(doubt, OptionsWarning, stacklevel=4)

    def __repr_args__(self) -> Any:
        for name, value in self._given():
            yield name, read.shown(name, value)

    @property
    def asks_host(self) -> bool:
        """Whether permission prompts, questions or plans come to this process."""
        handlers = (self.can_use_tool, self.on_question, self.on_plan, self.interactions)
        return is_any_given(*handlers) or self.permission_prompts == "host"

    @property
    def output_shape(self) -> OutputShape | None:
        """The shape of `output_type`; None without one. Made anew each time."""
        return None if self.output_type is None else OutputShape(self.output_type)

    @property
    def external_mcp_servers(self) -> dict[str, Any]:
        """The servers that the CLI runs or reaches itself, by name. Empty where `mcp_servers` is a path."""
        return {name: server for name, server in self._servers.items() if read.is_external(server)}

    @property
    def hosted_mcp_servers(self) -> dict[str, Any]:
        """The servers of `mcp_servers` that run in this process, by name."""
        return {name: server for name, server in self._servers.items() if not read.is_external(server)}

    @property
    def _servers(self) -> Mapping[str, Any]:
        return self.mcp_servers if isinstance(self.mcp_servers, Mapping) else {}


def options_or_defaults(options: object) -> ClientOptions:
    """Return the options, or those as they come where there are none.

    Raises:
        OptionsError: It is something else.
    """
    if options is None:
        return ClientOptions()
    if isinstance(options, ClientOptions):
        return options
    hint = "; write ClientOptions(**options)" if isinstance(options, Mapping) else ""
    raise OptionsError(f"must be ClientOptions, not {type(options).__name__}{hint}", option="options")


__all__ = [
    "DIALOG_KINDS",
    "SYSTEM_PROMPT_DYNAMIC_BOUNDARY",
    "ClientOptions",
    "Limits",
    "OptionsWarning",
    "OutputShape",
    "PluginConfig",
    "SandboxSettings",
    "SystemPrompt",
    "SystemPromptFile",
    "SystemPromptPreset",
    "SystemPromptText",
    "ThinkingAdaptive",
    "ThinkingConfig",
    "ThinkingDisabled",
    "ThinkingEnabled",
    "Timeouts",
    "is_any_given",
    "options_or_defaults",
]
