"""`Hold`: a session that this worker has claimed: one prompt, from the workspace to what became of it."""

import contextlib
import json
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import anyio

from claude_agent_py._callbacks import Callback
from claude_agent_py._errors import (
    ClaudeAgentError,
    CLIError,
    ConnectionClosedError,
    FleetError,
    RunFailed,
    SessionLeasedError,
    StoreError,
)
from claude_agent_py._event_loop import run_file_work
from claude_agent_py._runtime.runs.result import InterruptedRunError, PromptCancelledError, RateLimitedError, RunResult
from claude_agent_py._runtime.runs.run import Run
from claude_agent_py.client import Client
from claude_agent_py.fleet import _claims
from claude_agent_py.fleet._database import Database
from claude_agent_py.fleet._inbox import FleetInbox
from claude_agent_py.fleet._looking import Found, bring, look
from claude_agent_py.fleet._packing import keep, unpack
from claude_agent_py.fleet._recording import Recorder
from claude_agent_py.fleet._store import PROJECT, FencedStore, Pulse, store_key
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.permissions.interactions import Inbox
from claude_agent_py.sessions.stores.copies import push
from claude_agent_py.sessions.stores.protocol import SessionStore, implements
from claude_agent_py.wire.base import dump
from claude_agent_py.wire.messages.conversation import UserContent, UserMessage

logger: logging.Logger = logging.getLogger("claude_agent_py")

Why: TypeAlias = Literal["lost", "cancelled", "released", "waiting"]
"""Why a hold ends before its run: another worker has it, it was cancelled, the worker ends, a person has to answer."""

STORED_SECONDS: Final = 10.0
"""For how long a question waits until the store has the call that it is about."""
LISTENER_SECONDS: Final = 10.0
DELIVER_SECONDS: Final = 60.0
"""For how long the store is asked again to take what it did not take, before the run is tried again."""
RESUME_PROMPT: Final = (
    "You were interrupted while a person was being asked, and the person has answered by now. Go on from where you "
    "left off: make the calls again that were waiting, and you get the answers."
)
RESUME_CALLS: Final = " Make them with exactly this input, because the answers are for these calls:"
MOST_RESUME_CHARS: Final = 16_000
"""How long the calls may be that the model is told; an environment variable has 128 KiB at most."""


def resume_prompt(answered: Sequence[Mapping[str, Any]]) -> str:
    """Return what the model is told when it goes on after a question: the calls to make again, if they are short."""
    calls = [
        f"\n- {request['tool_name']} {json.dumps(request['input'], ensure_ascii=False)}"
        for request in answered
        if "tool_name" in request and "input" in request
    ]
    told = "".join(calls)
    return RESUME_PROMPT + (RESUME_CALLS + told if 0 < len(told) <= MOST_RESUME_CHARS else "")


