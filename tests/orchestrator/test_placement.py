"""Choosing a machine: what is turned down, what comes first, how long it may live."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.money import HOUR, MICRO, MINUTE, SECOND
from jobs.spec import GpuWish, JobSpec, Resources
from orchestrator.placement import Candidate, Refusal, Terms, charge, judge, ladder, rank
from orchestrator.shelf import Shelves
from providers.base import Offer, PriceParts


def offer(id: str = "o", usd_per_hour: float = 0.4, **facts: object) -> Offer:
    """An RTX 4090 unless said otherwise."""
    price = PriceParts(per_hour=round(usd_per_hour * MICRO), **facts.pop("price", {}))  # type: ignore[arg-type]
    base = {
        "provider": "mock",
        "id": id,
        "region": "r1",
        "gpu": "RTX 4090",
        "gpu_count": 1,
        "vram_gb": 24.0,
        "boot_s": 30.0,
    }
    return Offer(**{**base, **facts, "price": price})  # type: ignore[arg-type]


def spec(**facts: object) -> JobSpec:
    """A job that wants a card of 24 GB unless said otherwise."""
    resources = facts.pop("resources", None) or Resources(gpu=(GpuWish(vram_gb=24),), disk_gb=10)
    return JobSpec(run="true", resources=resources, **facts)  # type: ignore[arg-type]


def terms(budget: float = 5.0, **facts: object) -> Terms:
    """Five dollars and an hour of work unless said otherwise."""
    base = {
        "now": 0,
        "budget_left": round(budget * MICRO),
        "duration": HOUR,
        "boot_limit": 20 * MINUTE,
        "grace": 2 * MINUTE,
        "guard_every": 30 * SECOND,
    }
    return Terms(**{**base, **facts})  # type: ignore[arg-type]


REFUSED = [
    ("gpu", offer(gpu="RTX 3060 12GB", vram_gb=12), spec(), terms()),
    ("spot", offer(spot=True), spec(), terms()),
    ("trust", offer(trust="any"), spec(), terms()),
    ("stop", offer(stop_class="none"), spec(), terms()),
    ("stop", offer(stop_class="late"), spec(resources=Resources(stop="boot")), terms()),
    ("image", offer(container=False), spec(image="x"), terms()),
    ("host", offer(host="h"), spec(), terms(bad_hosts={("mock", "h"): 1.0})),
    ("host", offer(id="o"), spec(), terms(bad_hosts={("mock", "o"): 1.0})),
    ("provider", offer(), spec(resources=Resources(providers=("vast",))), terms()),
    ("provider", offer(), spec(resources=Resources(regions=("eu",))), terms()),
    ("machine", offer(cpus=2), spec(resources=Resources(cpus=8)), terms()),
    ("budget", offer(boot_s=3600), spec(), terms(budget=0.3)),
    ("budget", offer(), spec(), terms(budget=0.0)),
    (
        "price",
        offer(usd_per_hour=0.3, price={"disk_per_gb_hour": 1000}),
        spec(resources=Resources(disk_gb=500, max_price=MICRO // 2)),
        terms(),
    ),
]


@pytest.mark.parametrize(("code", "one", "job", "when"), REFUSED)
def test_each_refusal_has_its_code(code: str, one: Offer, job: JobSpec, when: Terms) -> None:
    """An offer that does not do is turned down with the word for why, and a sentence."""
    verdict = judge(job, one, when)

    assert isinstance(verdict, Refusal)
    assert (code, True) == (verdict.code, bool(verdict.text))


def test_ranked_by_dollars_of_this_job() -> None:
    """A cheap offer that boots for an hour comes after one that is dearer and boots at once."""
    slow, quick = offer("slow", 0.40, boot_s=3600), offer("quick", 0.50, boot_s=10)

    ranking = rank(spec(), [slow, quick], terms())

    assert [c.offer.id for c in ranking.candidates] == ["quick", "slow"]


def test_wishes_count_in_their_order() -> None:
    """The first wish of a list wins over a cheaper offer that meets only the second."""
    wishes = Resources(gpu=(GpuWish(model="A100 PCIe 80GB"), GpuWish(vram_gb=24)))
    dear = offer("dear", 2.0, gpu="A100 PCIe 80GB", vram_gb=80)

    ranking = rank(spec(resources=wishes), [offer("cheap"), dear], terms())

    assert [c.offer.id for c in ranking.candidates] == ["dear", "cheap"]


@given(st.integers(1, 10**8), st.integers(0, 10**8), st.integers(0, 200), st.integers(0, 3600), st.booleans())
def test_reservation_never_exceeds_the_budget(
    per_hour: int, budget: int, disk_price: int, step_s: int, limited: bool
) -> None:
    """Whatever a machine costs, what is set aside for its whole life is at most what is left."""
    one = offer(price={"disk_per_gb_hour": disk_price, "step_s": step_s, "highest_per_hour": per_hour * 2})
    one = Offer(**{**one.__dict__, "price": PriceParts(**{**one.price.__dict__, "per_hour": per_hour})})
    verdict = judge(spec(), one, terms(duration=HOUR if limited else None, budget_left=budget))

    if isinstance(verdict, Candidate):
        assert verdict.reserve <= budget
        assert verdict.reserve == charge(one.price, 10, verdict.lifetime, per_hour * 2)
        assert verdict.lifetime - ladder(30 * SECOND, 2 * MINUTE).soft_stop > 30 * SECOND


@pytest.mark.parametrize("seed", range(20))
def test_cheapest_is_the_first_of_the_ranking(seed: int) -> None:
    """Looking along sorted shelves finds the very candidate that judging every offer puts first."""
    dice = random.Random(seed)
    models = [("RTX 4090", 24), ("RTX 3090", 24), ("A100 PCIe 80GB", 80), ("RTX 3060 12GB", 12)]
    offers = []
    for number in range(300):
        gpu, vram = dice.choice(models)
        offers.append(
            offer(
                str(number),
                dice.randint(10, 300) / 100,
                gpu=gpu,
                vram_gb=vram,
                boot_s=dice.choice([5, 60, 900]),
                trust=dice.choice(["verified", "any", "datacenter"]),
                spot=dice.random() < 0.3,
                region=dice.choice(["r1", "r2"]),
                price={"disk_per_gb_hour": dice.choice([0, 90])},
            )
        )
    bad = {("mock", str(n)): 1.0 for n in dice.sample(range(300), 30)}
    when = terms(bad_hosts=bad, duration=dice.choice([None, HOUR, 5 * HOUR]))

    assert rank(spec(), offers, when).candidates[0] == Shelves(offers).cheapest(spec(), when)
