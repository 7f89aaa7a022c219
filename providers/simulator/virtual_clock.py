"""A clock that stands still until somebody waits."""

from collections.abc import Callable

from jobs.money import SECOND


class VirtualClock:
    """Virtual time for a simulation inside one process; a Clock of providers.clock.

    wait: called with the instant until which somebody sleeps (a scheduler lets others run and moves the clock
    there); without it a sleep moves the clock itself.
    """

    def __init__(self, start: int, wait: Callable[[int], None] | None = None) -> None:
        self._instant = self._start = start
        self.wait = wait

    def now(self) -> int:
        """Microseconds since 1970, UTC."""
        return self._instant

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return (self._instant - self._start) / SECOND

    def sleep(self, seconds: float) -> None:
        """Wait virtual seconds."""
        until = self._instant + round(seconds * SECOND)
        if self.wait is not None:
            self.wait(until)
        else:
            self.advance_to(until)

    def advance_to(self, instant: int) -> None:
        """Move on to `instant`; never back."""
        self._instant = max(self._instant, instant)
