"""Caps and months."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from jobs.errors import Usage
from jobs.money import HOUR, SECOND, cost
from orchestrator import caps
from orchestrator.db.models import Table

ZONES = [
    "UTC",
    "Europe/Berlin",
    "Asia/Tokyo",
    "America/Los_Angeles",
    "America/St_Johns",
    "America/Asuncion",
    "America/Havana",
    "Pacific/Apia",
    "Asia/Kathmandu",
]
instants = st.integers(min_value=946_684_800 * SECOND, max_value=2_200_000_000 * SECOND)


def at(text: str) -> int:
    """The instant of a UTC time."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


@pytest.fixture
def session() -> Iterator[Session]:
    """An empty database."""
    engine = create_engine("sqlite://")
    Table.metadata.create_all(engine)
    with Session(engine) as open_session:
        yield open_session
    engine.dispose()


@given(instants, st.integers(min_value=0, max_value=200 * 24 * HOUR), st.sampled_from(ZONES))
@settings(max_examples=300, deadline=None)
def test_split_is_exact(start: int, length: int, zone: str) -> None:
    """The pieces touch, cover all of the time and lie each in its own month."""
    pieces = caps.split_by_month(start, start + length, zone)
    assert sum(to - of for _, of, to in pieces) == length
    assert [piece[1] for piece in pieces[1:]] == [piece[2] for piece in pieces[:-1]]
    for month, of, to in pieces:
        assert of < to and caps.month_of(of, zone) == caps.month_of(to - 1, zone) == month
    assert [piece[0] for piece in pieces] == sorted({piece[0] for piece in pieces})


@given(instants, st.sampled_from(ZONES))
@settings(max_examples=300, deadline=None)
def test_month_holds_its_instants(instant: int, zone: str) -> None:
    """An instant lies between the start of its month and the start of the next."""
    month = caps.month_of(instant, zone)
    assert caps.month_starts(instant, zone) <= instant < caps.end_of(month, zone)
    assert caps.month_of(caps.month_starts(instant, zone), zone) == month
    assert caps.month_of(caps.month_starts(instant, zone) - 1, zone) < month


@pytest.mark.parametrize(
    ("zone", "midnight"),
    [
        ("UTC", "2026-02-01T00:00:00"),
        ("Asia/Tokyo", "2026-01-31T15:00:00"),
        ("America/Los_Angeles", "2026-02-01T08:00:00"),
    ],
)
def test_midnight_is_that_of_the_zone(zone: str, midnight: str) -> None:
    """The month changes at midnight of the zone, exact to the microsecond, whatever zone the machine is in."""
    assert caps.month_of(at(midnight) - 1, zone) == "2026-01"
    assert caps.month_of(at(midnight), zone) == "2026-02"


@pytest.mark.parametrize("start", ["2026-03-29T00:00:00", "2026-10-25T00:00:00"])
def test_three_hours_over_a_switch_are_three_hours(start: str) -> None:
    """Daylight saving adds and takes no time: three hours cost three hours."""
    [(month, of, to)] = caps.split_by_month(at(start), at(start) + 3 * HOUR, "Europe/Berlin")
    assert (month, cost(1_000_000, to - of)) == (start[:7], 3_000_000)


def test_a_clock_set_back_over_midnight_does_not_reopen_a_month() -> None:
    """A minute into November the clock goes back to October; the month stays November."""
    switch = at("2009-11-01T02:31:00")
    assert caps.month_of(switch - 1, "America/St_Johns") == "2009-11"
    assert caps.month_of(switch + 1, "America/St_Johns") == "2009-11"
    assert caps.month_of(switch - 60 * SECOND - 1, "America/St_Johns") == "2009-10"


def test_use_falls_into_the_month_in_which_it_was_used() -> None:
    """A job over the turn of the year is cut there, to the second."""
    start, end = at("2026-12-31T22:00:00"), at("2027-01-01T03:00:00")
    assert caps.split_by_month(start, end, "UTC") == [
        ("2026-12", start, start + 2 * HOUR),
        ("2027-01", start + 2 * HOUR, end),
    ]


def test_no_time_has_no_pieces() -> None:
    """Nothing, or time that runs backwards, has no pieces."""
    assert caps.split_by_month(5, 5, "UTC") == caps.split_by_month(6, 5, "UTC") == []


def test_a_month_inherits_the_last_cap(session: Session) -> None:
    """A month without its own cap takes the one before; months before the first have none."""
    caps.set_cap(session, False, "overall", "", "2026-03", 50)
    caps.set_cap(session, False, "overall", "", "2026-06", 70)
    found = [caps.cap_in_force(session, False, "overall", "", f"2026-{m:02d}") for m in (2, 3, 5, 6, 12)]
    assert found == [None, 50, 50, 70, 70]
    assert caps.cap_in_force(session, False, "overall", "", "2027-01") == 70


def test_worlds_and_names_are_apart(session: Session) -> None:
    """A simulated cap is none of the real world, one project's none of another's."""
    caps.set_cap(session, True, "project", "a", "2026-03", 50)
    assert caps.cap_in_force(session, True, "project", "a", "2026-03") == 50
    assert caps.cap_in_force(session, False, "project", "a", "2026-03") is None
    assert caps.cap_in_force(session, True, "project", "b", "2026-03") is None


def test_a_cap_can_be_changed_and_cleared(session: Session) -> None:
    """Setting twice keeps the last amount; clearing ends the inheritance."""
    for amount in (10, 20):
        caps.set_cap(session, False, "user", "ann", "2026-03", amount)
    caps.set_cap(session, False, "user", "ann", "2026-05", None)
    assert [caps.cap_in_force(session, False, "user", "ann", m) for m in ("2026-03", "2026-05", "2026-09")] == [
        20,
        None,
        None,
    ]


def test_all_caps_in_force(session: Session) -> None:
    """The overall cap comes first; cleared ones and those of later months are left out."""
    caps.set_cap(session, False, "project", "a", "2026-03", 5)
    caps.set_cap(session, False, "overall", "", "2026-01", 9)
    caps.set_cap(session, False, "user", "ann", "2026-01", 7)
    caps.set_cap(session, False, "user", "ann", "2026-02", None)
    caps.set_cap(session, False, "project", "b", "2026-04", 6)
    caps.set_cap(session, False, "provider", "vast", "", 3)
    assert list(caps.caps_in_force(session, False, "2026-03").items()) == [(("overall", ""), 9), (("project", "a"), 5)]


def test_a_cap_is_not_negative(session: Session) -> None:
    """A negative cap is refused."""
    with pytest.raises(Usage):
        caps.set_cap(session, False, "overall", "", "2026-03", -1)


@pytest.mark.parametrize("text", ["2026-13", "2026-3", "march", "2026-03-01", ""])
def test_a_month_is_written_one_way(text: str) -> None:
    """Anything but YYYY-MM is refused with an example."""
    with pytest.raises(Usage, match="2027-03"):
        caps.check_month(text)
