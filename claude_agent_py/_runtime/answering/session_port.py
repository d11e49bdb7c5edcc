"""`SessionPort`: the session's interface for its parts, which cannot import `session.py` without a cycle."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import anyio

    from claude_agent_py._listeners import ListenerQueue
    from claude_agent_py._protocol.events import Event
    from claude_agent_py._protocol.open_runs import Verdict
    from claude_agent_py._runtime.answering.failures import FailureLog
    from claude_agent_py._runtime.runs.readers import Readers
    from claude_agent_py._runtime.runs.run_state import RunState
    from claude_agent_py._runtime.session.facts import SessionFacts
    from claude_agent_py._runtime.session.launching import Launched
    from claude_agent_py._runtime.session.storing import Storing
    from claude_agent_py.observe.observer import Observer
    from claude_agent_py.options import ClientOptions
    from claude_agent_py.tasks import TaskIntake, TaskManager


class SessionPort(Protocol):
    """A session. `session.py` documents the members."""

    options: "ClientOptions"
    launched: "Launched | None"
    storing: "Storing | None"
    facts: "SessionFacts"
    readers: "Readers"
    failures: "FailureLog"
    intake: "TaskIntake"
    tasks: "TaskManager"
    observers: "tuple[Observer, ...]"
    listening: "set[ListenerQueue]"

    def start_worker(
        self, function: Callable[..., Awaitable[None]], *args: Any, scope: "anyio.CancelScope | None" = None
    ) -> None:
        """Run an async function as a worker, in this scope. A failure ends the session."""
        ...

    def post(self, subtype: str, /, **fields: Any) -> None:
        """Send a request without waiting for its reply."""
        ...

    def act(self, events: "Iterable[Event | Verdict]" = ()) -> None:
        """Act on events of the engine and the router, write what the engine has to send, and set the timer."""
        ...

    def flush(self) -> None:
        """Write what the engine has to send."""
        ...

    def open_run(self, run: "RunState") -> None:
        """Open a run."""
        ...

    def fail_run(self, run: "RunState", failure: Callable[[], BaseException]) -> None:
        """End a run with an error."""
        ...

    def dismiss(self) -> None:
        """Fail the pending requests and runs and end the readers. Idempotent."""
        ...

    def end_everything(self) -> None:
        """End everything that depends on the output of the CLI. Idempotent."""
        ...

    def cancel_children(self) -> None:
        """Cancel the child agents without waiting."""
        ...
