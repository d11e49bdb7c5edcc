"""`FencedStore`: the session store of a worker, which stops writing once the worker may count as dead.

`find_prompt` reads in it what became of a prompt that an earlier process may have sent.
"""

import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import anyio

from claude_agent_py._base.errors import SessionLeasedError, SessionNotFoundError, StaleLeaseError, StoreError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.streams import RepeatingEvent
from claude_agent_py._launch.environment import config_directory, environment
from claude_agent_py.options import ClientOptions
from claude_agent_py.sessions import Lease, SessionKey, SessionStore, SessionStoreEntry, import_session
from claude_agent_py.sessions.folders import find_session
from claude_agent_py.sessions.stores.access import StoreAccess, open_folder
from claude_agent_py.sessions.stores.protocol import Place, new_holder

PROJECT: Final = "fleet"
"""The project key of the fleet's sessions in the store."""
HOLDER: Final = "fleet worker "
"""How the names of the fleet's holders of leases begin."""
LOOK_SECONDS: Final = 0.05


def store_key(cli_session: str) -> SessionKey:
    """Return the key of a conversation in the store."""
    return {"project_key": PROJECT, "session_id": cli_session}


class Heartbeat:
    """The time until which this worker still owns its sessions.

    It uses both clocks, because either may stop while the process or its machine is suspended.
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self.beat(*self.now())

    @staticmethod
    def now() -> tuple[float, float]:
        """Return both clocks."""
        return time.monotonic(), time.time()

    def beat(self, monotonic: float, wall: float) -> None:
        """Record a successful heartbeat. The arguments are the clocks from before it was sent."""
        self._monotonic = monotonic + self._lease
        self._wall = wall + self._lease

    @property
    def is_alive(self) -> bool:
        """Whether no other worker can have claimed the sessions of this one."""
        return time.monotonic() < self._monotonic and time.time() < self._wall


class FencedStore:
    """A session store that delays writes while the worker may count as dead, and refuses them once the session is lost.

    The leases of the store also refuse such writes, but only after another worker has acquired one.

    Args:
        store: The store. Its other attributes remain available.
        heartbeat: Says whether the worker counts as alive.
        is_lost: Returns whether another worker has claimed the session.
    """

    def __init__(self, store: SessionStore, heartbeat: Heartbeat, is_lost: Callable[[], bool]) -> None:
        self._store: Any = store
        self._heartbeat = heartbeat
        self._is_lost = is_lost
        self._calls: set[str] = set()
        """The ids of tool calls that the store has, in the entries that this process wrote or read."""
        self._has_more_calls = RepeatingEvent()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return partial(self._take_lease, found) if name == "acquire_lease" else found

    async def _take_lease(self, acquire: Callable[..., Awaitable[Lease]], key: SessionKey, holder: str) -> Lease:
        """Acquire the lease, also from a worker that could not release it: the claim says which worker writes.

        Raises SessionLeasedError if a process outside the fleet holds it.
        """
        await self._wait_until_owned(key)
        try:
            return await acquire(key, HOLDER + holder)
        except SessionLeasedError as error:
            if not error.holder.startswith(HOLDER):
                raise
        return await acquire(key, HOLDER + holder, steal=True)

    async def _wait_until_owned(self, key: SessionKey) -> None:
        """Wait until the worker certainly owns the session. Raises StaleLeaseError if it has lost the session."""
        while not self._is_lost() and not self._heartbeat.is_alive:  # noqa: ASYNC110 - waits for the next heartbeat
            await anyio.sleep(LOOK_SECONDS)
        if self._is_lost():
            raise StaleLeaseError("another worker has claimed the session", session_id=key["session_id"])

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        """Append once the worker certainly owns the session. Raises StaleLeaseError if it has lost the session."""
        await self._wait_until_owned(key)
        await self._store.append(key, entries, **({} if epoch is None else {"epoch": epoch}))
        self._note_calls(entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript."""
        found: list[SessionStoreEntry] | None = await self._store.load(key)
        self._note_calls(found or ())
        return found

    async def wait_for_call(self, tool_use_id: str) -> None:
        """Wait until the store has a tool call."""
        while tool_use_id not in self._calls:
            await self._has_more_calls.wait()

    def _note_calls(self, entries: Sequence[Mapping[str, object]]) -> None:
        for entry in entries:
            if isinstance(message := entry.get("message"), Mapping):
                self._calls.update(str(block.get("id")) for block in _select_blocks(message, "tool_use"))
        self._has_more_calls.set()


