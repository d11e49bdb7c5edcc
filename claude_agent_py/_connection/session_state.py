"""`SessionState`: what a session knows and who listens to it. `Connection` adds the pipe."""

from typing import TYPE_CHECKING

from claude_agent_py._base.listeners import ListenerQueue
from claude_agent_py._connection.facts import SessionFacts
from claude_agent_py._connection.failures import FailureLog
from claude_agent_py._connection.runs.readers import Readers
from claude_agent_py.options import ClientOptions
from claude_agent_py.options.delegation import definitions
from claude_agent_py.tasks import TaskIntake

if TYPE_CHECKING:
    from claude_agent_py._journal.tasks.events import TaskEvent
    from claude_agent_py.agents.definition import AgentDefinition
    from claude_agent_py.observe.observer import LiveJournal


class SessionState:
    """The options, the facts, the tasks and the readers of a session."""

    def __init__(self, options: ClientOptions, parent: "SessionState | None") -> None:
        self.options = options
        self.agents: dict[str, AgentDefinition] = definitions(options)
        """The known agent definitions by name. Those of child agents are added when they start."""
        self.journals: tuple[LiveJournal, ...] = ()
        """The journal of the session, which gets every message, prompt, request and answer; none without observers."""
        self.facts: SessionFacts = SessionFacts(options)
        self.readers: Readers = Readers(options.limits.mailbox_bytes, options.limits.unclaimed_messages)
        self.failures: FailureLog = FailureLog(
            self.readers.put, parent=parent.failures.take if parent is not None else None
        )
        self.stderr: ListenerQueue | None = None
        """Calls `on_stderr`; None without it."""
        if options.on_stderr is not None:
            self.stderr = ListenerQueue(options.on_stderr, self.failures.report)
        self.intake: TaskIntake = TaskIntake(on_events=self.on_task_events, wants_event=self.wants_event)
        """Feeds messages and hooks to the tasks."""

    def wants_event(self, kind: "type[TaskEvent]") -> bool:
        """Return whether a reader needs task events of a kind."""
        return self.readers.has_event_readers

    def on_task_events(self, events: "list[TaskEvent]") -> None:
        """Deliver the events of tasks, if any."""
        self.readers.put_events(events)
