"""The only file that reads the real time."""

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol
from urllib.parse import urlsplit

from jobs.errors import Unanswered

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


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
        time.sleep(seconds)  # noqa: TID251 - here real time is handed out


class CloudClock(RealClock):
    """Money's time as the simulated cloud tells it at `url`; socket limits and sleeps stay real.

    Between two answers time goes on at the told speed; at speed 0 the cloud is asked each time.
    """

    _KEPT_S: Final = 2.0
    _KEPT_STANDING_S: Final = 0.02
    _LIMIT_S: Final = 2.0

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._lock = threading.Lock()
        self._told: tuple[int, float, float] | None = None
        self._asked_at = float("-inf")
        self._last = 0

    def now(self) -> int:
        """Microseconds since 1970, never less than before. Raises Unanswered until the cloud has answered once."""
        with self._lock:
            standing = self._told is not None and self._told[1] == 0
            kept_s = self._KEPT_STANDING_S if standing else self._KEPT_S
            if self._told is None or self.monotonic() - self._asked_at > kept_s:
                self._told = self._ask() or self._told
                self._asked_at = self.monotonic()
            if self._told is None:
                raise Unanswered(f"{self._url.geturl()}: the simulated cloud's clock does not answer; is it running?")
            told, speed, at = self._told
            self._last = max(self._last, told + int((self.monotonic() - at) * speed * 1_000_000))
            return self._last

    def _ask(self) -> tuple[int, float, float] | None:
        """(now, speed, the real second in which that was so); None without a good answer."""
        from http.client import HTTPConnection, HTTPException

        connection = HTTPConnection(self._url.hostname or "", self._url.port or 80, timeout=self._LIMIT_S)
        try:
            connection.request("GET", self._url.path or "/")
            said = json.loads(connection.getresponse().read(65536))
            moment, speed = datetime.fromisoformat(said["now"]), float(said["speed"])
            return (moment - _EPOCH) // timedelta(microseconds=1), speed, self.monotonic()
        except (OSError, HTTPException, ValueError, KeyError, TypeError):
            return None
        finally:
            connection.close()
