"""Which markets there are."""

from providers.base import Provider
from providers.clock import Clock
from providers.http import Chance
from providers.mock import MockProvider


def build(mock_url: str, clock: Clock, chance: Chance) -> dict[str, Provider]:
    """Name -> provider, for every market that can be asked; `mock` only where its address is named ("": nowhere)."""
    return {"mock": MockProvider(mock_url, clock, chance)} if mock_url else {}
