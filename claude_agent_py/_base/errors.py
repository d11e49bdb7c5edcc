"""All errors but run errors, which are in `_connection/runs/result.py`. `errors` exports all and shows their tree."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from claude_agent_py._base.display import displayable, one_line


def _restore(cls: type["ClaudeAgentError"], args: tuple[object, ...], state: dict[str, object]) -> object:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


def first_error(error: BaseException) -> BaseException:
    """Return the first error in a group of tasks, or an error that is no group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


NOT_CONNECTED: Final = "the client is not connected; use `async with`, or call connect() first"
CLOSED: Final = "the client is closed; open a new one to continue"


class ClaudeAgentError(Exception):
    """The base of all errors of this package."""

    __module__ = "claude_agent_py.errors"

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        if cls.__module__.startswith("claude_agent_py._"):
            cls.__module__ = "claude_agent_py.errors"  # where users find it

    def __str__(self) -> str:
        return displayable(super().__str__(), None)  # a traceback prints it, and models and servers write parts of it

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), self.args, self.__dict__.copy())


LOGIN_HINT = (
    "Set ANTHROPIC_API_KEY (in the environment, or with ClientOptions(env=...)), or log in once with "
    "`claude auth login`. Without either, `claude-agent-py demo` and claude_agent_py.testing.ScriptedModel run the CLI "
    "offline."
)
MISSING_LOGIN: Final = f"the CLI has neither an API key nor a login. {LOGIN_HINT}"
"""The warning after the start of such a CLI."""


class RunFailed(ClaudeAgentError):
    """The base of every error that can end a run.

    Mistakes of the calling code (`OptionsError`) and a missing or outdated program are not `RunFailed`.
    """

    is_retryable: bool = False
    """Whether the same prompt may succeed if it is retried."""

    result: Any = None
    """The partial `RunResult` of the run; None if the run had not begun or the error is not a run's."""


class OptionsError(ClaudeAgentError):
    """An option, a definition or an argument is invalid. Raised before a process is started."""

    def __init__(self, message: str, *, option: str | None = None) -> None:
        self.option = option
        """The Python name of the option; None if the error is not about an option."""
        super().__init__(f"{option}: {message}" if option else message)


class OptionsWarning(UserWarning):
    """An option is valid but will not have the expected effect."""

    __module__ = "claude_agent_py.options"  # its public module


# The program -----------------------------------------------------------------------------------------------------


class CLIError(ClaudeAgentError):
    """The base of errors about the `claude` program."""


INSTALL_HINT = (
    "Run `claude-agent-py install-cli`, or name it with ClientOptions(cli_path=...) or the environment variable "
    "CLAUDE_AGENT_CLI."
)


class CLINotFoundError(CLIError):
    """No usable `claude` program was found."""

    def __init__(self, tried: Sequence[str], message: str | None = None, *, hint: str | None = None) -> None:
        self.tried: list[str] = list(tried)
        """Every place that was searched, in order, with the finding."""
        head = message or "no usable `claude` program was found"
        places = "".join(f"\n  - {place}" for place in self.tried)
        super().__init__(f"{head}; looked at:{places}\n{hint or INSTALL_HINT}")


class CLIInstallError(CLIError):
    """The `claude` program could not be installed."""

    def __init__(self, version: str, tried: Sequence[str]) -> None:
        self.version = version
        self.tried: list[str] = list(tried)
        """Every method that was tried, with its error."""
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


KILLED: Final = (-9, 137)
"""The exit codes of a program that got SIGKILL; the second one comes from a shell or a container."""


def hide_in_error(text: str, secrets: Mapping[str, str]) -> str:
    """Hide secrets in a text of others: errors get into logs, and into pages of a server."""
    from claude_agent_py._base.redaction import hide_values, redact  # few errors have such a text

    return redact(hide_values(text, secrets.items()))


class _ProcessEndError(CLIError):
    """The base of the errors about a process that exited."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        stderr_tail: str = "",
        cli_path: str | None = None,
        version: str | None = None,
        secrets: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.exit_code = exit_code
        """The exit status; negative for a signal; None if it is unknown or the process is running."""
        self.stderr_tail = stderr_tail
        """The end of the CLI's stderr. The text of the error has it without secrets."""
        self.cli_path = cli_path
        self.version = version
        why = ", killed, perhaps because memory ran out" if exit_code in KILLED else ""
        facts = [
            text
            for text, known in (
                (f"exit code {exit_code}{why}", exit_code is not None),
                (f"program {cli_path}", cli_path is not None),
                (f"version {version}", version is not None),
            )
            if known
        ]
        text = f"{message} ({', '.join(facts)})" if facts else message
        tail = stderr_tail.strip()
        if tail:
            text = f"{text}; its stderr ends with:\n{hide_in_error(tail, secrets())}"
        super().__init__(text)


class CLIStartError(_ProcessEndError, RunFailed):
    """The CLI could not be started, exited during start-up, or did not answer in time."""


class CLIExitError(_ProcessEndError, RunFailed):
    """The CLI exited during a session."""

    is_retryable = True
    """In a new process."""


