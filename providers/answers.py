"""Reading what a provider's JSON says, believing none of it: each reader gives a good value or None."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any, Final

from jobs.money import MICRO

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def entry(value: Any) -> Mapping[str, Any]:
    """An object's fields; anything else has none."""
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None


def number(value: Any) -> Decimal | None:
    """A finite number, also one written as text; True is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    try:
        found = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return found if found.is_finite() and abs(found) < 10**12 else None


def count(value: Any) -> int | None:
    """A whole number of at least 1."""
    found = number(value)
    return int(found) if found is not None and found >= 1 and found == found.to_integral_value() else None


def price(value: Any) -> int | None:
    """Micro-dollars of an amount above zero in dollars, rounded up."""
    found = number(value)
    return None if found is None or found <= 0 else _micro(found)


def price_or_free(value: Any) -> int | None:
    """Micro-dollars of an amount in dollars that may be zero, rounded up."""
    found = number(value)
    return None if found is None or found < 0 else _micro(found)


def _micro(dollars: Decimal) -> int:
    return int((dollars * MICRO).to_integral_value(ROUND_CEILING))


def instant(value: Any) -> int | None:
    """Microseconds UTC of an RFC 3339 time; one without a zone is none."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return None if moment.tzinfo is None else (moment - _EPOCH) // timedelta(microseconds=1)


def rfc3339(at: int) -> str:
    """The UTC time of an instant in microseconds."""
    return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="microseconds").replace("+00:00", "Z")
