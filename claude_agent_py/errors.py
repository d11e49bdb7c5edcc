"""Every error that this package raises, in one tree.

::

    ClaudeAgentError
    ├── OptionsError                    an option, a definition or an argument is wrong          .option
    ├── CLIError                        the `claude` program
    │   ├── CLINotFoundError            it was found nowhere                                     .tried
    │   ├── CLIInstallError             it could not be fetched                                  .tried
    │   ├── CLIVersionError             it is too old                                            .version .minimum
    │   ├── CLIStartError               it ended, or said nothing, before the session was up     .exit_code .stderr_tail
    │   └── CLIExitError                it ended under a running session                         .exit_code .stderr_tail
    ├── ProtocolError                   the conversation over the pipe
    │   ├── LocalProtocolError          this side used the protocol wrongly
    │   └── RemoteProtocolError         the CLI sent what it must not send                       .raw
    ├── ControlError                    a control request                                        .subtype .request_id
    │   ├── ControlTimeoutError         no reply in time (also a TimeoutError)                   .timeout
    │   ├── ControlRejectedError        the CLI answered with an error                           .error .error_code
    │   ├── MCPNotReadyError            MCP servers were not up in time (also a TimeoutError)    .servers .timeout
    │   └── ConnectionClosedError       the session is closed, or closed before the reply
    ├── RunFailed                       whatever ended a run without its answer                  .result .is_retryable
    │   └── RunError, and above CLIStartError, CLIExitError, ConnectionClosedError
    ├── RunError                        a run that ended badly (also a RunFailed)                .result .is_retryable
    │   ├── AuthenticationError   BillingError         RateLimitedError (.resets_at)   OverloadedError
    │   ├── ServerError           InvalidRequestError  ModelNotFoundError              PromptTooLongError
    │   ├── MaxTurnsError         BudgetExceededError  MaxOutputTokensError            RefusalError
    │   ├── StructuredOutputError InterruptedRunError  PromptCancelledError            HookStoppedError
    │   └── RunTimeoutError             a limit of `Timeouts` ran out (also a TimeoutError)      .timeout .kind
    ├── TaskError                       a background task                                        .task_id
    │   ├── TaskNotFoundError           no such task (also a KeyError)
    │   ├── TaskTimeoutError            it was not over in time (also a TimeoutError)            .timeout .task_ids
    │   └── TaskOutputError             its output cannot be read                                .path .reason
    ├── ToolError                       what a tool says to the model on purpose
    │   ├── ToolInputError              the model's arguments do not fit                         .tool .problems
    │   └── ToolTimeoutError            the tool was not done in time (also a TimeoutError)      .tool .timeout
    ├── HandlerError                    a handler of yours failed (reported, never raised)       .handler
    ├── BacklogError                    messages waited, and there was no room for them          .reason .limit_bytes
    └── SessionError                    a session on disk                                        .session_id
        ├── SessionNotFoundError        there is none to resume
        └── SessionInUseError           the id of a new one is taken

Attributes come first and the text is built from them; every error can be pickled. Knows nothing of the other modules
but, for type checkers, what a `RunResult` is.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from claude_agent_py.runtime.result import RunResult


def _restore(cls: type["ClaudeAgentError"], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class ClaudeAgentError(Exception):
    """The base of all errors of this package."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__.copy())


class RunFailed(ClaudeAgentError):
    """A run failed, for whatever reason: `except RunFailed` around a run catches every error that can end it.

    Not below it: mistakes of the calling code (`OptionsError`) and a program that is missing or too old.
    """

    is_retryable: bool = False
    """Whether the same prompt may succeed later without a change."""

    result: "RunResult | None" = None
    """What the run brought until then, messages included; None where it had not begun, or no run raised the error."""


class OptionsError(ClaudeAgentError):
    """An option, a definition or an argument is wrong. Raised before a process is started."""

    def __init__(self, message: str, *, option: str | None = None) -> None:
        self.option = option
        """The name of the option, as it is written in Python; None where it is none."""
        super().__init__(f"{option}: {message}" if option else message)


# The program -----------------------------------------------------------------------------------------------------


