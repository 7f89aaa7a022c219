"""The money book: caps hold under any order, what is settled is what was used, and nothing is booked twice."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from jobs.money import HOUR, MICRO, SECOND
from orchestrator import ledger
from orchestrator.caps import set_cap, split_by_month
from orchestrator.db.engine import open_database
from orchestrator.db.models import Balance, Entry, Job, Machine
from orchestrator.ledger import Amount, CapReached, Usage, charges, spread
from orchestrator.placement import ROUNDINGS, charge
from orchestrator.settings import Settings
from orchestrator.world import Database
from providers.base import PriceParts
from tests.orchestrator.standing_world import at

NOW = at("2026-12-10T12:00:00")
MIDNIGHT = at("2027-01-01T00:00:00")


@pytest.fixture
def database(url: str) -> Database:
    """The same book on both databases."""
    return open_database(url)


def job(id: str = "j1", budget: int = 10 * MICRO, **facts: Any) -> Job:
    """A job row with a budget of ten dollars."""
    base = {
        "handle": id,
        "name": id,
        "user": "ada",
        "simulated": True,
        "spec": "{}",
        "spec_hash": "",
        "budget": budget,
        "state": "queued",
        "submitted_at": NOW,
        "project": None,
    }
    return Job(id=id, **{**base, **facts})


def machine(id: str = "m1", job: str = "j1", stop_at: int = NOW + HOUR, **facts: Any) -> dict[str, Any]:
    """A machine row of one dollar per hour."""
    price = {
        "per_hour": MICRO,
        "disk_per_gb_hour": 0,
        "traffic_per_gb": 0,
        "step_s": 0,
        "minimum_s": 0,
        "highest_per_hour": MICRO,
    }
    base = {
        "id": id,
        "job": job,
        "attempt": 1,
        "simulated": True,
        "provider": "mock",
        "region": "r1",
        "offer": {},
        "offer_reason": "",
        "label": id,
        "token": id,
        "spot": False,
        "gpu": "RTX 4090",
        "gpu_count": 1,
        "price": price,
        "disk_gb": 10,
        "price_ceiling": MICRO,
        "stop_class": "boot",
        "send_by": NOW,
        "stop_at": stop_at,
        "fuse_at": stop_at,
        "soft_stop_at": stop_at,
        "ssh_public": "",
        "state": "alive",
        "sent_at": NOW,
    }
    return {**base, **facts}


def reserve(database: Database, settings: Settings, job_id: str, row: dict[str, Any], total: int) -> None:
    """One reservation in a transaction of its own, with its machine row."""
    with database.write() as session:
        owner = session.get_one(Job, job_id)
        session.add(Machine(**row))
        session.flush()
        ledger.reserve(session, settings, owner, row, ledger.Amount(total), NOW)


def balances(database: Database) -> dict[tuple[str, str], tuple[int, int]]:
    """(scope, month) -> (settled, held)."""
    with database.read() as session:
        return {
            (b.scope, b.month): (b.settled, b.held) for b in session.scalars(select(Balance)) if b.settled or b.held
        }


def test_equal_to_the_cap_is_allowed_one_more_is_not(database: Database, tmp_path: Path) -> None:
    """A reservation that fills a monthly cap to the last micro-dollar passes; one more is refused whole."""
    settings = Settings(home=tmp_path, max_gpus=9)
    with database.write() as session:
        session.add_all([job("j1"), job("j2")])
        set_cap(session, True, "overall", "", "2026-12", 3 * MICRO)
    reserve(database, settings, "j1", machine("m1"), 3 * MICRO - 1)
    with pytest.raises(CapReached, match=r"needs \$0.000002, the cap of 2026-12 has \$0.000001 free"):
        reserve(database, settings, "j2", machine("m2", "j2"), 2)
    reserve(database, settings, "j2", machine("m3", "j2"), 1)

    assert balances(database)["overall", "2026-12"] == (0, 3 * MICRO)


def test_a_reservation_over_midnight_is_held_in_both_months(database: Database, tmp_path: Path) -> None:
    """Each month holds its share by second, and each month's own cap is asked."""
    settings = Settings(home=tmp_path)
    with database.write() as session:
        session.add(job())
        set_cap(session, True, "overall", "", "2027-01", MICRO // 2)
    span = {"stop_at": 2 * MIDNIGHT - NOW}  # as long after midnight as before
    with pytest.raises(CapReached) as refused:
        reserve(database, settings, "j1", machine(**span), 2 * MICRO)
    assert refused.value.counter == "overall//2027-01"
    with database.write() as session:
        set_cap(session, True, "overall", "", "2027-01", MICRO)
    reserve(database, settings, "j1", machine(**span), 2 * MICRO)

    assert (0, MICRO) == balances(database)["overall", "2026-12"] == balances(database)["overall", "2027-01"]


@given(
    st.integers(1, 10**7),
    st.integers(1, 20),
    st.integers(0, 20),
    st.floats(0.01, 1),
    st.integers(0, 10**6),
    st.sampled_from([0, 60, 3600]),
)
def test_no_month_is_booked_more_than_it_holds(
    per_hour: int, before: int, after: int, used: float, traffic: int, step_s: int
) -> None:
    """However much of a reservation over midnight is used, and whenever its bytes moved, each month covers it."""
    start, end = MIDNIGHT - before * HOUR, MIDNIGHT + after * HOUR
    price = PriceParts(per_hour=per_hour, disk_per_gb_hour=7, traffic_per_gb=1, step_s=step_s)
    lump = traffic + ROUNDINGS + (charge(price, 10, step_s * SECOND) if step_s else 0)
    total = charge(price, 10, end - start) + traffic
    slices = split_by_month(start, end, "UTC")
    held = dict(zip([month for month, _, _ in slices], Amount(total, lump).by_month(slices), strict=True))
    usage = Usage(start, start + int((end - start) * used), traffic * 10**9)
    booked: dict[str, int] = {}
    parts = split_by_month(usage.start, max(usage.end, usage.start + 1), "UTC")
    for whole in charges(price, 10, usage).values():
        for (month, _, _), micro in zip(parts, spread(whole, parts), strict=True):
            booked[month] = booked.get(month, 0) + micro

    assert all(micro <= held[month] for month, micro in booked.items())


def test_gpus_and_dollars_per_hour_are_counted_like_money(database: Database, tmp_path: Path) -> None:
    """The second GPU over max_gpus and the second dollar over max_per_hour wait, and say for what."""
    with database.write() as session:
        session.add_all([job("j1"), job("j2")])
    reserve(database, Settings(home=tmp_path), "j1", machine("m1"), MICRO)
    with pytest.raises(CapReached) as gpus:
        reserve(database, Settings(home=tmp_path), "j2", machine("m2", "j2"), MICRO)
    with pytest.raises(CapReached) as rate:
        reserve(
            database, Settings(home=tmp_path, max_gpus=2, max_per_hour=2 * MICRO - 1), "j2", machine("m2", "j2"), MICRO
        )

    assert (gpus.value.waiting_for, rate.value.waiting_for) == ("gpu_limit", "budget")


def test_settling_books_what_was_used_once_and_gives_the_rest_back(database: Database, tmp_path: Path) -> None:
    """After the proof the counters hold nothing, the entries add up to the bill, and a second call changes nothing."""
    settings = Settings(home=tmp_path)
    with database.write() as session:
        session.add(job())
    reserve(database, settings, "j1", machine(stop_at=2 * MIDNIGHT - NOW), 5 * MICRO)
    usage = Usage(MIDNIGHT - 90 * SECOND, MIDNIGHT + 30 * SECOND)
    for _ in range(2):
        with database.write() as session:
            ledger.settle(session, settings, session.get_one(Job, "j1"), session.get_one(Machine, "m1"), usage, NOW)

    bill = sum(charges(PriceParts(**machine()["price"]), 10, usage).values())
    books = balances(database)
    with database.read() as session:
        entries = session.scalar(select(func.sum(Entry.micro)).where(Entry.kind == "settle"))
    assert bill == entries == books["job", ""][0]
    assert bill * 3 // 4 == books["overall", "2026-12"][0]
    assert bill - bill * 3 // 4 == books["overall", "2027-01"][0]
    assert all(held == 0 for _, held in books.values())


def test_a_machine_that_appears_after_its_row_was_closed_is_booked_as_overrun(
    database: Database, tmp_path: Path
) -> None:
    """Closed with nothing booked, then found alive: its cost is booked once, as an overrun."""
    settings = Settings(home=tmp_path)
    with database.write() as session:
        session.add(job())
    reserve(database, settings, "j1", machine(), MICRO)
    for usage in (None, Usage(NOW, NOW + HOUR), Usage(NOW, NOW + HOUR)):
        with database.write() as session:
            ledger.settle(session, settings, session.get_one(Job, "j1"), session.get_one(Machine, "m1"), usage, NOW)

    with database.read() as session:
        booked = session.execute(select(Entry.kind, Entry.micro).where(Entry.kind.in_(("settle", "overrun")))).all()
    assert [tuple(row) for row in booked] == [("overrun", MICRO)]


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**9), min_size=1, max_size=5))
def test_spreading_over_months_loses_nothing(total: int, lengths: list[int]) -> None:
    """The parts of an amount add up to it, and none is negative."""
    slices, start = [], 0
    for length in lengths:
        slices.append(("m", start, start + length))
        start += length

    parts = spread(total, slices)

    assert total == sum(parts)
    assert all(part >= 0 for part in parts)


@given(st.integers(0, 10**7), st.integers(0, 10**12), st.integers(0, 10**5), st.integers(0, 10**12))
def test_each_part_is_rounded_up_once(per_hour: int, duration: int, disk_price: int, traffic: int) -> None:
    """No part costs less than its exact product, nor a micro-dollar more."""
    price = PriceParts(per_hour=per_hour, disk_per_gb_hour=disk_price, traffic_per_gb=7)
    parts = charges(price, 3, Usage(0, duration, traffic))

    assert 0 <= parts["gpu"] * HOUR - per_hour * duration < HOUR
    assert 0 <= parts["disk"] * HOUR - 3 * disk_price * duration < HOUR
    assert 0 <= parts["traffic"] * 10**9 - traffic * 7 < 10**9
