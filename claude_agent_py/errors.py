"""Every error that this package raises, in one tree.

    ClaudeAgentError
    ├── OptionsError                    an option, a definition or an argument is invalid        .option
    ├── CLIError                        the `claude` program
    │   ├── CLINotFoundError            not found                                                .tried
    │   ├── CLIInstallError             could not be installed                                   .tried
    │   ├── CLIVersionError             too old                                                  .version .minimum
    │   ├── CLIStartError               it did not start, or exited before the session was open  .exit_code .stderr_tail
    │   └── CLIExitError                it exited during a session                               .exit_code .stderr_tail
    ├── ProtocolError                   the conversation over the pipe
    │   ├── LocalProtocolError          the calling code misused the protocol
    │   └── RemoteProtocolError         the CLI sent something invalid                           .raw
    ├── ControlError                    a control request                                        .subtype .request_id
    │   ├── ControlTimeoutError         no reply in time (also a TimeoutError)                   .timeout
    │   ├── ControlRejectedError        the CLI answered with an error                           .error .error_code
    │   ├── MCPNotReadyError            MCP servers did not connect in time (also TimeoutError)  .servers .timeout
    │   └── ConnectionClosedError       the session is not open, or closed before the reply
    ├── RunFailed                       any error that ends a run                                .result .is_retryable
    │   ├── PoolTimeoutError            no process of a pool was free (also a TimeoutError)      .timeout .used .waiting
    │   └── RunError, and CLIStartError, CLIExitError, ConnectionClosedError, SessionNotFoundError, ...
    ├── RunError                        the run's result is an error (also a RunFailed)          .result .is_retryable
    │   ├── AuthenticationError   BillingError         RateLimitedError (.resets_at)   OverloadedError
    │   ├── ServerError           InvalidRequestError  ModelNotFoundError              PromptTooLongError
    │   ├── MaxTurnsError         BudgetExceededError  MaxOutputTokensError            RefusalError
    │   ├── StructuredOutputError InterruptedRunError  PromptCancelledError            HookStoppedError
    │   ├── UnreadableResultError       the result is malformed                                  .raw
    │   └── RunTimeoutError             a limit of `Timeouts` expired (also a TimeoutError)      .timeout .kind
    ├── TaskError                       a background task                                        .task_id
    │   ├── TaskNotFoundError           no such task (also a KeyError)
    │   ├── TaskTimeoutError            it did not finish in time (also a TimeoutError)          .timeout .task_ids
    │   └── TaskOutputError             its output cannot be read                                .path .reason
    ├── ToolError                       an error that a tool reports to the model
    │   ├── ToolInputError              the model's arguments do not fit                         .tool .problems
    │   ├── UnknownToolError            a `ToolChain` has no such tool                           .tool .near
    │   └── ToolTimeoutError            the tool did not finish in time (also a TimeoutError)    .tool .timeout
    ├── TextFormatError                 a text is not in the required form (strict parsing)      .problems
    ├── HandlerError                    a handler or listener failed (reported, not raised)      .handler
    ├── BacklogError                    waiting messages were dropped for lack of space          .reason .limit_bytes
    ├── FleetError                      a fleet of sessions                                      .session_id
    │   ├── FleetRunError               a run failed for good                                    .outcome
    │   └── FleetTimeoutError           a run did not end in time (also a TimeoutError)
    ├── TooManySessionsError            a server of sessions runs as many as it may             .limit
    └── SessionError                    a session on disk                                        .session_id
        ├── SessionNotFoundError        it does not exist
        ├── SessionInUseError           the id of a new session is in use
        ├── SessionBusyError            a process is at work on it                               .pid .status
        └── StoreError                  a session store failed                                   .key .kept_in
            ├── SessionLeasedError      another process is writing to the session                .holder .expires_at
            └── StaleLeaseError         another process took the session over                    .holder

`EncodingError` and `FormError`, which are about values, are plain `ValueError`s.

The text of an error is built from its attributes, and every error can be pickled.
"""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._base.errors import (
        BacklogError as BacklogError,
        ClaudeAgentError as ClaudeAgentError,
        CLIError as CLIError,
        CLIExitError as CLIExitError,
        CLIInstallError as CLIInstallError,
        CLINotFoundError as CLINotFoundError,
        CLIStartError as CLIStartError,
        CLIVersionError as CLIVersionError,
        ConnectionClosedError as ConnectionClosedError,
        ControlError as ControlError,
        ControlRejectedError as ControlRejectedError,
        ControlTimeoutError as ControlTimeoutError,
        FleetError as FleetError,
        FleetRunError as FleetRunError,
        FleetTimeoutError as FleetTimeoutError,
        HandlerError as HandlerError,
        LocalProtocolError as LocalProtocolError,
        MCPNotReadyError as MCPNotReadyError,
        OptionsError as OptionsError,
        PoolTimeoutError as PoolTimeoutError,
        ProtocolError as ProtocolError,
        RemoteProtocolError as RemoteProtocolError,
        RunFailed as RunFailed,
        SessionBusyError as SessionBusyError,
        SessionError as SessionError,
        SessionInUseError as SessionInUseError,
        SessionLeasedError as SessionLeasedError,
        SessionNotFoundError as SessionNotFoundError,
        StaleLeaseError as StaleLeaseError,
        StoreError as StoreError,
        TaskError as TaskError,
        TaskNotFoundError as TaskNotFoundError,
        TaskOutputError as TaskOutputError,
        TaskTimeoutError as TaskTimeoutError,
        ToolError as ToolError,
        ToolInputError as ToolInputError,
        ToolTimeoutError as ToolTimeoutError,
        TooManySessionsError as TooManySessionsError,
        UnknownToolError as UnknownToolError,
    )
    from claude_agent_py._connection.runs.result import (
        AuthenticationError as AuthenticationError,
        BillingError as BillingError,
        BudgetExceededError as BudgetExceededError,
        HookStoppedError as HookStoppedError,
        InterruptedRunError as InterruptedRunError,
        InvalidRequestError as InvalidRequestError,
        MaxOutputTokensError as MaxOutputTokensError,
        MaxTurnsError as MaxTurnsError,
        ModelNotFoundError as ModelNotFoundError,
        OverloadedError as OverloadedError,
        PromptCancelledError as PromptCancelledError,
        PromptTooLongError as PromptTooLongError,
        RateLimitedError as RateLimitedError,
        RefusalError as RefusalError,
        RunError as RunError,
        RunTimeoutError as RunTimeoutError,
        ServerError as ServerError,
        StructuredOutputError as StructuredOutputError,
        UnreadableResultError as UnreadableResultError,
    )
    from claude_agent_py.formatting import EncodingError as EncodingError, TextFormatError as TextFormatError
    from claude_agent_py.wire.control.forms import FormError as FormError
