"""Which markets there are."""

from typing import Protocol

from providers.base import Provider
from providers.clock import Clock
from providers.http import Chance
from providers.mock import MockProvider


class MarketSettings(Protocol):
    """The settings that name markets."""

    @property
    def mock_url(self) -> str:
        """Root of the simulated cloud, or empty."""


def build(settings: MarketSettings, clock: Clock, chance: Chance) -> dict[str, Provider]:
    """Name -> provider, for every market that can be asked; `mock` only where its address is named."""
    providers: dict[str, Provider] = {}
    if settings.mock_url:
        providers["mock"] = MockProvider(settings.mock_url, clock, chance)
    return providers
