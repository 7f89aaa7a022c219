"""Caps of money per month, and where a month begins.

One rule: a month begins at the first moment at which a clock on the wall of the settings' zone shows
00:00 of its first day, and ends where the next one begins. Instants: microseconds UTC; months: YYYY-MM.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from jobs.errors import Usage
from orchestrator.db.models import Cap

OVERALL: Final = "overall"
MONTHLY_SCOPES: Final = ("user", "project", OVERALL)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MONTH: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])", re.ASCII)


def month_of(instant: int, zone: str) -> str:
    """The month to which `instant` belongs."""
    local = (_EPOCH + instant * _MICROSECOND).astimezone(ZoneInfo(zone))
    month = f"{local.year:04d}-{local.month:02d}"
    # A clock that is set back or forward across midnight shows a date of the other month for a while.
    if instant < start_of(month, zone):
        return _shifted(month, -1)
    after = _shifted(month, 1)
    return after if instant >= start_of(after, zone) else month


def month_starts(instant: int, zone: str) -> int:
    """The first instant of the month to which `instant` belongs."""
    return start_of(month_of(instant, zone), zone)


def start_of(month: str, zone: str) -> int:
    """The first instant of `month` (YYYY-MM)."""
    year, number = (int(part) for part in month.split("-"))
    return (datetime(year, number, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC) - _EPOCH) // _MICROSECOND


def end_of(month: str, zone: str) -> int:
    """The first instant after `month`."""
    return start_of(_shifted(month, 1), zone)


def split_by_month(start: int, end: int, zone: str) -> list[tuple[str, int, int]]:
    """[start, end) cut at every beginning of a month: (month, from, to) in order, nothing lost or doubled.

    Empty when there is no time between the two.
    """
    pieces = []
    while start < end:
        month = month_of(start, zone)
        cut = min(end, end_of(month, zone))
        pieces.append((month, start, cut))
        start = cut
    return pieces


def check_month(text: str) -> str:
    """`text` if it is YYYY-MM; raises Usage that says what would be right."""
    if not _MONTH.fullmatch(text):
        raise Usage(f"{text!r} is not a month; write for example 2027-03")
    return text


def cap_in_force(session: Session, simulated: bool, scope: str, name: str, month: str) -> int | None:
    """Micro-dollars of the cap that counts in `month`; None where there is none.

    A month without a cap of its own inherits the last one before it; a cleared cap ends that.
    """
    return session.scalar(
        select(Cap.amount)
        .where(Cap.simulated == simulated, Cap.scope == scope, Cap.name == name, Cap.month <= month)
        .order_by(Cap.month.desc())
        .limit(1)
    )


def caps_in_force(session: Session, simulated: bool, month: str) -> dict[tuple[str, str], int]:
    """(scope, name) -> micro-dollars of every monthly cap that counts in `month`, the overall one first."""
    rows = session.execute(
        select(Cap.scope, Cap.name, Cap.amount)
        .where(Cap.simulated == simulated, Cap.scope.in_(MONTHLY_SCOPES), Cap.month <= month)
        .order_by(Cap.month)
    )
    last = {(scope, name): amount for scope, name, amount in rows}
    order = sorted(last, key=lambda key: (key[0] != OVERALL, key))
    return {key: amount for key in order if (amount := last[key]) is not None}


def set_cap(session: Session, simulated: bool, scope: str, name: str, month: str, amount: int | None) -> None:
    """Write the cap of one month; None clears it from that month on.

    A cap below what is spent and held is accepted: it stops new rents, running jobs go on, and the
    alarm cap_overrun stands until the sum is below it again.
    """
    if amount is not None and amount < 0:
        raise Usage("a cap is not less than nothing; write for example: gpupoor budget set 50")
    key = {"simulated": simulated, "scope": scope, "name": name, "month": month}
    session.execute(delete(Cap).filter_by(**key))
    session.execute(insert(Cap).values(**key, amount=amount))


def _shifted(month: str, by: int) -> str:
    year, number = (int(part) for part in month.split("-"))
    years, index = divmod(year * 12 + number - 1 + by, 12)
    return f"{years:04d}-{index + 1:02d}"
