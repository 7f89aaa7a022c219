"""The only file that reads the real time."""

import time
from typing import Protocol


class Clock(Protocol):
    """Time as World hands it in. `now` is money's time and follows the cloud's clock where one is set."""

    def now(self) -> int:
        """Microseconds since 1970, UTC."""

    def monotonic(self) -> float:
        """Real seconds for socket limits and heartbeats; never goes back."""

    def sleep(self, seconds: float) -> None:
        """Wait real seconds."""


class RealClock:
    """The machine's own time."""

    def now(self) -> int:
        """Microseconds since 1970, UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds that go on while a laptop sleeps (CLOCK_BOOTTIME where there is one)."""
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return time.clock_gettime(clock)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
