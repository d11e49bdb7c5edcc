"""`RedisStore`: sessions in Redis. Needs the package `redis`: `pip install claude-agent-py[redis]`.

A transcript is a list of entries and a set of their uuids. Related changes are made in one transaction, which is
repeated after a conflict.
"""

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import quote

from claude_agent_py._errors import OptionsError, StoreError
from claude_agent_py.sessions.stores.blocking import (
    ChangeLease,
    Row,
    SummarisingStore,
    next_summary,
    utf8,
    without_known,
)
from claude_agent_py.sessions.stores.leases import LeaseState, check_epoch
from claude_agent_py.sessions.stores.protocol import Place

T = TypeVar("T")

VERSION: Final = 1
_ATTEMPTS: Final = 200


class RedisStore(SummarisingStore):
    """Keeps sessions in Redis, for any number of machines. Leases use the clock of the server.

    How safe the data is depends on how the server is configured (`appendonly yes`). A Redis Cluster is not supported.

    Args:
        url: The server, such as `redis://host:6379/0`; ignored with a `client`.
        prefix: The beginning of all keys.
        client: A `redis.Redis` of your own.

    Raises:
        OptionsError: The package `redis` is not installed.
    """

    def __init__(self, url: str = "redis://127.0.0.1:6379/0", *, prefix: str = "claude:", client: Any = None) -> None:
        try:
            import redis
        except ImportError as error:
            told = "RedisStore needs the package redis: pip install 'claude-agent-py[redis]'"
            raise OptionsError(told, option="session_store") from error
        self._redis: Any = redis.Redis.from_url(url) if client is None else client
        self._conflict: type[Exception] = redis.WatchError
        self._prefix = prefix
        self._is_ready = False

    def __repr__(self) -> str:
        return f"RedisStore(prefix={self._prefix!r})"  # the URL may have a password

    def close(self) -> None:
        """Close the connections. They are reopened when needed."""
        self._redis.close()

    def _key(self, kind: str, *parts: str) -> str:
        return ":".join((f"{self._prefix}{kind}", *(_quoted(part) for part in parts)))

    def _check_version(self) -> None:
        if self._is_ready:
            return
        self._redis.set(self._key("version"), VERSION, nx=True)
        version = int(self._redis.get(self._key("version")))
        if version > VERSION:
            raise StoreError(f"the keys {self._prefix}* were made by a newer version ({version}, known is {VERSION})")
        self._is_ready = True

    def _change(self, watched: list[str], work: Callable[[Any], T]) -> T:
        """Run `work`, which reads and then queues changes after `multi()`, until it succeeds without a conflict."""
        self._check_version()
        with self._redis.pipeline() as pipe:
            for _ in range(_ATTEMPTS):
                try:
                    pipe.watch(*watched)
                    value = work(pipe)
                    pipe.execute()
                except self._conflict:
                    continue
                return value
        raise StoreError(f"{_ATTEMPTS} attempts to change {watched[0]} met other writers")

    def _append(self, place: Place, rows: list[Row], epoch: int | None) -> None:
        uuids, lease = self._key("uuids", *place), self._key("lease", *place[:2])
        summaries, times = self._key("summaries", place.project), self._key("times", place.project)
        touched = self._key("touched", *place[:2])  # so that only appends to the same session exclude each other

        def work(pipe: Any) -> None:
            check_epoch(_state(pipe.get(lease)), place.key, epoch)
            known = _members(pipe, uuids, rows)
            new = without_known(rows, known)
            before = None if place.subpath else pipe.hget(summaries, utf8(place.session))
            seconds, microseconds = pipe.time()
            pipe.multi()
            pipe.incr(touched)
            if new:
                pipe.rpush(self._key("entries", *place), *(row.text for row in new))
            if ids := [utf8(row.uuid) for row in new if row.uuid is not None]:
                pipe.sadd(uuids, *ids)
            if place.subpath:
                pipe.sadd(self._key("subpaths", *place[:2]), utf8(place.subpath))
                return
            name = utf8(place.session)
            pipe.hset(summaries, name, next_summary(before, place, new))
            pipe.hset(times, name, seconds * 1000 + microseconds // 1000)
            pipe.sadd(self._key("projects", place.session), utf8(place.project))

        self._change([touched, lease], work)

    def _load(self, place: Place) -> list[bytes]:
        found: list[bytes] = self._redis.lrange(self._key("entries", *place), 0, -1)
        return found

    def _list(self, project: str) -> dict[str, int]:
        found = self._redis.hgetall(self._key("times", project))
        return {_decoded(session): int(mtime) for session, mtime in found.items()}

    def _summaries(self, project: str) -> list[tuple[str, int, str | bytes]]:
        with self._redis.pipeline() as pipe:
            pipe.hgetall(self._key("times", project))
            pipe.hgetall(self._key("summaries", project))
            times, summaries = pipe.execute()
        return [(_decoded(session), int(times[session]), text) for session, text in summaries.items()]

    def _subpaths(self, place: Place) -> list[str]:
        return [_decoded(subpath) for subpath in self._redis.smembers(self._key("subpaths", *place[:2]))]

    def _delete(self, place: Place) -> None:
        session, subpaths = place[:2], self._key("subpaths", *place[:2])
        touched = self._key("touched", *session)

        def work(pipe: Any) -> None:
            if place.subpath:
                pipe.multi()
                pipe.srem(subpaths, utf8(place.subpath))
                gone = [place]
            else:
                gone = [place, *(place._replace(subpath=_decoded(each)) for each in pipe.smembers(subpaths))]
                pipe.multi()
                pipe.delete(subpaths)
                pipe.hdel(self._key("summaries", place.project), utf8(place.session))
                pipe.hdel(self._key("times", place.project), utf8(place.session))
                pipe.srem(self._key("projects", place.session), utf8(place.project))
            pipe.incr(touched)
            for each in gone:
                pipe.delete(self._key("entries", *each), self._key("uuids", *each))

        self._change([touched], work)

    def _find(self, session: str) -> list[str]:
        return [_decoded(project) for project in self._redis.smembers(self._key("projects", session))]

    def _change_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        lease = self._key("lease", *place[:2])

        def work(pipe: Any) -> LeaseState:
            before = _state(pipe.get(lease))
            seconds, microseconds = pipe.time()
            state = change(before, seconds + microseconds / 1_000_000)
            pipe.multi()
            pipe.set(lease, json.dumps(state))
            return state

        return self._change([lease], work)


def _members(pipe: Any, key: str, rows: list[Row]) -> set[str]:
    uuids = [row.uuid for row in rows if row.uuid is not None]
    if not uuids:
        return set()
    are_there = pipe.smismember(key, [utf8(uuid) for uuid in uuids])
    return {uuid for uuid, is_there in zip(uuids, are_there, strict=True) if is_there}


def _state(text: bytes | None) -> LeaseState:
    return LeaseState() if text is None else LeaseState(*json.loads(text))


def _decoded(data: bytes) -> str:
    return data.decode(errors="surrogatepass")


def _quoted(part: str) -> str:
    """Return a part of a key without colons."""
    return quote(utf8(part), safe="/~@+=, ")