else:
    _NAMES = {
        "claude_agent_py._base.errors": """
            BacklogError ClaudeAgentError CLIError CLIExitError CLIInstallError CLINotFoundError CLIStartError
            CLIVersionError ConnectionClosedError ControlError ControlRejectedError ControlTimeoutError FleetError
            FleetRunError FleetTimeoutError HandlerError LocalProtocolError MCPNotReadyError OptionsError
            PoolTimeoutError ProtocolError RemoteProtocolError RunFailed SessionBusyError SessionError SessionInUseError
            SessionLeasedError SessionNotFoundError StaleLeaseError StoreError TaskError TaskNotFoundError
            TaskOutputError TaskTimeoutError TooManySessionsError ToolError ToolInputError
            ToolTimeoutError UnknownToolError
        """,
        "claude_agent_py._connection.runs.result": """
            AuthenticationError BillingError BudgetExceededError HookStoppedError InterruptedRunError
            InvalidRequestError MaxOutputTokensError MaxTurnsError ModelNotFoundError OverloadedError
            PromptCancelledError PromptTooLongError RateLimitedError RefusalError RunError RunTimeoutError ServerError
            StructuredOutputError UnreadableResultError
        """,
        "claude_agent_py.formatting": "EncodingError TextFormatError",
        "claude_agent_py.wire.control.forms": "FormError",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
