"""`Resumption`: the unfinished work of earlier processes of the session.

It is the turn that the CLI resumes on its own (`resume_interrupted_turn`), and the runs that `reopen` moved here.
"""

import contextlib
import sys
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path

from claude_agent_py._base.errors import ClaudeAgentError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py._base.streams import LazyEvent
from claude_agent_py._connection.runs.run_state import NEVER_AWAITED, RunState
from claude_agent_py._connection.session import Session
from claude_agent_py._journal.open_runs import TurnResumed, Verdict
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.output_shape import Output
from claude_agent_py.wire.messages.conversation import UserContent, UserMessage


class Resumption:
    """The work that earlier processes of a session left unfinished."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.run: RunState | None = None
        """The run of the interrupted turn, once the CLI has resumed it."""
        self.carried: dict[RunState, bool] = {}
        """The runs of the session's last process that are not continued yet, and whether they were in its turn."""
        self.cut_off: dict[RunState, bool] = {}
        """The same for the runs that the end of this process cut off, which the next one continues."""
        self.joined: dict[str, list[str]] = {}
        """Prompts that joined the turn of another, by that one, which alone the CLI names when it resumes the turn."""
        self._was_withdrawn = False
        """Whether the run of a turn that the end of this process cut off was interrupted since."""
        self._has_gone_on = False
        """Whether a process since `connect` has begun a turn, so that the next one resumes the conversation."""
        self._leaves = False
        """Whether this process leaves the turn that the last one left unfinished."""
        self.forgotten: set[tuple[str, int]] = set()
        """The lines that dropped a run before its end, without awaiting it."""
        self._prompts: tuple[str, ...] | None = None
        """The prompts of the interrupted turn; None until the CLI has reported whether it resumes one."""
        self._is_known = LazyEvent()
        """Set once the CLI has reported whether it resumes a turn."""

    def follow(self, last: "Resumption") -> None:
        """Continue the session whose process has died."""
        self.carried = {run: was_in_turn for run, was_in_turn in last.cut_off.items() if run.is_sealed}
        self.joined = last.joined
        self.forgotten = last.forgotten
        self._leaves = last.leaves_turn
        self._has_gone_on = last._has_gone_on

    def cut(self, run: RunState, *, was_in_turn: bool) -> None:
        """Note a run that the end of the process has cut off, and whether the CLI was working on it."""
        self.cut_off[run] = was_in_turn or self.carried.get(run, False)

    def withdraw(self, run: RunState) -> bool | None:
        """Drop a run that waits for the next process, and return whether the turn that it was in may go on there.

        None if the run does not wait for one.
        """
        was_in_turn = self.cut_off.pop(run, None)
        if was_in_turn is not None:
            self._was_withdrawn = self._was_withdrawn or was_in_turn
            return was_in_turn
        was_in_turn = self.carried.pop(run, None)
        self._leaves = self._leaves or bool(was_in_turn)
        return was_in_turn

    async def prepare_next(self, options: ClientOptions[Output], config_dir: Path) -> ClientOptions[Output]:
        """Return the options of the next process, given those in effect, because this one died.

        If it has begun no turn, the next one starts as it did, but a new session keeps its id.
        """
        reported = self._session.reported
        session_id = reported.session_id
        if session_id is None:
            return options
        is_new = options.fork_session or not (options.resume or options.continue_conversation)
        prompts = [prompt.uuid for run in self.cut_off for prompt in run.unanswered]
        found = await run_file_work(_find_prompts, session_id, prompts, config_dir, is_new)
        if found is None and is_new:
            if reported.has_answered:
                logger.warning("the transcript of the session %s is gone: the conversation begins anew", session_id)
            return options.replace(session_id=session_id)
        for prompt, first in (found or {}).items():
            if prompt != first:
                self.joined.setdefault(first, []).append(prompt)
        self._has_gone_on = self._has_gone_on or is_new or reported.tools is not None or bool(found)
        if found is None or not self._has_gone_on:
            return options
        return options.replace(
            resume=session_id,
            resume_interrupted_turn=True,
            session_id=None,
            continue_conversation=False,
            fork_session=False,
            resume_session_at=None,
            resume_drops_turn=None,
        )

    def leave_withdrawn(self, options: ClientOptions[Output]) -> ClientOptions[Output]:
        """Return options for the next process that leave the interrupted turn if its run was interrupted."""
        return options.replace(resume_interrupted_turn=False) if self.leaves_turn else options

    @property
    def leaves_turn(self) -> bool:
        """Whether the next process leaves the interrupted turn, which is the last one until this one begins another."""
        return self._was_withdrawn or (self._leaves and self._session.reported.tools is None)

    def warn_forgotten(self) -> None:
        """Warn about each line that dropped a run, unless the program reads all messages of the session.

        While an exception propagates, a filter that turns the warnings into errors does not replace it.
        """
        lines, self.forgotten = self.forgotten, set()
        if self._session.readers.were_added:
            return
        with contextlib.suppress(*([RuntimeWarning] if sys.exception() else [])):
            for filename, line in sorted(lines):
                warnings.warn_explicit(NEVER_AWAITED, RuntimeWarning, filename, line)

    def begin(self) -> list[RunState]:
        """Return the runs whose turns the CLI may resume, to be opened before it writes anything."""
        runs = list(self.carried)
        for run in runs:
            run.reopen()
            run.joined.update(
                first for first, others in self.joined.items() if not run.waiting.keys().isdisjoint(others)
            )
        if self._session.options.resume_interrupted_turn:
            heir = RunState(self._session.options.limits.mailbox_bytes)
            heir.is_resumed = True
            self._session.router.expect_resumed_turn(heir, self.joined)
            runs.insert(0, heir)
        return runs

    def note_initialized(self, *, is_running: bool) -> Sequence[Verdict]:
        """Note whether the CLI was busy when it answered `initialize`: it resumes a turn before that."""
        if not self._session.options.resume_interrupted_turn:
            self._prompts = ()
            self._is_known.set()
        elif not is_running:
            return self._session.router.expect_no_resumed_turn()
        return ()

    async def wait_known(self) -> None:
        """Wait until the CLI has reported whether it resumes a turn, or the session has ended."""
        await self._is_known.wait()

    def on_turn_resumed(self, event: TurnResumed) -> None:
        """Note which turn the CLI has resumed, if any."""
        run: RunState = event.run
        self._prompts = event.prompts
        if event.adopted:
            self.run = run
            # `Startup` reads their texts from the transcript later.
            run.sent += [UserMessage(message=UserContent(role="user", content=""), uuid=p) for p in event.adopted]
            if self._leaves:  # since the CLI was told to resume the turn
                self._session.post("interrupt")
        else:
            run.finish()
        self._is_known.set()

    def give_up(self) -> None:
        """Wake all waiters, because the session has ended."""
        self._is_known.set()

    def sort_carried(self, known: Collection[str]) -> tuple[list[UserMessage], list[RunState]]:
        """Decide about the runs of the last process, once the CLI has reported what it resumes.

        A prompt that is not on disk never reached the conversation, so it is sent again. The CLI has completed the turn
        of any other prompt and would ignore it.

        Args:
            known: The uuids of the prompts that are on disk.

        Returns:
            The prompts to send again, and the runs whose turn was completed. Its result is lost.
        """
        # What waited in the queue of the CLI died with it (2.1.328): only the interrupted turn goes on.
        again: list[UserMessage] = []
        lost: list[RunState] = []
        carried, self.carried = self.carried, {}
        for run in carried if self._prompts is not None else ():
            left = [prompt for prompt in run.unanswered if prompt.uuid not in (self._prompts or ())]
            if run.is_over:
                continue
            if any(prompt.uuid in known for prompt in left):
                lost.append(run)
            else:
                again += left
        return again, lost


def _find_prompts(session_id: str, prompts: Sequence[str], config_dir: Path, is_new: bool) -> dict[str, str] | None:
    """Return which prompts are in the transcript of a session, as `find_prompts` does; None if it has no message.

    Such a transcript is removed if the session is new, because the next CLI would not begin it.
    """
    from claude_agent_py.sessions import resuming  # few processes die

    found = None
    with contextlib.suppress(ClaudeAgentError, OSError):
        found = resuming.find_prompts(session_id, prompts, config_dir)
    if found is None and is_new:
        with contextlib.suppress(ClaudeAgentError, OSError):  # if it stays, the CLI says so
            resuming.remove_begun(session_id, config_dir)
    return found
