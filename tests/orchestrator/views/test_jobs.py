"""The document of a job: all keys, exact money, UTC times."""

import re
from pathlib import Path
from typing import Any

from jobs.money import HOUR, MINUTE, parse_usd
from orchestrator.db.models import Attempt, Entry, Job, Reservation
from orchestrator.views.jobs import documents, list_jobs, phase_costs, read_rows
from orchestrator.world import World
from tests.orchestrator.standing_world import HandClock, hold, make_job, make_machine, make_world, store

KEYS = [
    "id",
    "handle",
    "name",
    "project",
    "user",
    "simulated",
    "state",
    "phase",
    "waiting_for",
    "waiting_reason",
    "waiting_since",
    "exit_code",
    "reason",
    "reason_code",
    "results",
    "cleanup",
    "budget",
    "cost",
    "stops_at",
    "stop_class",
    "held_until",
    "checkpoints",
    "attempts",
    "limits",
    "git",
    "submitted_at",
    "started_at",
    "ended_at",
]
ATTEMPT_KEYS = [
    "number",
    "provider",
    "region",
    "machine_id",
    "gpu",
    "gpu_count",
    "spot",
    "price_per_hour",
    "started_at",
    "ended_at",
    "outcome",
    "cost",
    "phase_costs",
    "offer_reason",
    "gpu_util",
    "vram_peak_mb",
]
NOW = HandClock().time


def shown(world: World, *rows: Any) -> dict[str, Any]:
    """The document of the first of `rows`, a job."""
    store(world, *rows)
    with world.database.read() as session:
        return documents(session, [session.get_one(Job, "job1")], NOW)[0]


def settle(machine: str, micro: int, part: str = "gpu") -> Entry:
    """A line of the ledger."""
    return Entry(key=f"settle:{machine}:{part}", at=NOW, kind="settle", simulated=True, job="job1", machine=machine,
                 attempt=1, user="ann", project=None, provider="mock", gpu="", part=part, month="2026-12",
                 from_at=None, to_at=None, micro=micro)  # fmt: skip


def attempt(**changes: Any) -> Attempt:
    """The first try, half an hour old."""
    facts = {"job": "job1", "number": 1, "machine": "m1", "started_at": NOW - 30 * MINUTE}
    return Attempt(**{**facts, **changes})


def test_a_queued_job_has_every_key(tmp_path: Path) -> None:
    """All promised keys, in order, also where nothing happened yet."""
    limits = {"budget": {"value": 5_000_000, "from": "file"}, "grace": {"value": 2 * MINUTE, "from": "default"}}
    found = shown(make_world(tmp_path), make_job(state="queued", phase=None, limits=limits, submitted_at=NOW))
    assert list(found) == KEYS
    assert found["cost"] == {"settled": "0.00", "running": "0.00", "reserved": "0.00"}
    assert found["limits"] == {"budget": {"value": "5.00", "from": "file"}, "grace": {"value": "2m", "from": "default"}}
    assert (found["submitted_at"], found["stops_at"], found["attempts"]) == ("2026-12-10T12:00:00Z", None, [])


def test_settled_running_and_reserved_add_up(tmp_path: Path) -> None:
    """Together they are what is committed: booked entries and the whole reservation of the live machine."""
    dead = make_machine(id="m0", label="gp-0", token="t0", state="gone", gone_at=NOW)
    entries = [settle("m0", 70_000), settle("m0", 30_001, "disk")]
    rows = [make_job(), dead, make_machine(attempt=2), hold(total=900_000), *entries]
    cost = shown(make_world(tmp_path), *rows, Reservation(machine="m0", total=100_001, parts=[], settled_at=NOW))[
        "cost"
    ]
    assert cost == {"settled": "0.100001", "running": "0.20", "reserved": "0.70"}
    assert sum(parse_usd(text) for text in cost.values()) == 1_000_001


def test_reserved_is_never_negative(tmp_path: Path) -> None:
    """A machine that outlived its reservation shows as running cost."""
    cost = shown(make_world(tmp_path), make_job(), make_machine(), hold(total=100_000))["cost"]
    assert (cost["running"], cost["reserved"]) == ("0.20", "0.00")


def test_an_attempt_has_every_key(tmp_path: Path) -> None:
    """machine_id is the provider's id; the price has the disk in it."""
    machine = make_machine(price={"per_hour": 400_000, "disk_per_gb_hour": 100}, offer_reason="cheapest")
    rows = [make_job(), machine, hold(), attempt(phase_times={"renting": NOW - 30 * MINUTE, "run": NOW - 15 * MINUTE})]
    (found,) = shown(make_world(tmp_path), *rows)["attempts"]
    assert list(found) == ATTEMPT_KEYS
    assert (found["machine_id"], found["price_per_hour"], found["offer_reason"]) == ("i-1", "0.402", "cheapest")
    assert found["cost"] == "0.201"
    assert found["phase_costs"] == {"renting": "0.1005", "run": "0.1005"}


def test_a_living_machine_says_when_it_stops(tmp_path: Path) -> None:
    """stops_at is the reserved end of the newest machine; none once it is gone."""
    found = shown(make_world(tmp_path), make_job(), make_machine(stop_class="hard"), hold())
    assert (found["stops_at"], found["stop_class"]) == ("2026-12-10T12:30:00Z", "hard")


def test_phase_costs_add_up_to_the_cost_exactly() -> None:
    """No micro-dollar is lost in rounding."""
    tried = attempt(phase_times={"a": NOW, "b": NOW + 1, "c": NOW + 3}, ended_at=NOW + 7)
    shares = phase_costs(tried, 1_000_003, NOW)
    assert sum(shares.values()) == 1_000_003
    assert list(shares) == ["a", "b", "c"]


def test_times_are_rfc3339_and_money_is_text(tmp_path: Path) -> None:
    """Z at the end, microseconds only where there are some."""
    found = shown(make_world(tmp_path), make_job(submitted_at=NOW + 1, started_at=NOW))
    assert (found["submitted_at"], found["started_at"]) == ("2026-12-10T12:00:00.000001Z", "2026-12-10T12:00:00Z")
    assert re.fullmatch(r"\d+\.\d{2,6}", found["budget"])


def test_the_table_shows_what_lives_and_what_ended_lately(tmp_path: Path) -> None:
    """Older ends only with everything; a pending clean-up always."""
    world = make_world(tmp_path)
    over = {"state": "failed", "phase": None}
    store(
        world,
        make_job("live", submitted_at=1),
        make_job("new", submitted_at=2, ended_at=NOW, **over),
        make_job("old", submitted_at=3, ended_at=NOW - 48 * HOUR, **over),
        make_job(
            "dirty", submitted_at=4, ended_at=NOW - 48 * HOUR, state="failed", phase="releasing", cleanup="pending"
        ),
    )

    def ids(everything: bool, project: str | None = None) -> list[str]:
        with world.database.read() as session:
            some = list_jobs(session, everything=everything, project=project, since=NOW - 24 * HOUR, most=20)
            return [job.id for job in some]

    assert ids(False) == ["dirty", "new", "live"]
    assert ids(True) == ["dirty", "old", "new", "live"]
    assert ids(True, "other") == []


def test_many_jobs_are_read_in_a_few_queries(tmp_path: Path) -> None:
    """Rows of all jobs, in the order that was asked for."""
    world = make_world(tmp_path)
    store(world, *[make_job(f"j{n:04d}") for n in range(900)])
    with world.database.read() as session:
        jobs = [session.get_one(Job, f"j{n:04d}") for n in range(900)]
        assert [rows.job.id for rows in read_rows(session, jobs)] == [job.id for job in jobs]
