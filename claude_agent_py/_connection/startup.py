"""Initializing a session over a started CLI, and refusing a CLI that did not accept the options."""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from claude_agent_py._base.configuration import Unshown
from claude_agent_py._base.errors import (
    MISSING_LOGIN,
    ClaudeAgentError,
    CLIError,
    CLIExitError,
    CLIStartError,
    CLIVersionError,
    ControlRejectedError,
    ControlTimeoutError,
    OptionsError,
    RemoteProtocolError,
    SessionInUseError,
    SessionNotFoundError,
    hide_in_error,
)
from claude_agent_py._base.event_loop import run_file_work, run_to_its_end
from claude_agent_py._base.lazy_names import LazyModule
from claude_agent_py._base.log import logger
from claude_agent_py._connection import answering
from claude_agent_py._connection.connection import Connection
from claude_agent_py._connection.control_bodies import read_reply
from claude_agent_py._connection.launching import Launched
from claude_agent_py._connection.reported import parse_session_id
from claude_agent_py.options.delegation import depends_on_hooks
from claude_agent_py.options.secrets import find_secrets
from claude_agent_py.options.variables import environment
from claude_agent_py.transport.locate import read_version, require_version
from claude_agent_py.wire import codec
from claude_agent_py.wire.base import JSONObject, keep_source
from claude_agent_py.wire.control.initialize import InitializeReply
from claude_agent_py.wire.settings.rule_lists import check_rules_kept

if TYPE_CHECKING:
    from claude_agent_py.sessions import StoredSession, resuming
else:  # few sessions are resumed
    resuming = LazyModule("claude_agent_py.sessions.resuming")

UNKNOWN_SESSION: Final = ("No conversation found with session ID", "does not match any session title")
"""The CLI's messages for an unknown session id and an unknown session title."""

POLICY: Final = "policySettings"
"""The CLI's name for the source of managed settings."""

SHOWN_GARBAGE: Final = 200
"""How many characters of what a program prints that is not JSON an error quotes."""

NO_LOGIN: Final = "none"
"""The CLI's name for the source of a missing login."""

VERSION_TIMEOUT: Final = 2.0
"""How many seconds a CLI that failed to start may take to print its version for the error."""


async def open_session(connection: Connection, launched: Launched) -> None:
    """Open a session over a started CLI. An error or a cancellation ends the CLI.

    Raises:
        OptionsError: An option cannot be applied.
        SessionNotFoundError: The session to resume does not exist.
        SessionInUseError: The id for a new session is in use.
        CLIStartError: The CLI exited, or did not answer within `Timeouts.connect`.
        CLIVersionError: The CLI is too old.
        ConnectionClosedError: The session was closed meanwhile.
    """
    startup = _Startup(connection, launched)
    try:
        await startup.recall()
        connection.open(launched)
        await startup.run()
    except BaseException:
        connection.shutdown.abort()

        async def end() -> None:
            await connection.shutdown.wait_closed()
            await launched.discard()

        await run_to_its_end(end, name="claude_agent_py end")
        raise


