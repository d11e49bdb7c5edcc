"""Describe the sessions of a store from its summaries. Sessions without an up-to-date one are loaded."""

from collections.abc import Mapping
from typing import Final

import anyio

from claude_agent_py._base.checks import is_uuid
from claude_agent_py._base.errors import StoreError
from claude_agent_py._base.log import logger
from claude_agent_py.sessions.info import SessionInfo, build_info
from claude_agent_py.sessions.stores.access import StoreAccess
from claude_agent_py.sessions.stores.protocol import Place, implements
from claude_agent_py.sessions.summary import apply_entry
from claude_agent_py.wire.base import JSONObject

CONCURRENT_LOADS: Final = 16
"""The maximum number of sessions without a summary that are loaded concurrently."""


async def list_infos(access: StoreAccess, project: str, limit: int | None, offset: int) -> list[SessionInfo]:
    """Return the sessions of a project in a store, newest first. Loads only what the page needs.

    If a session cannot be loaded, that is logged, and its `summary` is empty.
    """
    found: list[SessionInfo] = []
    if limit == 0:
        return found
    times, data = await _load_lists(access, project)
    waiting = sorted(times, key=lambda each: times[each], reverse=True)
    while waiting and (limit is None or len(found) < offset + limit):
        wanted = CONCURRENT_LOADS if limit is None else offset + limit - len(found)
        batch = waiting[: min(wanted, CONCURRENT_LOADS)]
        del waiting[: len(batch)]
        await _derive_summaries(access, [Place(project, each) for each in batch if each not in data], data)
        infos = (_describe(each, times[each], data[each]) for each in batch)
        found += [info for info in infos if info is not None]
    return found[offset:]


async def _load_lists(access: StoreAccess, project: str) -> tuple[dict[str, int], JSONObject]:
    """Return the time of the last write of each session, and the data of the summaries that are up to date."""
    has_times = implements(access.store, "list_sessions")
    summaries = await _load_summaries(access, project)
    if has_times:
        times = await access.load_session_times(project)
    elif summaries is not None:
        times = {each: at for each, (at, _) in summaries.items()}
    else:
        raise StoreError("the store has neither list_sessions() nor list_session_summaries()")
    return times, {each: data for each, (at, data) in (summaries or {}).items() if at >= times.get(each, at)}


async def _load_summaries(access: StoreAccess, project: str) -> dict[str, tuple[int, JSONObject]] | None:
    """Return the time and the data of each summary; None if the store keeps no summaries."""
    if not implements(access.store, "list_session_summaries"):
        return None
    try:
        async with access.call(f"list the summaries of {project}"):
            listed = await access.store.list_session_summaries(project)
            return {s["session_id"]: (int(s["mtime"]), dict(s["data"])) for s in listed if is_uuid(s["session_id"])}
    except StoreError as error:
        if isinstance(error.__cause__, NotImplementedError):
            return None
        raise


async def _derive_summaries(access: StoreAccess, places: list[Place], data: JSONObject) -> None:
    """Load sessions and add the `data` of their summaries to `data`; None for one that cannot be loaded."""

    async def derive(place: Place) -> None:
        try:
            summary: JSONObject = {}
            async for batch in access.load(place):
                for entry in batch:
                    apply_entry(summary, entry)
            data[place.session] = summary
        except StoreError as error:
            data[place.session] = None
            logger.warning("session %s cannot be loaded: %s", place.session, error)

    async with anyio.create_task_group() as loading:
        for place in places:
            loading.start_soon(derive, place)


def _describe(session_id: str, changed: int, data: Mapping[str, object] | None) -> SessionInfo | None:
    """Return the description of a session from its summary; an empty one for a session that cannot be loaded."""
    if data is None:
        return SessionInfo(session_id=session_id, summary="", last_modified=changed, file_size=0)
    return build_info(session_id, changed, data)
