"""Offers sorted once when they are listed, so that the cheapest that fits is found without judging all.

Offers that differ only in price, host and size of the machine beside its GPUs share a shelf, cheapest
first: one look at its front tells whether any of them can do, and what they cost at least.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from orchestrator.placement import Candidate, Terms, charge, expected_work, judge, unfit
from providers.base import Offer

if TYPE_CHECKING:
    from jobs.spec import GpuWish, JobSpec


class Shelves:
    """All offers of one listing; `offers` in the order of the provider."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self.offers = offers
        shelves: dict[tuple[object, ...], list[Offer]] = {}
        for offer in offers:
            price = offer.price
            key = (
                offer.provider, offer.gpu, offer.gpu_count, offer.vram_gb, offer.compute_capability, offer.cuda,
                offer.spot, offer.trust, offer.stop_class, offer.container, price.disk_per_gb_hour, price.step_s,
                price.minimum_s,
            )  # fmt: skip
            shelves.setdefault(key, []).append(offer)
        self._shelves = [sorted(shelf, key=_front_first) for shelf in shelves.values()]

    def cheapest(self, spec: JobSpec, terms: Terms) -> Candidate | None:
        """The first candidate of `placement.rank`, or None where nothing fits."""
        return cheapest([self], spec, terms)

    def best(self, spec: JobSpec, terms: Terms) -> Candidate | None:
        """The cheapest for a spec with at most one wish."""
        fronts = [shelf for shelf in self._shelves if unfit(spec, shelf[0], terms) is None]
        found: Candidate | None = None
        for shelf in sorted(fronts, key=lambda shelf: shelf[0].price.per_hour):
            found = _better(found, _first_fit(shelf, spec, terms, found))
        return found


def _front_first(offer: Offer) -> tuple[int, float, str]:
    return (offer.price.per_hour, -offer.reliability, offer.id)


def _first_fit(shelf: list[Offer], spec: JobSpec, terms: Terms, found: Candidate | None) -> Candidate | None:
    best = found
    for offer in shelf:
        # boot and transfer come on top of this, so whatever follows on the shelf costs more than what was found
        if (
            best is not None
            and charge(offer.price, spec.resources.disk_gb, expected_work(spec, offer, terms)) > best.total
        ):
            break
        verdict = judge(spec, offer, terms)
        if isinstance(verdict, Candidate):
            best = _better(best, verdict)
    return best


def _better(one: Candidate | None, other: Candidate | None) -> Candidate | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda c: (c.total, -c.offer.reliability, c.offer.id))


def cheapest(shelves: Iterable[Shelves], spec: JobSpec, terms: Terms) -> Candidate | None:
    """The cheapest over several listings: wish by wish in the job's order."""
    wishes: tuple[GpuWish, ...] | tuple[None] = spec.resources.gpu or (None,)
    listings = list(shelves)
    for wish in wishes:
        narrowed = spec
        if wish is not None:
            narrowed = spec.model_copy(update={"resources": spec.resources.model_copy(update={"gpu": (wish,)})})
        best: Candidate | None = None
        for listing in listings:
            best = _better(best, listing.best(narrowed, terms))
        if best is not None:
            return best
    return None