class CLIError(ClaudeAgentError):
    """Something is wrong with the `claude` program."""


INSTALL_HINT = (
    "Run `claude-agent-py install-cli`, or name it with ClientOptions(cli_path=...) or the environment variable "
    "CLAUDE_AGENT_CLI."
)


class CLINotFoundError(CLIError):
    """No usable `claude` program was found."""

    def __init__(self, tried: Sequence[str], message: str | None = None, *, hint: str | None = None) -> None:
        self.tried: list[str] = list(tried)
        """Every place that was looked at, in order, with what was found there."""
        head = message or "no usable `claude` program was found"
        places = "".join(f"\n  - {place}" for place in self.tried)
        super().__init__(f"{head}; looked at:{places}\n{hint or INSTALL_HINT}")


class CLIInstallError(CLIError):
    """The `claude` program could not be fetched."""

    def __init__(self, version: str, tried: Sequence[str]) -> None:
        self.version = version
        self.tried: list[str] = list(tried)
        """Every way that was tried, with what went wrong."""
        ways = "".join(f"\n  - {way}" for way in self.tried)
        super().__init__(f"the Claude Code CLI {version} could not be installed; tried:{ways}")


class CLIVersionError(CLIError):
    """The `claude` program is older than this package can work with."""

    def __init__(self, version: str, minimum: str, cli_path: str) -> None:
        self.version = version
        self.minimum = minimum
        self.cli_path = cli_path
        super().__init__(
            f"{cli_path} is version {version}; at least {minimum} is needed. "
            "Run `claude-agent-py install-cli` or update it."
        )


class _ProcessEndError(CLIError):
    """What the two errors about an ended process share."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        stderr_tail: str = "",
        cli_path: str | None = None,
        version: str | None = None,
    ) -> None:
        self.exit_code = exit_code
        """The exit status; negative is a signal's number; None while it is unknown or the process lives."""
        self.stderr_tail = stderr_tail
        """The last that the CLI wrote to stderr."""
        self.cli_path = cli_path
        self.version = version
        facts = [
            text
            for text, known in (
                (f"exit code {exit_code}", exit_code is not None),
                (f"program {cli_path}", cli_path is not None),
                (f"version {version}", version is not None),
            )
            if known
        ]
        text = f"{message} ({', '.join(facts)})" if facts else message
        tail = stderr_tail.strip()
        super().__init__(f"{text}; its stderr ends with:\n{tail}" if tail else text)


class CLIStartError(_ProcessEndError, RunFailed):
    """The CLI could not be started, ended during start-up, or was not up in time."""


class CLIExitError(_ProcessEndError, RunFailed):
    """The CLI ended while the session was in use."""

    is_retryable = True
    """In a new process: this one is gone."""


# The pipe --------------------------------------------------------------------------------------------------------


class ProtocolError(ClaudeAgentError):
    """The rules of the conversation over the pipe were broken."""


class LocalProtocolError(ProtocolError):
    """The calling code used the protocol wrongly."""


class RemoteProtocolError(ProtocolError):
    """The CLI sent something that it must not send."""

    def __init__(self, message: str, *, raw: Any = None) -> None:
        self.raw = raw
        super().__init__(message)


class ControlError(ClaudeAgentError):
    """A control request did not succeed."""

    def __init__(self, message: str, *, subtype: str = "", request_id: str = "") -> None:
        self.subtype = subtype
        self.request_id = request_id
        super().__init__(message)


class ControlTimeoutError(ControlError, TimeoutError):
    """The CLI did not answer a control request in time."""

    def __init__(self, subtype: str, timeout: float, request_id: str = "") -> None:
        self.timeout = timeout
        """How long was waited, in seconds."""
        super().__init__(
            f"the CLI did not answer {subtype!r} within {timeout:g} s",
            subtype=subtype,
            request_id=request_id,
        )


class ControlRejectedError(ControlError):
    """The CLI answered a control request with an error."""

    def __init__(self, subtype: str, error: str, error_code: str | None = None, request_id: str = "") -> None:
        self.error = error
        """The CLI's own words."""
        self.error_code = error_code
        """For example `unsupported_request`; None where the CLI gives none."""
        code = f" [{error_code}]" if error_code else ""
        super().__init__(f"the CLI rejected {subtype!r}{code}: {error}", subtype=subtype, request_id=request_id)


