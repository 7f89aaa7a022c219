"""The cloud's time: real time at a speed, which may be stepped; at speed 0 it moves by steps alone."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from providers.simulator import clock_file


class CloudClock:
    """Reads and steps the clock that lies in `path`; the file is the state, so that it survives every end.

    real: microseconds of real time (CLOCK_REALTIME). speed: cloud seconds per real second.
    A clock that is there already goes on where it was; a cloud that was off does not let time stand still
    unless its speed is 0. Safe for threads.
    """

    def __init__(self, path: Path, real: Callable[[], int], speed: float) -> None:
        self._path, self._real = path, real
        self._stepped = threading.Condition()
        self.speed = speed
        self._set(clock_file.read(path, real()) if path.exists() else real())

    def now(self) -> int:
        """Cloud microseconds since 1970, UTC."""
        with self._stepped:
            return clock_file.at(self._base_real, self._base_cloud, self.speed, self._real())

    def set(self, instant: int) -> None:
        """Step to `instant`, forwards or back; durable before it returns, and whoever waits looks again."""
        with self._stepped:
            self._set(instant)
            self._stepped.notify_all()

    def advance(self, duration: int) -> None:
        """Step by `duration` microseconds."""
        with self._stepped:
            self._set(self.now() + duration)
            self._stepped.notify_all()

    def wait(self, until: int, stopped: Callable[[], bool] = lambda: False) -> None:
        """Return when the clock reads `until` or later, or soon after `stopped()` is true."""
        with self._stepped:
            while not stopped():
                left = until - self.now()
                if left <= 0:
                    return
                pace = left / 1e6 / self.speed if self.speed > 0 else 0.5
                self._stepped.wait(min(pace, 0.5))

    def _set(self, instant: int) -> None:
        base_real = self._real()
        clock_file.write(self._path, base_real, instant, self.speed)
        self._base_real, self._base_cloud = base_real, instant


def rfc3339(instant: int) -> str:
    """RFC 3339 in UTC with microseconds."""
    seconds, micro = divmod(instant, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{micro:06d}Z"


def parse_rfc3339(text: object) -> int:
    """Microseconds since 1970 of an RFC 3339 time. Raises ValueError that says what would be right."""
    wrong = ValueError(f"{text!r} is not a time; write for example 2026-03-01T12:00:00.000000Z")
    if not isinstance(text, str):
        raise wrong
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise wrong from None
    if moment.tzinfo is None:
        raise wrong
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
