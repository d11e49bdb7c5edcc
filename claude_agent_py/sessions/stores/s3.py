"""`S3Store`: sessions in a bucket of S3, or a compatible service. Needs `boto3`: `pip install claude-agent-py[s3]`.

Each append is an object, `<prefix>entries/<project>/<session>/<main or sub/<subpath>>/<time>-<random>.jsonl`; the order
of their names is that of the entries.
"""

import contextlib
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, unquote

from claude_agent_py._errors import OptionsError, StaleLeaseError, StoreError
from claude_agent_py.sessions.stores.blocking import BlockingStore, ChangeLease, Row, utf8
from claude_agent_py.sessions.stores.leases import LeaseState, check_epoch
from claude_agent_py.sessions.stores.protocol import Place

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

    It keeps no summaries. Entries appended twice are stored twice but loaded once. Leases need conditional
    writes (AWS, MinIO and others have them); an append checks its lease just before it writes, so a writer that loses
    its lease in that moment still writes one batch. The clocks of the machines must agree to within a few seconds.

    Args:
        bucket: The bucket, which exists.
        prefix: The beginning of all keys, such as `sessions/`.
        client: A `boto3` S3 client of your own, for endpoints and credentials; by default that of the environment.

    Raises:
        OptionsError: `boto3` is not installed.
    """

    def __init__(self, bucket: str, *, prefix: str = "", client: Any = None) -> None:
        try:
            import boto3
            from botocore.exceptions import ClientError
        except ImportError as error:
            told = "S3Store needs boto3: pip install 'claude-agent-py[s3]'"
            raise OptionsError(told, option="session_store") from error
        self._s3: Any = boto3.client("s3") if client is None else client
        self._error: type[Exception] = ClientError
        self._bucket = bucket
        self._prefix = prefix
        self._lock = threading.Lock()
        self._last: OrderedDict[Place, int] = OrderedDict()

    def __repr__(self) -> str:
        return f"S3Store({self._bucket!r}, prefix={self._prefix!r})"

    def _folder(self, place: Place) -> str:
        own = f"{SUB}/{quote(utf8(place.subpath), safe='')}" if place.subpath else MAIN
        return f"{self._session(place)}{own}/"

    def _session(self, place: Place) -> str:
        return f"{self._project(place.project)}{quote(utf8(place.session), safe='')}/"

    def _project(self, project: str) -> str:
        return f"{self._prefix}entries/{quote(utf8(project), safe='')}/"

    def _objects(self, prefix: str) -> Iterator[dict[str, Any]]:
        """Yield the objects whose keys have a prefix, in the order of their keys."""
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
            yield from page.get("Contents", ())

    def _append(self, place: Place, rows: list[Row], epoch: int | None) -> None:
        if epoch is not None:
            check_epoch(self._lease_of(place)[0], place.key, epoch)
        body = "".join(f"{row.text}\n" for row in rows).encode("ascii")
        key = f"{self._folder(place)}{self._next(place):020d}-{secrets.token_hex(4)}.jsonl"
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType="application/jsonl")
        if epoch is not None:
            try:
                check_epoch(self._lease_of(place)[0], place.key, epoch)
            except StaleLeaseError:  # the lease was lost since the first check
                self._s3.delete_object(Bucket=self._bucket, Key=key)
                raise

    def _next(self, place: Place) -> int:
        """Return a number for the next object, greater than all that this process knows."""
        with self._lock:
            last = self._last.get(place)
            if last is None:
                folder = self._folder(place)
                names = [each["Key"].removeprefix(folder) for each in self._objects(folder)]
                last = max((int(name[:20]) for name in names if name[:20].isdigit()), default=0)
            number = self._last[place] = max(last + 1, time.time_ns())
            self._last.move_to_end(place)
            while len(self._last) > _KNOWN:
                self._last.popitem(last=False)
            return number

    def _load(self, place: Place) -> list[bytes]:
        lines: list[bytes] = []
        for each in list(self._objects(self._folder(place))):
            body = self._s3.get_object(Bucket=self._bucket, Key=each["Key"])["Body"]
            with contextlib.closing(body):
                lines += [line for line in body.read().split(b"\n") if line]
        return lines

    def _list(self, project: str) -> dict[str, int]:
        prefix = self._project(project)
        found: dict[str, int] = {}
        for each in self._objects(prefix):
            session, kind, *_ = each["Key"].removeprefix(prefix).split("/")
            if kind == MAIN:
                name, mtime = _unquoted(session), int(each["LastModified"].timestamp() * 1000)
                found[name] = max(mtime, found.get(name, 0))
        return found

    def _subpaths(self, place: Place) -> list[str]:
        prefix = f"{self._session(place)}{SUB}/"
        names = dict.fromkeys(each["Key"].removeprefix(prefix).split("/")[0] for each in self._objects(prefix))
        return [_unquoted(name) for name in names]

    def _delete(self, place: Place) -> None:
        prefix = self._folder(place) if place.subpath else self._session(place)
        keys = [{"Key": each["Key"]} for each in self._objects(prefix)]
        for start in range(0, len(keys), _MOST_DELETED):
            batch = {"Objects": keys[start : start + _MOST_DELETED], "Quiet": True}
            errors = self._s3.delete_objects(Bucket=self._bucket, Delete=batch).get("Errors")
            if errors:
                raise StoreError(f"{len(errors)} objects cannot be deleted: {errors[0].get('Message')}")

    def _find(self, session: str) -> list[str]:
        prefix = f"{self._prefix}entries/"
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix, Delimiter="/")
        projects = [each["Prefix"] for page in pages for each in page.get("CommonPrefixes", ())]
        names = [_unquoted(each.removeprefix(prefix).rstrip("/")) for each in projects]
        return [name for name in names if next(self._objects(self._folder(Place(name, session))), None)]

    # Leases

    def _lease_key(self, place: Place) -> str:
        return f"{self._prefix}leases/{self._session(place).removeprefix(f'{self._prefix}entries/').rstrip('/')}.json"

    def _lease_of(self, place: Place) -> tuple[LeaseState, dict[str, str]]:
        """Return the lease of a session, and the condition under which it is unchanged."""
        try:
            found = self._s3.get_object(Bucket=self._bucket, Key=self._lease_key(place))
        except self._error as error:
            if _code(error) not in _NO_OBJECT:
                raise
            return LeaseState(), {"IfNoneMatch": "*"}
        with contextlib.closing(found["Body"]) as body:
            return LeaseState(*json.loads(body.read())), {"IfMatch": found["ETag"]}

    def _change_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        for _ in range(_ATTEMPTS):
            before, condition = self._lease_of(place)
            state = change(before, time.time())
            try:
                self._s3.put_object(
                    Bucket=self._bucket, Key=self._lease_key(place), Body=json.dumps(state).encode(), **condition
                )
            except self._error as error:
                if _code(error) not in _CONFLICT:
                    raise
                continue
            return state
        raise StoreError(f"{_ATTEMPTS} attempts to change the lease of session {place.session} met other writers")


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _unquoted(name: str) -> str:
    return unquote(name, errors="surrogatepass")
