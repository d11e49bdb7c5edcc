"""`Resumption`: what an earlier process of the session left unfinished and this one continues.

A turn that the CLI takes up by itself (`resume_interrupted_turn`), and the runs of a session that `reopen` moved here.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Protocol

import anyio

from claude_agent_py._errors import CLIExitError
from claude_agent_py._protocol.engine import Engine
from claude_agent_py._protocol.events import Event
from claude_agent_py._protocol.open_runs import TurnResumed, Until
from claude_agent_py._runtime.runs.run_mailbox import RunMailbox
from claude_agent_py._streams import LazyEvent
from claude_agent_py.wire.messages.conversation import UserContent, UserMessage

if TYPE_CHECKING:
    from claude_agent_py.options import ClientOptions


class SessionPort(Protocol):
    """The session, as seen by its resumption."""

    options: "ClientOptions"

    def open_run(self, until: Until, timeout: float | None) -> RunMailbox:
        """Open a run."""
        ...

    def register_run(self, run: RunMailbox) -> None:
        """Open a run that is there already."""
        ...

    def fail_run(self, run: RunMailbox, failure: Callable[[], BaseException]) -> None:
        """End a run with an error."""
        ...

    def act(self, events: Iterable[Event]) -> None:
        """Act on the events of the engine, then write what it has to send."""
        ...


class Resumption:
    """The earlier work of one session.

    Args:
        session: The session.
        engine: Its engine.
    """

    def __init__(self, session: SessionPort, engine: Engine) -> None:
        self._session = session
        self._engine = engine
        self.run: RunMailbox | None = None
        """The run of the turn that an earlier process left, once the CLI has taken it up."""
        self.carried: list[RunMailbox] = []
        """The runs of the session's last process that continue here."""
        self._prompts: tuple[str, ...] | None = None
        """The prompts of that turn; None until the CLI has said which it takes up, if any."""
        self._is_known = LazyEvent()
        """Set once the CLI has taken up such a turn, or has none."""

    def begin(self) -> None:
        """Register what the CLI may take up, before it speaks."""
        if self._session.options.resume_interrupted_turn:
            self._engine.expect_resumed_turn(self._session.open_run("result", None))
        for run in self.carried:
            self._carry_on(run)

    def _carry_on(self, run: RunMailbox) -> None:
        """Open a run of the session's last process, whose prompts the CLI may take up by itself."""
        now = anyio.current_time()
        run.reopen()
        run.moved_to = self._session
        self._session.register_run(run)
        for prompt in run.unanswered:
            self._engine.expect_prompt(run, prompt.uuid, now)
        self._session.act(self._engine.seal_run(run, now))

    async def wait(self, *, is_running: bool) -> None:
        """Wait until the CLI has taken up the turn that an earlier process left, or has said that there is none.

        Args:
            is_running: Whether the CLI was at work when it answered `initialize`: it begins that turn before.
        """
        if not self._session.options.resume_interrupted_turn:
            self._prompts = ()
            return
        if not is_running:
            self._session.act(self._engine.expect_no_resumed_turn())
        await self._is_known.wait()

    def on_turn_resumed(self, event: TurnResumed) -> None:
        """Note which turn the CLI has taken up, if any."""
        run: RunMailbox = event.run_id
        self._prompts = event.prompts
        if event.adopted:
            self.run, run.is_sealed = run, True
            run.sent += [UserMessage(message=UserContent(role="user", content=""), uuid=p) for p in event.adopted]
        else:
            run.finish(frozenset())
        self._is_known.set()

    def give_up(self) -> None:
        """Wake all waiters, because the session is over."""
        self._is_known.set()

    def settle_carried(self, known: Collection[str]) -> None:
        """Decide about the prompts of the last process that the CLI did not take up, once it has said what it does.

        Those that are not on disk never reached the conversation, and are sent again. Of the others the CLI had ended
        the turn, and would ignore them; what it said of that is lost, and their runs end as they did before.

        Args:
            known: The uuids of the prompts that are on disk.
        """
        if self._prompts is None:
            return
        for run in self.carried:
            left = [prompt for prompt in run.unanswered if prompt.uuid not in self._prompts]
            if run.is_over:
                continue
            if any(prompt.uuid in known for prompt in left):
                self._session.fail_run(
                    run, lambda: CLIExitError("the CLI ended before it reported the result of the run")
                )
            else:
                for prompt in left:
                    self._engine.send_again(prompt)
        self._session.act(())
