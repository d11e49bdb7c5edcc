"""`Execution`: runs one prompt of a claimed session, from preparing the workspace to storing the outcome."""

import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias
from uuid import uuid4

import anyio

from claude_agent_py._base.callbacks import Callback
from claude_agent_py._base.errors import (
    ClaudeAgentError,
    CLIError,
    ConnectionClosedError,
    FleetError,
    RunFailed,
    StoreError,
)
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.log import Drops, logger
from claude_agent_py._connection.runs.result import RunResult
from claude_agent_py._connection.runs.run import Run
from claude_agent_py.client import Client
from claude_agent_py.errors import InterruptedRunError, PromptCancelledError, RateLimitedError, RunError
from claude_agent_py.fleet._dbos import _claims
from claude_agent_py.fleet._dbos._archives import pack_workspace, unpack_workspace
from claude_agent_py.fleet._dbos._database import Database
from claude_agent_py.fleet._dbos._inbox import FleetInbox
from claude_agent_py.fleet._dbos._store import (
    PROJECT,
    FencedStore,
    Heartbeat,
    PromptStatus,
    deliver_left_entries,
    find_prompt,
    import_local_session,
    store_key,
)
from claude_agent_py.fleet._engine import Engine
from claude_agent_py.fleet._folders import SessionFolder, needs_folder
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.messages import StreamEventMessage, UserContent, UserMessage
from claude_agent_py.options import ClientOptions
from claude_agent_py.permissions import Inbox
from claude_agent_py.sessions import SessionStore, push
from claude_agent_py.sessions.stores.protocol import implements
from claude_agent_py.tasks import TaskEvent, TaskStarted
from claude_agent_py.wire.base import JSONObject, dump

FLUSH_SECONDS: Final = 0.2
"""Seconds during which events are collected for one batch."""
MAX_BATCH: Final = 200
"""The maximum number of events in one transaction."""

Entry = tuple[str, float, Mapping[str, Any]]


class Recorder:
    """Records the events of one claim."""

    def __init__(self, database: Database, claim: _claims.Claim) -> None:
        self._database = database
        self._claim = claim
        self._pending: list[Entry] = []
        self._drops = Drops("the recorder of a run")
        self._batch = str(uuid4())
        """The id of the next batch: a retry does not write it twice."""
        self._lock = anyio.Lock()
        self._ended = anyio.Event()

    async def follow(self, events: AsyncIterator[object]) -> None:
        """Collect the events of a client until it is closed."""
        try:
            async for event in events:
                try:
                    entry = build_entry(event)
                except Exception:
                    self._drops.note(event)
                    continue
                if entry is not None:
                    self._pending.append(entry)
        except ClaudeAgentError:
            # The run raises the same error.
            pass
        finally:
            self._ended.set()

    async def run(self) -> None:
        """Write batches of events until `follow` has ended. Raises LostError."""
        while not self._ended.is_set():
            with anyio.move_on_after(FLUSH_SECONDS):
                await self._ended.wait()
            try:
                await self.flush()
            except FleetError as error:
                logger.warning("events of session %s cannot be written yet: %s", self._claim.id, error)

    async def flush(self) -> None:
        """Write the collected events. Raises LostError."""
        async with self._lock:
            while self._pending:
                batch = self._pending[:MAX_BATCH]
                await self._database.write(_claims.write_events, self._claim, self._batch, batch)
                del self._pending[: len(batch)]
                self._batch = str(uuid4())


def build_entry(event: object) -> Entry | None:
    """Return the database entry of an event, or None if it is not stored, such as deltas of partial messages."""
    if isinstance(event, TaskEvent):
        data = {"event": event.kind, "task_id": event.task_id, "run_id": event.run_id, "author": event.author}
        if isinstance(event, TaskStarted):
            data |= {"description": event.description, "type": event.type, "parent_id": event.parent_id}
        return "task", event.at, data
    raw = getattr(event, "raw", None)
    if isinstance(event, StreamEventMessage) or not isinstance(raw, Mapping):
        return None
    return "message", time.time(), dict(raw)


StopReason: TypeAlias = Literal["lost", "cancelled", "released", "waiting"]
"""Why an execution stops before its run ends: another worker claimed the session, the session was cancelled, the worker
is shutting down, or a person has to answer."""

