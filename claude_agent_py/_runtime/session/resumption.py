"""`Resumption`: the unfinished work of earlier processes of the session.

It is the turn that the CLI resumes on its own (`resume_interrupted_turn`), and the runs that `reopen` moved here.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

import anyio

from claude_agent_py._errors import CLIExitError
from claude_agent_py._protocol.engine import Engine
from claude_agent_py._protocol.open_runs import TurnResumed
from claude_agent_py._protocol.turns import TurnRouter
from claude_agent_py._runtime.runs.run_state import RunState
from claude_agent_py._runtime.session.live_changes import LiveChanges
from claude_agent_py._streams import LazyEvent
from claude_agent_py.wire.messages.conversation import UserContent, UserMessage

if TYPE_CHECKING:
    from claude_agent_py._runtime.answering.session_port import SessionPort


class Resumption:
    """The work that earlier processes of a session left unfinished.

    Args:
        session: The session.
        engine: Its engine.
        router: Its router.
    """

    def __init__(self, session: "SessionPort", engine: Engine, router: TurnRouter) -> None:
        self._session = session
        self._engine = engine
        self._router = router
        self.run: RunState | None = None
        """The run of the interrupted turn, once the CLI has resumed it."""
        self.carried: list[RunState] = []
        """The unfinished runs of the session's last process."""
        self.changes: LiveChanges = LiveChanges()
        """The changes made to the running session, which its next process repeats."""
        self.cut_off: list[RunState] = []
        """The runs that the end of this process cut off, which the next one continues."""
        self._prompts: tuple[str, ...] | None = None
        """The prompts of the interrupted turn; None until the CLI has reported whether it resumes one."""
        self._is_known = LazyEvent()
        """Set once the CLI has reported whether it resumes a turn."""

    def follow(self, last: "Resumption") -> None:
        """Continue the session whose process has died."""
        self.carried = [run for run in last.cut_off if run.is_sealed]
        self.changes = last.changes

    def begin(self) -> None:
        """Register the runs whose turn the CLI may resume. Call it before the CLI writes anything."""
        if self._session.options.resume_interrupted_turn:
            run = RunState(self._session.options.limits.mailbox_bytes)
            run.is_resumed = True
            self._session.open_run(run)
            self._router.expect_resumed_turn(run)
        for run in self.carried:
            run.reopen()
            self._session.open_run(run)  # the CLI may resume its prompts on its own
        self._session.act(self._router.settle(anyio.current_time()))

    async def wait(self, *, is_running: bool) -> None:
        """Wait until the CLI has resumed the interrupted turn, or has reported that there is none.

        Args:
            is_running: Whether the CLI was busy when it answered `initialize`: it resumes a turn before that.
        """
        if not self._session.options.resume_interrupted_turn:
            self._prompts = ()
            return
        if not is_running:
            self._session.act(self._router.expect_no_resumed_turn())
        await self.wait_known()

    async def wait_known(self) -> None:
        """Wait until the CLI has reported whether it resumes a turn, or the session has ended."""
        await self._is_known.wait()

    def on_turn_resumed(self, event: TurnResumed) -> None:
        """Note which turn the CLI has resumed, if any."""
        run: RunState = event.run
        self._prompts = event.prompts
        if event.adopted:
            self.run = run
            run.sent += [UserMessage(message=UserContent(role="user", content=""), uuid=p) for p in event.adopted]
        else:
            run.finish()
        self._is_known.set()

    def give_up(self) -> None:
        """Wake all waiters, because the session has ended."""
        self._is_known.set()

    def settle_carried(self, known: Collection[str]) -> None:
        """Send prompts of the last process again, or fail their runs, once the CLI has reported what it resumes.

        A prompt that is not on disk never reached the conversation, so it is sent again. The CLI has completed the turn
        of any other prompt and would ignore it. The result of that turn is lost, so its run fails.

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
                    self._engine.send_prompt(prompt)
        self._session.act()
