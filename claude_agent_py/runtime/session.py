"""A session from a CLI that was started to its end: puts the parts together, initializes, closes.

The one start-up path: `Client`, `query()`, `run()` and child agents all come through here. Owns the errors of start-up
and the order of an end. The CLI is started by `launching.py`; how frames move is `connection.py`'s business, and what
answers the CLI is put together in `features.py`.
"""

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup

from claude_agent_py.agents.definition import AgentDefinition, validate_agents
from claude_agent_py.configuration import Unshown
from claude_agent_py.errors import (
    LOGIN_HINT,
    ClaudeAgentError,
    CLIError,
    CLIExitError,
    CLIStartError,
    CLIVersionError,
    ConnectionClosedError,
    ControlRejectedError,
    ControlTimeoutError,
    OptionsError,
    RemoteProtocolError,
    SessionInUseError,
    SessionNotFoundError,
)
from claude_agent_py.event_loop import run_file_work
from claude_agent_py.launch.environment import config_directory, environment
from claude_agent_py.launch.locate import read_version, require_version
from claude_agent_py.launch.plan import LaunchPlan
from claude_agent_py.options.checks import HOOKS_OFF, turns_hooks_off
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.runtime.above import Above
from claude_agent_py.runtime.connection import Connection
from claude_agent_py.runtime.features import Features
from claude_agent_py.runtime.launching import Launched, force_of
from claude_agent_py.runtime.listeners import FailureLog
from claude_agent_py.runtime.prompting import Prompting, SessionMessages
from claude_agent_py.runtime.prompts import prompt_message
from claude_agent_py.runtime.reply_reading import read_reply
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.tasks.task_list import TaskList
from claude_agent_py.transport import Transport
from claude_agent_py.wire.codec import encode, prepare
from claude_agent_py.wire.initialize import InitializeReply

logger: logging.Logger = logging.getLogger("claude_agent_py")

TasksAtClose: TypeAlias = Literal["stop", "wait", "leave"]

BUSY_GRACE: Final = 0.3
"""How long a CLI that is at work may take to end by itself, in seconds; it would first finish its turn and tasks."""

BUSY_SHARE: Final = 0.1
"""The most of `Timeouts.close` that is kept for it."""

UNKNOWN_SESSION: Final = ("No conversation found with session ID", "does not match any session title")
"""How the CLI says that there is no session to resume: with this id, with this title."""

DROPPED: Final = "its client was dropped without being closed, and the session ended with it"

NO_LOGIN: Final = "none"
"""What the CLI calls the source of a login that is not there."""

VERSION_TIMEOUT: Final = 2.0
"""How long a CLI that did not come up may take to print its version for the error, in seconds."""


