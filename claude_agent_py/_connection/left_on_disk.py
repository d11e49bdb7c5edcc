"""What a session that is resumed left on disk: its tasks, and the prompts of its interrupted turn."""

import os
from collections.abc import Sequence
from pathlib import Path

from claude_agent_py._base.errors import ClaudeAgentError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.output_shape import Output
from claude_agent_py.sessions.folders import find_session
from claude_agent_py.sessions.index import list_sessions
from claude_agent_py.sessions.stored_session import StoredSession, get_session
from claude_agent_py.sessions.stored_tasks import list_records
from claude_agent_py.tasks import TaskIntake
from claude_agent_py.wire.messages.conversation import UserMessage


async def read_left_on_disk(session_id: str, config_dir: Path) -> "LeftOnDisk | None":
    """Read a session from disk in a thread; None if it is not there or cannot be read, which the CLI reports."""
    try:
        return await run_file_work(LeftOnDisk, session_id, config_dir, abandon_on_cancel=True)
    except ClaudeAgentError as error:
        logger.debug("the session to resume cannot be read: %s", error)
        return None


class LeftOnDisk:
    """A session as its last process left it. Making one blocks."""

    def __init__(self, session_id: str, config_dir: Path) -> None:
        self._session = get_session(session_id, config_dir=config_dir)
        # The process that runs now has not launched any of them.
        self._ledger = self._session.read_ledger(is_over=True)

    def recall_tasks(self, intake: TaskIntake) -> None:
        """Add the tasks to the resumed session."""
        for record in list_records(self._ledger):
            intake.recall(record)

    async def prompts(self, uuids: Sequence[str]) -> dict[str, UserMessage]:
        """Return the prompts with these uuids that are on disk, by uuid."""
        try:
            return await run_file_work(self._find, frozenset(uuids), abandon_on_cancel=True)
        except ClaudeAgentError:
            return {}

    async def find_prompts(self, uuids: Sequence[str]) -> frozenset[str]:
        """Return which of these prompt uuids are anywhere in the transcript."""
        return await run_file_work(_find_uuids, self._session, uuids, abandon_on_cancel=True)

    def _find(self, uuids: frozenset[str]) -> dict[str, UserMessage]:
        found: dict[str, UserMessage] = {}
        for message in reversed(self._session.messages):
            if len(found) == len(uuids):
                break
            if isinstance(message, UserMessage) and message.uuid in uuids:
                found[message.uuid] = message
        return found


def find_title(title: str, cwd: str | os.PathLike[str] | None, config_dir: Path) -> str | None:
    """Return the id of the session with a title, or None if there is none or several. Blocks.

    As the CLI does it (2.1.328): in the project of the working directory, upper and lower case being the same.
    """
    listed = list_sessions(cwd or os.curdir, config_dir=config_dir)
    found = [info.id for info in listed if (info.custom_title or "").casefold() == title.strip().casefold()]
    return found[0] if len(found) == 1 else None


def find_session_with(
    prompts: Sequence[str], copy: str | None, cwd: str | os.PathLike[str] | None, config_dir: Path
) -> str | None:
    """Return the id of the newest session of a directory that holds one of these prompts, or None. Blocks.

    Args:
        prompts: The uuids of the prompts.
        copy: The id of a session to leave out, because it is a copy.
        cwd: The working directory of the session.
        config_dir: The CLI's configuration folder.
    """
    for info in list_sessions(cwd or os.curdir, include_worktrees=False, config_dir=config_dir):
        if info.id == copy:
            continue
        try:
            session = get_session(info.id, config_dir=config_dir)
            if _find_uuids(session, prompts):
                return session.id
        except ClaudeAgentError:
            continue  # deleted since it was listed
    return None


def _find_uuids(session: StoredSession, uuids: Sequence[str]) -> frozenset[str]:
    """Return which of these uuids are anywhere in the transcript of a session."""
    marks = {uuid: f'"uuid":"{uuid}"'.encode() for uuid in uuids}
    lines = (line for _, line in session.snapshot.forwards() if line is not None)
    return frozenset(uuid for line in lines for uuid, mark in marks.items() if mark in line)


async def options_to_go_on(
    options: ClientOptions[Output], session_id: str | None, config_dir: Path
) -> ClientOptions[Output]:
    """Return the options of another process for a session whose process died.

    A session that is not on disk yet begins anew, under the same id.
    """
    if session_id is None:
        return options
    if not await run_file_work(_is_on_disk, session_id, config_dir):
        is_new = options.fork_session or not (options.resume or options.continue_conversation)
        return options.replace(session_id=session_id) if is_new else options
    return options.replace(
        resume=session_id,
        resume_interrupted_turn=True,
        session_id=None,
        continue_conversation=False,
        fork_session=False,
        resume_session_at=None,
        resume_drops_turn=None,
    )


def _is_on_disk(session_id: str, config_dir: Path) -> bool:
    try:
        find_session(session_id, None, config_dir)
    except ClaudeAgentError:
        return False
    return True
