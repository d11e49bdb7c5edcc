"""`RecentUse`: who has used something how often lately. Each use is kept once, and dropped once."""

from collections import deque
from collections.abc import Collection


class RecentUse:
    """Counts the uses of each user within a time.

    Args:
        seconds: How long a use counts.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._times: dict[str, deque[float]] = {}
        """When each user has used it. A user without a use that counts has no entry."""
        self._order: deque[str] = deque()
        """The users of all uses, oldest first."""

    @property
    def users(self) -> Collection[str]:
        """Who had uses that counted at the latest `add`."""
        return self._times.keys()

    def add(self, user: str, most: int, now: float) -> float:
        """Count a use and return 0, or return how many seconds remain until the user has fewer than `most`."""
        while self._order and self._times[self._order[0]][0] <= now - self._seconds:
            self._drop(self._order.popleft())
        times = self._times.get(user, deque())
        if len(times) >= most:
            return times[0] + self._seconds - now
        times.append(now)
        self._times[user] = times
        self._order.append(user)
        return 0.0

    def _drop(self, user: str) -> None:
        """Drop the oldest use of a user."""
        times = self._times[user]
        times.popleft()
        if not times:
            del self._times[user]
