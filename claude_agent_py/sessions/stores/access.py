"""Load sessions from a store and write them to disk: into the folder for resuming a session, or any other folder."""

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
from claude_agent_py.sessions.stores.private_folder import PREFIX, find_left_behind, remove_tree
from claude_agent_py.sessions.stores.protocol import Place, SessionStore, SessionStoreEntry, format_key, implements
from claude_agent_py.sessions.stores.transfers import (
    SUFFIX,
    Append,
    join_subpath,
    list_transcripts,
    parse_place,
    send_older,
    write_transcript,
)

logger: logging.Logger = logging.getLogger("claude_agent_py")


async def write_session(
    store: SessionStore, place: Place, folder: Path, project: str, timeout: float, *, include_subagents: bool = True
) -> bool:
    """Write a session with its subagents into a folder of projects. Return False if the store lacks the session.

    `project` is the name of the folder of the working directory, `timeout` the time limit of each store call.

    Raises:
        StoreError: The store failed, took too long, or returned an invalid transcript.
        FileExistsError: The session exists already.
        OSError: The session cannot be written.
    """
    entries = await load(store, place, timeout)
    if not entries:
        return False
    session_folder = os.path.join(folder, project, place.session)
    await _write_entries(session_folder + SUFFIX, entries, place)
    if not include_subagents:
        return True
    for subpath in await list_subpaths(store, place, timeout):
        path = join_subpath(session_folder, subpath)
        entries = await load(store, place._replace(subpath=subpath), timeout)
        if entries:
            await _write_entries(path, entries, place)
    return True


async def _write_entries(path: str, entries: list[SessionStoreEntry], place: Place) -> None:
    try:
        await run_file_work(write_transcript, path, entries)
    except (TypeError, ValueError, RecursionError) as error:
        raise _build_reply_error(place, f"an entry that is not JSON: {error}") from error


async def load(store: SessionStore, place: Place, timeout: float) -> list[SessionStoreEntry] | None:
    """Load a transcript. Raises StoreError if the store fails or returns an invalid transcript."""
    async with store_call(f"load {format_key(place.key)}", timeout):
        entries: Any = await store.load(place.key)
    if entries is None:
        return None
    if not isinstance(entries, list):
        raise _build_reply_error(place, f"{type(entries).__name__}, not a list of entries")
    wrong = next((entry for entry in entries if not isinstance(entry, dict) or "type" not in entry), None)
    if wrong is not None:
        raise _build_reply_error(place, f"an entry that is {str(wrong)[:100]!r}")
    return entries


def _build_reply_error(place: Place, reply: str) -> StoreError:
    return StoreError(
        f"the store returned for {format_key(place.key)} {reply}", key=place.key, session_id=place.session
    )


async def list_subpaths(store: SessionStore, place: Place, timeout: float) -> list[str]:
    """Return the subpaths of a session; an empty list if the store cannot list them. Raises StoreError."""
    if not implements(store, "list_subkeys"):
        return []
    async with store_call(f"list the subagents of {format_key(place.key)}", timeout):
        found: list[Any] = await store.list_subkeys(  # type: ignore[attr-defined]
            {"project_key": place.project, "session_id": place.session}
        )
        if wrong := [subpath for subpath in found if not isinstance(subpath, str)]:
            raise _build_reply_error(place, f"the subpath {wrong[0]!r}")
        return list(dict.fromkeys(found))


async def find_project(store: SessionStore, session_id: str, default: str, timeout: float) -> str:
    """Return the project of a session: the default one if it has the session, otherwise the only one that does.

    Stores of the official protocol cannot search other projects, so the default one is returned. Raises StoreError.
    """
    if not implements(store, "find_session"):
        return default
    async with store_call(f"find session {session_id}", timeout):
        found: list[str] = await store.find_session(session_id)  # type: ignore[attr-defined]
    if default in found or not found:
        return default
    if len(found) > 1:
        message = (
            f"the store has session {session_id} in several projects; project_key must be one of {', '.join(found)}"
        )
        raise StoreError(message, session_id=session_id)
    return found[0]


async def find_newest_session(store: SessionStore, project: str, timeout: float) -> str | None:
    """Return the id of the most recently written session of a project, ignoring subagents. Raises StoreError."""
    times = await load_session_times(store, project, timeout)
    for session_id in sorted(times, key=lambda each: times[each], reverse=True):
        entries = await load(store, Place(project, session_id), timeout)
        if entries and entries[0].get("isSidechain") is not True:
            return session_id
    return None


async def load_session_times(store: SessionStore, project: str, timeout: float) -> dict[str, int]:
    """Return the time of the last write of each session of a project, in milliseconds. Raises StoreError.

    Ignores names that are not UUIDs, which the CLI does not use for sessions.
    """
    async with store_call(f"list the sessions of {project}", timeout):
        listed = await store.list_sessions(project)  # type: ignore[attr-defined]
        return {each["session_id"]: int(each["mtime"]) for each in listed if is_id(each["session_id"])}


@contextlib.asynccontextmanager
async def store_call(action: str, timeout: float) -> AsyncIterator[None]:
    """Convert errors and timeouts of a store to StoreError."""
    try:
        with anyio.fail_after(timeout):
            yield
    except StoreError:
        raise
    except TimeoutError as error:
        raise StoreError(f"the store took more than {timeout:g} s to {action}") from error
    except Exception as error:
        raise StoreError(f"the store failed to {action}: {type(error).__name__}: {error}") from error


async def send_leftovers(place: Place, load_stored: Any, append: Append) -> list[tuple[Place, str]]:
    """Append the entries of a session that a killed process on this machine did not deliver.

    Logs failures, and returns the places and files of the transcripts that are still incomplete in the store.
    """
    failed: list[tuple[Place, str]] = []
    for folder in await run_file_work(lambda: list(find_left_behind(PREFIX))):
        for path in folder.glob(f"projects/*/{place.session}{SUFFIX}"):
            parsed = ((parse_place(found, place.project), found) for found, _ in list_transcripts(str(path)))
            waiting = [(found, transcript) for found, transcript in parsed if found is not None]
            try:
                while waiting:
                    found, transcript = waiting[0]
                    await send_older(transcript, found.key, await load_stored(found) or [], append)
                    del waiting[0]
            except Exception as error:
                logger.warning("the entries in %s cannot be sent to the session store: %s", folder, error)
                failed += waiting
            else:
                await run_file_work(_remove_session, folder, path)
    return failed


def _remove_session(folder: Path, transcript: Path) -> None:
    """Remove a session, and the folder if no other session remains."""
    shutil.rmtree(transcript.with_suffix(""), ignore_errors=True)
    transcript.unlink(missing_ok=True)
    if not any(folder.glob(f"projects/*/*{SUFFIX}")):
        remove_tree(folder)
