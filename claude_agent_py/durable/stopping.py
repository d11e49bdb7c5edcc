"""`TurnStop`: how an engine stops a running turn."""

from typing import Final, Literal, TypeAlias

from claude_agent_py._base.event_loop import Wakeup

Wish: TypeAlias = Literal["interrupt", "release", "abandon"]
_STRENGTH: Final[dict[Wish | None, int]] = {None: 0, "interrupt": 1, "release": 2, "abandon": 3}


class TurnStop:
    """Stops one call of `run_turn`. The methods may be called from any thread, before and during the call.

    A stronger wish replaces a weaker one: `abandon`, then `release`, then `interrupt`.
    """

    def __init__(self) -> None:
        self._wish: Wish | None = None
        self._wakeup: Wakeup | None = None

    def __repr__(self) -> str:
        return f"<TurnStop {self._wish or 'not stopped'}>"

    @property
    def wish(self) -> Wish | None:
        """The strongest wish so far; None before the first."""
        return self._wish

    def interrupt(self) -> None:
        """End the turn as a person does; the outcome is `Interrupted`.

        An engine stores the wish, and repeats it if it calls `run_turn` again.
        """
        self._raise_to("interrupt")

    def release(self) -> None:
        """End the process now; the outcome is `Later`, and the next call continues the turn."""
        self._raise_to("release")

    def abandon(self) -> None:
        """Kill the process and write nothing more, because another call has the session; the outcome is `Lost`."""
        self._raise_to("abandon")

    def _raise_to(self, wish: Wish) -> None:
        if _STRENGTH[wish] > _STRENGTH[self._wish]:
            self._wish = wish
            if self._wakeup is not None:
                self._wakeup.set()

    async def wait(self, last: Wish | None) -> Wish:
        """Wait until there is another wish than the last one, and return it."""
        while True:
            # Created before the look, so that no wish is missed.
            self._wakeup = Wakeup()
            if self._wish is not None and self._wish != last:
                return self._wish
            await self._wakeup.wait()
