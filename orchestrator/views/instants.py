"""Instants (microseconds UTC) and durations in words, for JSON and for people."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from jobs.money import SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(at: int | None) -> str | None:
    """`2026-12-01T14:10:00Z`, with microseconds where there are some; None stays None."""
    if at is None:
        return None
    return (_EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")


def clock_text(at: int, now: int, zone: str = "UTC") -> str:
    """`14:10` for an instant less than 20 hours away from `now`, else `2026-12-01 14:10`, in `zone`."""
    local = (_EPOCH + timedelta(microseconds=at)).astimezone(ZoneInfo(zone))
    near = abs(at - now) < 20 * 3600 * SECOND
    return local.strftime("%H:%M" if near else "%Y-%m-%d %H:%M")


def elapsed_text(duration: int) -> str:
    """`45s`, `12m 03s`, `3h 07m` or `2d 04h`: two steps at most, cut downwards."""
    seconds = max(duration, 0) // SECOND
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    if seconds < 86400:
        return f"{seconds // 3600}h {seconds % 3600 // 60:02d}m"
    return f"{seconds // 86400}d {seconds % 86400 // 3600:02d}h"
