"""Feasible -> ranked -> chosen: pure functions on values, with a reason for every offer turned down.

An offer's lifetime is how long its machine may exist for this job: until the work's limit or
the money ends, whichever comes first. All of it is reserved before the create is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobs.money import HOUR, MINUTE, SECOND, affordable_duration, cost, usd
from jobs.requirements import gpu_refusal, machine_refusal
from orchestrator.speed import relative_speed
from providers.base import Offer, PriceParts

if TYPE_CHECKING:
    from jobs.spec import GpuWish, JobSpec

BAD_HOST_REFUSED = 0.5
COLLECT = 30 * SECOND  # set aside to bring results home, until sizes and speeds are measured
SHORTEST_RUN = 5 * SECOND
TRAFFIC_SHARE = 10  # one tenth of the money is set aside for bytes where a market charges for them
ROUNDINGS = 3  # micro-dollars: each part of a bill is rounded up
LONGEST_LIFE = 30 * 24 * HOUR  # of a machine that costs nothing and has no limit of its own
_TRUST = {"datacenter": 0, "verified": 1, "any": 2}
_STOP = {"hard": ("hard",), "boot": ("hard", "boot"), "any": ("hard", "boot", "late", "none")}


@dataclass(frozen=True)
class Terms:
    """Under which terms a job looks for a machine.

    budget_left: micro-dollars of the job's budget that nothing holds. duration: limit of setup + run that is
    left, or None. max_gpus: of all machines together. bad_hosts: (provider, host) -> weight now.
    """

    now: int
    budget_left: int
    duration: int | None
    boot_limit: int
    grace: int
    guard_every: int
    no_fuse_ok: bool = False
    max_gpus: int | None = None
    bad_hosts: Mapping[tuple[str, str], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """An offer that fits. total: expected micro-dollars of this job there; lifetime: microseconds from now
    to its reserved end; reserve: micro-dollars to set aside for that; traffic: of these for bytes that move;
    lump: what may fall into one month whole (traffic, one billing step or minimum, roundings)."""

    offer: Offer
    wish: GpuWish | None
    total: int
    lifetime: int
    reserve: int
    reason: str
    traffic: int = 0
    lump: int = 0


@dataclass(frozen=True)
class Refusal:
    """An offer turned down, and why. code: gpu, machine, price, budget, trust, stop, image, host, provider, spot."""

    offer: Offer
    code: str
    text: str


@dataclass(frozen=True)
class Ranking:
    """Best first, and all that was turned down."""

    candidates: tuple[Candidate, ...]
    refused: tuple[Refusal, ...]


@dataclass(frozen=True)
class Ladder:
    """When a machine is stopped, counted from the reserved end: soft stop, fuse, guard."""

    soft_stop: int
    fuse: int
    guard: int


def ladder(guard_every: int, grace: int, collect: int = COLLECT) -> Ladder:
    """Microseconds before the reserved end at which each rung acts."""
    return Ladder(2 * guard_every + 2 * grace + collect, 2 * guard_every + grace, guard_every)


def charge(price: PriceParts, disk_gb: int, duration: int, per_hour: int | None = None) -> int:
    """Micro-dollars of a machine that exists for `duration`: billing steps, minimum, each part rounded up."""
    time = max(duration, price.minimum_s * SECOND)
    if price.step_s:
        step = price.step_s * SECOND
        time = -(-time // step) * step
    hourly = price.per_hour if per_hour is None else per_hour
    return cost(hourly, time) + cost(disk_gb * price.disk_per_gb_hour, time)


def ceiling(offer: Offer, spec: JobSpec) -> int:
    """The most that the machine may cost in an hour, disk included."""
    highest = max(offer.price.per_hour, offer.price.highest_per_hour)
    return highest + spec.resources.disk_gb * offer.price.disk_per_gb_hour


def unfit(spec: JobSpec, offer: Offer, terms: Terms) -> tuple[str, str] | None:
    """Why no offer of this kind can do, whatever it costs and whoever owns it: (code, text), or None."""
    wanted = spec.resources
    if wanted.providers and offer.provider not in wanted.providers:
        return "provider", f"not one of {', '.join(wanted.providers)}"
    if offer.spot and wanted.spot is False:
        return "spot", "spot, and the job does not say spot: true"
    if not offer.spot and wanted.spot is True:
        return "spot", "not spot"
    if _TRUST[offer.trust] > _TRUST[wanted.trust]:
        return "trust", f"trust {offer.trust}, the job wants {wanted.trust}"
    if offer.stop_class not in _STOP[wanted.stop]:
        return "stop", f"stop class {offer.stop_class}, the job wants {wanted.stop}"
    if offer.stop_class == "none" and not terms.no_fuse_ok:
        return "stop", "nothing would stop this machine while we sleep (--no-fuse-ok takes it)"
    if spec.image and not offer.container:
        return "image", "a virtual machine runs no container image"
    if terms.max_gpus is not None and offer.gpu and offer.gpu_count > terms.max_gpus:
        return "gpu", f"has {offer.gpu_count} GPUs, max_gpus is {terms.max_gpus}"
    _, reason = fitting_wish(spec, offer)
    return ("gpu", reason) if reason else None


def _own_refusal(spec: JobSpec, offer: Offer, terms: Terms) -> tuple[str, str] | None:
    """Why this one offer does not do, apart from its GPUs and its money."""
    wanted = spec.resources
    if wanted.regions and offer.region not in wanted.regions:
        return "provider", f"region is not one of {', '.join(wanted.regions)}"
    reason = machine_refusal(wanted, cpus=offer.cpus, memory_gb=offer.memory_gb, disk_gb=offer.disk_gb)
    if reason:
        return "machine", reason
    if terms.bad_hosts.get((offer.provider, host_of(offer)), 0.0) >= BAD_HOST_REFUSED:
        return "host", "this host failed us lately"
    rate = ceiling(offer, spec)
    if wanted.max_price is not None and rate > wanted.max_price:
        return "price", f"${usd(rate)}/h with disk is above max_price ${usd(wanted.max_price)}"
    return None


def host_of(offer: Offer) -> str:
    """By what an offer is remembered when it failed us."""
    return offer.host or offer.id


def fitting_wish(spec: JobSpec, offer: Offer) -> tuple[GpuWish | None, str | None]:
    """The first wish that the offer meets, or the reason why it meets none."""
    reasons = []
    for wish in spec.resources.gpu:
        refusal = gpu_refusal(
            wish,
            gpu=offer.gpu,
            count=offer.gpu_count,
            vram_gb=offer.vram_gb,
            compute_capability=offer.compute_capability,
            cuda=offer.cuda,
        )
        if refusal is None:
            return wish, None
        reasons.append(refusal)
    return None, "; ".join(dict.fromkeys(reasons)) or None


def _lifetime(offer: Offer, spec: JobSpec, terms: Terms, money: int) -> int:
    """How long the machine may exist: work to its limit, or as long as `money` lasts."""
    rungs = ladder(terms.guard_every, terms.grace)
    wanted = LONGEST_LIFE if terms.duration is None else terms.boot_limit + terms.duration + rungs.soft_stop
    rate = ceiling(offer, spec)
    if rate == 0:
        return wanted
    # each of the two parts of `charge` may round up by one micro-dollar
    longest = affordable_duration(rate, money - 2)
    if offer.price.step_s:
        longest -= longest % (offer.price.step_s * SECOND)
    return min(wanted, longest)


def judge(spec: JobSpec, offer: Offer, terms: Terms) -> Candidate | Refusal:
    """One offer: taken into the ranking, or turned down with a reason."""
    refusal = unfit(spec, offer, terms) or _own_refusal(spec, offer, terms)
    if refusal:
        return Refusal(offer, *refusal)
    wish, _ = fitting_wish(spec, offer)
    rate = ceiling(offer, spec)
    traffic = terms.budget_left // TRAFFIC_SHARE if offer.price.traffic_per_gb else 0
    lifetime = _lifetime(offer, spec, terms, terms.budget_left - traffic)
    rungs = ladder(terms.guard_every, terms.grace)
    boot = round(offer.boot_s * SECOND)
    if boot + SHORTEST_RUN > lifetime - rungs.soft_stop:
        needed = charge(offer.price, spec.resources.disk_gb, boot + SHORTEST_RUN + rungs.soft_stop, rate)
        return Refusal(offer, "budget", f"the shortest run needs ${usd(needed)}, ${usd(terms.budget_left)} is left")
    hours = expected_work(spec, offer, terms)
    total = charge(offer.price, spec.resources.disk_gb, boot + hours)
    highest = max(offer.price.per_hour, offer.price.highest_per_hour)
    reserve = charge(offer.price, spec.resources.disk_gb, lifetime, highest) + traffic
    shortest = max(offer.price.step_s, offer.price.minimum_s) * SECOND
    lump = traffic + ROUNDINGS + (charge(offer.price, spec.resources.disk_gb, shortest, highest) if shortest else 0)
    if reserve > terms.budget_left:
        return Refusal(offer, "budget", f"its smallest bill is ${usd(reserve)}, ${usd(terms.budget_left)} is left")
    return Candidate(offer, wish, total, lifetime, reserve, _reason(offer, spec, total), traffic, lump)


def expected_work(spec: JobSpec, offer: Offer, terms: Terms) -> int:
    """Expected microseconds of work: the estimate scaled by speed, else the limit, else one hour."""
    if spec.estimate:
        return round(spec.estimate.hours * HOUR / relative_speed(offer.gpu, spec.estimate.on))
    return min(terms.duration or HOUR, HOUR)


def _reason(offer: Offer, spec: JobSpec, total: int) -> str:
    per_hour = offer.price.per_hour + spec.resources.disk_gb * offer.price.disk_per_gb_hour
    what = f"{offer.gpu_count}x {offer.gpu}" if offer.gpu_count > 1 else offer.gpu
    return f"cheapest that fits: {what} at ${usd(per_hour)}/h, about ${usd(total)} for this job"


def rank(spec: JobSpec, offers: Sequence[Offer], terms: Terms) -> Ranking:
    """All offers judged: candidates by expected dollars (then by the order of wishes, reliability, id)."""
    candidates: list[Candidate] = []
    refused: list[Refusal] = []
    for offer in offers:
        verdict = judge(spec, offer, terms)
        if isinstance(verdict, Candidate):
            candidates.append(verdict)
        else:
            refused.append(verdict)
    order = {id(wish): number for number, wish in enumerate(spec.resources.gpu)}
    candidates.sort(key=lambda c: (order.get(id(c.wish), 0), c.total, -c.offer.reliability, c.offer.id))
    return Ranking(tuple(candidates), tuple(refused))


def decayed(weight: float, age: int) -> float:
    """Weight of a bad host after `age` microseconds: half of it every 30 minutes."""
    return float(weight * 0.5 ** (age / (30 * MINUTE)))
