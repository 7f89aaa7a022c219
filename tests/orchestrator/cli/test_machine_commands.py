"""offers, machines and reap, on markets made of lists."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.money import HOUR
from providers.base import Offer, PriceParts, Unavailable
from tests.orchestrator.cli.conftest import Run, Stand
from tests.orchestrator.standing_world import HandClock, ListedMarket, make_job, make_machine, make_sighting, store


def offer(id: str, **changes: Any) -> Offer:
    """A 24 GB card at 0.40 an hour and 0.001 per GB of disk."""
    facts: dict[str, Any] = {
        "provider": "mock", "id": id, "region": "r1", "gpu": "RTX4090", "gpu_count": 1, "vram_gb": 24.0,
        "price": PriceParts(400_000, disk_per_gb_hour=1_000), "as_of": HandClock().time, "boot_s": 0.0,
    }  # fmt: skip
    return Offer(**{**facts, **changes})


def market() -> ListedMarket:
    """A cheap card, two of them, a spot one, and a big one."""
    return ListedMarket(offers=[
        offer("one"), offer("two", gpu_count=2, price=PriceParts(700_000)),
        offer("spot", spot=True, price=PriceParts(100_000)),
        offer("big", gpu="A100-SXM-80GB", vram_gb=80.0, price=PriceParts(1_500_000), stop_class="none"),
    ])  # fmt: skip


def test_offers(run: Run, stand: Stand) -> None:
    """Cheapest first, the whole machine with its disk; what is turned down is counted."""
    stand(market())
    ended = run("offers", "--mock", "-o", "json")
    found = json.loads(ended.stdout)
    assert [(row["gpu"], row["gpu_count"], row["price_per_hour"], row["total"]) for row in found] == [
        ("RTX4090", 1, "0.42", "0.42"), ("RTX4090", 2, "0.70", "0.70")]  # fmt: skip
    assert {row["refused"] for row in found} == {None}
    assert (found[0]["as_of"], found[0]["stop_class"], found[0]["trust"]) == (
        "2026-12-10T12:00:00Z",
        "boot",
        "verified",
    )
    shown = run("offers", "--mock")
    assert shown.stdout.startswith("SIMULATED\n") and "sim $0.42/h" in shown.stdout and "2 more were" in shown.stderr


def test_offers_by_wish(run: Run, stand: Stand) -> None:
    """--gpu takes the words of a job file; --why gives every refusal its reason."""
    stand(market())
    found = json.loads(run("offers", "--mock", "--gpu", "24GB:2", "--why", "-o", "json").stdout)
    assert [row["gpu_count"] for row in found if row["refused"] is None] == [2]
    assert len(found) == 4 and all(row["total"] is None for row in found if row["refused"])
    assert "turned down" in run("offers", "--mock", "--gpu", "24GB:2", "--why").stdout
    [spot] = json.loads(run("offers", "--mock", "--spot", "-o", "json").stdout)
    assert (spot["spot"], spot["price_per_hour"]) == (True, "0.10")


@pytest.mark.parametrize(("words", "says"), [
    (["--gpu", "24"], "24GB"), (["--gpu", "RTX4091"], "did you mean"),
    (["--provider", "mock", "--provider", "vast"], "never mixed"),
    ([], "gpupoor login"),
])  # fmt: skip
def test_offers_wrong(run: Run, stand: Stand, words: list[str], says: str) -> None:
    """A wish that cannot be read, worlds mixed, or nobody to ask: exit 2 that says what to do."""
    stand(market())
    ended = run("offers", *words)
    assert (ended.exit_code, says in ended.stderr) == (2, True), ended.stderr


def test_offers_of_a_silent_market(run: Run, stand: Stand) -> None:
    """A market that does not answer is named, and with no other it is exit 9, never "no offers"."""
    stand(ListedMarket(fault=Unavailable("timed out")))
    ended = run("offers", "--mock")
    assert ended.exit_code == 9 and "mock does not answer: timed out" in ended.stderr


def test_machines(run: Run, stand: Stand, started: list[Any]) -> None:
    """Ours and others; --unknown leaves ours out; living machines get an orchestrator, and that is said."""
    world = stand(ListedMarket(machines=[make_sighting(), make_sighting("x", label="somebody")]))
    store(world, make_job(), make_machine())
    ended = run("machines", "--mock", "-o", "json")
    assert [(row["id"], row["ours"]) for row in json.loads(ended.stdout)] == [("i-1", True), ("x", False)]
    assert "starting it" in ended.stderr and len(started) == 1
    shown = run("machines", "--mock", "--unknown").stdout
    assert shown.startswith("SIMULATED\n") and "i-1" not in shown and "x " in shown


def test_machines_unknown_is_exit_9(run: Run, stand: Stand, started: list[Any]) -> None:
    """A provider that does not answer makes the answer unknown, and the exit code says so."""
    stand(ListedMarket(fault=Unavailable("timed out")))
    ended = run("machines", "--mock", "-o", "json")
    assert (ended.exit_code, json.loads(ended.stdout)) == (9, []) and "UNKNOWN what lives at mock" in ended.stderr


@pytest.mark.parametrize("command", ["machines", "reap"])
def test_a_key_that_is_missing(run: Run, stand: Stand, started: list[Any], command: str) -> None:
    """No key at all is exit 2; no key while a machine lives is exit 9 and never an empty table."""
    world = stand()
    assert run(command).exit_code == 2
    store(world, make_job(simulated=False), make_machine(simulated=False, provider="runpod"))
    ended = run(command)
    assert ended.exit_code == 9 and "key" in ended.stderr and "runpod" in ended.stderr


def test_reap(run: Run, stand: Stand, started: list[Any]) -> None:
    """A dry run names what is overdue and what is not ours, and destroys nothing."""
    world = stand(ListedMarket(machines=[make_sighting(), make_sighting("x", label="somebody")]))
    store(world, make_job(), make_machine(stop_at=HandClock().time - HOUR))
    ended = run("reap", "--mock", "--dry-run", "-o", "json")
    assert json.loads(ended.stdout) == {"destroyed": ["i-1"], "foreign": ["x"], "overdue": ["i-1"], "unreachable": []}
    assert (ended.exit_code, started) == (0, [])


def test_reap_says_who_was_silent(run: Run, stand: Stand, started: list[Any], home: Path) -> None:
    """A market that does not answer is in the report, and the exit code is 9."""
    stand(ListedMarket(fault=Unavailable("timed out")))
    ended = run("reap", "--mock", "-o", "json")
    assert (ended.exit_code, json.loads(ended.stdout)["unreachable"]) == (9, ["mock: timed out"])
    assert run("reap", "--mock", "--adopt", "nobody").exit_code == 2
