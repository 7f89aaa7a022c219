"""The simulated provider inside the process keeps the contract of all providers."""

from typing import Any

import pytest

from providers.simulator.in_process import InProcessCloud
from providers.simulator.virtual_clock import VirtualClock
from tests.providers.contract import PLAIN, Market, ProviderContract


class Half:
    """The middle of all chance."""

    def random(self) -> float:
        return 0.5


class InProcessMarket(Market):
    """The market without a wire, on a virtual clock."""

    def __init__(self) -> None:
        self._clock = VirtualClock(1_800_000_000_000_000)
        self._cloud = InProcessCloud([{"provider": "mock", **PLAIN}], self._clock, Half())
        self.provider = self._cloud.provider

    def put_up(self, *offers: dict[str, Any]) -> None:
        from providers.simulator.offers import read_offers

        self._cloud.market.put_up(read_offers([{"provider": "mock", **offer} for offer in offers]))

    def fault(self, on: str, do: dict[str, Any], **more: Any) -> None:
        self._cloud.fault({"on": on, "do": do, **more})

    def advance(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    def now(self) -> int:
        return self._clock.now()

    def bill(self) -> dict[str, Any]:
        return self._cloud.bill()


@pytest.fixture
def market() -> InProcessMarket:
    """A cloud with one offer."""
    return InProcessMarket()


class TestInProcess(ProviderContract):
    """The contract, without a wire."""
