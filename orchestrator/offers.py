"""What can be rented now, from every provider, re-listed when the picture is old."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobs.money import SECOND
from orchestrator.shelf import Shelves
from providers.base import Offer, ProviderError

if TYPE_CHECKING:
    from orchestrator.world import World

FRESH = 10 * SECOND


@dataclass
class OfferBoard:
    """Lists of offers as last seen in this process, by provider."""

    lists: dict[str, tuple[int, Shelves]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    def drop(self, provider: str) -> None:
        """Forget a provider's list: an offer of it proved stale."""
        self.lists.pop(provider, None)


def list_offers(world: World, simulated: bool, providers: tuple[str, ...] = ()) -> list[Offer]:
    """Offers of all providers of one world (simulated or real), at most 10 s old.

    A provider that does not answer is left out and named in `world.board.faults`.
    """
    return [offer for shelves in list_shelves(world, simulated, providers) for offer in shelves.offers]


def list_shelves(world: World, simulated: bool, providers: tuple[str, ...] = ()) -> list[Shelves]:
    """The same, sorted for `shelf.cheapest`, one listing a provider."""
    found: list[Shelves] = []
    for name, provider in sorted(world.providers.items()):
        if provider.facts.simulated != simulated or (providers and name not in providers):
            continue
        seen = world.board.lists.get(name)
        now = world.clock.now()
        if seen is None or now - seen[0] > FRESH or seen[0] > now:
            try:
                world.limiter.wait(name, "offers")
                seen = (now, Shelves(provider.find_offers()))
            except ProviderError as error:
                world.board.faults[name] = str(error)
                continue
            world.board.faults.pop(name, None)
            world.board.lists[name] = seen
        found.append(seen[1])
    return found
