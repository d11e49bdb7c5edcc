"""Pending control requests in both directions. Times are in seconds of any monotonic clock."""

import itertools
from collections import OrderedDict
from typing import Any, Final, Literal

from msgspec import Struct

REMEMBERED: Final = 4096
"""How many settled ids are remembered, to distinguish late and duplicate replies from unknown ones."""

StrayKind = Literal["late", "duplicate", "unknown"]


class _Settled:
    """The last settled ids, with the kind of stray reply that each would get."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[str, StrayKind] = OrderedDict()

    def add(self, request_id: str, next_is: StrayKind) -> None:
        self._kinds[request_id] = next_is
        if len(self._kinds) > REMEMBERED:
            self._kinds.popitem(last=False)

    def kind(self, request_id: str) -> StrayKind:
        return self._kinds.get(request_id, "unknown")

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._kinds


class PendingRequest(Struct, frozen=True):
    """A request of the client that waits for its reply."""

    request_id: str
    subtype: str
    timeout: float | None
    deadline: float | None
    waiter: Any = None
    """The driver's identifier of the request: any object."""


class OutgoingRequests:
    """The requests that the client sends."""

    def __init__(self) -> None:
        self._pending: dict[str, PendingRequest] = {}
        self._settled = _Settled()
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def waiters(self) -> list[Any]:
        """The driver's identifiers of the pending requests."""
        return [request.waiter for request in self._pending.values()]

    def open(self, subtype: str, *, now: float, timeout: float | None, waiter: Any = None) -> PendingRequest:
        """Add a request, with a new id and its deadline."""
        request_id = f"req_{next(self._numbers)}"
        deadline = None if timeout is None else now + timeout
        request = PendingRequest(request_id, subtype, timeout, deadline, waiter)
        self._pending[request_id] = request
        return request

    def resolve(self, request_id: str) -> PendingRequest | StrayKind:
        """Settle the request of a reply and return it, or return the kind of stray reply."""
        request = self._pending.pop(request_id, None)
        if request is None:
            return self._settled.kind(request_id)
        self._settled.add(request_id, "duplicate")
        return request

    def forget(self, request_id: str) -> None:
        """Drop a request. Its reply will count as late."""
        if self._pending.pop(request_id, None) is not None:
            self._settled.add(request_id, "late")

    def expire(self, now: float) -> list[PendingRequest]:
        """Settle and return every request whose deadline has passed."""
        expired = [r for r in self._pending.values() if r.deadline is not None and r.deadline <= now]
        for request in expired:
            self.forget(request.request_id)
        return expired

    def next_deadline(self) -> float | None:
        """The earliest deadline, or None."""
        if not self._pending:
            return None
        return min((r.deadline for r in self._pending.values() if r.deadline is not None), default=None)


class IncomingRequests:
    """The requests of the CLI that have not been answered."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._settled = _Settled()

    def __len__(self) -> int:
        return len(self._open)

    def accept(self, request_id: str) -> bool:
        """Add a request. Return whether it is new: a repeated request must not run twice."""
        if request_id in self._open or request_id in self._settled:
            return False
        self._open.add(request_id)
        return True

    def settle(self, request_id: str) -> bool:
        """Settle a request. Return whether it was pending."""
        if request_id not in self._open:
            return False
        self._open.discard(request_id)
        self._settled.add(request_id, "duplicate")
        return True