class MCPNotReadyError(ControlError, TimeoutError):
    """MCP servers were still being connected when the time was up. The CLI goes on connecting them."""

    def __init__(self, servers: Sequence[str], timeout: float) -> None:
        self.servers: list[str] = list(servers)
        """Those that were not up; empty where the CLI did not say."""
        self.timeout = timeout
        """How long was waited, in seconds."""
        which = ", ".join(map(repr, self.servers)) or "an unknown number of them"
        super().__init__(f"MCP servers were not up within {timeout:g} s: {which}", subtype="mcp_status")


class ConnectionClosedError(ControlError, RunFailed):
    """The session is not open, or closed before the answer came."""


# Runs ------------------------------------------------------------------------------------------------------------


class RunError(RunFailed):
    """A run ended with an error. `result` has everything that the run brought until then."""

    def __init__(self, message: str, *, result: "RunResult | None" = None) -> None:
        self.result: RunResult = result  # type: ignore[assignment] # every error that a run raises has one
        """What the run brought, messages included."""
        super().__init__(message)


LOGIN_HINT = (
    "Set ANTHROPIC_API_KEY (in the environment, or with ClientOptions(env=...)), or log in once with "
    "`claude auth login`. Without either, `claude-agent-py demo` and claude_agent_py.testing.ScriptedModel run the CLI "
    "offline."
)


class AuthenticationError(RunError):
    """The API key or login is missing, invalid, or not allowed to do this. The text says how to get one."""

    def __init__(self, message: str, *, result: "RunResult | None" = None) -> None:
        super().__init__(f"{message}. {LOGIN_HINT}", result=result)


class BillingError(RunError):
    """The account cannot pay for the request, or is on hold."""


class RateLimitedError(RunError):
    """A rate limit or a usage limit was hit."""

    is_retryable = True

    def __init__(self, message: str, *, result: "RunResult | None" = None, resets_at: float | None = None) -> None:
        self.resets_at = resets_at
        """When the limit resets, in seconds since the epoch; None where the CLI does not say."""
        super().__init__(message, result=result)


class OverloadedError(RunError):
    """The API is overloaded (HTTP 529)."""

    is_retryable = True


class ServerError(RunError):
    """The API failed (HTTP 5xx) or could not be reached."""

    is_retryable = True


class InvalidRequestError(RunError):
    """The API refused the request as invalid (HTTP 400, 413)."""


class ModelNotFoundError(RunError):
    """The model does not exist or may not be used."""


class PromptTooLongError(RunError):
    """The conversation does not fit into the model's context."""


class MaxTurnsError(RunError):
    """`max_turns` was reached."""


class BudgetExceededError(RunError):
    """`max_budget_usd` was reached."""


class MaxOutputTokensError(RunError):
    """The model hit its output limit again and again."""


class RefusalError(RunError):
    """The model refused to answer."""


class UnreadableResultError(RunError):
    """The CLI ended the turn with a result that cannot be read. `raw` is the frame as it came."""

    def __init__(self, message: str, *, raw: Any = None, result: "RunResult | None" = None) -> None:
        self.raw = raw
        super().__init__(message, result=result)


class StructuredOutputError(RunError):
    """No structured output came, or it does not fit `output_type`."""


class InterruptedRunError(RunError):
    """The run was interrupted."""


class PromptCancelledError(RunError):
    """The prompt was taken out of the queue before it was answered."""


class HookStoppedError(RunError):
    """A hook ended the run."""


class RunTimeoutError(RunError, TimeoutError):
    """A time limit of the run ran out; the run was interrupted."""

    def __init__(self, kind: str, timeout: float, *, result: "RunResult | None" = None) -> None:
        self.kind = kind
        """Which limit: `run`, `first_message` or `silence`."""
        self.timeout = timeout
        """The limit, in seconds."""
        what = {
            "run": "was not over",
            "first_message": "brought no message",
            "silence": "made no progress",
        }.get(kind, "was not over")
        super().__init__(f"the run {what} within {timeout:g} s", result=result)