# The pipe --------------------------------------------------------------------------------------------------------


class ProtocolError(ClaudeAgentError):
    """The protocol between this package and the CLI was violated."""


class LocalProtocolError(ProtocolError):
    """The calling code misused the protocol."""


class RemoteProtocolError(ProtocolError):
    """The CLI sent something invalid."""

    def __init__(self, message: str, *, raw: Any = None) -> None:
        self.raw = raw
        super().__init__(message)


class ControlError(ClaudeAgentError):
    """A control request failed."""

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
        """The CLI's error message."""
        self.error_code = error_code
        """For example `unsupported_request`; None if the CLI sends none."""
        code = f" [{error_code}]" if error_code else ""
        super().__init__(f"the CLI rejected {subtype!r}{code}: {error}", subtype=subtype, request_id=request_id)


class MCPNotReadyError(ControlError, TimeoutError):
    """MCP servers did not connect in time. The CLI keeps trying."""

    def __init__(self, servers: Sequence[str], timeout: float) -> None:
        self.servers: list[str] = list(servers)
        """The servers that are not connected; empty if the CLI did not report them."""
        self.timeout = timeout
        """How long was waited, in seconds."""
        which = ", ".join(map(repr, self.servers)) or "an unknown number of them"
        super().__init__(f"MCP servers were not up within {timeout:g} s: {which}", subtype="mcp_status")


class ConnectionClosedError(ControlError, RunFailed):
    """The session is not open, or was closed before the reply."""


# Runs ------------------------------------------------------------------------------------------------------------


class PoolTimeoutError(RunFailed, TimeoutError):
    """No process of a pool was free in time."""

    def __init__(self, timeout: float, *, used: int, waiting: int, starting: int = 0) -> None:
        self.timeout = timeout
        """How long was waited, in seconds."""
        self.used = used
        """How many processes of the pool were in use."""
        self.starting = starting
        """How many were still starting."""
        self.waiting = waiting
        """How many others still waited."""
        super().__init__(
            f"no process of the pool was free within {timeout:g} s: "
            f"{used} in use, {starting} starting, {waiting} other callers waiting"
        )


# Tasks -----------------------------------------------------------------------------------------------------------


