"""Provider `mock` over the wire keeps the contract of all providers."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from providers.answers import instant
from providers.clock import CloudClock, RealClock
from providers.registry import build
from providers.simulator.cloud_clock import CloudClock as OwnClock
from providers.simulator.server import CloudServer, open_cloud
from tests.providers.contract import PLAIN, AnswerContract, Market, ProviderContract
from tests.providers.simulator.stand_in import StandInHosts
from tests.services import wait_until


class Half:
    """The middle of all chance."""

    def random(self) -> float:
        return 0.5


class WireMarket(Market):
    """The simulated cloud behind a real socket, its clock standing still."""

    def __init__(self, url: str) -> None:
        self._control = httpx.Client(base_url=f"{url}/_cloud", timeout=20)
        self.clock = CloudClock(f"{url}/_cloud/clock")
        self.provider = build(url, self.clock, Half())["mock"]

    def put_up(self, *offers: dict[str, Any]) -> None:
        self._post("/market", {"offers": [{"provider": "mock", **offer} for offer in offers]})

    def fault(self, on: str, do: dict[str, Any], **more: Any) -> None:
        self._post("/faults", {"rules": [{"on": on, "do": do, **more}]})

    def advance(self, seconds: float) -> None:
        self._post("/clock", {"advance_s": seconds})
        now = instant(self._control.get("/clock").json()["now"])
        wait_until(lambda: self.now() == now, "the clock is asked again")

    def now(self) -> int:
        return self.clock.now()

    def bill(self) -> dict[str, Any]:
        return self._control.get("/bill").json()

    def close(self) -> None:
        self._control.close()

    def _post(self, path: str, body: Any) -> None:
        answer = self._control.post(path, json=body)
        assert answer.status_code == 200, answer.text


@pytest.fixture
def market(tmp_path: Path) -> Iterator[WireMarket]:
    """A cloud with one offer, whose machines only pretend."""
    cloud = open_cloud(tmp_path, OwnClock(tmp_path / "clock", RealClock().now, 0), StandInHosts(), None, None)
    cloud.put_up([{"provider": "mock", **PLAIN}])
    server = CloudServer(0, cloud)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    wire = WireMarket(server.url)
    yield wire
    wire.close()
    cloud.stop()
    server.shutdown()
    thread.join()
    server.server_close()
    cloud.close()


class TestMockOverTheWire(ProviderContract, AnswerContract):
    """The whole contract, over HTTP."""


def test_without_an_address_there_is_no_mock() -> None:
    """`mock` is used only where it is named."""
    assert build("", RealClock(), Half()) == {}
