"""The wallet as it is shown."""

from pathlib import Path
from typing import Any

import pytest

from jobs.money import HOUR, MINUTE, SECOND
from orchestrator.caps import set_cap
from orchestrator.db.models import Balance, Entry
from orchestrator.views import money
from orchestrator.world import World
from providers.base import Unavailable
from tests.orchestrator.standing_world import (
    HandClock,
    ListedMarket,
    at,
    hold,
    make_job,
    make_machine,
    make_world,
    store,
)

NOON = HandClock().time


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One job with one machine that has cost 0.20 so far, of 0.40 reserved; 1.00 is settled; caps on all."""
    world = make_world(tmp_path, [ListedMarket()])
    store(world, make_job(), make_machine(), hold())
    for scope, name, cap in (("overall", "", 10_000_000), ("project", "thesis", 2_000_000), ("user", "ann", 1_000_000)):
        store(world, Balance(simulated=True, scope=scope, name=name, month="2026-12", settled=1_000_000, held=400_000))
        with world.database.write() as session:
            set_cap(session, True, scope, name, "2026-11", cap)
    return world


def entry(machine: str = "m1", part: str = "gpu", **changes: Any) -> Entry:
    """One settled line: an hour of the tenth of December, 0.40 USD."""
    facts: dict[str, Any] = {
        "key": f"settle:{machine}:{part}:{changes}",
        "at": NOON,
        "kind": "settle",
        "simulated": True,
        "job": "job1",
        "machine": machine,
        "attempt": 1,
        "user": "ann",
        "project": "thesis",
        "provider": "mock",
        "gpu": "RTX 4090",
        "part": part,
        "month": "2026-12",
        "from_at": NOON - 2 * HOUR,
        "to_at": NOON - HOUR,
        "micro": 400_000,
    }
    return Entry(**{**facts, **changes})


def test_budget_adds_up(world: World) -> None:
    """Settled, running and reserved are what is committed; free is the rest of the cap."""
    document = money.budget(world, True, "2026-12")
    overall, project, user = document["caps"]
    assert (document["month"], overall["scope"], overall["name"], overall["cap"]) == ("2026-12", "overall", "", "10.00")
    assert [overall[key] for key in ("settled", "running", "reserved", "free")] == ["1.00", "0.20", "0.20", "8.60"]
    assert (project["scope"], project["name"], project["free"]) == ("project", "thesis", "0.60")
    assert (user["scope"], user["name"], user["free"]) == ("user", "ann", "-0.40")
    assert {row["burning"] for row in document["caps"]} == {"0.40"}


def test_a_month_without_caps_shows_the_overall_line(world: World) -> None:
    """Where nobody set a cap, what is spent is shown with no cap and no free."""
    [overall] = money.budget(world, True, "2026-10")["caps"]
    assert (overall["cap"], overall["free"], overall["settled"]) == (None, None, "0.00")


def test_worlds_are_apart(world: World) -> None:
    """The real world knows nothing of simulated caps, money and machines."""
    [overall] = money.budget(world, False, "2026-12")["caps"]
    assert (overall["cap"], overall["settled"], overall["running"], overall["burning"]) == (
        None,
        "0.00",
        "0.00",
        "0.00",
    )


def test_running_is_cut_at_the_month(tmp_path: Path) -> None:
    """What a machine used before midnight of the zone belongs to the month before."""
    world = make_world(tmp_path, [ListedMarket()])
    world.clock.time = at("2027-01-01T01:00:00")  # type: ignore[attr-defined]
    store(world, make_job(), make_machine(sent_at=at("2026-12-31T22:00:00")), hold())
    found = [money.budget(world, True, month)["caps"][0]["running"] for month in ("2026-12", "2027-01")]
    assert found == ["0.80", "0.40"]


def test_forecast_goes_on_at_this_pace(tmp_path: Path) -> None:
    """Ten days of thirty have cost 1.00: the month will have cost 3.00; a past month has cost what it cost."""
    world = make_world(tmp_path)
    world.clock.time = at("2026-11-11T00:00:00")  # type: ignore[attr-defined]
    for month in ("2026-10", "2026-11"):
        store(world, Balance(simulated=True, scope="overall", name="", month=month, settled=1_000_000, held=0))
    found = [money.budget(world, True, month)["caps"][0]["forecast"] for month in ("2026-10", "2026-11")]
    assert found == ["1.00", "3.00"]


def test_a_settled_machine_is_not_running(world: World) -> None:
    """A machine whose reservation is settled is in the ledger and nowhere else."""
    store(world, make_machine(id="m2", label="l2", token="t2", state="gone"))
    assert money.budget(world, True, "2026-12")["caps"][0]["running"] == "0.20"


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("job", ["job1-0000", "job2-0000"]),
        ("user", ["ann", "bob"]),
        ("project", ["thesis", ""]),
        ("provider", ["mock", "other"]),
        ("gpu", ["RTX 4090", "A100"]),
        ("day", ["2026-12-09", "2026-12-10"]),
    ],
)
def test_spend_by(world: World, by: str, keys: list[str]) -> None:
    """Each grouping has its keys, the dearest first (days in order); sums are exact, seconds are those of machines."""
    store(world, make_job("job2"), make_machine("job2", id="m2", label="l2", token="t2"))
    store(
        world,
        entry(),
        entry(part="disk", micro=1),
        entry(
            "m2",
            job="job2",
            user="bob",
            project=None,
            provider="other",
            gpu="A100",
            micro=5,
            from_at=NOON - 26 * HOUR,
            to_at=NOON - 25 * HOUR,
        ),
    )
    document = money.spend(world, True, "2026-12", by)
    assert [row["key"] for row in document["rows"]] == keys
    assert (document["total"], document["running"]) == ("0.400006", "0.20")
    assert {row["machine_seconds"] for row in document["rows"]} == {3600}


def test_a_night_is_spread_over_its_days(world: World) -> None:
    """An entry over midnight is cut by second, and nothing is lost by rounding."""
    store(world, entry(from_at=at("2026-12-08T23:00:00"), to_at=at("2026-12-09T02:00:00"), micro=100))
    rows = money.spend(world, True, "2026-12", "day")["rows"]
    assert [(row["key"], row["amount"]) for row in rows] == [("2026-12-09", "0.000067"), ("2026-12-08", "0.000033")][
        ::-1
    ]
    assert [row["machine_seconds"] for row in rows] == [3600, 7200]


def test_reservations_are_no_spend(world: World) -> None:
    """Only what was spent in this world and this month counts."""
    store(world, entry(kind="reserve"), entry(kind="give_back"), entry(simulated=False), entry(month="2026-11"))
    assert money.spend(world, True, "2026-12", "job")["total"] == "0.00"


def test_difference_to_the_bill(world: World) -> None:
    """The ledger minus what the provider says; null where it says nothing or does not answer."""
    market = world.providers["mock"]
    assert isinstance(market, ListedMarket)
    store(world, entry())
    assert money.spend(world, True, "2026-12", "job")["provider_difference"] is None
    market.bills["i-1"] = 399_990
    assert money.spend(world, True, "2026-12", "job")["provider_difference"] == "0.00001"
    market.fault = Unavailable("down")
    assert money.spend(world, True, "2026-12", "job")["provider_difference"] is None


def test_receipts_are_one_line_per_machine(world: World) -> None:
    """Provider, machine id, start, end and the sum of all parts, as a form wants them."""
    store(world, entry(), entry(part="disk", micro=20, to_at=NOON - HOUR + MINUTE + SECOND))
    assert money.receipts(world, True, "2026-12") == [
        {
            "provider": "mock",
            "machine_id": "i-1",
            "start": "2026-12-10T10:00:00Z",
            "end": "2026-12-10T11:01:01Z",
            "amount": "0.40002",
            "project": "thesis",
            "user": "ann",
        }
    ]