class TaskError(ClaudeAgentError):
    """The base of errors about a background task."""

    def __init__(self, message: str, *, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(message)


class TaskNotFoundError(TaskError, KeyError):
    """No task has that id."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"no task {task_id!r} is known", task_id=task_id)

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would print the repr


class TaskTimeoutError(TaskError, TimeoutError):
    """A task did not finish in time. It keeps running."""

    def __init__(
        self,
        task_id: str,
        timeout: float,
        task_ids: Sequence[str] = (),
        descriptions: Mapping[str, str] | None = None,
    ) -> None:
        self.timeout = timeout
        """How long was waited, in seconds."""
        self.task_ids: list[str] = list(task_ids) or [task_id]
        """Every task that did not finish; `task_id` is the first one."""
        # The description of a shell may be its whole command.
        known = {task: hide_in_error(text, {}) for task, text in (descriptions or {}).items() if text}
        said = {task: f" ({one_line(text, 100)!r})" for task, text in known.items()}
        which = ", ".join(f"{each!r}{said.get(each, '')}" for each in self.task_ids)
        what = "task" if len(self.task_ids) == 1 else "tasks"
        super().__init__(f"{what} {which} did not end within {timeout:g} s", task_id=task_id)


class TaskOutputError(TaskError):
    """The output of a task cannot be read."""

    def __init__(self, task_id: str, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        where = f" at {path!r}" if path else ""
        super().__init__(f"the output of task {task_id!r}{where} cannot be read: {reason}", task_id=task_id)


# Others --------------------------------------------------------------------------------------------------------


class ToolError(ClaudeAgentError):
    """Raise it in a tool to send the model its text as the tool's error result."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # for the model, unchanged


class ToolInputError(ToolError):
    """The model's arguments do not match the tool's parameters. The text is sent to the model, so that it can retry."""

    def __init__(self, tool: str, problems: Sequence[tuple[str, str]]) -> None:
        self.tool = tool
        self.problems: list[tuple[str, str]] = list(problems)
        """The path and the problem of each invalid field; an empty path means the arguments as a whole."""
        lines = "".join(f"\n- {place}: {told}" if place else f"\n- {told}" for place, told in self.problems)
        super().__init__(f"invalid arguments for {tool}:{lines}\nFix the arguments and retry.")


_TOOLS_NAMED = 20
"""How many tools the text of an `UnknownToolError` names at most."""


class UnknownToolError(ToolError):
    """The model called a tool that a `ToolChain` does not have. The text is sent to the model, so that it can retry."""

    def __init__(self, tool: str, known: Sequence[str], near: Sequence[str] = ()) -> None:
        self.tool = tool
        self.known: list[str] = list(known)
        """The names of all tools of the chain."""
        self.near: list[str] = list(near)
        """The names nearest to the one that was called, the nearest first."""
        guess = f"; did you mean {' or '.join(map(repr, self.near))}?" if self.near else ";"
        shown = ", ".join(self.known[:_TOOLS_NAMED]) or "none"
        more = len(self.known) - _TOOLS_NAMED
        super().__init__(
            f"unknown tool {tool!r}{guess} available tools: {shown}{f' and {more} more' if more > 0 else ''}"
        )


class ToolTimeoutError(ToolError, TimeoutError):
    """A tool did not finish in time and was cancelled."""

    def __init__(self, tool: str, timeout: float) -> None:
        self.tool = tool
        self.timeout = timeout
        """The tool's limit, in seconds."""
        super().__init__(f"{tool} did not finish within {timeout:g} s and was cancelled")


class HandlerError(ClaudeAgentError):
    """A handler or listener failed. The error is logged and reported as an event, not raised by the session.

    It is raised only by a run whose async iterable of prompts raised a `BaseException` that is not an `Exception`.
    """

    def __init__(self, handler: str, reason: str) -> None:
        self.handler = handler
        self.reason = reason
        super().__init__(f"handler {handler} failed: {reason}")


class BacklogError(ClaudeAgentError):
    """Messages that waited for a reader were dropped, because neither the disk nor memory had room for them.

    It ends that reader, after the messages that were kept; the session and its other readers are not affected.
    """

    def __init__(self, reason: str, limit_bytes: int) -> None:
        self.reason = reason
        """The error of the temporary file, for example `No space left on device`."""
        self.limit_bytes = limit_bytes
        """How many bytes may wait in memory instead of the file (`Limits.mailbox_bytes`, at least 256 KiB)."""
        super().__init__(
            f"messages that waited were dropped: the temporary file cannot be used ({reason}), "
            f"and more than {limit_bytes} bytes would have to stay in memory"
        )

    def again(self) -> "BacklogError":
        """Return a new error with the same attributes."""
        return BacklogError(self.reason, self.limit_bytes)


class SessionError(ClaudeAgentError):
    """A session on disk is missing, or cannot be read or changed."""

    def __init__(self, message: str, *, session_id: str | None = None) -> None:
        self.session_id = session_id
        super().__init__(message)


class SessionNotFoundError(SessionError, RunFailed):
    """The session does not exist.

    A session to resume must be in the project of `cwd`, in the CLI's config directory.
    """


class SessionInUseError(SessionError, RunFailed):
    """The id for a new session is in use by another session."""


class SessionBusyError(SessionError):
    """A process is at work on the session, so it cannot be changed. Close the process first."""

    def __init__(self, session_id: str, pid: int, status: str | None = None) -> None:
        self.pid = pid
        """The id of the CLI's process."""
        self.status = status
        """What the process says it does: `busy` or `idle`; None if it does not say."""
        what = f" ({status})" if status else ""
        super().__init__(
            f"session {session_id} is open in the process {pid}{what}; close it first", session_id=session_id
        )


class StoreError(SessionError, RunFailed):
    """A session store failed, or lacks a part of a run; `__cause__` is the original error."""

    def __init__(
        self,
        message: str,
        *,
        key: Any = None,
        session_id: str | None = None,
        kept_in: str | None = None,
    ) -> None:
        self.key = key
        """The `SessionKey` of the transcript; None if it does not concern one."""
        self.kept_in = kept_in
        """The configuration folder that has the entries that were not delivered, for `sessions.push`; None if nothing
        is missing."""
        super().__init__(message, session_id=session_id)


class SessionLeasedError(StoreError):
    """Another process is writing to the session."""

    def __init__(
        self, message: str, *, session_id: str | None = None, holder: str = "", expires_at: float = 0.0
    ) -> None:
        self.holder = holder
        """The process: its host, its id and a random part."""
        self.expires_at = expires_at
        """When the lease expires unless that process renews it, in seconds since the epoch."""
        super().__init__(message, session_id=session_id)


class StaleLeaseError(StoreError):
    """Another process has taken over the session, so this one may no longer write it."""

    def __init__(self, message: str, *, session_id: str | None = None, holder: str = "") -> None:
        self.holder = holder
        """The other process."""
        super().__init__(message, session_id=session_id)


class TooManySessionsError(ClaudeAgentError):
    """All the processes that a server may run at once are busy."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """How many may run at once."""
        super().__init__(f"{limit} sessions are busy, the most that may be at once (max_open); try again later")


class FleetError(ClaudeAgentError):
    """A fleet, or its database, failed, or a session of a fleet does not exist."""

    is_retryable: bool = False
    """Whether the same call may succeed later: the database did not answer, or the run is not over."""

    def __init__(self, message: str, *, session_id: str | None = None) -> None:
        self.session_id = session_id
        """The session of the fleet; None if the error is not about one."""
        super().__init__(message)


class FleetRunError(FleetError):
    """A run of a session of a fleet failed or was cancelled, for the last time."""

    def __init__(self, message: str, *, session_id: str | None = None, outcome: Any = None) -> None:
        self.outcome = outcome
        """The `FleetOutcome`, with the reason."""
        super().__init__(message, session_id=session_id)


class FleetTimeoutError(FleetError, TimeoutError):
    """A run of a session of a fleet did not end in time. It continues."""

    is_retryable = True