STORED_SECONDS: Final = 10.0
"""How many seconds to wait for the tool call of a question to reach the store."""
LISTENER_SECONDS: Final = 10.0
PUSH_SECONDS: Final = 60.0
"""How many seconds to keep sending rejected entries to the store before the run is retried."""
RESUME_PROMPT: Final = (
    "You were interrupted while waiting for a person's answer, which has now arrived. Continue where you left off: "
    "repeat the pending calls to receive the answers."
)
RESUME_CALLS: Final = " Repeat them with exactly this input, because the answers belong to these calls:"
MAX_RESUME_CHARS: Final = 16_000
"""The maximum length of the listed calls. An environment variable holds at most 128 KiB."""


def build_resume_prompt(answered: Sequence[Mapping[str, object]]) -> str:
    """Return the prompt that resumes a session after a question. It lists the calls to repeat if they are short."""
    calls = [
        f"\n- {request['tool_name']} {json.dumps(request['input'], ensure_ascii=False)}"
        for request in answered
        if "tool_name" in request and "input" in request
    ]
    listed = "".join(calls)
    if not listed or len(listed) > MAX_RESUME_CHARS:
        return RESUME_PROMPT
    return RESUME_PROMPT + RESUME_CALLS + listed


class Execution:
    """The execution of one prompt of a claimed session. Its workflow calls `perform`, then `settle`.

    Args:
        agent: The agent of the session.
        claim: The claim of the session.
        engine: The fleet, for questions.
        database: The fleet's tables.
        store: The session store.
        heartbeat: Says whether this worker still owns its sessions.
        folder: The folder of the session on this machine.
        poll: Seconds between queries of the database for answers.
    """

    def __init__(
        self,
        agent: FleetAgent,
        claim: _claims.Claim,
        *,
        engine: Engine,
        database: Database,
        store: SessionStore,
        heartbeat: Heartbeat,
        folder: SessionFolder,
        poll: float,
    ) -> None:
        self.agent: FleetAgent = agent
        self.claim: _claims.Claim = claim
        self._engine = engine
        self.database: Database = database
        self._store = FencedStore(store, heartbeat, lambda: self._stop_reason == "lost")
        self._folder = folder
        self._poll = poll
        self._stop_reason: StopReason | None = None
        self._scope = anyio.CancelScope()
        self._client: Client | None = None
        self._current_run: Run | None = None
        self._had_prompt = False
        self._has_begun = False
        """Whether a process resumed the turn or was about to get the prompt."""
        self._kept_in: str | None = None
        """The directory with entries that the store rejected."""
        self._wants_interrupt = False
        self.is_settled: bool = False
        """Whether the outcome is in the database."""
        self.was_cancelled: bool = False
        """Whether the session was cancelled."""
        self.finished: anyio.Event = anyio.Event()
        """Set when it has ended in this process."""

    # Control ---------------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """The process id of the CLI; None if none runs."""
        return None if self._client is None else self._client.pid

    @property
    def is_lost(self) -> bool:
        """Whether another worker has claimed the session."""
        return self._stop_reason == "lost"

    def stop(self, why: StopReason) -> None:
        """Stop the execution and end its process. The first reason counts, but `lost` replaces any other."""
        if self.is_settled:
            return
        if self._stop_reason is None or why == "lost":
            self._stop_reason = why
            if self._client is not None and why != "cancelled":
                _kill(self._client)
        self._scope.cancel()

    async def interrupt(self) -> None:
        """Interrupt the run."""
        if self._wants_interrupt:
            return
        self._wants_interrupt = True
        if self._current_run is not None:
            try:
                await self._current_run.interrupt()
            except ClaudeAgentError as error:
                logger.debug("interrupting session %s failed: %s", self.claim.id, error)

    async def end_and_wait(self, tool_use_id: str | None) -> None:
        """End the process because an answer takes long, once the store has the tool call of the question.

        Never returns: the end of the process cancels it.
        """
        if tool_use_id is not None:
            with anyio.move_on_after(STORED_SECONDS):
                await self._store.wait_for_call(tool_use_id)
        self.stop("waiting")
        await anyio.sleep_forever()

    @property
    def _cli_session(self) -> str:
        return str(self.claim.session["cli_session"])

    # Steps -----------------------------------------------------------------------------------------------------------

    async def perform(self) -> JSONObject:
        """Run the current prompt and return its outcome as JSON.

        Raises:
            CancelledError: Another worker has claimed the session. DBOS then records no result of this step.
        """
        outcome: JSONObject = {"kind": "released"}
        with self._scope:
            try:
                outcome = await self._run()
            except _claims.LostError:
                self._stop_reason = "lost"
            except Exception as error:
                outcome = self._build_error_outcome(error)
        if self._stop_reason is None:
            return outcome
        if self._stop_reason == "lost":
            raise anyio.get_cancelled_exc_class()
        return {"kind": self._stop_reason}

    async def settle(self, outcome: Mapping[str, object]) -> None:
        """Store the outcome of the prompt, or fail the prompt with the error for which that is impossible.

        Raises:
            CancelledError: Another worker has claimed the session.
            FleetError: The database does not answer.
        """
        try:
            try:
                await self.database.write(_claims.settle, self.claim, outcome)
            except (_claims.LostError, FleetError):
                raise
            except Exception as error:
                logger.exception("the outcome of session %s cannot be stored", self.claim.id)
                # The text of SQLAlchemy holds all values of the statement.
                reason = str(getattr(error, "orig", None) or error)
                failure = self._build_result(error=type(error).__name__, reason=reason)
                outcome = {"kind": "failed", "result": failure}
                await self.database.write(_claims.settle, self.claim, outcome)
        except _claims.LostError:
            self._stop_reason = "lost"
            raise anyio.get_cancelled_exc_class() from None
        self.is_settled = True
        self.was_cancelled = outcome["kind"] == "cancelled"

    async def _run(self) -> JSONObject:
        options = await self._prepare_options()
        run = self.claim.run
        status = PromptStatus(exists=False, has_prompt=False, answer=None)
        if self.claim.session["is_orphan"]:
            await self._revoke_lease()
        if run["claims"] or run["number"] > 1:
            status = await self._find_prompt(options)
        self._had_prompt = status.has_prompt
        if status.answer is not None:
            return self._build_done(await self._recover_result(status.answer))
        async with self._open_client(options.replace(**await self._build_start_options(status))) as client:
            try:
                outcome = await self._get_outcome(client, status)
            except Exception as error:
                outcome = self._build_error_outcome(error)
        if outcome["kind"] in ("done", "failed", "interrupted"):
            await pack_workspace(self.database, self.claim, self.agent.workspace, self._folder.path)
        return outcome

    async def _recover_result(self, answer: str) -> JSONObject:
        """Return the result of a turn whose worker died after it."""
        result: JSONObject = {"text": answer, "is_recovered": True}
        found = await self.database.read(_claims.find_result, self.claim)
        if found is not None:
            names = {"num_turns": "num_turns", "cost_usd": "total_cost_usd", "usage": "usage"}
            result |= {name: found[key] for name, key in names.items() if key in found}
            result["output"] = found.get("structured_output")
        return result

    async def _find_prompt(self, options: ClientOptions) -> PromptStatus:
        """Find the prompt in the store, once it has what earlier processes left on this machine."""
        uuid = self.claim.run["uuid"]
        await deliver_left_entries(self._store, self._cli_session)
        status = await find_prompt(self._store, self._cli_session, uuid)
        # An earlier process may have got the prompt, and not delivered all of its turn.
        if not status.exists or (self.claim.run["claims"] and status.answer is None):
            await import_local_session(self._store, self._cli_session, options, uuid, status)
            status = await find_prompt(self._store, self._cli_session, uuid)
        return status

    async def _is_outdated(self, status: PromptStatus) -> bool:
        """Return whether the store has more of the prompt than before the process started.

        Connecting delivers what a process on this machine wrote after the worker had looked.
        """
        if not self.claim.run["claims"]:
            return False
        now = await find_prompt(self._store, self._cli_session, self.claim.run["uuid"])
        return now.answer is not None or now.has_prompt != status.has_prompt

    async def _prepare_options(self) -> ClientOptions:
        """Prepare the workspace and return the options of the process."""
        options = self.agent.options
        workspace = self.agent.workspace
        changes: dict[str, object] = {"session_store": self._store, "session_store_project": PROJECT}
        if workspace is not None:
            if needs_folder(self.agent):
                await run_file_work(self._folder.take, workspace, self.claim.id)
            await unpack_workspace(self.database, self.claim, workspace, self._folder.path)
            path = await run_file_work(workspace.prepare, self._folder.path, self.claim.id)
            if str(path) != self.claim.session["workspace"]:
                await self.database.write(_claims.note_workspace, self.claim, str(path))
            changes["cwd"] = path
        if not isinstance(options.interactions, Inbox) and options.permission_prompts != "none":
            changes["interactions"] = FleetInbox(
                engine=self._engine,
                database=self.database,
                claim=self.claim,
                patience=self.agent.patience,
                poll=self._poll,
                end_and_wait=self.end_and_wait,
                is_releasing=lambda: self._stop_reason == "waiting",
            )
        changes["on_store_error"] = self._on_store_error
        return options.replace(session_store_flush="eager", **changes)

    async def _on_store_error(self, error: StoreError) -> None:
        if error.kept_in is not None:
            self._kept_in = error.kept_in
        if self.agent.options.on_store_error is not None:
            await Callback(self.agent.options.on_store_error).call_within(LISTENER_SECONDS, None, error)

    async def _push_kept_entries(self) -> None:
        """Write the entries that the store rejected earlier. Raises StoreError if it still rejects them."""
        deadline = time.monotonic() + PUSH_SECONDS
        while self._kept_in is not None and self._stop_reason != "lost":
            try:
                await push(self._store, self._cli_session, config_dir=self._kept_in, project_key=PROJECT)
            except StoreError:
                if time.monotonic() > deadline:
                    raise
                await anyio.sleep(1.0)
            else:
                self._kept_in = None

    async def _build_start_options(self, status: PromptStatus) -> dict[str, object]:
        """Return the options that start the conversation, resume it, or resume the turn of this prompt."""
        if not status.exists:
            return {"session_id": self._cli_session}
        start: dict[str, object] = {"resume": self._cli_session}
        if status.has_prompt:
            answered = await self.database.read(_claims.load_answered_requests, self.claim)
            start |= {"resume_interrupted_turn": True, "show_cut_off_calls": not answered}
            if answered:
                start["env"] = {"CLAUDE_CODE_RESUME_PROMPT": build_resume_prompt(answered), **self.agent.options.env}
        return start

    async def _revoke_lease(self) -> None:
        """Revoke the store lease of the dead worker, so that the store refuses its late writes.

        Raises SessionLeasedError if a process outside the fleet holds it.
        """
        if implements(self._store, "acquire_lease"):
            lease = await self._store.acquire_lease(store_key(self._cli_session), self.claim.session["worker"])
            await self._store.release_lease(lease)

    @contextlib.asynccontextmanager
    async def _open_client(self, options: ClientOptions) -> AsyncIterator[Client]:
        """Open a client and record its events. On exit, close it and write the last events."""
        client = self._client = Client(options)
        recorder = Recorder(self.database, self.claim)
        try:
            await client.connect()
            events = client.events()
            async with anyio.create_task_group() as group:
                group.start_soon(recorder.follow, events)
                group.start_soon(self._run_recorder, recorder)
                try:
                    yield client
                finally:
                    # Closing the client ends both workers.
                    with anyio.CancelScope(shield=True):
                        await client.close()
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()
                self._client = None
                await self._push_kept_entries()
                if self._stop_reason != "lost":
                    await recorder.flush()

    async def _run_recorder(self, recorder: Recorder) -> None:
        try:
            await recorder.run()
        except _claims.LostError:
            self.stop("lost")

    async def _get_outcome(self, client: Client, status: PromptStatus) -> JSONObject:
        """Wait for the resumed turn, or send the prompt, and return the outcome."""
        run = self.claim.run
        deadline = run["deadline"]
        with anyio.move_on_after(None if deadline is None else max(0.0, deadline - time.time())):
            self._current_run = client.resumed_run
            if self._current_run is None and await self._is_outdated(status):
                return {"kind": "released"}
            self._has_begun = True
            if self._current_run is not None:
                # A session answers one prompt at a time, so the turn is of this prompt. Its result may name another
                # uuid: that of the prompt with which an earlier worker resumed the turn.
                return self._build_outcome(await self._current_run.result())
            uuid = run["uuid"]
            if status.has_prompt:
                # The prompt was sent before but got no answer. The CLI ignores a uuid it has seen, so send a new one.
                uuid = await self.database.write(_claims.renew_uuid, self.claim)
            content = UserContent(role="user", content=json.loads(run["prompt"]))
            self._current_run = client.query(UserMessage(message=content, uuid=uuid), until=self.agent.until)
            if self._wants_interrupt:
                await self._current_run.interrupt()
            return self._build_outcome(await self._current_run.result())
        failure = self._build_result(error="RunTimeoutError", reason=_claims.OVERDUE)
        return {"kind": "failed", "result": failure}

    # Outcomes --------------------------------------------------------------------------------------------------------

    def _build_result(self, **fields: object) -> JSONObject:
        return {"worker": self.claim.session.get("worker") or "", **fields}

    def _build_done(self, result: Mapping[str, object]) -> JSONObject:
        return {"kind": "done", "result": self._build_result(**result)}

    def _build_outcome(self, result: RunResult) -> JSONObject:
        error = result.error()
        fields = {
            "text": result.text,
            "output": _get_structured_output(result),
            "num_turns": result.num_turns,
            "cost_usd": result.cost_usd,
            "usage": None if result.usage is None else dump(result.usage),
        }
        if error is not None:
            return self._build_error_outcome(error, fields)
        return self._build_done(fields)

    def _build_error_outcome(self, error: Exception, result: Mapping[str, object] | None = None) -> JSONObject:
        """Return the outcome for an error: retry, now or later, or fail."""
        failure = self._build_result(**(result or {}), error=type(error).__name__, reason=str(error))
        retry = self.agent.retry
        number = self.claim.run["attempts"] + 1
        later: JSONObject = {
            "kind": "later",
            "reason": f"{failure['error']}: {failure['reason']}",
            "cost_usd": failure.get("cost_usd", 0.0),
            "has_turn_ended": isinstance(error, RunError),
        }
        if self._is_outage(error):
            pause = retry.pause_after(ConnectionClosedError(str(error)), self.claim.run["claims"] + 1)
            return {**later, "pause": pause, "is_attempt": False}
        if isinstance(error, InterruptedRunError | PromptCancelledError) and self._wants_interrupt:
            return {"kind": "interrupted", "result": failure}
        if isinstance(error, PromptCancelledError) and not self._had_prompt:
            # The CLI found the prompt in the local transcript, but the store did not have it. Look again.
            return {"kind": "released"}
        if isinstance(error, RateLimitedError) and error.resets_at is not None:
            return {**later, "pause": retry.pause_after(error, number), "is_attempt": False}
        if number < retry.attempts and _is_transient(error, retry.is_retryable):
            transient = error if isinstance(error, RunFailed) else ConnectionClosedError(str(error))
            return {**later, "pause": retry.pause_after(transient, number), "is_attempt": True}
        if not isinstance(error, ClaudeAgentError):
            logger.error("session %s of the fleet failed", self.claim.id, exc_info=error)
        return {"kind": "failed", "result": failure}

    def _is_outage(self, error: Exception) -> bool:
        """Return whether a database or the store did not answer, which says nothing about the prompt."""
        if isinstance(error, StoreError):
            return not self._has_begun
        return isinstance(error, FleetError) and error.is_retryable


def _kill(client: Client) -> None:
    """Kill a CLI immediately. An orderly shutdown would write to the transcript that open calls have failed."""
    # The CLI runs on another machine.
    if client.pid is None:
        client.abort()
        return
    with contextlib.suppress(OSError):
        os.kill(client.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _is_transient(error: Exception, is_retryable: Any) -> bool:
    """Return whether another attempt may succeed, possibly on another machine."""
    if isinstance(error, CLIError | StoreError | ConnectionClosedError | FleetError):
        return True
    return isinstance(error, RunFailed) and bool(is_retryable(error))


def _get_structured_output(result: RunResult) -> object:
    """Return the structured output as the CLI sent it."""
    found = next((candidate for candidate in reversed(result.results) if candidate.has_structured_output), None)
    return None if found is None else found.structured_output