class _Startup:
    """The steps of a start, for one session."""

    def __init__(self, connection: Connection, launched: Launched) -> None:
        self._connection = connection
        self._session = connection.session
        self._options = connection.session.options
        self._launched = launched
        self._earlier: StoredSession | None = None
        """The session that is resumed, as its last process left it."""

    async def recall(self) -> None:
        """Take in the tasks and turns of the session's earlier processes. Does nothing until the session is known."""
        config_dir = self._launched.plan.config_dir
        if self._earlier is not None or config_dir is None or self._launched.cli_path is None:
            return
        session_id = await self._find_resumed_session(config_dir)
        if session_id is None:
            return
        try:
            read = await run_file_work(resuming.read_earlier, session_id, config_dir, abandon_on_cancel=True)
        except ClaudeAgentError as error:  # the CLI reports it
            logger.debug("the session to resume cannot be read: %s", error)
            return
        self._earlier, totals = read
        self._session.router.turns.go_on(totals.turns)
        for task in totals.records:
            self._session.intake.recall(task)

    async def _find_resumed_session(self, config_dir: Path) -> str | None:
        """Return the id of the session that is resumed, or of the one that is forked, if it is known yet."""
        options, own_id = self._options, self._session.reported.session_id
        if options.resume is None and not options.continue_conversation:
            return None
        if own_id is not None and not options.fork_session:
            return own_id
        if options.resume is not None:
            session_id = parse_session_id(options.resume)
            if session_id is not None:
                return session_id
            return await run_file_work(
                resuming.find_title, options.resume, options.cwd, config_dir, abandon_on_cancel=True
            )
        resumed = self._connection.resumption.run
        if resumed is None:
            return None
        # The CLI forks the newest session and reports only the id of the copy, which is not on disk yet.
        return await run_file_work(
            resuming.find_session_with, resumed.prompts, own_id, options.cwd, config_dir, abandon_on_cancel=True
        )

    async def run(self) -> None:
        """Take the steps with the CLI. A CLI that exits, is silent or refuses one of them did not start."""
        session = self._session
        try:
            info = await self.initialize()
            session.reported.take_info(info)
            await self.check(info)
            await session.changes.repeat(session.control)  # before prompts are sent again
            await self.check_settings()
            await self.check_hooks(info)
            self.warn_of_missing_login(info)
            await self.take_up_turn(info)
            if not session.is_open or self._connection.shutdown.is_requested:  # a CLI that is closed still answers
                raise session.error_now
        except (ControlTimeoutError, ControlRejectedError) as error:
            raise await self._error(str(error)) from error
        except CLIExitError as error:
            problem = await self._error("the CLI exited before the session was open")
            wrong = self._wrong_session(problem)
            raise (wrong or problem) from (problem if wrong else error)

    async def initialize(self) -> InitializeReply:
        """Send the `initialize` request and return its reply."""
        fields = Unshown({**self._launched.plan.initialize, **self._connection.handlers.initialize_fields()})
        codec.prepare()  # while the CLI starts, which takes far longer
        self._connection.handlers.prepare()
        payload = await self._session.request("initialize", fields, self._options.timeouts.connect)
        if self._launched.follows_plan:
            self._launched.plan.check_reply(payload)
        try:
            info = read_reply(InitializeReply, "initialize", payload)
        except RemoteProtocolError as error:
            raise await self._error(f"the CLI sent an invalid reply to initialize: {error}") from error
        with contextlib.suppress(ValueError, OverflowError):  # only a dict can hold it
            keep_source(info, "_source", msgspec.json.encode(payload))  # it stays; text takes a third of the memory
        return info

    async def _error(self, message: str) -> CLIError:
        """Return the error of a failed start, with its details. If the CLI is too old, that is the error."""
        version = await self._version(None)
        printed = self._connection.printed
        if printed:
            printed = hide_in_error(printed, find_secrets(self._options))[:SHOWN_GARBAGE]
        error = CLIStartError(
            f"{message}; it printed {printed!r}" if printed else message,
            exit_code=self._launched.transport.exit_code,
            stderr_tail=self._launched.transport.stderr_tail,
            cli_path=str(self._launched.cli_path) if self._launched.cli_path else None,
            version=version,
            secrets=lambda: find_secrets(self._options),
        )
        try:
            require_version(version or "", self._launched.cli_path or "the CLI")
        except CLIVersionError as too_old:
            too_old.add_note(str(error))
            return too_old
        return error

    def _wrong_session(self, problem: CLIError) -> ClaudeAgentError | None:
        """Return the error for a session that cannot be resumed or created, or None.

        The CLI only reports it as text; this matches version 2.1.328.
        """
        stderr = problem.stderr_tail if isinstance(problem, CLIStartError) else ""
        resumed, made = self._options.resume, self._options.session_id
        if resumed and any(words in stderr for words in UNKNOWN_SESSION):
            store_sync = self._session.store_sync
            text = store_sync.describe_missing(resumed) if store_sync else f"session {resumed!r} does not exist here"
            return SessionNotFoundError(text, session_id=resumed)
        if made and f"Session ID {made} is already in use" in stderr:
            text = f"session {made} already exists: use resume to continue it"
            return SessionInUseError(text, session_id=str(made))
        return None

    async def _version(self, info: InitializeReply | None) -> str | None:
        """Return the version in the CLI's reply, or the one that the program prints if the reply has none."""
        if info is not None and info.claude_code_version:
            return info.claude_code_version
        if self._launched.cli_path is None:
            return None
        return await run_file_work(_ask_version, self._launched.cli_path, abandon_on_cancel=True)

    async def check(self, info: InitializeReply) -> None:
        """Refuse a CLI that is too old, or that silently dropped agents."""
        version = await self._version(info)
        if version is not None:
            require_version(version, self._launched.cli_path or "the CLI")
        offered = {agent.name for agent in info.agents or ()}
        dropped = set(self._options.agents or ()) - offered
        if dropped and offered:
            raise OptionsError(f"the CLI did not accept {', '.join(sorted(dropped))}", option="agents")
        agent = self._options.agent
        if agent is not None and "agents" in info.raw and agent not in offered:
            known = ", ".join(sorted(offered)) or "none"
            raise OptionsError(
                f"unknown agent {agent!r}: the CLI would run without it; known agents: {known}", option="agent"
            )

    async def check_settings(self) -> None:
        """Raise OptionsError if the CLI silently ignores settings: a whole file for one invalid value, or a rule."""
        settings, managed = self._options.settings, self._options.managed_settings
        files = [*self._launched.plan.files, *([settings] if isinstance(settings, Path) else [])]
        if not (files or managed) or not self._launched.follows_plan:
            return
        reply = await self._session.control("get_settings", timeout=self._options.timeouts.connect)
        errors = [error for error in reply.get("errors") or () if isinstance(error, dict)]
        if wrong := _select_about(files, errors):
            problems = "; ".join(f"{e.get('path')}: {e.get('message')}" for e in wrong)
            raise OptionsError(f"the CLI rejected them ({problems})", option="settings")
        for option, given in (("settings", settings), ("managed_settings", managed)):
            check_rules_kept(given, reply, option)
        if isinstance(managed, Mapping) and isinstance(sources := reply.get("sources"), list):
            kept = [each.get("settings") for each in sources if isinstance(each, dict) and each.get("source") == POLICY]
            if ignored := sorted(_find_ignored(managed, kept)):
                why = "they restrict nothing, or it cannot read them"
                logger.warning("managed_settings: the CLI ignores %s: %s", ", ".join(ignored), why)

    async def check_hooks(self, info: InitializeReply) -> None:
        """Raise OptionsError unless the hooks are in force: they may guard tools."""
        if not depends_on_hooks(self._options):
            return
        if info.hooks_applied is False:
            raise OptionsError("the CLI did not accept them (hooks_applied is False)", option="hooks")
        await answering.put_in_force(
            self._connection.handlers.hooks, self._session, timeout=self._options.timeouts.connect
        )

    async def take_up_turn(self, info: InitializeReply) -> None:
        """Wait until the CLI reports which interrupted turn it resumes, if it was asked to.

        That takes as long as its hooks and servers need. The turn's run is there afterwards, or later if it takes long.
        """
        resumption = self._connection.resumption
        if not self._options.resume_interrupted_turn and not resumption.carried:
            return
        self._connection.act(resumption.note_initialized(is_running=info.session_state == "running"))
        with anyio.move_on_after(self._options.timeouts.connect) as limit:
            await resumption.wait_known()
        if limit.cancelled_caught:
            self._session.workers.start_logged(self._continue_late)
        else:
            await self._continue_runs()

    async def _continue_late(self) -> None:
        """Continue the runs of earlier processes once the CLI has reported the turn, after `connect` has returned."""
        await self._connection.resumption.wait_known()
        await self._continue_runs()

    async def _continue_runs(self) -> None:
        """Continue the runs of earlier processes, now that it is known which turn the CLI resumes."""
        resumption = self._connection.resumption
        resumed = resumption.run
        if resumed is not None:
            await self.recall()  # by now the id is known, even if the options name no session
        earlier = self._earlier
        carried = [prompt.uuid for run in resumption.carried for prompt in run.unanswered]
        known: Collection[str] = ()
        if carried and earlier is not None:
            known = await run_file_work(resuming.find_uuids, earlier.snapshot, carried, abandon_on_cancel=True)
        again, lost = resumption.sort_carried(known)
        for prompt in again:
            self._connection.runs.write(prompt)
        for run in lost:
            self._connection.runs.fail(
                run, lambda: CLIExitError("the CLI ended before it reported the result of the run")
            )
        self._connection.act()
        if resumed is not None and earlier is not None:
            prompts = await run_file_work(resuming.read_prompts, earlier, resumed.prompts, abandon_on_cancel=True)
            resumed.sent = [prompts.get(prompt.uuid, prompt) for prompt in resumed.sent]

    def warn_of_missing_login(self, info: InitializeReply) -> None:
        """Warn of a missing login before the first prompt. Not an error: custom headers may hold a key."""
        account = info.account
        is_missing = account is not None and account.token_source == NO_LOGIN and account.api_key_source is None
        if is_missing and not environment(self._options, os.environ).get("ANTHROPIC_CUSTOM_HEADERS"):
            logger.warning(MISSING_LOGIN)


def _select_about(files: Iterable[Path], errors: Iterable[JSONObject]) -> list[JSONObject]:
    """Return the errors about these files. The CLI tells where links lead."""
    names = {name for path in files for name in (str(path), os.path.realpath(path))}
    return [error for error in errors if error.get("file") in names]


def _find_ignored(given: Mapping[str, object], kept: Sequence[object], path: str = "") -> Iterator[str]:
    """Yield the places of values that are in none of the objects that were kept. Objects in lists are not compared."""
    for name, value in given.items():
        found = [each[name] for each in kept if isinstance(each, Mapping) and name in each]
        if isinstance(value, Mapping):
            yield from _find_ignored(value, found, f"{path}{name}.")
        elif isinstance(value, list | tuple):
            known = [item for each in found if isinstance(each, list) for item in each]
            if not found or any(item not in known for item in value if isinstance(item, str)):
                yield f"{path}{name}"
        elif value not in found:
            yield f"{path}{name}"


def _ask_version(cli: Path) -> str | None:
    try:
        return read_version(cli, timeout=VERSION_TIMEOUT)
    except ClaudeAgentError:
        return None