class Hold:
    """A claimed session at work. `perform` is the one step of its workflow that does anything.

    Args:
        agent: What the session runs.
        claim: The claim.
        database: The fleet's tables.
        store: The session store.
        pulse: Whether the worker counts as alive.
        folder: The folder of the session on this machine.
        poll: Seconds between looks for answers.
    """

    def __init__(
        self,
        agent: FleetAgent,
        claim: _claims.Claim,
        *,
        database: Database,
        store: SessionStore,
        pulse: Pulse,
        folder: Any,
        poll: float,
    ) -> None:
        self.agent: FleetAgent = agent
        self.claim: _claims.Claim = claim
        self.database: Database = database
        self._store = FencedStore(store, pulse, lambda: self._why == "lost")
        self._folder = folder
        self._poll = poll
        self._why: Why | None = None
        self._scope = anyio.CancelScope()
        self._client: Client[Any] | None = None
        self._sent: Run[Any] | None = None
        self._had_prompt = False
        self._kept_in: str | None = None
        """Where the entries are that the store did not take."""
        self._wants_interrupt = False
        self.is_settled: bool = False
        """Whether what became of it is in the database."""
        self.was_cancelled: bool = False
        """Whether the session was cancelled."""
        self.begun: anyio.Event = anyio.Event()
        """Set when its workflow begins in this process."""
        self.finished: anyio.Event = anyio.Event()
        """Set when the workflow is over in this process."""

    # From outside ----------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """The process id of the CLI, if one runs."""
        return None if self._client is None else self._client.pid

    @property
    def is_lost(self) -> bool:
        """Whether another worker has the session."""
        return self._why == "lost"

    def stop(self, why: Why) -> None:
        """End the session's process, for the first reason that is given."""
        if self.is_settled:
            return
        if self._why is None or why == "lost":
            self._why = why
            if self._client is not None and why != "cancelled":
                _kill(self._client)
        self._scope.cancel()
        if not self.begun.is_set():
            self.finished.set()  # nothing will: another worker has the workflow, too

    async def interrupt(self) -> None:
        """Interrupt the run."""
        if self._wants_interrupt:
            return
        self._wants_interrupt = True
        if self._sent is not None:
            try:
                await self._sent.interrupt()
            except ClaudeAgentError as error:
                logger.debug("session %s cannot be interrupted: %s", self.claim.id, error)

    async def give_back(self, tool_use_id: str | None) -> None:
        """End the process because a person takes longer, once the store has the call that the question is about."""
        with anyio.move_on_after(STORED_SECONDS):
            while tool_use_id is not None and not await self._is_stored(tool_use_id):  # noqa: ASYNC110
                await anyio.sleep(self._poll)
        self.stop("waiting")
        await anyio.sleep_forever()

    async def _is_stored(self, tool_use_id: str) -> bool:
        entries = await self._store.load(store_key(self._cli_session))
        return any(tool_use_id in json.dumps(entry.get("message")) for entry in entries or () if "message" in entry)

    @property
    def _cli_session(self) -> str:
        return str(self.claim.session["cli_session"])

    # The step --------------------------------------------------------------------------------------------------------

    async def perform(self) -> dict[str, Any]:
        """Run the prompt at hand and return what became of it, as JSON.

        Raises:
            CancelledError: Another worker has the session; nothing is to be recorded.
        """
        outcome: dict[str, Any] = {"kind": "released"}
        with self._scope:
            try:
                outcome = await self._run()
            except _claims.LostError:
                self._why = "lost"
            except Exception as error:
                outcome = self._outcome_of(error)
        if self._why == "lost":
            raise anyio.get_cancelled_exc_class()
        return outcome if self._why is None else {"kind": self._why}

    async def settle(self, outcome: Mapping[str, Any]) -> None:
        """Write what became of the prompt. Raises CancelledError if another worker has the session."""
        try:
            await self.database.call(_claims.settle, self.claim, outcome)
            self.is_settled = True
            self.was_cancelled = outcome["kind"] == "cancelled"
        except _claims.LostError:
            self._why = "lost"
            raise anyio.get_cancelled_exc_class() from None

    async def _run(self) -> dict[str, Any]:
        options = await self._options()
        run = self.claim.run
        found = Found(False, False, None)
        if self.claim.session["is_orphan"]:
            await self._take_lease()
        if run["claims"] or run["number"] > 1:
            found = await self._look(options)
        self._had_prompt = found.has_prompt
        if found.answer is not None:
            return self._done({"text": found.answer, "is_recovered": True})
        async with self._connected(options.replace(**await self._start(found))) as client:
            try:
                outcome = await self._answered(client, found)
            except Exception as error:
                outcome = self._outcome_of(error)
        if outcome["kind"] in ("done", "failed", "interrupted"):
            await keep(self.database, self.claim, self.agent.workspace, self._folder)
        return outcome

    async def _look(self, options: ClientOptions[Any]) -> Found:
        """Look what became of the prompt, in the store, and on this machine if the store has nothing of the session."""
        wanted = (self._store, self._cli_session, self.claim.run["uuid"])
        found = await look(*wanted)
        if not found.exists:
            await bring(self._store, self._cli_session, options)
            found = await look(*wanted)
        return found

    async def _options(self) -> ClientOptions[Any]:
        """Make the workspace and return the options of the process."""
        options, workspace = self.agent.options, self.agent.workspace
        changes: dict[str, Any] = {"session_store": self._store, "session_store_project": PROJECT}
        if workspace is not None:
            await unpack(self.database, self.claim, workspace, self._folder)
            changes["cwd"] = await run_file_work(workspace.prepare, self._folder, self.claim.id)
        if not isinstance(options.interactions, Inbox) and options.permission_prompts != "none":
            changes["interactions"] = FleetInbox(
                self.database,
                self.claim,
                patience=self.agent.patience,
                poll=self._poll,
                give_back=self.give_back,
                gives_back=lambda: self._why == "waiting",
            )
        changes["on_store_error"] = self._on_store_error
        return options.replace(session_store_flush="eager", **changes)

    async def _on_store_error(self, error: StoreError) -> None:
        if error.kept_in is not None:
            self._kept_in = error.kept_in
        if self.agent.options.on_store_error is not None:
            await Callback(self.agent.options.on_store_error).call_within(LISTENER_SECONDS, None, (error,))

    async def _deliver(self) -> None:
        """Send the store what it did not take before the process ended. Raises StoreError if it does not take it."""
        deadline = time.monotonic() + DELIVER_SECONDS
        while self._kept_in is not None and self._why != "lost":
            try:
                await push(self._store, self._cli_session, config_dir=self._kept_in, project_key=PROJECT)
            except StoreError:
                if time.monotonic() > deadline:
                    raise
                await anyio.sleep(1.0)
            else:
                self._kept_in = None

    async def _start(self, found: Found) -> dict[str, Any]:
        """Return the options that begin the conversation, go on with it, or with the turn of this prompt."""
        if not found.exists:
            return {"session_id": self._cli_session}
        start: dict[str, Any] = {"resume": self._cli_session}
        if found.has_prompt:
            answered = await self.database.call(_claims.answered, self.claim, write=False)
            start |= {"resume_interrupted_turn": True, "show_cut_off_calls": not answered}
            if answered:
                start["env"] = {"CLAUDE_CODE_RESUME_PROMPT": resume_prompt(answered), **self.agent.options.env}
        return start

    async def _take_lease(self) -> None:
        """Take the lease of a worker that is dead, so that the store refuses what it may still write."""
        if implements(self._store, "acquire_lease"):
            lease = await self._store.acquire_lease(store_key(self._cli_session), "the fleet", steal=True)
            await self._store.release_lease(lease)

    @contextlib.asynccontextmanager
    async def _connected(self, options: ClientOptions[Any]) -> AsyncIterator[Client[Any]]:
        """Open a client, record what happens in it, and close it; the last events are written."""
        client = self._client = Client(options)
        recorder = Recorder(self.database, self.claim)
        try:
            await client.connect()
            events = client.events()
            async with anyio.create_task_group() as group:
                group.start_soon(recorder.follow, events)
                group.start_soon(self._record, recorder)
                try:
                    yield client
                finally:  # which ends both
                    with anyio.CancelScope(shield=True):
                        await client.close()
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()
                self._client = None
                await self._deliver()
                if self._why != "lost":
                    await recorder.flush()

    async def _record(self, recorder: Recorder) -> None:
        try:
            await recorder.run()
        except _claims.LostError:
            self.stop("lost")

    async def _answered(self, client: Client[Any], found: Found) -> dict[str, Any]:
        """Get the answer: of the turn that goes on, or of the prompt, which is sent."""
        run = self.claim.run
        deadline = run["deadline"]
        with anyio.move_on_after(None if deadline is None else max(0.0, deadline - time.time())):
            self._sent = client.resumed_run
            if self._sent is not None:
                result = await self._sent.result()
                if run["uuid"] in result.prompts:
                    return self._outcome(result)
            uuid = run["uuid"]
            if found.has_prompt:  # its turn came to nothing, and the CLI does not answer a uuid twice
                uuid = await self.database.call(_claims.renew_uuid, self.claim)
            content = UserContent(role="user", content=json.loads(run["prompt"]))
            self._sent = client.query(UserMessage(message=content, uuid=uuid), until=self.agent.until)
            if self._wants_interrupt:
                await self._sent.interrupt()
            return self._outcome(await self._sent.result())
        return {"kind": "failed", "result": self._told(error="RunTimeoutError", reason="it was not over in time")}

    # What became of it -----------------------------------------------------------------------------------------------

    def _told(self, **more: Any) -> dict[str, Any]:
        return {"worker": self.claim.session.get("worker") or "", **more}

    def _done(self, result: Mapping[str, Any]) -> dict[str, Any]:
        return {"kind": "done", "result": self._told(**result)}

    def _outcome(self, result: RunResult[Any]) -> dict[str, Any]:
        error = result.error()
        told = {
            "text": result.text,
            "output": _plain(result),
            "num_turns": result.num_turns,
            "cost_usd": result.cost_usd,
            "usage": None if result.usage is None else dump(result.usage),
        }
        return self._done(told) if error is None else self._outcome_of(error, told)

    def _outcome_of(self, error: Exception, result: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what an error means: try again, now or later, or give up."""
        told = self._told(**(result or {}), error=type(error).__name__, reason=str(error))
        retry, number = self.agent.retry, self.claim.run["attempts"] + 1
        if isinstance(error, InterruptedRunError | PromptCancelledError) and self._wants_interrupt:
            return {"kind": "interrupted", "result": told}
        if isinstance(error, PromptCancelledError) and not self._had_prompt:
            return {"kind": "released"}  # this machine had more than the store: look again
        if isinstance(error, RateLimitedError) and error.resets_at is not None:
            return {"kind": "later", "pause": retry.pause_after(error, number), "reason": told["reason"]}
        if number < retry.attempts and _may_pass(error, retry.is_retryable):
            passing = error if isinstance(error, RunFailed) else ConnectionClosedError(str(error))
            return {"kind": "later", "pause": retry.pause_after(passing, number), "reason": told["reason"]}
        if not isinstance(error, ClaudeAgentError):
            logger.error("session %s of the fleet failed", self.claim.id, exc_info=error)
        return {"kind": "failed", "result": told}


def _kill(client: Client[Any]) -> None:
    """Kill a CLI at once: in an orderly end, it would write into the transcript that open calls have failed."""
    if client.pid is None:  # it runs elsewhere
        client.abort()
        return
    with contextlib.suppress(OSError):
        os.kill(client.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _may_pass(error: Exception, is_retryable: Any) -> bool:
    """Return whether another attempt may succeed, maybe on another machine."""
    if isinstance(error, CLIError | StoreError | SessionLeasedError | ConnectionClosedError | FleetError):
        return True
    return isinstance(error, RunFailed) and bool(is_retryable(error))


def _plain(result: RunResult[Any]) -> Any:
    """Return the structured output as the CLI sent it."""
    found = next((one for one in reversed(result.results) if one.has_structured_output), None)
    return None if found is None else found.structured_output
