"""`S3Store`: sessions in a bucket of S3, or a compatible service. Needs `boto3`: `pip install boto3`.

Each append is an object, `<prefix>entries/<project>/<session>/<main or sub/<subpath>>/<time>-<random>.jsonl`. The
objects sort by name in the order of the entries.
"""

import contextlib
import json
import re
import secrets
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, unquote

from claude_agent_py._base.bounded_dict import BoundedDict
from claude_agent_py._base.errors import OptionsError, StaleLeaseError, StoreError
from claude_agent_py._base.thread_locks import ThreadLock
from claude_agent_py.sessions.stores.base import BlockingStore, ChangeLease, EntryRow, encode_utf8
from claude_agent_py.sessions.stores.protocol import LeaseState, Place, check_epoch
from claude_agent_py.wire.base import JSONObject

MAIN: Final = "main"
SUB: Final = "sub"
_ATTEMPTS: Final = 20
_MOST_DELETED: Final = 1000
_KNOWN: Final = 1024
"""The number of transcripts whose last object name is cached."""
_NO_OBJECT: Final = frozenset({"NoSuchKey", "404"})
_CONFLICT: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})


class S3Store(BlockingStore):
    """Keeps sessions as objects in a bucket, for any number of machines.

    The store keeps no summaries. Entries appended twice are stored twice but loaded once. Leases need conditional
    writes, which AWS, MinIO and others support. An append checks its lease before and after the write, and deletes the
    object if the lease was lost; readers may see the object until then. The clocks of the machines must agree to within
    a few seconds.

    Args:
        bucket: An existing bucket.
        prefix: The prefix of all keys, such as `sessions/`.
        client: A `boto3` S3 client with the endpoint and credentials; by default one configured by the environment.

    Raises:
        OptionsError: `boto3` is not installed.
    """

    def __init__(self, bucket: str, *, prefix: str = "", client: object = None) -> None:
        try:
            import boto3
        except ImportError as error:
            message = "S3Store needs boto3: pip install boto3"
            raise OptionsError(message, option="session_store") from error
        self._s3: Any = boto3.client("s3") if client is None else client
        self._bucket = bucket
        self._prefix = prefix
        self._lock = ThreadLock()
        self._last: BoundedDict[Place, int] = BoundedDict(_KNOWN)

    def __repr__(self) -> str:
        where = getattr(getattr(self._s3, "meta", None), "endpoint_url", None)
        shown = where and re.sub("//.*@", "//", where)  # the URL may contain a password
        return f"S3Store({self._bucket!r}, prefix={self._prefix!r}, endpoint_url={shown!r})"

    def _transcript_prefix(self, place: Place) -> str:
        own = f"{SUB}/{quote(encode_utf8(place.subpath), safe='')}" if place.subpath else MAIN
        return f"{self._session_prefix(place)}{own}/"

    def _session_prefix(self, place: Place) -> str:
        return f"{self._project_prefix(place.project)}{quote(encode_utf8(place.session), safe='')}/"

    def _project_prefix(self, project: str) -> str:
        return f"{self._prefix}entries/{quote(encode_utf8(project), safe='')}/"

    def _iter_objects(self, prefix: str) -> Iterator[JSONObject]:
        """Yield the objects whose keys have a prefix, sorted by key."""
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
            yield from page.get("Contents", ())

    def _append(self, place: Place, rows: list[EntryRow], epoch: int | None) -> None:
        if epoch is not None:
            check_epoch(self._get_lease(place)[0], place, epoch)
        body = "".join(f"{row.text}\n" for row in rows).encode("ascii")
        key = f"{self._transcript_prefix(place)}{self._next_number(place):020d}-{secrets.token_hex(4)}.jsonl"
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType="application/jsonl")
        if epoch is not None:
            try:
                check_epoch(self._get_lease(place)[0], place, epoch)
            except StaleLeaseError:
                # The lease was lost since the first check.
                self._s3.delete_object(Bucket=self._bucket, Key=key)
                raise

    def _next_number(self, place: Place) -> int:
        """Return the number of the next object, greater than all numbers known to this process."""
        with self._lock:
            last = self._last.get(place)
            if last is None:
                folder = self._transcript_prefix(place)
                last = max((_read_number(each["Key"], folder) for each in self._iter_objects(folder)), default=0)
            number = max(last + 1, time.time_ns())
            self._last.put(place, number)
            return number

    def _forget_numbers(self, place: Place) -> None:
        """Have the next append look at the stored numbers: the clock of an earlier writer may be ahead."""
        with self._lock:
            for each in [each for each in self._last if each[:2] == place[:2]]:
                del self._last[each]

    def _load(self, place: Place) -> Iterator[bytes]:
        folder = self._transcript_prefix(place)
        objects = list(self._iter_objects(folder))
        with self._lock:
            if objects and place in self._last:  # what follows what was loaded has a greater number
                self._last[place] = max(self._last[place], _read_number(objects[-1]["Key"], folder))
        for each in objects:
            body = self._s3.get_object(Bucket=self._bucket, Key=each["Key"])["Body"]
            with contextlib.closing(body):
                yield from (line for line in body.read().split(b"\n") if line)

    def _list_sessions(self, project: str) -> dict[str, int]:
        prefix = self._project_prefix(project)
        found: dict[str, int] = {}
        for each in self._iter_objects(prefix):
            session, _, rest = each["Key"].removeprefix(prefix).partition("/")
            if rest.startswith(f"{MAIN}/"):
                name = _unquote(session)
                mtime = int(each["LastModified"].timestamp() * 1000)
                found[name] = max(mtime, found.get(name, 0))
        return found

    def _list_subpaths(self, place: Place) -> list[str]:
        prefix = f"{self._session_prefix(place)}{SUB}/"
        names = dict.fromkeys(each["Key"].removeprefix(prefix).split("/")[0] for each in self._iter_objects(prefix))
        return [_unquote(name) for name in names]

    def _delete(self, place: Place) -> None:
        prefix = self._transcript_prefix(place) if place.subpath else self._session_prefix(place)
        keys = [{"Key": each["Key"]} for each in self._iter_objects(prefix)]
        for start in range(0, len(keys), _MOST_DELETED):
            batch = {"Objects": keys[start : start + _MOST_DELETED], "Quiet": True}
            errors = self._s3.delete_objects(Bucket=self._bucket, Delete=batch).get("Errors")
            if errors:
                raise StoreError(f"{len(errors)} objects cannot be deleted: {errors[0].get('Message')}")

    def _find_projects(self, session: str) -> list[str]:
        prefix = f"{self._prefix}entries/"
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix, Delimiter="/")
        projects = [each["Prefix"] for page in pages for each in page.get("CommonPrefixes", ())]
        names = [_unquote(each.removeprefix(prefix).rstrip("/")) for each in projects]
        return [name for name in names if next(self._iter_objects(self._transcript_prefix(Place(name, session))), None)]

    # Leases

    def _lease_key(self, place: Place) -> str:
        session = self._session_prefix(place).removeprefix(f"{self._prefix}entries/").rstrip("/")
        return f"{self._prefix}leases/{session}.json"

    def _get_lease(self, place: Place) -> tuple[LeaseState, dict[str, str]]:
        """Return the lease of a session, and the write condition that holds while the lease is unchanged."""
        try:
            found = self._s3.get_object(Bucket=self._bucket, Key=self._lease_key(place))
        except self._s3.exceptions.ClientError as error:
            if _read_error_code(error) not in _NO_OBJECT:
                raise
            return LeaseState(), {"IfNoneMatch": "*"}
        with contextlib.closing(found["Body"]) as body:
            return LeaseState(*json.loads(body.read())), {"IfMatch": found["ETag"]}

    def _read_lease(self, place: Place) -> tuple[LeaseState, float]:
        return self._get_lease(place)[0], time.time()

    def _change_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        for _ in range(_ATTEMPTS):
            before, condition = self._get_lease(place)
            state = change(before, time.time())
            try:
                self._s3.put_object(
                    Bucket=self._bucket, Key=self._lease_key(place), Body=json.dumps(state).encode(), **condition
                )
            except self._s3.exceptions.ClientError as error:
                if _read_error_code(error) not in _CONFLICT:
                    raise
                continue
            if state.epoch != before.epoch:
                self._forget_numbers(place)
            return state
        raise StoreError(
            f"{_ATTEMPTS} attempts to change the lease of session {place.session} conflicted with other writers"
        )


def _read_number(key: str, folder: str) -> int:
    """Return the number in the name of an object in the folder of a transcript; 0 for an object of another program."""
    number = key.removeprefix(folder)[:20]
    return int(number) if number.isdigit() else 0


def _read_error_code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _unquote(name: str) -> str:
    return unquote(name, errors="surrogatepass")
