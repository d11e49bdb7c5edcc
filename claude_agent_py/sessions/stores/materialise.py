"""Ask a store for sessions, and write them to disk: into the folder from which the CLI resumes one, or any other."""

import contextlib
import logging
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio

from claude_agent_py._errors import StoreError
from claude_agent_py._event_loop import run_file_work
from claude_agent_py.sessions.folders import is_id
from claude_agent_py.sessions.stores.local import (
    SUFFIX,
    Append,
    path_below,
    place_of,
    send_older,
    transcripts_of,
    write_transcript,
)
from claude_agent_py.sessions.stores.private_folder import PREFIX, left_behind, remove_tree
from claude_agent_py.sessions.stores.protocol import Place, SessionStore, SessionStoreEntry, described, implements

logger: logging.Logger = logging.getLogger("claude_agent_py")


async def write_session(
    store: SessionStore, place: Place, folder: Path, project: str, timeout: float, *, include_subagents: bool = True
) -> bool:
    """Write a session with its subagents into a folder of projects. Return False if the store does not have it.

    Args:
        store: The store.
        place: The session.
        folder: The folder of projects.
        project: The name of the folder of the working directory.
        timeout: Seconds that each call of the store may take.
        include_subagents: Write the transcripts of subagents, too.

    Raises:
        StoreError: The store failed, took too long, or returned an invalid transcript.
        FileExistsError: The session exists already.
        OSError: It cannot be written.
    """
    entries = await load(store, place, timeout)
    if not entries:
        return False
    own = os.path.join(folder, project, place.session)
    await _write_entries(own + SUFFIX, entries, place)
    for subpath in await subpaths(store, place, timeout) if include_subagents else ():
        path = path_below(own, subpath)
        entries = await load(store, place._replace(subpath=subpath), timeout)
        if entries:
            await _write_entries(path, entries, place)
    return True


async def _write_entries(path: str, entries: list[SessionStoreEntry], place: Place) -> None:
    try:
        await run_file_work(write_transcript, path, entries)
    except (TypeError, ValueError, RecursionError) as error:
        raise _junk(place, f"an entry that is not JSON: {error}") from error


async def load(store: SessionStore, place: Place, timeout: float) -> list[SessionStoreEntry] | None:
    """Load a transcript. Raises StoreError, including for an invalid transcript."""
    async with asked(f"load {described(place.key)}", timeout):
        entries: Any = await store.load(place.key)
    if entries is None:
        return None
    if not isinstance(entries, list):
        raise _junk(place, f"{type(entries).__name__} instead of a list of entries")
    wrong = next((entry for entry in entries if not isinstance(entry, dict) or "type" not in entry), None)
    if wrong is not None:
        raise _junk(place, f"an entry that is {str(wrong)[:100]!r}")
    return entries


def _junk(place: Place, what: str) -> StoreError:
    return StoreError(f"the store returned for {described(place.key)} {what}", key=place.key, session_id=place.session)


async def subpaths(store: SessionStore, place: Place, timeout: float) -> list[str]:
    """Return the subpaths of a session; none if the store cannot list them. Raises StoreError."""
    if not implements(store, "list_subkeys"):
        return []
    async with asked(f"list the subagents of {described(place.key)}", timeout):
        found: list[Any] = await store.list_subkeys(  # type: ignore[attr-defined]
            {"project_key": place.project, "session_id": place.session}
        )
        if wrong := [subpath for subpath in found if not isinstance(subpath, str)]:
            raise _junk(place, f"the subpath {wrong[0]!r}")
        return list(dict.fromkeys(found))


async def find_project(store: SessionStore, session_id: str, default: str, timeout: float) -> str:
    """Return the project of a session: the default one if it has the session, otherwise the only one that does.

    Raises StoreError.

    Stores of the official protocol cannot look into other projects.
    """
    if not implements(store, "find_session"):
        return default
    async with asked(f"find session {session_id}", timeout):
        found: list[str] = await store.find_session(session_id)  # type: ignore[attr-defined]
    if default in found or not found:
        return default
    if len(found) > 1:
        told = f"the store has session {session_id} in several projects ({', '.join(found)}): name one as project_key"
        raise StoreError(told, session_id=session_id)
    return found[0]


async def newest_session(store: SessionStore, project: str, timeout: float) -> str | None:
    """Return the id of the most recently written session of a project, ignoring subagents. Raises StoreError."""
    times = await session_times(store, project, timeout)
    for session_id in sorted(times, key=lambda each: times[each], reverse=True):
        entries = await load(store, Place(project, session_id), timeout)
        if entries and entries[0].get("isSidechain") is not True:
            return session_id
    return None


async def session_times(store: SessionStore, project: str, timeout: float) -> dict[str, int]:
    """Return when each session of a project was last written, in milliseconds. Raises StoreError.

    Ignores names that are not uuids, which the CLI does not use for sessions.
    """
    async with asked(f"list the sessions of {project}", timeout):
        listed = await store.list_sessions(project)  # type: ignore[attr-defined]
        return {each["session_id"]: int(each["mtime"]) for each in listed if is_id(each["session_id"])}


@contextlib.asynccontextmanager
async def asked(what: str, timeout: float) -> AsyncIterator[None]:
    """Convert errors and timeouts of a store to StoreError."""
    try:
        with anyio.fail_after(timeout):
            yield
    except StoreError:
        raise
    except TimeoutError as error:
        raise StoreError(f"the store took more than {timeout:g} s to {what}") from error
    except Exception as error:
        raise StoreError(f"the store failed to {what}: {type(error).__name__}: {error}") from error


async def send_leftovers(place: Place, load_stored: Any, append: Append) -> list[tuple[Place, str]]:
    """Append entries of a session that a killed process on this machine did not deliver.

    Logs failures, and returns the places and files of transcripts that are still incomplete in the store.
    """
    failed: list[tuple[Place, str]] = []
    for folder in await run_file_work(lambda: list(left_behind(PREFIX))):
        for path in folder.glob(f"projects/*/{place.session}{SUFFIX}"):
            own = ((place_of(found, place.project), found) for found, _ in transcripts_of(str(path)))
            waiting = [(found, transcript) for found, transcript in own if found is not None]
            try:
                while waiting:
                    found, transcript = waiting[0]
                    await send_older(transcript, found.key, await load_stored(found) or [], append)
                    del waiting[0]
            except Exception as error:
                logger.warning("%s has entries that cannot be brought to the session store: %s", folder, error)
                failed += waiting
            else:
                await run_file_work(_remove_session, folder, path)
    return failed


def _remove_session(folder: Path, transcript: Path) -> None:
    """Remove a session, and the folder if it was the only one."""
    shutil.rmtree(transcript.with_suffix(""), ignore_errors=True)
    transcript.unlink(missing_ok=True)
    if not any(folder.glob(f"projects/*/*{SUFFIX}")):
        remove_tree(folder)
