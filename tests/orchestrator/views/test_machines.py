"""Machines of every provider, joined with our rows."""

from pathlib import Path

from orchestrator.views.machines import machines
from providers.base import Unavailable
from tests.orchestrator.standing_world import ListedMarket, make_job, make_machine, make_sighting, make_world, store


def test_ours_and_not_ours(tmp_path: Path) -> None:
    """A machine with a row is ours and has its job; one without is shown as it is."""
    market = ListedMarket(machines=[make_sighting(per_hour=410_000), make_sighting("x", label="somebody", gpu="A100")])
    world = make_world(tmp_path, [market])
    store(world, make_job(), make_machine())
    found = machines(world, True)
    ours, other = found.machines
    assert found.silent == []
    assert (ours["id"], ours["ours"], ours["job"], ours["state"], ours["price_per_hour"]) == (
        "i-1",
        True,
        "job1-0000",
        "running",
        "0.41",
    )
    assert (ours["created_at"], ours["stops_at"], ours["held"]) == (
        "2026-12-10T11:30:00Z",
        "2026-12-10T12:30:00Z",
        False,
    )
    assert (other["id"], other["ours"], other["job"], other["price_per_hour"], other["stops_at"]) == (
        "x",
        False,
        None,
        None,
        None,
    )


def test_our_label_without_a_row_is_ours(tmp_path: Path) -> None:
    """After a restored backup the label still says whose it is and when it stops; another installation's does not."""
    other = make_sighting("y", label=make_machine().label.replace("inst0001", "inst0002"))
    world = make_world(tmp_path, [ListedMarket(machines=[make_sighting(), other])])
    assert [(row["ours"], row["stops_at"]) for row in machines(world, True).machines] == [
        (True, "2026-12-10T12:30:00Z"),
        (False, None),
    ]


def test_a_lost_answer_is_found_by_its_label(tmp_path: Path) -> None:
    """A create whose answer was lost has no id in our row; the label joins the two."""
    world = make_world(tmp_path, [ListedMarket(machines=[make_sighting()])])
    store(world, make_job(), make_machine(state="sent", provider_id=None))
    [row] = machines(world, True).machines
    assert (row["id"], row["job"]) == ("i-1", "job1-0000")


def test_unknown_is_shown_as_unknown(tmp_path: Path) -> None:
    """A provider that does not answer is named, and its machines are unknown, not gone."""
    world = make_world(tmp_path, [ListedMarket(fault=Unavailable("timed out"))])
    store(world, make_job(), make_machine())
    found = machines(world, True)
    assert found.silent == ["mock: timed out"]
    assert [row["state"] for row in found.machines] == ["unknown"]


def test_an_incomplete_list_is_named(tmp_path: Path) -> None:
    """A list with a missing page proves nothing and is named."""
    world = make_world(tmp_path, [ListedMarket(complete=False)])
    store(world, make_job(), make_machine())
    found = machines(world, True)
    assert (found.silent, found.machines[0]["state"]) == (["mock: its list is not complete"], "unknown")


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    """A live machine whose provider we have no key for is never "0 machines"."""
    world = make_world(tmp_path)
    store(world, make_job(simulated=False), make_machine(simulated=False, provider="runpod"))
    found = machines(world, False)
    assert found.silent == ["runpod: there is no key for it, and a machine of it lives"]
    assert [row["state"] for row in found.machines] == ["unknown"]


def test_what_is_over_is_shown_on_demand(tmp_path: Path) -> None:
    """Machines that are gone are listed only when all are asked for."""
    world = make_world(tmp_path, [ListedMarket()])
    store(world, make_job(), make_machine(state="gone"))
    assert machines(world, True).machines == []
    assert [row["state"] for row in machines(world, True, every=True).machines] == ["gone"]


def test_a_row_that_is_over_and_a_machine_that_lives(tmp_path: Path) -> None:
    """Our row says gone and the market says running: the machine is shown, with the market's word."""
    world = make_world(tmp_path, [ListedMarket(machines=[make_sighting()])])
    store(world, make_job(), make_machine(state="gone"))
    assert [row["state"] for row in machines(world, True).machines] == ["running"]


def test_worlds_are_not_mixed(tmp_path: Path) -> None:
    """Simulated machines are not in the real list, nor the other way round."""
    world = make_world(tmp_path, [ListedMarket(machines=[make_sighting()]), ListedMarket("real", simulated=False)])
    store(world, make_job(), make_machine())
    assert machines(world, False).machines == []
