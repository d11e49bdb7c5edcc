"""`RedisStore`: sessions in Redis. Needs the package `redis`: `pip install redis`.

A transcript is a list of entries and a set of their uuids. One transaction makes all related changes, and is repeated
after a conflict.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote

from claude_agent_py._base.checks import UNESCAPED, is_url
from claude_agent_py._base.errors import OptionsError, StoreError
from claude_agent_py.sessions.stores.base import (
    BATCH_ENTRIES,
    ChangeLease,
    EntryRow,
    SummarisingStore,
    drop_known,
    encode_utf8,
    update_summary,
)
from claude_agent_py.sessions.stores.protocol import LeaseState, Place, check_epoch

T = TypeVar("T")
Pipeline: TypeAlias = Any
"""`redis.client.Pipeline`, whose methods return other types in asyncio."""

VERSION: Final = 1
CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 30.0
"""How many seconds the server may take to answer a command. Without a limit, as in versions of `redis` before 8, the
threads of its calls stay for ever if the network loses their connections."""


class RedisStore(SummarisingStore):
    """Keeps sessions in Redis, for any number of machines. Leases use the clock of the server.

    The durability depends on the configuration of the server (`appendonly yes`). Redis Cluster is not supported.

    Args:
        url: The server, such as `redis://host:6379/0`; ignored if `client` is given. With `?socket_timeout=5` it may
            take 5 seconds to answer a command, instead of 30.
        prefix: The prefix of all keys.
        client: A configured `redis.Redis`.

    Raises:
        OptionsError: The package `redis` is not installed, or the URL cannot be parsed.
    """

    def __init__(
        self, url: str = "redis://127.0.0.1:6379/0", *, prefix: str = "claude:", client: object = None
    ) -> None:
        try:
            import redis
        except ImportError as error:
            message = "RedisStore needs the package redis: pip install redis"
            raise OptionsError(message, option="session_store") from error
        if client is None and not is_url(url):
            raise OptionsError(UNESCAPED, option="url")
        limits = {"socket_connect_timeout": CONNECT_SECONDS, "socket_timeout": ANSWER_SECONDS}
        self._redis: Any = redis.Redis.from_url(url, **limits) if client is None else client
        self._prefix = prefix
        self._is_ready = False

    def __repr__(self) -> str:
        # The URL may contain a password.
        given = getattr(getattr(self._redis, "connection_pool", None), "connection_kwargs", {})
        where = " ".join(f"{name}={given[name]}" for name in ("host", "port", "path", "db") if name in given)
        return f"RedisStore({where!r}, prefix={self._prefix!r})"

    def close(self) -> None:
        """Close the connections. Later calls open new ones."""
        self._redis.close()

    def _key(self, kind: str, *parts: str) -> str:
        # `quote` escapes the colons of a part.
        return ":".join((f"{self._prefix}{kind}", *(quote(encode_utf8(part), safe="/~@+=, ") for part in parts)))

    def _ensure_version(self) -> None:
        if self._is_ready:
            return
        self._redis.set(self._key("version"), VERSION, nx=True)
        version = int(self._redis.get(self._key("version")))
        if version > VERSION:
            raise StoreError(
                f"the keys {self._prefix}* have version {version}, but at most {VERSION} is supported; "
                "upgrade claude-agent-py"
            )
        self._is_ready = True

    def _change(self, watched: list[str], work: Callable[[Pipeline], T]) -> T:
        """Run `work` until it succeeds without a conflict. It reads first, then queues changes after `multi()`."""
        self._ensure_version()
        value: T = self._redis.transaction(work, *watched, value_from_callable=True)
        return value

    def _append(self, place: Place, rows: list[EntryRow], epoch: int | None) -> None:
        uuids = self._key("uuids", *place)
        lease = self._key("lease", *place[:2])
        summaries = self._key("summaries", place.project)
        times = self._key("times", place.project)
        # Watch a key of the session, so that only appends to the same session conflict.
        touched = self._key("touched", *place[:2])

        def work(pipe: Pipeline) -> None:
            check_epoch(_parse_lease(pipe.get(lease)), place, epoch)
            known = _find_known(pipe, uuids, rows)
            new = drop_known(rows, known)
            before = None if place.subpath else pipe.hget(summaries, encode_utf8(place.session))
            seconds, microseconds = pipe.time()
            pipe.multi()
            pipe.incr(touched)
            if new:
                pipe.rpush(self._key("entries", *place), *(row.text for row in new))
            if ids := [encode_utf8(row.uuid) for row in new if row.uuid is not None]:
                pipe.sadd(uuids, *ids)
            if place.subpath:
                pipe.sadd(self._key("subpaths", *place[:2]), encode_utf8(place.subpath))
                return
            name = encode_utf8(place.session)
            pipe.hset(summaries, name, update_summary(before, new))
            pipe.hset(times, name, seconds * 1000 + microseconds // 1000)
            pipe.sadd(self._key("projects", place.session), encode_utf8(place.project))

        self._change([touched, lease], work)

    def _load(self, place: Place) -> Iterator[bytes]:
        start = 0
        while found := self._redis.lrange(self._key("entries", *place), start, start + BATCH_ENTRIES - 1):
            yield from found
            start += BATCH_ENTRIES

    def _list_sessions(self, project: str) -> dict[str, int]:
        found = self._redis.hgetall(self._key("times", project))
        return {_decode(session): int(mtime) for session, mtime in found.items()}

    def _list_summaries(self, project: str) -> list[tuple[str, int, str | bytes]]:
        with self._redis.pipeline() as pipe:
            pipe.hgetall(self._key("times", project))
            pipe.hgetall(self._key("summaries", project))
            times, summaries = pipe.execute()
        return [(_decode(session), int(times[session]), text) for session, text in summaries.items()]

    def _list_subpaths(self, place: Place) -> list[str]:
        return [_decode(subpath) for subpath in self._redis.smembers(self._key("subpaths", *place[:2]))]

    def _delete(self, place: Place) -> None:
        subpaths = self._key("subpaths", *place[:2])
        touched = self._key("touched", *place[:2])

        def work(pipe: Pipeline) -> None:
            if place.subpath:
                pipe.multi()
                pipe.srem(subpaths, encode_utf8(place.subpath))
                gone = [place]
            else:
                gone = [place, *(place._replace(subpath=_decode(each)) for each in pipe.smembers(subpaths))]
                pipe.multi()
                pipe.delete(subpaths)
                pipe.hdel(self._key("summaries", place.project), encode_utf8(place.session))
                pipe.hdel(self._key("times", place.project), encode_utf8(place.session))
                pipe.srem(self._key("projects", place.session), encode_utf8(place.project))
            pipe.incr(touched)
            for each in gone:
                pipe.delete(self._key("entries", *each), self._key("uuids", *each))

        self._change([touched], work)

    def _find_projects(self, session: str) -> list[str]:
        return [_decode(project) for project in self._redis.smembers(self._key("projects", session))]

    def _read_lease(self, place: Place) -> tuple[LeaseState, float]:
        seconds, microseconds = self._redis.time()
        return _parse_lease(self._redis.get(self._key("lease", *place[:2]))), seconds + microseconds / 1_000_000

    def _change_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        lease = self._key("lease", *place[:2])

        def work(pipe: Pipeline) -> LeaseState:
            before = _parse_lease(pipe.get(lease))
            seconds, microseconds = pipe.time()
            state = change(before, seconds + microseconds / 1_000_000)
            pipe.multi()
            pipe.set(lease, json.dumps(state))
            return state

        return self._change([lease], work)


def _find_known(pipe: Pipeline, key: str, rows: list[EntryRow]) -> set[str]:
    uuids = [row.uuid for row in rows if row.uuid is not None]
    if not uuids:
        return set()
    memberships = pipe.smismember(key, [encode_utf8(uuid) for uuid in uuids])
    return {uuid for uuid, is_member in zip(uuids, memberships, strict=True) if is_member}


def _parse_lease(text: bytes | None) -> LeaseState:
    return LeaseState() if text is None else LeaseState(*json.loads(text))


def _decode(data: bytes) -> str:
    return data.decode(errors="surrogatepass")
