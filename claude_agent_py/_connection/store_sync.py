"""`StoreSync`: the session store of one client: resumes from it, mirrors to it, and cleans up."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import anyio

from claude_agent_py._base.callbacks import Callback, Report, log_failure
from claude_agent_py._base.checks import is_uuid
from claude_agent_py._base.errors import OptionsError, SessionNotFoundError, StoreError
from claude_agent_py._base.event_loop import run_file_work, run_to_its_end
from claude_agent_py._base.log import logger
from claude_agent_py._base.private_files import find_other
from claude_agent_py._connection.mirror_check import MirrorCheck
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.variables import config_directory, environment
from claude_agent_py.sessions.cost_notes import COST_TYPE, make_cost_note
from claude_agent_py.sessions.folders import project_key_for_directory
from claude_agent_py.sessions.index import list_sessions
from claude_agent_py.sessions.stores.access import StoreAccess, copy, find_on_disk, open_folder
from claude_agent_py.sessions.stores.base import RELEASE_SECONDS
from claude_agent_py.sessions.stores.cli_folder import encode_line
from claude_agent_py.sessions.stores.mirror import Mirror
from claude_agent_py.sessions.stores.private_folder import (
    PrivateFolder,
    change_owner,
    find_write_problem,
    make_folder,
    mark_of,
)
from claude_agent_py.sessions.stores.protocol import Lease, Place, SessionStore, SessionStoreEntry
from claude_agent_py.transport import Transport
from claude_agent_py.wire.codec import line_of
from claude_agent_py.wire.messages.conversation import ResultMessage
from claude_agent_py.wire.messages.occasional import MirrorErrorMessage, MirrorKey, TranscriptMirrorMessage
from claude_agent_py.wire.messages.usage import SessionUsage

DRAIN_SECONDS: Final = 10.0
"""Seconds that the store may take at the end, if nothing else limits it."""
RESERVE_SECONDS: Final = 0.5
"""How long it may take if the store did not take everything in time; kept for that at the end."""
LISTENER_SECONDS: Final = 10.0
"""How long `on_store_error` may take, in seconds."""


class StoreSync:
    """The store of a session. `prepare` it before the CLI starts, and `end` it after the CLI has ended."""

    def __init__(self, options: ClientOptions) -> None:
        assert options.session_store is not None  # noqa: S101 - the caller looked
        self.options: ClientOptions = options
        """The options to start the CLI with."""
        self._given = options
        self._access = StoreAccess(options.session_store, options.load_timeout)
        self._folder: PrivateFolder | None = None
        self._inject: Callable[[MirrorErrorMessage], object] | None = None
        self._report_failure: Report = log_failure
        project = options.session_store_project or project_key_for_directory(options.cwd)
        self.mirror: Mirror = Mirror(self._access, project, report=self._report, flush=options.session_store_flush)
        self._check = MirrorCheck()
        self._mirrors = True
        """Whether the program mirrors its transcript: a fake in memory does so only if its scenario says so."""
        self._unnoted: tuple[str, SessionUsage] | None = None
        """The session and its cost as the CLI reported it last, until it is noted."""
        self._has_ended = False

    @property
    def config_dir(self) -> str | None:
        """The private configuration folder of the CLI; None if it uses the user's."""
        return None if self._folder is None else str(self._folder.path)

    # Before the CLI starts ---------------------------------------------------------------------------------------

    async def prepare(self, transport: Transport | None) -> None:
        """Find the session to resume, acquire its lease and write its files for the CLI.

        A CLI that cannot write its transcripts to its configuration folder gets a private one.

        Raises:
            OptionsError: `resume` is not an id.
            SessionLeasedError: Another process is writing to the session.
            StoreError: The store failed, or took too long, or a session of this machine is in a folder that the CLI
                cannot write to.
        """
        if self._is_resumed and transport is not None:
            raise OptionsError("cannot be resumed with a transport of your own", option="session_store")
        self._mirrors = not getattr(transport, "ignores_options", False)
        try:
            if self._is_resumed:
                await self._resume()
            if self._folder is None and transport is None:
                await self._replace_unwritable_folder()
        except BaseException:
            await run_to_its_end(self.end, name="claude_agent_py store")
            raise

    @property
    def _is_resumed(self) -> bool:
        return bool(self._given.resume or self._given.continue_conversation)

    async def _replace_unwritable_folder(self) -> None:
        """Make a private configuration folder if the CLI cannot write to its own: the mirror would get nothing."""
        options = self._given
        if options.spawn is not None or options.home is True:
            return  # in another place, or new
        env = environment(options, os.environ)
        folder = config_directory(env)
        transcripts = folder / "projects" / project_key_for_directory(options.cwd)
        problem = await run_file_work(find_write_problem, transcripts, options.user)
        if problem is None:
            return
        text = f"the CLI cannot write transcripts in {folder} ({problem}), and the session store gets what it writes"
        if self._is_resumed:
            raise StoreError(f"{text}; make the folder writable to continue a session that only this machine has")
        logger.warning("%s: it gets a private configuration folder", text)
        self._folder = await self._make_folder(env)
        await self._give_folder()

    async def _make_folder(self, env: Mapping[str, str] | None) -> PrivateFolder:
        mark = mark_of(self._access.store)
        return await run_file_work(partial(make_folder, env, self._given.user, mark=mark))

    async def _give_folder(self) -> None:
        """Give the private folder to the user of the CLI."""
        if self._folder is not None and self._given.user is not None:
            await run_file_work(change_owner, self._folder, self._given.user)

    async def _resume(self) -> None:
        options = self._given
        env = environment(options, os.environ)
        session_id = await self._find_session(env)
        if session_id is None:
            return  # nothing to continue
        place = Place(self.mirror.project, session_id)
        local = await self._find_local(session_id, env)
        lease: Lease | None = None
        left: list[tuple[StoreAccess, Place]] = []
        if not options.fork_session:  # otherwise, another process may be writing to the session
            lease = await self.mirror.acquire_lease(place)
            left = await self._access.send_leftovers(place, lease)  # before the copy, which then has them
        is_ours = options.home is not True and (options.spawn is None or options.inherit_env)
        folder = self._folder = await self._make_folder(env if is_ours else None)
        own = open_folder(folder.projects)
        to = Place(project_key_for_directory(options.cwd), session_id)
        try:
            await copy(self._access, place, own, to)
        except SessionNotFoundError:
            await run_file_work(folder.remove)
            self._folder = None
            if local is not None:
                await self._resume_local(*local)
            return
        # The first process of the session may have been killed, or the store away at its end. `own` is as the store.
        if local is not None and not options.fork_session and await own.lacks_answers(to, *local):
            for target, there, epoch in ((self._access, place, lease), (own, to, None)):
                await copy(*local, target, there, lease=epoch, without_ends=True)
        for source, found in left:
            await self._send_later(source, found)
            await copy(source, found, own, to, is_rest=True)  # the model sees it meanwhile
        await self._give_folder()
        self.options = options.replace(resume=session_id, continue_conversation=False)

    async def _find_session(self, env: Mapping[str, str]) -> str | None:
        """Return the session to resume and note its project. Return None if there is nothing to continue."""
        session_id = self._given.resume
        if session_id is None:
            newest = await self._access.find_newest_session(self.mirror.project)
            return newest or await self._find_newest_local(env)
        if not is_uuid(session_id):
            problem = f"{session_id!r} is not the id of a session (a uuid): in a store, titles are not looked up"
            raise OptionsError(problem, option="resume")
        session_id = session_id.lower()  # as the CLI names its transcripts
        if self._given.session_store_project is None:
            self.mirror.project = await self._access.find_project(session_id, self.mirror.project)
        return session_id

    def describe_missing(self, session_id: str) -> str:
        """Return the text of the error if neither the store nor this machine has the session to resume."""
        project = self.mirror.project
        text = f"session {session_id!r} exists neither in the project {project!r} of the session store nor here"
        if self._given.session_store_project is not None or self._access.can_search:
            return text
        return (
            f"{text}; the store has no find_session() to search other projects: "
            "name the session's project with session_store_project"
        )

    async def _send_later(self, source: StoreAccess, place: Place) -> None:
        """Have the mirror send the entries of a session on this machine that the store lacks."""
        later = _Later(self._access.store, self._given.load_timeout, self.mirror)
        await copy(source, place, later, Place(self.mirror.project, place.session), is_rest=True)

    async def _find_newest_local(self, env: Mapping[str, str]) -> str | None:
        """Return the newest session of the working directory on this machine, which the store does not have."""
        if self._given.home is True:
            return None
        directory, config_dir = self._given.cwd or os.getcwd(), env.get("CLAUDE_CONFIG_DIR")
        newest = partial(list_sessions, directory, limit=1, include_worktrees=False, config_dir=config_dir)
        return next((info.id for info in await run_file_work(newest)), None)

    async def _find_local(self, session_id: str, env: Mapping[str, str]) -> tuple[StoreAccess, Place] | None:
        """Return the session in the configuration folder that the CLI uses without a store, or None."""
        if self._given.home is True:
            return None
        # Another user can put links to files that only this one may read into a folder of his.
        uid = find_other(self._given.user)
        try:
            return await find_on_disk(session_id, None, env.get("CLAUDE_CONFIG_DIR"), uid=uid)
        except Exception:
            return None  # if the store does not have the session either, the CLI says so

    async def _resume_local(self, source: StoreAccess, place: Place) -> None:
        """Let the CLI resume a session that only this machine has; all of it is then sent to the store."""
        await self._send_later(source, place)
        self.options = self._given.replace(resume=place.session, continue_conversation=False)

    # While it runs -----------------------------------------------------------------------------------------------

    def report_to(self, inject: Callable[[MirrorErrorMessage], object], report_failure: Report) -> None:
        """Send messages about errors of the store to the session, and errors of `on_store_error` to its log."""
        self._inject, self._report_failure = inject, report_failure

    def take(self, message: object) -> bool:
        """Take entries of the transcript, and return whether to keep the message from readers."""
        if type(message) is TranscriptMirrorMessage:
            if self.mirror.take(message.file_path, message.entries, len(line_of(message))):
                self._check.mirror(message.entries)
                if any(entry.get("type") == COST_TYPE for entry in message.entries):
                    self._unnoted = None
                self._mirrors = True
            return not self._given.session_mirror
        if type(message) is ResultMessage:
            spent = SessionUsage(
                total_cost_usd=message.total_cost_usd,
                total_api_duration_ms=message.duration_api_ms,
                total_duration_ms=message.duration_ms,
                model_usage=message.model_usage,
            )
            self.note_spent(message.session_id, spent)
            if self._given.max_budget_usd is not None:
                self._note_cost()
            self.mirror.flush()
        else:
            self._check.take(message)
        return False

    def note_spent(self, session_id: str | None, spent: SessionUsage) -> None:
        """Note the cost of the session as the CLI reports it."""
        self._unnoted = (session_id, spent) if session_id is not None and spent.model_usage else None

    def _note_cost(self) -> None:
        """Store the cost as the CLI notes it when it exits: after each turn with a limit, otherwise if killed."""
        unnoted, self._unnoted = self._unnoted, None
        if unnoted is not None:
            note = make_cost_note(*unnoted)
            self.mirror.add(Place(self.mirror.project, unnoted[0]), [note], len(encode_line(note)))

    def note_prompt(self, prompt_uuid: str) -> None:
        """Note a prompt that was sent to the CLI."""
        self._check.send(prompt_uuid)

    def find_lost(self, result: ResultMessage) -> StoreError | None:
        """Return the error of a turn with prompts or answers that the CLI could not write, or None."""
        return self._make_lost_error(self._check.end_turn(result), result.session_id)

    def find_lost_at_end(self, session_id: str) -> StoreError | None:
        """Return the error for answers that the CLI had not written when it exited, or None."""
        return self._make_lost_error(self._check.end(), session_id)

    def _make_lost_error(self, count: int, session_id: str) -> StoreError | None:
        if not count or not self._mirrors:
            return None
        folder = self.config_dir or config_directory(environment(self._given, os.environ))
        place = Place(self.mirror.project, session_id)
        return StoreError(
            f"the session store lacks {count} messages of {place}: the CLI could not write "
            f"them to its transcript in {folder}; check its permissions and the free space there",
            key=place.key,
            session_id=session_id,
        )

    async def drain(self, deadline: float) -> None:
        """Deliver the rest, until a time of the event loop's clock."""
        self._note_cost()
        now = anyio.current_time()
        reserve = min(RESERVE_SECONDS, max(0.0, deadline - now) / 2) + 0.1
        await self.mirror.drain(min(deadline - reserve, now + DRAIN_SECONDS))

    async def _report(self, error: StoreError, *, is_final: bool) -> None:
        if is_final:
            error.kept_in = self._find_kept(error)
            if error.kept_in is not None:
                logger.error("%s; %s has them, and sessions.push sends them again", error, error.kept_in)
            else:
                logger.error("%s; they are lost", error)
        else:
            logger.warning("%s; it is tried again", error)
        if self._inject is not None:
            self._inject(self.make_message(error))
        await self._call_listener(error)

    @staticmethod
    def make_message(error: StoreError) -> MirrorErrorMessage:
        """Return the message for an error of the store."""
        return MirrorErrorMessage(error=str(error), key=MirrorKey(**error.key) if error.key else None)

    async def report_lost(self, error: StoreError) -> None:
        """Report entries that the CLI could not write."""
        logger.error("%s; they are lost", error)
        await self._call_listener(error)

    async def _call_listener(self, error: StoreError) -> None:
        if self._given.on_store_error is not None:
            with anyio.move_on_after(LISTENER_SECONDS):
                await Callback(self._given.on_store_error, name="on_store_error").tell(self._report_failure, error)

    def _find_kept(self, error: StoreError) -> str | None:
        """Return the folder that still has the entries that the store lacks, or None."""
        key: Any = error.key
        place = Place(key["project_key"], key["session_id"], key.get("subpath", ""))
        if self.mirror.find_cli_file(place) is not None:
            if self._folder is not None:
                return str(self._folder.path)
            if self._given.home is not True:  # otherwise the home is about to be removed
                return str(config_directory(environment(self._given, os.environ)))
        try:
            return str(self.mirror.keep(place))
        except (OSError, StoreError) as failure:
            logger.error("the entries of %s cannot be kept: %s", place.session, failure)
            return None

    # After it ended ----------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Release the leases, and remove the folder unless it has entries that the store lacks.

        Idempotent, and shielded from cancellation.
        """
        if self._has_ended:
            return
        self._has_ended = True
        with anyio.CancelScope(shield=True):
            is_late = bool(self.mirror.undelivered)
            with anyio.move_on_after(RESERVE_SECONDS if is_late else RELEASE_SECONDS):
                await self.mirror.end()
            for folder in (self._folder, self.mirror.folder):
                if folder is not None:
                    await run_file_work(lambda folder: folder.remove(keep_transcripts=is_late), folder)


class _Later(StoreAccess):
    """A store to which its mirror sends later what is appended."""

    def __init__(self, store: SessionStore, timeout: float, mirror: Mirror) -> None:
        super().__init__(store, timeout)
        self._mirror = mirror

    async def append(self, place: Place, entries: list[SessionStoreEntry], lease: Lease | None = None) -> None:
        if entries:
            self._mirror.add(place, entries, sum(len(encode_line(entry)) for entry in entries))