class Session:
    """One CLI process and everything around it. Used once: `open`, then `close`.

    Args:
        options: Checked already, as `ClientOptions` checks itself.
        above: What a child agent's session has above it; None for one that is nobody's child.
    """

    def __init__(
        self,
        options: ClientOptions,
        *,
        above: Above | None = None,
    ) -> None:
        self.options = options
        self.failures: FailureLog = FailureLog(above=above.note_failure if above is not None else None)
        env = environment(options, os.environ)
        kept_in = config_directory(env)
        self.tasks: TaskManager = TaskManager(control=self, config_dir=kept_in)
        self.task_list: TaskList = TaskList(kept_in, list_id=env.get("CLAUDE_CODE_TASK_LIST_ID"))
        self.features: Features = Features(options, self.tasks, self.task_list, self.failures.report, above)
        self.prompting: Prompting = Prompting(self, options, self.tasks)
        self.info: InitializeReply | None = None
        """What the CLI answered to `initialize`."""
        self.agents: dict[str, AgentDefinition] = validate_agents(options.agents or {})
        """The definitions of agents that are known, by name; those of child agents come in as they start."""
        self.dependents: set[Callable[[], None]] = set()
        """Cancel, each, something that must not outlive the session: a child agent."""
        self._launched: Launched | None = None
        self._connection: Connection | None = None
        self.keeps: object = None
        """What has to live as long as the session, where that was left alone: the client."""
        self.advice = 'await them before (client.tasks.wait_all()), or close(tasks="wait")'
        """How background tasks that run at the close could have been waited for."""
        self._is_left = False
        """Whether the CLI was left alone to finish its tasks."""

    @property
    def connection(self) -> Connection:
        """The connection.

        Raises:
            ConnectionClosedError: The session was not opened.
        """
        if self._connection is None:
            raise ConnectionClosedError("the client is not connected; use `async with`, or call connect() first")
        return self._connection

    @property
    def known_info(self) -> InitializeReply:
        """What the CLI answered to `initialize`.

        Raises:
            ConnectionClosedError: It did not yet.
        """
        if self.info is None:
            raise ConnectionClosedError("the client is not connected; use `async with`, or call connect() first")
        return self.info

    @property
    def version(self) -> str | None:
        """The version of the CLI, as it says itself."""
        return self.info.claude_code_version if self.info else None

    # Opening -----------------------------------------------------------------------------------------------------

    async def open(self, launched: Launched) -> None:
        """Initialize the session with a CLI that was started. After an error or a cancellation nothing is left of it.

        Raises:
            OptionsError: An option cannot be put into effect.
            SessionNotFoundError, SessionInUseError: The session to resume, or to make, is not there, or is.
            CLIStartError: The CLI ended, or did not answer within `Timeouts.connect`.
            CLIVersionError: It is too old.
        """
        self._launched = launched
        try:
            self._connection = connection = self._connect(launched.transport)
            await connection.start()
            self.info = await self._initialize(connection, launched.plan)
            await self._check(self.info)
            await self._check_settings(launched.plan)
            await self._check_hooks(self.info)
            self._warn_of_missing_login(self.info)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._shut(grace=0.0)
                await launched.discard()  # where there is no connection that would have done it
            raise

    @property
    def _cli_path(self) -> Path | None:
        return self._launched.cli_path if self._launched else None

    def _connect(self, transport: Transport) -> Connection:
        options = self.options
        connection = Connection(
            transport,
            tasks=self.features,
            answering=self.features.answering,
            max_line_bytes=options.limits.max_line_bytes,
            mailbox_bytes=options.limits.mailbox_bytes,
            unclaimed_messages=options.limits.unclaimed_messages,
            control_timeout=options.timeouts.control,
            on_live=self._on_live,
            background=self.features.background,
            deliveries=self.features.deliveries,
            describe=self._describe,
            on_over=self._on_over,
        )
        self.failures.sink = connection.announce_failure
        return connection

    def _on_live(self, workers: TaskGroup) -> None:
        self.features.attach(self.connection, workers)

    def _describe(self) -> dict[str, str | None]:
        return {"cli_path": str(self._cli_path) if self._cli_path else None, "version": self.version}

    def _on_over(self, reason: ClaudeAgentError) -> None:
        self.tasks.process_exited(str(reason).splitlines()[0])
        self.features.end()
        if self._launched is not None:
            self._launched.plan.clean_up()
        if isinstance(reason, ConnectionClosedError):  # closed, and not just without its CLI
            self.cancel_dependents()

    def cancel_dependents(self) -> None:
        """Cancel what must not outlive the session; returns at once."""
        for cancel in list(self.dependents):
            cancel()

    async def _initialize(self, connection: Connection, plan: LaunchPlan) -> InitializeReply:
        fields = Unshown({**plan.initialize, **self.features.initialize_fields()})
        limit = self.options.timeouts.connect
        try:
            payload = await connection.initialize(fields, timeout=limit, meanwhile=self._prepare)
        except ControlTimeoutError as error:
            raise await self._start_error(f"the CLI did not initialize within {limit:g} s") from error
        except ControlRejectedError as error:
            raise await self._start_error(f"the CLI refused to initialize: {error.error}") from error
        except CLIExitError as error:
            problem = await self._start_error("the CLI ended before the session was up")
            wrong = self._wrong_session(problem)
            raise (wrong or problem) from (problem if wrong else error)
        if self._cli_path is not None:
            plan.check_reply(payload)
        try:
            return read_reply(InitializeReply, "initialize", payload)
        except RemoteProtocolError as error:
            raise await self._start_error(f"the CLI answered initialize with something else: {error}") from error

    def _prepare(self) -> None:
        """Build, while the CLI starts, what its reply, the first message, prompt and hook would have to wait for."""
        encode(prompt_message("Hello", verbatim=False))  # first: the next takes what it builds
        prepare()
        self.features.prepare()

    async def _start_error(self, message: str) -> CLIError:
        """Make the error of a failed start, with all the evidence there is. A CLI that is too old is reason enough."""
        transport = self.connection.transport
        version = self.version or await self._printed_version()
        error = CLIStartError(
            message,
            exit_code=transport.exit_code,
            stderr_tail=transport.stderr_tail,
            cli_path=str(self._cli_path) if self._cli_path else None,
            version=version,
        )
        try:
            require_version(version or "", self._cli_path or "the CLI")
        except CLIVersionError as too_old:
            too_old.add_note(str(error))
            return too_old
        return error

    def _wrong_session(self, problem: CLIError) -> ClaudeAgentError | None:
        """Return what the CLI has against the session that it was told to resume or make, or None.

        It only says so in words; these are those of version 2.1.328.
        """
        told = problem.stderr_tail if isinstance(problem, CLIStartError) else ""
        resumed, made = self.options.resume, self.options.session_id
        if resumed and any(words in told for words in UNKNOWN_SESSION):
            return SessionNotFoundError(f"there is no session {resumed!r} to resume here", session_id=resumed)
        if made and f"Session ID {made} is already in use" in told:
            text = f"there is a session {made} already: give resume to go on with it"
            return SessionInUseError(text, session_id=str(made))
        return None

    async def _printed_version(self) -> str | None:
        """Give what the program prints as its version: it did not say it, because it failed or is very old."""
        if self._cli_path is None:
            return None
        return await run_file_work(_version_of, self._cli_path, abandon_on_cancel=True)

    async def _check(self, info: InitializeReply) -> None:
        """Refuse a CLI that is too old, or that dropped what it was given without a word."""
        version = info.claude_code_version or await self._printed_version()
        if version is not None:
            require_version(version, self._cli_path or "the CLI")
        offered = {agent.name for agent in info.agents or ()}
        dropped = set(self.options.agents or ()) - offered
        if dropped and offered:
            raise OptionsError(f"the CLI did not take {', '.join(sorted(dropped))}", option="agents")
        agent = self.options.agent
        if agent is not None and "agents" in info.raw and agent not in offered:
            known = ", ".join(sorted(offered)) or "none"
            raise OptionsError(
                f"there is no agent {agent!r}: the CLI would run without it; those it has are {known}", option="agent"
            )

    def _warn_of_missing_login(self, info: InitializeReply) -> None:
        """Say at once what the first prompt will say, maybe much later. No error: headers may hold a key unseen."""
        account = info.account
        is_missing = account is not None and account.token_source == NO_LOGIN and account.api_key_source is None
        if is_missing and not environment(self.options, os.environ).get("ANTHROPIC_CUSTOM_HEADERS"):
            logger.warning("the CLI has neither an API key nor a login. %s", LOGIN_HINT)

    async def _check_settings(self, plan: LaunchPlan) -> None:
        """Refuse to go on without settings that were asked for: one wrong value makes the CLI drop all of a file."""
        if not plan.files or self._cli_path is None:
            return
        reply = await self.control("get_settings", timeout=self.options.timeouts.connect)
        ours = {str(path) for path in plan.files}
        wrong = [e for e in reply.get("errors") or () if isinstance(e, dict) and e.get("file") in ours]
        if wrong:
            told = "; ".join(f"{e.get('path')}: {e.get('message')}" for e in wrong)
            raise OptionsError(f"the CLI does not take them ({told})", option="settings")

    async def _check_hooks(self, info: InitializeReply) -> None:
        """Refuse to go on without hooks that were given: they may be what guards the tools."""
        if self.options.hooks is None:
            return
        if info.hooks_applied is False:
            raise OptionsError("the CLI did not take them (hooks_applied is False)", option="hooks")
        from claude_agent_py.hooks.live import check_in_force

        try:
            await check_in_force(self, timeout=self.options.timeouts.connect)
        except ControlTimeoutError as error:
            raise await self._start_error("the CLI did not say whether hooks are in force") from error

    # In use ------------------------------------------------------------------------------------------------------

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> dict[str, Any]:
        """Send a control request. See `ControlPort.control`.

        Raises:
            OptionsError: It would switch off the hooks that the session has.
        """
        if subtype == "apply_flag_settings" and self.features.has_hooks:
            settings = fields.get("settings")
            if isinstance(settings, Mapping) and turns_hooks_off(settings.get("env")):
                raise OptionsError(f"{HOOKS_OFF} in their env switches every hook off", option="settings")
        return await self.connection.control(subtype, timeout=timeout, **fields)

    def messages(self, *, events: bool = False) -> SessionMessages:
        """Iterate every message of the session from now on; with `events`, all that happens in it."""
        return SessionMessages(self.connection, events=events)

    # Closing -----------------------------------------------------------------------------------------------------

    async def close(self, *, tasks: TasksAtClose = "stop", wait: bool = True) -> None:
        """End the session. Idempotent, and bounded by `Timeouts.close`; after it no process and no worker is left.

        `tasks` says what becomes of the background tasks that still run: `stop` ends them, `wait` waits for them (at
        most as long as the bound), `leave` returns at once and lets them finish, as long as the event loop runs: the
        session ends when nothing is at work any more, and what the CLI asks meanwhile is answered as ever. To close
        again changes nothing then. Cancelling stops the waiting, not the end of the session. Without `wait` it returns
        when the end has begun. In a copy of this process that `os.fork` made it does nothing.
        """
        if self._connection is None or self._is_left or self._connection.is_forked:
            return
        self._is_left = tasks == "leave"
        budget = self.options.timeouts.close
        busy = min(BUSY_GRACE, budget * BUSY_SHARE)
        patience = budget - force_of(self.options) - busy
        started = anyio.current_time()
        with anyio.move_on_after(budget) as bound:
            try:
                if self.tasks.live_ids():  # child agents may be, also when the CLI is gone
                    await self._end_tasks(self._connection, tasks, patience)
            finally:
                left = max(busy, patience - (anyio.current_time() - started))
                self._connection.request_close(
                    grace=self._grace(self._connection, left, busy),
                    leave=tasks == "leave",
                    deadline=started + budget,
                )
            if wait and tasks != "leave":
                await self._shut(grace=None)
        if bound.cancelled_caught:
            logger.warning(
                "close() stops waiting after %g s (Timeouts.close): a handler, listener or tool does not end when it "
                "is cancelled",
                budget,
            )

    async def _end_tasks(self, connection: Connection, tasks: TasksAtClose, limit: float) -> None:
        with anyio.move_on_after(limit):
            try:
                if tasks == "stop":
                    self._warn_of_unfinished()
                    await self.tasks.stop_all()
                elif tasks == "wait":
                    await self.tasks.wait_all()
            except ClaudeAgentError:
                return  # what cannot be stopped politely is ended with the process

    def _warn_of_unfinished(self) -> None:
        """Say that a run left tasks behind, now that nobody can wait for them any more."""
        names = self.prompting.names_of(self.tasks.live_ids() - self.prompting.told_late)
        if names:
            logger.warning("closing ends background tasks that run: %s; %s", names, self.advice)

    def _grace(self, connection: Connection, left: float, busy: float) -> float:
        is_idle = not connection.has_turn and not self.tasks.live_ids()
        return left if is_idle else min(left, busy)

    async def _shut(self, *, grace: float | None) -> None:
        if self._connection is not None:
            await self._connection.close(grace=grace)

    def request_close(self) -> None:
        """End the session soon, by force; for finalizers: returns at once, from any thread."""
        if self._connection is not None:
            self._connection.request_close(grace=0.0, why=DROPPED)


def _version_of(cli: Path) -> str | None:
    try:
        return read_version(cli, timeout=VERSION_TIMEOUT)
    except ClaudeAgentError:
        return None