ENDINGS: frozenset[str] = frozenset({"end_turn", "stop_sequence"})
"""Stop reasons of the last message of a successful turn."""


class PromptStatus(NamedTuple):
    """The state of a prompt in the stored conversation."""

    exists: bool
    """Whether the conversation has messages."""
    has_prompt: bool
    answer: str | None
    """The last answer to the prompt; None while its turn has not ended."""
    answers: int = 0
    """How many messages of the model follow the prompt."""


async def find_prompt(store: SessionStore, session: str, prompt: str) -> PromptStatus:
    """Find a prompt in the store. Errors of the store propagate."""
    return read_prompt_status(await store.load(store_key(session)) or (), prompt)


async def deliver_left_entries(store: SessionStore, session: str) -> None:
    """Add the entries that killed processes on this machine did not deliver to the store. Raises StoreError."""
    access, place = StoreAccess(store), Place(PROJECT, session)
    lease = await access.acquire_lease(place, new_holder())
    try:
        if await access.send_leftovers(place, lease):
            text = "the store lacks entries that an earlier process left on this machine; the log says why"
            raise StoreError(text, session_id=session)
    finally:
        if lease is not None:
            await access.release_lease(lease)


async def import_local_session(
    store: SessionStore, session: str, options: ClientOptions, prompt: str, stored: PromptStatus
) -> None:
    """Add the entries that only this machine has to the store, if it has the session and more answers to the prompt.

    If only results of calls are missing, the CLI may have written them when its worker died: the calls were cut off.
    """
    if options.home is True:
        return
    folder = config_directory(environment(options, os.environ))
    with contextlib.suppress(SessionNotFoundError):
        path = await run_file_work(find_session, session, None, folder)
        projects, project = os.path.split(os.path.dirname(path))
        local = await open_folder(projects).store.load(Place(project, session).key)
        if not stored.exists or read_prompt_status(local or (), prompt).answers > stored.answers:
            await import_session(store, session, config_dir=folder, project_key=PROJECT)


def read_prompt_status(entries: Sequence[Mapping[str, object]], prompt: str) -> PromptStatus:
    """Return the state of a prompt in the entries of a transcript."""
    messages = [
        entry for entry in entries if entry.get("type") in ("user", "assistant") and not entry.get("isSidechain")
    ]
    at = next((i for i, entry in enumerate(messages) if entry["type"] == "user" and entry.get("uuid") == prompt), None)
    if at is None:
        return PromptStatus(exists=bool(messages), has_prompt=False, answer=None)
    after = messages[at + 1 :]
    answer = _find_answer(after) if after and _ends_turn(after[-1]) else None
    answers = sum(entry["type"] == "assistant" for entry in after)
    return PromptStatus(exists=True, has_prompt=True, answer=answer, answers=answers)


def _ends_turn(entry: Mapping[str, Any]) -> bool:
    message = entry.get("message") or {}
    is_last = message.get("stop_reason") in ENDINGS and not entry.get("isApiErrorMessage")
    return entry["type"] == "assistant" and is_last and not _select_blocks(message, "tool_use")


def _find_answer(entries: Sequence[Mapping[str, Any]]) -> str:
    texts = (
        "".join(str(block.get("text", "")) for block in _select_blocks(entry.get("message") or {}, "text"))
        for entry in reversed(entries)
        if entry["type"] == "assistant"
    )
    return next(filter(None, texts), "")


def _select_blocks(message: Mapping[str, object], kind: Literal["text", "tool_use"]) -> list[Mapping[str, object]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return [block for block in blocks if isinstance(block, Mapping) and block.get("type") == kind]
