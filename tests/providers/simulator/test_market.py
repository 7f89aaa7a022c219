"""The market's books: bills to the micro-dollar, ends at their instants, tokens, capacity, spot."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.money import usd
from providers.simulator.bill import machine_cost
from providers.simulator.faults import read_rules
from providers.simulator.machine import Machine, MarketOrder
from providers.simulator.market import Market, SoldOutError, UnknownMachineError
from providers.simulator.offers import read_offers
from tests.providers.simulator.stand_in import StandInHosts, Steps

SECOND = 1_000_000
PLAIN = {"provider": "mock", "gpu": "RTX-4090", "vram_gb": 24, "price_per_hour": "0.40"}


def open_market(folder: Path, *entries: dict[str, object]) -> tuple[Market, Steps, StandInHosts]:
    """A market that sells these, its clock and its hosts."""
    clock, hosts = Steps(), StandInHosts()
    market = Market(clock.now, hosts, folder)
    market.put_up(read_offers(list(entries) or [PLAIN]))
    return market, clock, hosts


def rent(market: Market, spot: bool = False, **order: object) -> Machine:
    """A machine of the first offer of that kind."""
    offer = next(offer for offer in market.for_sale("mock") if offer.spot == spot)
    return market.rent("mock", MarketOrder(offer.id, **order))[0]  # type: ignore[arg-type]


@given(
    per_hour=st.integers(0, 10**9),
    disk=st.integers(0, 10**6),
    disk_gb=st.integers(0, 5000),
    traffic=st.integers(0, 10**6),
    traffic_bytes=st.integers(0, 10**13),
    duration=st.integers(0, 10**13),
)
def test_each_part_is_rounded_up_once(
    per_hour: int, disk: int, disk_gb: int, traffic: int, traffic_bytes: int, duration: int
) -> None:
    """cost is the sum of three parts, each the least whole micro-dollar that is not below the exact price."""
    machine = Machine(
        **dict.fromkeys(("id", "provider", "stock", "region", "gpu", "stop", "label", "token", "public_key"), ""),
        boot_text="",
        image="",
        gpu_count=1,
        vram_gb=24.0,
        spot=False,
        bills=False,
        per_hour=per_hour,
        disk_per_gb_hour=disk,
        traffic_per_gb=traffic,
        disk_gb=disk_gb,
        created_at=7,
        up_at=7,
        ended_at=7 + duration,
        traffic_bytes=traffic_bytes,
    )
    hour, gb = 3600 * SECOND, 10**9
    parts = (per_hour * duration, hour), (disk * disk_gb * duration, hour), (traffic * traffic_bytes, gb)
    assert machine_cost(machine, 10**16) == sum(-(-amount // unit) for amount, unit in parts)


def test_booting_is_billed_and_the_end_is_exact(tmp_path: Path) -> None:
    """A machine that never came up costs from its create to its delete."""
    market, clock, _ = open_market(tmp_path, {**PLAIN, "boot_s": 3600})
    machine = rent(market)
    clock.advance(90)
    assert machine.state(clock.now()) == "booting"
    market.release(machine)
    clock.advance(1000)
    assert market.bill()["alive"] == 0
    assert market.bill()["total"] == usd(400_000 * 90 // 3600)


def test_an_own_end_is_billed_to_its_own_instant(tmp_path: Path) -> None:
    """Looked at an hour late, a machine that switched itself off at second 40 costs 40 seconds."""
    market, clock, hosts = open_market(tmp_path)
    machine = rent(market)
    hosts.own_ends[machine.id] = machine.created_at + 40 * SECOND
    clock.advance(3600)
    market.settle()
    assert machine.ended_at == machine.created_at + 40 * SECOND
    assert machine_cost(machine, clock.now()) == -(-400_000 * 40 // 3600)


def test_a_hard_stop_ends_it_at_its_stop_time(tmp_path: Path) -> None:
    """Stop class hard needs nobody."""
    market, clock, hosts = open_market(tmp_path, {**PLAIN, "capabilities": {"stop": "hard"}})
    machine = rent(market, stop_at=clock.now() + 60 * SECOND)
    clock.advance(500)
    market.settle()
    assert machine.ended_at == machine.created_at + 60 * SECOND
    assert ("destroy", machine.id) in hosts.told


def test_other_stop_classes_do_not_heed_a_stop_time(tmp_path: Path) -> None:
    """Stop class boot runs its first command and never ends by the market."""
    market, clock, hosts = open_market(tmp_path)
    machine = rent(market, stop_at=clock.now() + 60 * SECOND, boot_text="fuse")
    clock.advance(500)
    market.settle()
    assert machine.ended_at is None
    assert hosts.plans[machine.id].boot_text == "fuse"


def test_stop_class_late_has_no_boot_text(tmp_path: Path) -> None:
    """What the market cannot do, it does not do."""
    market, _, hosts = open_market(tmp_path, {**PLAIN, "capabilities": {"stop": "late"}})
    assert hosts.plans[rent(market, boot_text="fuse").id].boot_text == ""


def test_the_same_token_is_the_same_machine(tmp_path: Path) -> None:
    """A second create with the token makes nothing, also after the end."""
    market, _, hosts = open_market(tmp_path, {**PLAIN, "capacity": 1})
    first = rent(market, token="t")
    offer = first.stock
    assert market.rent("mock", MarketOrder(offer, token="t")) == (first, False)
    market.release(first)
    assert market.rent("mock", MarketOrder(offer, token="t")) == (first, False)
    assert [told for told in hosts.told if told[0] == "boot"] == [("boot", first.id)]


def test_capacity_is_given_back(tmp_path: Path) -> None:
    """Of one there is one; it is to be had again after the end; spot shares it."""
    market, _, _ = open_market(tmp_path, {**PLAIN, "capacity": 1, "spot_price": "0.1"})
    machine = rent(market)
    assert market.for_sale("mock") == []
    with pytest.raises(SoldOutError):
        market.rent("mock", MarketOrder(machine.stock))
    market.release(machine)
    assert len(market.for_sale("mock")) == 2
    assert rent(market, spot=True).per_hour == 100_000


def test_a_market_without_labels_or_tokens_keeps_none(tmp_path: Path) -> None:
    """The label is lost, the token makes no second create harmless."""
    market, _, _ = open_market(tmp_path, {**PLAIN, "capabilities": {"labels": False, "token": False}})
    first, second = rent(market, label="gp-a", token="t"), rent(market, label="gp-a", token="t")
    assert (first.label, first.id != second.id) == ("", True)


def test_a_hidden_machine_appears_in_time(tmp_path: Path) -> None:
    """hide_for_s on create hides from list and get, not from the bill."""
    market, clock, _ = open_market(tmp_path)
    offer = market.for_sale("mock")[0]
    machine, _ = market.rent("mock", MarketOrder(offer.id), {"hide_for_s": 180})
    assert market.seen("mock") == []
    with pytest.raises(UnknownMachineError):
        market.find("mock", machine.id)
    assert market.bill()["alive"] == 1
    clock.advance(180)
    assert market.seen("mock") == [machine]


def test_a_stopped_machine_pays_its_disk_alone(tmp_path: Path) -> None:
    """From the stop on only GB-hours are billed."""
    market, clock, _ = open_market(tmp_path, {**PLAIN, "disk_price": "0.001"})
    machine = rent(market, disk_gb=100)
    clock.advance(3600)
    machine.stopped_at = clock.now()
    clock.advance(3600)
    assert machine_cost(machine, clock.now()) == 400_000 + 2 * 100_000
    assert market.bill()["alive"] == 1


def test_a_standing_request_starts_another(tmp_path: Path) -> None:
    """reborn: 30 s after the end of a spot machine another one is there, without its label; deleted, it stays away."""
    market, clock, _ = open_market(tmp_path, {**PLAIN, "spot_price": "0.1"})
    market.replace_faults(read_rules([{"on": "spot", "do": {"reborn": {"after_s": 30, "label": False}}}], clock.now()))
    first = rent(market, spot=True, label="gp-a")
    market.release(first)
    assert market.bill()["standing_requests"] == 1
    clock.advance(100)
    market.settle()
    [second] = market.seen("mock")
    assert (second.label, second.created_at) == ("", (first.ended_at or 0) + 30 * SECOND)
    market.release(second)
    clock.advance(100)
    market.settle()
    assert (market.bill()["alive"], market.bill()["standing_requests"]) == (0, 0)


def test_rules_reach_machines_that_run_already(tmp_path: Path) -> None:
    """A report put up later is told to the host, and taken back with the rule."""
    market, clock, hosts = open_market(tmp_path)
    machine = rent(market)
    clock.advance(5)
    rules = [
        {"on": "gpu", "times": 0, "do": {"gpu_report": "No devices were found"}},
        {"on": "ssh", "do": {"new_port": True}},
        {"on": "disk", "do": {"disk_gb": 7}},
    ]
    market.replace_faults(read_rules(rules, clock.now()))
    market.replace_faults([])
    assert hosts.told[1:] == [
        ("gpu_report", machine.id, "No devices were found"),
        ("new_port", machine.id),
        ("change", machine.id, 7.0, False),
        ("gpu_report", machine.id, None),
        ("change", machine.id, 100.0, False),
    ]


def test_gpu_rules_count_calls_of_nvidia_smi(tmp_path: Path) -> None:
    """after 1, times 1: the second call of nvidia-smi is hurt, whichever machine makes it."""
    market, clock, hosts = open_market(tmp_path)
    market.replace_faults(read_rules([{"on": "gpu", "after": 1, "do": {"gpu_report": "hang"}}], clock.now()))
    machine = rent(market)
    calls = market.folder_of(machine) / "gpu_calls"
    for number in (1, 2, 3):
        calls.write_text("call\n" * number)
        market.settle()
    assert [told[2] for told in hosts.told if told[0] == "gpu_report"] == ["hang", None]
    assert market.faults.show()[0]["hits"] == 1


def test_a_boot_rule_shapes_the_plan(tmp_path: Path) -> None:
    """never_boots, sshd_s and the disk are in the plan; the state stays booting."""
    market, clock, hosts = open_market(tmp_path)
    rules = [
        {"on": "boot", "do": {"never_boots": True, "sshd_s": 5, "banner_s": 25, "key_s": 40}},
        {"on": "disk", "do": {"disk_gb": 10}},
    ]
    market.replace_faults(read_rules(rules, clock.now()))
    machine = rent(market, disk_gb=120)
    clock.advance(10_000)
    plan = hosts.plans[machine.id]
    assert (plan.never, plan.sshd_s, plan.banner_s, plan.key_s, plan.disk_gb) == (True, 5, 25, 40, 10)
    assert machine.state(clock.now()) == "booting"


@pytest.mark.parametrize("price", [-1, None, float("nan"), "cheap"])
def test_a_price_that_is_none_is_shown_as_it_is(tmp_path: Path, price: object) -> None:
    """Such an offer can be put up; it is for whoever reads it to refuse it."""
    market, _, _ = open_market(tmp_path, {**PLAIN, "price_per_hour": price})
    assert market.for_sale("mock")[0].fields()["price_per_hour"] is price


def test_replaced_offers_keep_ids_and_running_prices(tmp_path: Path) -> None:
    """A dearer price keeps the offer's id; what runs keeps its price."""
    market, _, _ = open_market(tmp_path)
    machine = rent(market)
    market.put_up(read_offers([{**PLAIN, "price_per_hour": "0.80"}]))
    assert [offer.id for offer in market.for_sale("mock")] == [machine.stock]
    assert (machine.per_hour, rent(market).per_hour) == (400_000, 800_000)
