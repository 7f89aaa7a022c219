"""Alarms: written ones, and those that follow from the rows."""

from pathlib import Path
from typing import Any

import pytest

from jobs.money import MINUTE, SECOND
from orchestrator.caps import set_cap
from orchestrator.db.models import Alarm, Attempt, Balance, Trust, Turn
from orchestrator.views.alarms import alarms
from orchestrator.world import World
from tests.orchestrator.standing_world import HandClock, ListedMarket, make_job, make_machine, make_world, store

NOON = HandClock().time


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world with a market and nothing in it."""
    return make_world(tmp_path, [ListedMarket()])


def guard(age: int = 0) -> Turn:
    """A guard that made its last turn `age` ago."""
    return Turn(process="g", kind="guard", host="h", pid=1, at=NOON - age, started_at=0)


def codes(world: World, simulated: bool | None = None) -> list[tuple[str, Any]]:
    """Codes with their machines."""
    return [(alarm["code"], alarm["machine_id"]) for alarm in alarms(world, simulated)]


def test_quiet(world: World) -> None:
    """A live machine with a guard that looks is no alarm."""
    store(world, make_job(), make_machine(), guard(60 * SECOND))
    assert alarms(world) == []


def test_nobody_watches(world: World) -> None:
    """A live machine and no guard turn for three periods: both are said, with the price per hour."""
    store(world, make_job(), make_machine(), guard(91 * SECOND))
    assert codes(world) == [("guard_still", None), ("machine_lives", "i-1")]
    assert {(alarm["per_hour"], alarm["simulated"]) for alarm in alarms(world)} == {("0.40", True)}


def test_no_guard_ever(world: World) -> None:
    """With no guard at all the alarm says so; without machines there is none."""
    assert alarms(world) == []
    store(world, make_job(), make_machine())
    assert "no guard ever looked" in alarms(world)[0]["text"]


def test_overdue(world: World) -> None:
    """A machine past its stop time by more than a guard period lives."""
    store(world, make_job(), make_machine(stop_at=NOON - MINUTE), guard())
    assert codes(world) == [("machine_lives", "i-1")]


def test_key_missing(world: World) -> None:
    """A live machine whose provider has no key here is an alarm."""
    store(world, make_job(simulated=False), make_machine(provider="vast", simulated=False), guard())
    assert codes(world) == [("key_missing", "i-1")]
    assert codes(world, True) == []


def test_host_silent(world: World) -> None:
    """A host without a heartbeat for two minutes is silent; one that ended is not."""
    store(world, make_job(), make_machine(), guard())
    store(world, Attempt(job="job1", number=1, machine="m1", started_at=0, silent_since=NOON - 3 * MINUTE))
    store(
        world, Attempt(job="job1", number=2, machine="m1", started_at=0, silent_since=NOON - 3 * MINUTE, ended_at=NOON)
    )
    assert codes(world) == [("host_silent", "i-1")]


def test_a_cap_below_what_is_held(world: World) -> None:
    """Lowering a cap under what is spent and held alarms until the sum is below it again."""
    with world.database.write() as session:
        set_cap(session, True, "project", "thesis", "2026-12", 1_000_000)
    store(
        world, Balance(simulated=True, scope="project", name="thesis", month="2026-12", settled=600_000, held=400_000)
    )
    assert alarms(world) == []
    with world.database.write() as session:
        set_cap(session, True, "project", "thesis", "2026-12", 900_000)
    [alarm] = alarms(world)
    assert (alarm["code"], alarm["machine_id"]) == ("cap_overrun", None) and "$0.10 over" in alarm["text"]
    assert alarms(world, False) == []


def test_an_old_month_is_over(world: World) -> None:
    """A month that is past and holds nothing alarms no more."""
    with world.database.write() as session:
        set_cap(session, True, "overall", "", "2026-10", 1)
        set_cap(session, True, "overall", "", "2026-12", None)
    store(world, Balance(simulated=True, scope="overall", name="", month="2026-10", settled=5, held=0))
    assert alarms(world) == []


def test_a_list_that_is_not_believed(world: World) -> None:
    """A region whose list is not trusted is named."""
    store(world, Trust(provider="mock", region="", list_ok_at=None, why="it was empty while machines live"))
    assert codes(world) == [("list_untrusted", None)]


def test_written_alarms_are_told_once(world: World) -> None:
    """An alarm that the guard wrote replaces the computed one for the same machine; the dearest comes first."""
    store(world, make_job(), make_machine(stop_at=NOON - MINUTE), guard())
    store(world, Alarm(code="machine_lives", machine="m1", simulated=True, text="written", per_hour=400_000, at=0))
    store(world, Alarm(code="delete_failed", machine="m1", simulated=True, text="500", per_hour=None, at=0))
    found = alarms(world)
    assert [(alarm["code"], alarm["text"]) for alarm in found] == [
        ("machine_lives", "written"),
        ("delete_failed", "500"),
    ]