# Tasks -----------------------------------------------------------------------------------------------------------


class TaskError(ClaudeAgentError):
    """Something is wrong with a background task."""

    def __init__(self, message: str, *, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(message)


class TaskNotFoundError(TaskError, KeyError):
    """There is no task with that id."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"no task {task_id!r} is known", task_id=task_id)

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would print the repr


class TaskTimeoutError(TaskError, TimeoutError):
    """A task was not over in time. The task itself goes on."""

    def __init__(self, task_id: str, timeout: float, task_ids: Sequence[str] = ()) -> None:
        self.timeout = timeout
        """How long was waited, in seconds."""
        self.task_ids: list[str] = list(task_ids) or [task_id]
        """Every task that was not over; `task_id` is the first of them."""
        which = ", ".join(map(repr, self.task_ids))
        what = f"task {which} was" if len(self.task_ids) == 1 else f"tasks {which} were"
        super().__init__(f"{what} not over within {timeout:g} s", task_id=task_id)


class TaskOutputError(TaskError):
    """The output of a task cannot be read."""

    def __init__(self, task_id: str, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        where = f" at {path!r}" if path else ""
        super().__init__(f"the output of task {task_id!r}{where} cannot be read: {reason}", task_id=task_id)


# The rest --------------------------------------------------------------------------------------------------------


class ToolError(ClaudeAgentError):
    """Raise it in a tool: the model gets the text as the tool's error result."""


class ToolInputError(ToolError):
    """The arguments that a model wrote do not fit the tool. The model gets the text, so it can fix them."""

    def __init__(self, tool: str, problems: Sequence[tuple[str, str]]) -> None:
        self.tool = tool
        self.problems: list[tuple[str, str]] = list(problems)
        """Where and what, for each field that is wrong; the empty place stands for all of them together."""
        lines = "".join(f"\n- {place}: {told}" if place else f"\n- {told}" for place, told in self.problems)
        super().__init__(f"invalid arguments for {tool}:{lines}\nFix the arguments and retry.")


class ToolTimeoutError(ToolError, TimeoutError):
    """A tool was not done in time; it was cancelled."""

    def __init__(self, tool: str, timeout: float) -> None:
        self.tool = tool
        self.timeout = timeout
        """The tool's limit, in seconds."""
        super().__init__(f"{tool} was not done within {timeout:g} s and was cancelled")


class HandlerError(ClaudeAgentError):
    """A handler or listener of yours failed. It is logged and reported as an event, not raised by the session.

    Only a run whose async iterable of prompts raised what is no `Exception` raises it.
    """

    def __init__(self, handler: str, reason: str) -> None:
        self.handler = handler
        self.reason = reason
        super().__init__(f"handler {handler} failed: {reason}")


class BacklogError(ClaudeAgentError):
    """Messages that waited for a reader were dropped: neither the disk nor memory had room for them.

    It ends that reader alone, after what was kept; the session and its other readers go on.
    """

    def __init__(self, reason: str, limit_bytes: int) -> None:
        self.reason = reason
        """What is wrong with the temporary file, for example `No space left on device`."""
        self.limit_bytes = limit_bytes
        """How much may wait in memory in place of the file, in bytes (`Limits.mailbox_bytes`, at least 1 MiB)."""
        super().__init__(
            f"messages that waited were dropped: the temporary file cannot be used ({reason}), "
            f"and more than {limit_bytes} bytes would have to stay in memory"
        )

    def again(self) -> "BacklogError":
        """Make the same error, for another who is told."""
        return BacklogError(self.reason, self.limit_bytes)


class SessionError(ClaudeAgentError):
    """A session on disk is missing or cannot be read."""

    def __init__(self, message: str, *, session_id: str | None = None) -> None:
        self.session_id = session_id
        super().__init__(message)


class SessionNotFoundError(SessionError):
    """There is no session to resume with that id or title, in the project of `cwd` and its config folder."""


class SessionInUseError(SessionError):
    """The id that a new session was to have belongs to another one."""
