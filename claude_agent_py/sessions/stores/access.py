"""`StoreAccess`: the calls of a store, and copies of sessions from one store to another, the CLI's folder included."""

import contextlib
import math
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final, cast

from claude_agent_py._base.checks import is_uuid
from claude_agent_py._base.errors import OptionsError, SessionNotFoundError, StaleLeaseError, StoreError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py.sessions.folders import AnyPath, check_id, find_session, project_key_for_directory
from claude_agent_py.sessions.prompt_entries import get_blocks, is_prompt
from claude_agent_py.sessions.stores.base import BATCH_ENTRIES, BlockingStore, encode_entry, read_uuid
from claude_agent_py.sessions.stores.cli_folder import SUFFIX, CLIFolder
from claude_agent_py.sessions.stores.comparison import Comparison
from claude_agent_py.sessions.stores.leases import HeldLease
from claude_agent_py.sessions.stores.private_folder import PREFIX, find_left_behind, mark_of, remove_tree
from claude_agent_py.sessions.stores.protocol import (
    STORE_SECONDS,
    Lease,
    Place,
    SessionStore,
    SessionStoreEntry,
    calling_store,
    implements,
)
from claude_agent_py.wire.base import INTERRUPTED, REJECTED


class StoreAccess:
    """The calls of a store. Each takes at most `timeout` seconds and raises only StoreError."""

    def __init__(self, store: SessionStore, timeout: float = STORE_SECONDS) -> None:
        self.store: Any = store
        """The store, for what has no method here. Type checkers do not know its optional methods."""
        self._timeout = timeout

    @property
    def can_search(self) -> bool:
        """Whether the store can look for a session in all projects. Stores of the official protocol cannot."""
        return implements(self.store, "find_session")

    def call(self, action: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Limit the time of a call, and convert its errors to StoreError."""
        return calling_store(action, self._timeout)

    def load(self, place: Place) -> "Batches":
        """Return the batches of a transcript; none if there is no such transcript."""
        return Batches(self, place)

    async def append(self, place: Place, entries: list[SessionStoreEntry], lease: Lease | None = None) -> None:
        """Append entries to a transcript. Does nothing without entries."""
        if not entries:
            return
        async with self.call(f"append to {place}"):
            if lease is None:
                await self.store.append(place.key, entries)
            else:
                await self.store.append(place.key, entries, epoch=lease.epoch)

    def hold_lease(
        self, place: Place, on_lost: Callable[[StaleLeaseError], Awaitable[object]] | None = None
    ) -> HeldLease:
        """Return the lease of a session, which is not taken yet."""
        key = place._replace(subpath="").key
        return HeldLease(self.store, key, timeout=self._timeout, on_lost=on_lost)

    async def find_lease(self, place: Place) -> Lease | None:
        """Return the lease of the process that is writing to a session; None if there is none, or it is unknown."""
        if not implements(self.store, "find_lease"):
            return None
        async with self.call(f"read the lease of session {place.session}"):
            lease: object = await self.store.find_lease(place.key)
        if lease is not None and not isinstance(lease, Lease):
            raise _build_reply_error(place, f"{lease!r:.100}, neither a Lease nor None")
        return lease

    async def check_exists(self, place: Place) -> None:
        """Raise SessionNotFoundError if the store does not have a session."""
        if implements(self.store, "list_sessions"):
            exists = place.session in await self.load_session_times(place.project)
        else:
            exists = await anext(self.load(place), None) is not None
        if not exists:
            raise not_found_error(self, place)

    async def list_subpaths(self, place: Place) -> list[str]:
        """Return the subpaths of a session; an empty list if the store cannot list them."""
        if not implements(self.store, "list_subkeys"):
            return []
        async with self.call(f"list the subagents of {place}"):
            found: list[Any] = await self.store.list_subkeys(place.key)
            if wrong := [subpath for subpath in found if not isinstance(subpath, str)]:
                raise _build_reply_error(place, f"the subpath {wrong[0]!r}")
            return list(dict.fromkeys(found))

    async def load_session_times(self, project: str) -> dict[str, int]:
        """Return the time of the last write of each session of a project, in milliseconds.

        Ignores names that are not UUIDs, which the CLI does not use for sessions.
        """
        async with self.call(f"list the sessions of {project}"):
            listed = await self.store.list_sessions(project)
            return {each["session_id"]: int(each["mtime"]) for each in listed if is_uuid(each["session_id"])}

    async def find_newest_session(self, project: str) -> str | None:
        """Return the id of the most recently written session of a project, ignoring subagents."""
        times = await self.load_session_times(project)
        for session_id in sorted(times, key=lambda each: times[each], reverse=True):
            entries = await anext(self.load(Place(project, session_id)), None)
            if entries and entries[0].get("isSidechain") is not True:
                return session_id
        return None

    async def find_project(self, session_id: str, default: str) -> str:
        """Return the project of a session: the default one if it has the session, otherwise the only one that does.

        Returns the default one if the store cannot search other projects.
        """
        if not self.can_search:
            return default
        found = await self.find(session_id)
        if default in found or not found:
            return default
        if len(found) > 1:
            projects = ", ".join(found)
            message = f"the store has session {session_id} in several projects; project_key must be one of {projects}"
            raise StoreError(message, session_id=session_id)
        return found[0]

    async def find(self, session_id: str) -> list[str]:
        """Return the projects that have a session. Needs `can_search`."""
        async with self.call(f"find session {session_id}"):
            found: list[Any] = [*await self.store.find_session(session_id)]
        if wrong := [project for project in found if not isinstance(project, str)]:
            raise StoreError(f"the store returned the project {wrong[0]!r}", session_id=session_id)
        return found

    async def delete(self, place: Place) -> None:
        """Delete a transcript, or a session. For a store that implements it."""
        async with self.call(f"delete {place}"):
            await self.store.delete(place.key)

    async def compare(self, place: Place, *, without: Set[str] = frozenset()) -> Comparison:
        """Return what a transcript has, without some entries, as `_identify` names them."""
        comparison = Comparison()
        async for batch in self.load(place):
            kept = [entry for entry in batch if _identify(entry) not in without] if without else batch
            await run_file_work(comparison.add, kept)
        return comparison

    async def lacks_answers(self, place: Place, source: "StoreAccess", here: Place) -> bool:
        """Return whether another transcript of a session has answers of the model that the store lacks.

        True if the store has no messages. What a CLI wrote when its program had died does not count; see `drop_ends`.
        """
        comparison = await self.compare(place)
        if comparison.is_empty:
            return True
        async with contextlib.aclosing(drop_ends(source.load(here))) as batches:
            async for batch in batches:
                missing = await run_file_work(comparison.find_missing, batch)
                if any(entry["type"] == "assistant" for entry in missing):
                    return True
        return False

    async def send_leftovers(
        self, place: Place, lease: Lease | None, *, without_ends: bool = False
    ) -> list[tuple["StoreAccess", Place]]:
        """Append the entries of a session that a killed process on this machine did not deliver to this store.

        `without_ends` is as in `copy`. Logs failures, and returns the folders and places of the sessions that are still
        incomplete in the store.
        """
        failed: list[tuple[StoreAccess, Place]] = []
        for path in await run_file_work(lambda: list(find_left_behind(PREFIX))):
            left = open_folder(path / "projects")
            for project in await left.find(place.session):
                # A mark begins with a dash. Entries in a folder without one may be for any store.
                if "-" in path.name.removeprefix(PREFIX) and not path.name.endswith(mark_of(self.store)):
                    logger.warning("%s has entries of session %s for another store", path, place.session)
                    continue
                own = Place(project, place.session)
                try:
                    await copy(left, own, self, place, lease=lease, without_ends=without_ends, is_rest=True)
                except Exception as error:
                    logger.warning("the entries in %s cannot be sent to the session store: %s", path, error)
                    failed.append((left, own))
                else:
                    await left.delete(own)
                    await run_file_work(_remove_emptied, path)
        return failed


def _remove_emptied(path: Path) -> None:
    """Remove a private folder if it has no transcripts. Another process may be doing the same."""
    with contextlib.suppress(FileNotFoundError):
        if not any(path.glob(f"projects/**/*{SUFFIX}")):
            remove_tree(path)


class Batches:
    """Iterates over the entries of a transcript.

    A store of this package is read while it is iterated over, so that one batch is in memory. Others load a transcript.

    Raises:
        StoreError: The store failed, took too long, or returned an invalid transcript.
    """

    def __init__(self, access: StoreAccess, place: Place) -> None:
        self._access = access
        self._place = place
        self._batches: Iterator[list[SessionStoreEntry]] | None = None

    def __aiter__(self) -> "Batches":
        return self

    async def __anext__(self) -> list[SessionStoreEntry]:
        async with self._access.call(f"load {self._place}"):
            if self._batches is None:
                self._batches = await self._open()
            batch = await run_file_work(next, self._batches, None, abandon_on_cancel=True)
        if batch is None:
            raise StopAsyncIteration
        for entry in cast("list[Any]", batch):
            if not isinstance(entry, dict) or "type" not in entry:
                raise _build_reply_error(self._place, f"an entry that is {str(entry)[:100]!r}")
        return batch

    async def _open(self) -> Iterator[list[SessionStoreEntry]]:
        store = self._access.store
        if isinstance(store, BlockingStore) and type(store).load is BlockingStore.load:  # not one of a subclass
            return store.iter_batches(self._place)
        entries: Any = await store.load(self._place.key)
        if entries is None:
            entries = []
        if not isinstance(entries, list):
            raise _build_reply_error(self._place, f"{type(entries).__name__}, not a list of entries")
        return (entries[start : start + BATCH_ENTRIES] for start in range(0, len(entries), BATCH_ENTRIES))


def open_folder(projects: AnyPath, *, uid: int | None = None) -> StoreAccess:
    """Return a folder of the CLI's projects as a store, with the files of one user or of all."""
    return StoreAccess(CLIFolder(projects, uid=uid), math.inf)


async def find_on_disk(
    session_id: str, directory: AnyPath | None, config_dir: AnyPath | None, *, uid: int | None = None
) -> tuple[StoreAccess, Place]:
    """Return a session of the CLI's folder with that folder as a store. Raises the errors of `find_session`."""
    path = await run_file_work(find_session, session_id, directory, config_dir)
    projects, project = os.path.split(os.path.dirname(path))
    return open_folder(projects, uid=uid), Place(project, session_id)


async def copy(
    source: StoreAccess,
    place: Place,
    target: StoreAccess,
    to: Place,
    *,
    lease: Lease | None = None,
    include_subagents: bool = True,
    without_ends: bool = False,
    is_rest: bool = False,
) -> int:
    """Append to a session the entries of another one that it lacks. Return how many.

    `without_ends` leaves out what the CLI wrote when its program had died; see `drop_ends`. With `is_rest`, the source
    is what a store did not accept, perhaps of subagents alone.

    The CLI continues from the last message of a transcript. If the other session lacks the stored current message, it
    has continued elsewhere. A note then names the current message, and the new entries become a branch.

    Raises:
        SessionNotFoundError: The source does not have the session.
        StoreError: A store failed, took too long, or returned an invalid transcript.
    """
    count = 0
    for subpath in ("", *(await source.list_subpaths(place) if include_subagents else ())):
        there = to._replace(subpath=subpath)
        comparison = await target.compare(there)
        has_entries = is_continued = False
        added = 0
        sent: set[str] = set()
        loaded = source.load(place._replace(subpath=subpath))
        async with (
            contextlib.aclosing(drop_ends(loaded)) if without_ends else contextlib.nullcontext(loaded) as batches
        ):
            async for batch in batches:
                has_entries = True
                is_continued = is_continued or comparison.is_continued_by(batch)
                missing = await run_file_work(comparison.find_missing, batch)
                await target.append(there, missing, lease)
                added += len(missing)
                if not is_continued:
                    sent.update(map(_identify, missing))
        if not has_entries and not subpath and not is_rest:
            raise not_found_error(source, place)
        await target.append(there, comparison.missing_description, lease)
        added += len(comparison.missing_description)
        if added and not is_continued:
            newest = await target.compare(there, without=sent)  # another process may have continued without a lease
            await target.append(there, [newest.build_tip(there.session)], lease)
        count += added
    return count


def _identify(entry: SessionStoreEntry) -> str:
    return read_uuid(entry) or encode_entry(entry, sort_keys=True)


NOT_ASKED: Final = (
    "Tool permission stream closed",
    "The user doesn't want to take this action right now. STOP what you are doing",
)
"""Parts of the results of calls whose permission prompt had no answer when the program died (CLI 2.1.332)."""


async def drop_ends(batches: AsyncIterator[list[SessionStoreEntry]]) -> AsyncGenerator[list[SessionStoreEntry], None]:
    """Leave out what a CLI wrote because its program had died, until the next prompt.

    The CLI reports to the model that an open call failed, and may get an answer before it ends; or it reports that the
    user interrupted the turn.
    """
    has_died = False
    held: list[Any] = []
    """A rejected call, and what follows it up to the next message, which says whether the turn ended."""
    async for batch in batches:
        kept: list[Any] = []
        for entry in cast("list[Any]", batch):
            is_rejected = _has_error(entry, (REJECTED,))
            if held and entry["type"] in ("user", "assistant") and not is_rejected:
                kept += [each for each in held if not _is_interruption(entry) or "uuid" not in each]
                held = []
            if entry["type"] == "user":
                has_ended = _has_error(entry, NOT_ASKED) or _is_interruption(entry)
                has_died = has_ended or (has_died and not is_prompt(entry))
            if held or (is_rejected and not has_died):
                held.append(entry)
            elif not has_died or "uuid" not in entry:
                kept.append(entry)
        yield kept
    yield [each for each in held if "uuid" not in each]


def _has_error(entry: Mapping[str, object], known: Sequence[str]) -> bool:
    """Return whether an entry has the result of a failed call with one of these texts."""
    texts = [str(block.get("content")) for block in get_blocks(entry) if block.get("is_error")]
    return any(part in text for text in texts for part in known)


def _is_interruption(entry: Mapping[str, object]) -> bool:
    return any(str(block.get("text", "")).startswith(INTERRUPTED) for block in get_blocks(entry))


def not_found_error(access: StoreAccess, place: Place) -> SessionNotFoundError:
    """Return the error for a session that the store does not have."""
    problem = f"the store has no session {place}"
    if not access.can_search:
        problem += "; it has no find_session() to search other projects: name the session's project with project_key"
    return SessionNotFoundError(problem, session_id=place.session)


async def locate(
    store: SessionStore,
    session_id: str,
    directory: AnyPath | None,
    project_key: str | None,
    timeout: float = STORE_SECONDS,
) -> tuple[StoreAccess, Place]:
    """Return the place of a session in a store. Does not check that it exists.

    Raises OptionsError if the id is not a UUID.
    """
    check_id(session_id)
    if project_key is not None and not isinstance(project_key, str):
        raise OptionsError(f"must be text, not {type(project_key).__name__}", option="project_key")
    access = StoreAccess(store, timeout)
    project = project_key or await access.find_project(session_id, project_key_for_directory(directory))
    return access, Place(project, session_id)


def _build_reply_error(place: Place, reply: str) -> StoreError:
    return StoreError(f"the store returned for {place} {reply}", key=place.key, session_id=place.session)
