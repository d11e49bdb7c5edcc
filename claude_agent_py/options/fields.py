"""The options of a session, with their types and texts. `options/table.py` maps them to the CLI's flags and fields."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeAlias
from uuid import UUID

from pydantic import BeforeValidator, Field, PlainValidator, StrictBool

from claude_agent_py._base.configuration import ConfigModel
from claude_agent_py._base.errors import StoreError
from claude_agent_py.observe.telemetry import Telemetry
from claude_agent_py.options import readers as read
from claude_agent_py.options.output_shape import Output, OutputShape, check_output_format
from claude_agent_py.options.values import (
    Limits,
    PluginConfig,
    SystemPrompt,
    ThinkingConfig,
    Timeouts,
    read_plugins,
    read_system_prompt,
    read_thinking,
)
from claude_agent_py.sessions import SessionStore
from claude_agent_py.transport import LaunchPlan, Transport
from claude_agent_py.wire.settings.choices import ChosenEffort, ChosenPermissionMode, SettingSource

if TYPE_CHECKING:
    from claude_agent_py.agents import AgentLike, DelegationGuide
    from claude_agent_py.hooks import Hooks, HooksByEvent
    from claude_agent_py.permissions import (
        CanUseTool,
        DialogHandler,
        ElicitationHandler,
        Inbox,
        PlanHandler,
        QuestionHandler,
    )
    from claude_agent_py.tasks import TaskEvent, TaskListener
    from claude_agent_py.tools import SamplingHandler
    from claude_agent_py.wire.messages.tasks import TaskNotificationMessage
    from claude_agent_py.wire.settings.sandbox import SandboxSettings
else:  # the readers check the values at run time, and importing these types takes time
    AgentLike = DelegationGuide = SandboxSettings = Any
    CanUseTool = DialogHandler = ElicitationHandler = PlanHandler = QuestionHandler = SamplingHandler = Any
    Hooks = HooksByEvent = Inbox = Any
    TaskListener = list
    TaskEvent = TaskNotificationMessage = Any


def _reads(reader: read.Reader) -> PlainValidator:
    """Return the validator of an option that applies a reader, which may narrow its type."""
    checked = read.part_of_an_option(reader)
    return PlainValidator(lambda value: None if value is None else checked(value))


def _needs(reader: read.Reader) -> PlainValidator:
    """Return the validator of an option that cannot be None."""
    return PlainValidator(read.part_of_an_option(reader))


def _empty() -> dict[Any, Any]:
    """Return an empty dict. `dict` itself takes pydantic 2 ms, to find the parameters of a class written in C."""
    return {}


@cache
def _default_timeouts() -> Timeouts:
    """Return the default time limits, which all options share."""
    return Timeouts()


@cache
def _default_limits() -> Limits:
    """Return the default limits, which all options share."""
    return Limits()


def is_any_given(*values: object) -> bool:
    """Return whether any of these values is neither None nor False. An empty inbox or store counts as given."""
    return any(value is not None and value is not False for value in values)


_handler = _reads(read.permission_handler)
AnyPath: TypeAlias = Annotated[str | Path | None, _reads(read.path)]
Text: TypeAlias = Annotated[str, _needs(read.text)]
Names: TypeAlias = Annotated[Sequence[str], _needs(read.names)]
Rules: TypeAlias = Annotated[Sequence[str], _needs(read.rules)]
Count: TypeAlias = Annotated[int, Field(ge=1, strict=True)]
DIALOG_KINDS: tuple[str, ...] = ("refusal_fallback_prompt",)
"""The dialogs that the CLI is known to request."""


class OptionFields(ConfigModel, Generic[Output]):
    """The fields of `ClientOptions`, each checked on its own."""

    QUALIFIED: ClassVar[bool] = False
    RENAMED: ClassVar[Mapping[str, str]] = read.RENAMED

    # The program

    cli_path: AnyPath = None
    """The path of the `claude` program. None searches the variable `CLAUDE_AGENT_CLI`, the cache of `install-cli`,
    the official SDK in this environment, PATH, and the usual install locations."""
    cwd: AnyPath = None
    """The working directory of the session, which also selects the project settings, and the sessions that
    `continue_conversation` and `resume` by title find. It must exist. None means the current directory."""
    spawn: Annotated[Callable[[LaunchPlan], Transport] | None, _reads(read.function_of("plan"))] = None
    """Starts the CLI elsewhere: `(plan) -> Transport`, with `LaunchPlan` and `SubprocessTransport` from
    `claude_agent_py.transport`. Paths in the options then refer to that place, and are not checked: name the program
    there with `cli_path`, because None searches this machine. Called once for each session, in the event
    loop."""
    env: Annotated[Mapping[str, str | None], BeforeValidator(read.environment)] = Field(default_factory=_empty)
    """Variables *added* to the environment that the CLI inherits from this process. A value of None removes the
    variable."""
    inherit_env: StrictBool = True
    """False: the CLI gets only the variables in `env`, which should include at least `PATH` and `HOME`."""
    home: Annotated[bool | str | Path | None, _reads(read.home)] = None
    """A private home for the CLI and everything it starts, so that it does not read the user's `~/.claude` and
    `~/.claude.json`. True: a new directory, removed when the session ends. A path: this directory, created if missing,
    for sessions that can be resumed. Settings files and CLAUDE.md are read only from the `setting_sources` that you
    name. Credentials in the environment still work; see also `login`."""
    login: AnyPath = None
    """The config folder whose Claude login a session with a private `home` uses, such as `~/.claude`. The CLI reads
    and refreshes the login in place; nothing is copied, and nothing else is read from that folder."""
    user: Annotated[str | int | None, _reads(read.system_user)] = None
    """The *operating system* user to run the program as, if this process has the permission. It is not a user of your
    service: see `client_app`, or separate sessions by `cwd` and `env`."""
    client_app: Text | None = None
    """The name of your application in the CLI's API requests, such as `my-app/1.0`. None means this package."""
    debug: Annotated[bool | str, _needs(read.flag_or_text)] = False
    """Write a debug log. A string selects categories, such as `api,hooks`."""
    debug_file: AnyPath = None
    """The file for the debug log, which is then enabled."""
    extra_args: Annotated[Mapping[str, str | None], BeforeValidator(read.extra_args)] = Field(default_factory=_empty)
    """Extra flags for the CLI, by name without dashes; None for a flag without a value. Every user of the machine can
    read the command line, so do not put secrets here."""
    timeouts: Timeouts = Field(default_factory=_default_timeouts)
    """Time limits."""
    limits: Limits = Field(default_factory=_default_limits)
    """Limits on memory and on child processes."""

    # The model

    model: Text | None = None
    """The full name of a model or an alias (`opus`, `sonnet`, `haiku`). None uses the settings or the default."""
    fallback_model: Annotated[str | Sequence[str] | None, _reads(read.models)] = None
    """Models to use, in order, while `model` is overloaded. `model` is tried again at every turn."""
    thinking: Annotated[
        ThinkingConfig | Literal["adaptive", "disabled"] | Mapping[str, object] | None, _reads(read_thinking)
    ] = None
    """How the model thinks before it answers."""
    max_thinking_tokens: Annotated[int, Field(ge=0, strict=True)] | None = None
    """The older form of `thinking`: a budget in tokens; 0 disables thinking."""
    effort: ChosenEffort | None = None
    """How much effort the model puts into an answer."""
    max_turns: Count | None = None
    """The maximum number of model turns in a run; exceeding it ends the run with an error."""
    max_budget_usd: Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)] | None = None
    """The maximum cost of the session, including earlier processes, in US dollars; reaching it ends the run with an
    error. It is checked between model calls, so one call may exceed it."""
    task_budget: Annotated[Count, BeforeValidator(read.token_budget)] | None = None
    """A token budget that the model sees, so that it can pace itself. It is not enforced: see
    `max_budget_usd`."""
    betas: Names = ()
    """Beta features of the API, such as `context-1m-2025-08-07`."""

    # Prompts and instructions

    system_prompt: Annotated[
        SystemPrompt | str | Sequence[str] | Mapping[str, object] | None, _reads(read_system_prompt)
    ] = None
    """None keeps the CLI's own prompt (the official SDKs send an empty one instead). Text or a list of blocks
    *replaces* it; `SystemPromptPreset(append=...)` adds to it; `SystemPromptFile(path)` is read by the CLI."""
    plan_mode_instructions: Annotated[Text | None, Field(repr=False)] = None
    """Instructions for plan mode, instead of planning a code change."""
    delegation_guide: Annotated[DelegationGuide | bool, _needs(read.delegation_guide)] = False
    """Tell the model when to delegate to which agents: `agents`, the agents that the CLI lists, and tools that start
    child agents. True is the default guide. It is omitted, with a warning, if the model cannot start agents."""
    title: Text | None = None
    """The title of the session. None lets the CLI generate one."""

    # Tools

    tools: Annotated[Sequence[str] | Literal["default"] | Mapping[str, object] | None, _reads(read.built_in_tools)] = (
        None
    )
    """The built-in tools that *exist* in the session: use this to restrict it. `[]` means none, `"default"` and None
    the default set. MCP tools are not affected."""
    allowed_tools: Rules = ()
    """Rules for calls that run *without asking*, such as `Read` or `Bash(git log *)`. This does not restrict anything:
    all other tools still exist, and ask. To restrict, use `tools` or `disallowed_tools`. A rule for a command covers
    only that command, not a loop or a list of commands that begins with it."""
    disallowed_tools: Rules = ()
    """Tools to remove, and rules for calls to deny, such as `Bash(rm *)`. They take precedence over everything
    else."""
    tool_aliases: Mapping[Text, Text] = Field(default_factory=_empty)
    """Tools to run in place of others: `{"Bash": "mcp__sandbox__bash"}`. Replacements are not replaced again. `Monitor`
    also runs shell commands: give it an alias, too, or disallow it."""
    skills: Annotated[Sequence[str] | Literal["all"] | None, _reads(read.skills)] = None
    """Skills to enable and to use without asking; `[]` enables none. None uses the CLI's default, which does *not* mean
    no skills."""
    custom_tools: Annotated[Sequence[Any], _needs(read.custom_tools)] = ()
    """Functions or `Tool`s that run in this process: the short form of a `ToolServer` in `mcp_servers`."""
    mcp_servers: Annotated[Mapping[str, Any] | Iterable[Any] | str | Path, _needs(read.mcp_servers)] = Field(
        default_factory=_empty
    )
    """MCP servers by name: `MCPStdioServer`, `MCPHTTPServer`, `MCPSSEServer`, a server in this process (`ToolServer`,
    or one made with the `mcp` package), a dict as in `.mcp.json` (with its names, and milliseconds), or the path of
    such a file. Secrets in them never appear on a command line."""
    strict_mcp_config: StrictBool = False
    """Use only these MCP servers, not the servers of the project, the user or plugins."""
    task_list_tools: StrictBool = False
    """Enable the model's to-do list tools (TaskCreate, TaskUpdate, ...). They are unrelated to background tasks."""
    question_preview_format: Literal["markdown", "html"] | None = None
    """The format of the previews that the model adds to the options of a question."""
    plugins: Annotated[Sequence[PluginConfig | str | Path | Mapping[str, object]], _needs(read_plugins)] = ()
    """Plugins on this machine, by path."""

    # Permissions and hooks

    permission_mode: ChosenPermissionMode | None = None
    """How calls that match no rule are decided. `default` asks; `acceptEdits` allows file edits; `plan` changes
    nothing; `dontAsk` denies; `auto` lets a classifier decide; `bypassPermissions` allows everything. None uses the
    settings, which may select `auto`: set `default` to make sure that `can_use_tool` is called."""
    can_use_tool: Annotated[CanUseTool | None, _handler] = None
    """Handler for permission requests: `(request, context) -> Allow | Deny`. Not called for calls that a rule, the
    permission mode or `allowed_tools` decides."""
    on_question: Annotated[QuestionHandler | None, _handler] = None
    """Handler for questions of the model: `(questions, context) -> answers`. Without it, the model cannot ask
    questions."""
    on_plan: Annotated[PlanHandler | None, _handler] = None
    """Handler for plans that need approval: `(plan, context) -> ...`. Without it, `can_use_tool` is called; without
    both, the model cannot submit plans."""
    on_elicitation: Annotated[ElicitationHandler | None, _handler] = None
    """Handler for MCP servers that ask for input. Without it and without an inbox, the answer is `cancel`."""
    on_sampling: Annotated[SamplingHandler | None, _handler] = None
    """Handler for MCP servers in this process that ask for a message of a model: `(request, context) -> text`. Without
    it they get an error."""
    on_user_dialog: Annotated[DialogHandler | None, _handler] = None
    """Handler for dialogs that the CLI asks to show."""
    supported_dialog_kinds: Annotated[Sequence[str] | None, _reads(read.names)] = None
    """The dialogs that `on_user_dialog` can show; the CLI requests no others. None means all known dialogs."""
    interactions: Annotated[Inbox | bool | None, _reads(read.interactions)] = None
    """True, or an inbox for prompts, questions and plans that no handler answers."""
    permission_prompts: Literal["host", "none"] | None = None
    """`none`: calls that would need permission are denied immediately, and `can_use_tool` is never called."""
    permission_prompt_tool_name: Text | None = None
    """An MCP tool that answers permission prompts, instead of a handler."""
    allow_dangerously_skip_permissions: StrictBool = False
    """Allow the session to *switch* to `bypassPermissions` later. This option does not switch it."""
    hooks: Annotated[Hooks | HooksByEvent | None, _reads(read.hooks)] = None
    """Hook handlers by event: `{"PreToolUse": [HookMatcher("Bash", handler)]}`, or a `Hooks`."""
    additional_directories: Annotated[Sequence[str | Path], _needs(read.paths)] = ()
    """Additional directories that tools may use. Relative paths are resolved against `cwd`."""
    sandbox: Annotated[SandboxSettings | None, _reads(read.sandbox)] = None
    """The sandbox that shell commands run in. Overrides a `sandbox` block in `settings`, but lists that restrict are
    joined."""

    # Subagents and background tasks

    agents: Annotated[Mapping[str, AgentLike] | None, _reads(read.agents)] = None
    """Subagents that the model can start, by name. They are added to the CLI's own agents, or replace one of the same
    name."""
    agent: Text | None = None
    """The agent whose prompt, tools and model the *whole session* uses, by its name in `agents` or on disk."""
    forward_subagent_text: StrictBool = False
    """Also send the text of foreground subagents. By default only their tool calls are sent."""
    forward_nested_subagent_tool_calls: StrictBool = False
    """Also send the tool calls of nested subagents."""
    agent_progress_summaries: StrictBool = False
    """Summarise the progress of subagents about every 30 s (`task_progress`), which costs tokens."""
    append_subagent_system_prompt: Annotated[Text | None, Field(repr=False)] = None
    """Text appended to every subagent's system prompt."""
    max_subagent_depth: Count | None = None
    """The maximum nesting depth of subagents; 1 means that subagents cannot start subagents. None means the CLI's
    default, 3."""
    max_concurrent_subagents: Count | None = None
    """The maximum number of concurrent subagents; further ones are refused. None means the CLI's default."""
    per_task_stop_affordance: StrictBool = True
    """Interrupting does not stop background tasks, which can be stopped one by one. False: it kills background
    agents."""

    late_tasks: Literal["stop", "leave"] = "stop"
    """Whether to stop background tasks when `Timeouts.idle` expires. `leave`: they keep running, with `query` and
    `run` as long as the event loop runs. `RunResult.unfinished_tasks` lists them in both cases."""

    # Listeners

    on_task_notification: Annotated[
        TaskListener[TaskNotificationMessage] | None, _reads(read.function_of("notification"))
    ] = None
    """Called when a background task ends: `(notification)`."""
    on_task_event: Annotated[TaskListener[TaskEvent] | None, _reads(read.function_of("event"))] = None
    """Called with every event of background tasks: `(event)`."""
    on_stderr: Annotated[Callable[[str], object] | None, _reads(read.function_of("line"))] = None
    """Called with every line of the CLI's stderr: `(line)`. Up to 64 MiB of lines wait for it; more are dropped and
    counted by `Client.stderr_lines_dropped`."""
    telemetry: Annotated[Telemetry | bool | None, _reads(read.telemetry)] = None
    """Trace the session with OpenTelemetry: True, or a `Telemetry` of `claude_agent_py.observe`. None follows
    `observe.instrument`; False disables it. Child agents are part of their parent's traces."""

    # Output

    output_type: Annotated[type[Output] | None, _reads(read.output_type)] = None
    """The type of the structured output: a pydantic model, dataclass, TypedDict, `list[int]`, ... `RunResult.output`
    has this type, also for type checkers. For a union or a `Literal`, type checkers need a cast: `cast(type[int |
    str], int | str)`."""
    output_format: Annotated[Mapping[str, object] | None, _reads(check_output_format)] = None
    """The JSON Schema of the structured output. `RunResult.output` is then plain JSON."""
    include_partial_messages: StrictBool = False
    """Stream partial messages (`StreamEventMessage`)."""
    include_hook_events: StrictBool = False
    """Yield a `HookRun` from `client.messages()` after each call of a handler, and messages when hooks of the settings
    start and end."""
    prompt_suggestions: StrictBool = False
    """Send a suggestion for the next prompt after every result."""
    verbatim_prompts: StrictBool = False
    """Send prompts verbatim, without `/commands` and `@files`, for text that was not typed for the CLI. The CLI then
    also omits the context that it adds at the start of a turn. `verbatim(prompt)` does the same for one prompt. If this
    option is not set and a `guard` watches the tool calls, prompts that contain `@` are sent verbatim: the CLI reads
    `@files` without a tool. None of this holds for the `initial_prompt` of an agent, which the CLI submits itself."""

    # Sessions and settings

    resume: Text | None = None
    """The session to resume, by id, or by title within the project of `cwd`."""
    continue_conversation: StrictBool = False
    """Continue the newest session of `cwd`."""
    session_id: Annotated[str | UUID | None, _reads(read.session_id)] = None
    """The id for the *new* session, an unused UUID such as `str(uuid4())`. Store it first, and the session can be
    resumed even if this process dies in the first turn. To continue a session, use `resume`."""
    fork_session: StrictBool = False
    """Continue in a copy of the session with a new id. With `resume` or `continue_conversation`."""
    resume_session_at: Text | None = None
    """Resume at the message with this uuid and drop the later ones. With `resume`."""
    resume_drops_turn: Text | None = None
    """Refuse to resume if `resume_session_at` would drop more than the turn of the prompt with this uuid."""
    resume_interrupted_turn: StrictBool = False
    """Continue the turn in which the session's last process died; `client.resumed_run` is its run. Nothing else
    resumes the turn. With `resume` or `continue_conversation`."""
    show_cut_off_calls: StrictBool = True
    """With `resume_interrupted_turn`: show the model the interrupted tool calls, with an unknown outcome. False:
    drop them, so that the model is likely to repeat them."""
    persist_session: StrictBool = True
    """False: the session is not saved to disk and cannot be resumed."""
    session_mirror: StrictBool = False
    """Send every entry of the session's transcript as a `TranscriptMirrorMessage`, so that you can store a copy
    elsewhere. Needs `persist_session`."""
    session_store: Annotated[SessionStore | None, _reads(read.session_store)] = None
    """The store that keeps a copy of the session's transcripts, and where `resume` and `continue_conversation`
    look first:
    `SQLiteStore`, `DirectoryStore`, ... of `claude_agent_py.sessions`, or a store written for the official SDK."""
    session_store_project: Text | None = None
    """The project in the store, such as the name of a tenant. None means the key of `cwd`; `resume` then also finds a
    session of another directory, if the store supports it."""
    session_store_flush: Literal["batched", "eager"] = "batched"
    """`batched` sends entries to the store at the end of a turn or after one second, whichever comes first; `eager`
    sends them immediately."""
    load_timeout: Annotated[float, Field(gt=0, strict=True)] = 60.0
    """How many seconds one call of the session store may take."""
    on_store_error: Annotated[Callable[[StoreError], object] | None, _reads(read.function_of("error"))] = None
    """Called when the session store fails: `(error)`. `error.kept_in` is set when a session ends with entries missing
    from the store; `sessions.push` sends them again."""
    enable_file_checkpointing: StrictBool = False
    """Save the state of files at every prompt, so that `client.files.rewind` can restore it."""
    setting_sources: Sequence[SettingSource] | None = None
    """The settings sources to load. None means all, or none with a private `home`; `[]` means none, which also skips
    CLAUDE.md. The project's CLAUDE.md and settings need `project`."""
    settings: Annotated[Mapping[str, object] | str | Path | None, _reads(read.settings)] = None
    """Additional settings, which override those in files: an object, its JSON, or the path of a file. One invalid
    value makes the CLI silently ignore *all* of them."""
    managed_settings: Annotated[Mapping[str, object] | str | None, _reads(read.managed_settings)] = None
    """Managed settings, like an administrator's. They can only restrict. A warning is logged that names the others, and
    those that the CLI cannot read, which it ignores."""
    project_config_root: AnyPath = None
    """The checkout whose settings, agents and servers are used instead of those in `cwd`, for work in an untrusted
    copy."""

    @property
    def asks_host(self) -> bool:
        """Whether permission prompts, questions or plans come to this process."""
        handlers = (self.can_use_tool, self.on_question, self.on_plan, self.interactions)
        return is_any_given(*handlers) or self.permission_prompts == "host"

    @property
    def output_shape(self) -> OutputShape | None:
        """The shape of `output_type`, or None. Built anew on each access."""
        return None if self.output_type is None else OutputShape(self.output_type)

    @property
    def hosted_mcp_servers(self) -> dict[str, Any]:
        """The servers of `mcp_servers` that run in this process, by name."""
        servers = self.mcp_servers if isinstance(self.mcp_servers, Mapping) else {}
        return {name: server for name, server in servers.items() if not read.is_external(server)}
