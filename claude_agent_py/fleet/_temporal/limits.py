"""`LimitWorkflow`: how many sessions of one tenant or agent run at a time; a workflow for each that has a limit.

A session asks for a permit before a prompt runs, and gives it back afterwards. These are signals, so none is lost
while no worker lives. The permit of a session that is gone is taken back.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final

from temporalio import workflow

LIMIT: Final = "fleet-limit"
LIMITS: Final = "fleet-limits"
"""The task queue of these workflows, which all workers with limits serve."""
GRANT: Final = "fleet-grant"
FIND_GONE: Final = "fleet-find-gone"
ACTIVITY_SECONDS: Final = timedelta(seconds=30)


@dataclass
class Request:
    """A session that wants a permit."""

    session: str
    ticket: int
    """The number of the request, by session. A permit for an earlier one is given back."""
    priority: int


@dataclass
class Limit:
    """The state of a limit, which also begins its next workflow run."""

    name: str
    """`tenant/...` or `agent/...`."""
    patience: float
    """Seconds after which sessions that hold up others are looked at, and a limit without sessions ends."""
    limit: int = 1
    own: int | None = None
    """The limit that `Fleet.tenant` has set, which counts instead."""
    holders: dict[str, int] = field(default_factory=dict[str, int])
    """The tickets of the sessions that run."""
    waiting: list[Request] = field(default_factory=list[Request])


def limit_id(name: str) -> str:
    """Return the id of the workflow of a limit."""
    return f"{LIMIT}/{name}"


@workflow.defn(name=LIMIT)
class LimitWorkflow:
    """A limit."""

    @workflow.init
    def __init__(self, state: Limit) -> None:
        self._s = state

    @workflow.run
    async def run(self, state: Limit) -> None:
        """Give out permits until there is no session and no limit to remember."""
        s = self._s
        while True:
            while self._has_room():
                request = max(s.waiting, key=lambda each: each.priority)  # the first of them
                s.waiting.remove(request)
                s.holders[request.session] = request.ticket
                await self._free(GRANT, request)
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(s)
            is_temporary = self._is_temporary()
            try:
                timeout = timedelta(seconds=s.patience) if is_temporary else None
                await workflow.wait_condition(partial(self._has_news, is_temporary), timeout=timeout)
            except TimeoutError:
                if not s.waiting and not s.holders:
                    return
                await self._free(FIND_GONE, list(s.holders))

    async def _free(self, activity: str, argument: object) -> None:
        """Call an activity, and take back the permits of the sessions that it did not find."""
        gone: list[str] = await workflow.execute_local_activity(
            activity, args=[self._s.name, argument], start_to_close_timeout=ACTIVITY_SECONDS, result_type=list[str]
        )
        for session in gone:
            self._s.holders.pop(session, None)

    def _has_room(self) -> bool:
        return bool(self._s.waiting) and len(self._s.holders) < (self._s.own or self._s.limit)

    def _has_news(self, was_temporary: bool) -> bool:
        return self._has_room() or self._is_temporary() != was_temporary

    def _is_temporary(self) -> bool:
        """Return whether to look again after a time: sessions wait, or there is nothing to keep."""
        return bool(self._s.waiting) or not (self._s.holders or self._s.own)

    @workflow.signal
    def acquire(self, request: Request, limit: int) -> None:
        """Ask for a permit. A later request of a session replaces its earlier one."""
        s = self._s
        s.limit = limit
        if s.holders.get(request.session) != request.ticket:  # it may arrive twice
            s.holders.pop(request.session, None)
            s.waiting = [*(each for each in s.waiting if each.session != request.session), request]

    @workflow.signal
    def release(self, session: str, ticket: int) -> None:
        """Give a permit back, or stop waiting for it."""
        if self._s.holders.get(session) == ticket:
            del self._s.holders[session]
        self._s.waiting = [each for each in self._s.waiting if (each.session, each.ticket) != (session, ticket)]

    @workflow.signal
    def set(self, own: int | None) -> None:
        """Set another limit than the workers have, or with None remove it."""
        self._s.own = own
        workflow.upsert_memo({"own": own})
