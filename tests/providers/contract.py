"""What every provider must do, whatever market lies behind it: one suite, run by each in its own test file."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import pytest

from jobs.money import SECOND
from providers.base import Gone, NoCapacity, Offer, Order, Provider, Refused, Sighting, Unavailable, Uncertain
from providers.keys import make_key_pair

LATER = 2**60
KEY = make_key_pair("contract")
PLAIN = {"gpu": "RTX-4090", "vram_gb": 24, "price_per_hour": "0.36"}


class Market(ABC):
    """A provider with the market behind it, to be hurt and looked at."""

    provider: Provider

    @abstractmethod
    def put_up(self, *offers: dict[str, Any]) -> None:
        """Replace the offers (words of the simulated cloud's control API, without `provider`)."""

    @abstractmethod
    def fault(self, on: str, do: dict[str, Any], **more: Any) -> None:
        """Replace the fault rules by one."""

    @abstractmethod
    def advance(self, seconds: float) -> None:
        """Let the cloud's time pass."""

    @abstractmethod
    def now(self) -> int:
        """The cloud's time."""

    @abstractmethod
    def bill(self) -> dict[str, Any]:
        """The market's own books."""


def order(offer: Offer, label: str = "gp-a", token: str = "t-1", **more: Any) -> Order:
    """A create call."""
    return Order(offer, label, token, stop_at=LATER, public_key=KEY.public, disk_gb=10, **more)


def rent(market: Market, label: str = "gp-a", token: str = "t-1") -> Sighting:
    """A machine of the first offer."""
    return market.provider.rent(order(market.provider.find_offers()[0], label, token), LATER)


class ProviderContract:
    """Inherit, and give the fixture `market`."""

    def test_offers_come_with_exact_prices(self, market: Market) -> None:
        """Money is whole micro-dollars; a spot offer names the on-demand price as the highest."""
        market.put_up({**PLAIN, "price_per_hour": "0.340001", "spot_price": "0.1", "disk_price": "0.0001"})
        plain, spot = sorted(market.provider.find_offers(), key=lambda offer: offer.spot)
        assert (plain.price.per_hour, plain.price.highest_per_hour, plain.spot) == (340_001, 340_001, False)
        assert (spot.price.per_hour, spot.price.highest_per_hour, spot.spot) == (100_000, 340_001, True)
        assert plain.price.disk_per_gb_hour == 100
        assert (plain.provider, plain.gpu, plain.vram_gb, plain.region) == ("mock", "RTX-4090", 24.0, "r1")

    @pytest.mark.parametrize("price", [-1, 0, None, "NaN", "free", "-0.3", True])
    def test_offers_without_a_sane_price_are_left_out(self, market: Market, price: object) -> None:
        """A price that is negative, zero, missing or no number is never offered."""
        market.put_up({**PLAIN, "price_per_hour": price}, {**PLAIN, "gpu": "A100"})
        assert [offer.gpu for offer in market.provider.find_offers()] == ["A100"]

    def test_a_life(self, market: Market) -> None:
        """Rented, ready, released, gone: get and list agree, and the bill's times are told."""
        rented = rent(market)
        assert (rented.label, rented.bills, rented.per_hour) == ("gp-a", True, 360_000)
        market.advance(5)
        seen = market.provider.get("r1", rented.id)
        assert (seen.ready, seen.ended, seen.word) == (True, False, "running")
        assert seen.access is not None and seen.started_at is not None
        market.provider.release("r1", rented.id)
        market.advance(5)
        over = market.provider.get("r1", rented.id)
        assert (over.ended, over.bills, over.ready) == (True, False, False)
        assert over.started_at == seen.started_at
        assert over.ended_at is not None and over.ended_at > over.started_at
        assert over.traffic_bytes is not None
        assert market.provider.list_machines("").machines == ()
        assert market.bill()["alive"] == 0

    def test_one_token_makes_one_machine(self, market: Market) -> None:
        """A create that is repeated with its token gives the same machine."""
        assert rent(market).id == rent(market).id
        assert market.bill()["alive"] == 1

    def test_a_list_is_complete_and_dated(self, market: Market) -> None:
        """All regions or one; taken no later than the answer came."""
        ids = {rent(market, f"gp-{n}", f"t-{n}").id for n in range(3)}
        for region, expected in (("", ids), ("r1", ids), ("r2", set())):
            before = market.now()
            listing = market.provider.list_machines(region)
            assert listing.complete
            assert before <= listing.taken_at <= market.now()
            assert {machine.id for machine in listing.machines} == expected

    def test_the_unknown_is_gone_and_its_release_silent(self, market: Market) -> None:
        """get raises Gone; release of a machine that nobody knows, or twice, says nothing."""
        with pytest.raises(Gone):
            market.provider.get("r1", "no such/machine?")
        market.provider.release("r1", "no such/machine?")
        machine = rent(market)
        market.provider.release("r1", machine.id)
        market.provider.release("r1", machine.id)

    def test_too_late_is_unavailable_and_makes_nothing(self, market: Market) -> None:
        """After send_by nothing is sent."""
        offer = market.provider.find_offers()[0]
        with pytest.raises(Unavailable):
            market.provider.rent(order(offer), market.now() - SECOND)
        assert market.bill()["machines"] == []

    def test_sold_out_and_unknown_offers_are_no_capacity(self, market: Market) -> None:
        """Nothing was made, another offer may do."""
        offer = market.provider.find_offers()[0]
        market.fault("create", {"no_capacity": True})
        for wanted in (offer, replace(offer, id="sold-long-ago")):
            with pytest.raises(NoCapacity):
                market.provider.rent(order(wanted), LATER)
        assert market.bill()["machines"] == []

    @pytest.mark.parametrize("deed", [{"drop_answer": True}, {"done_then_status": 500}, {"null": True}])
    def test_a_lost_create_answer_is_uncertain_and_found_by_label(self, market: Market, deed: dict[str, Any]) -> None:
        """The machine is there although the answer is not; the list names it."""
        offer = market.provider.find_offers()[0]
        market.fault("create", deed)
        with pytest.raises(Uncertain):
            market.provider.rent(order(offer), LATER)
        assert [machine.label for machine in market.provider.list_machines("").machines] == ["gp-a"]

    def test_a_refused_connection_made_nothing(self, market: Market) -> None:
        """A provider that is down leaves no doubt on reads, and none of its calls succeeds."""
        market.fault("list", {"status": 503}, times=0)
        with pytest.raises(Unavailable):
            market.provider.list_machines("")

    def test_a_wait_is_handed_on(self, market: Market) -> None:
        """429 with Retry-After on a create: Unavailable with the seconds, nothing made."""
        offer = market.provider.find_offers()[0]
        market.fault("create", {"status": 429, "headers": {"Retry-After": "40"}})
        with pytest.raises(Unavailable) as caught:
            market.provider.rent(order(offer), LATER)
        assert caught.value.retry_after_s == 40
        assert market.bill()["machines"] == []

    def test_key_and_balance_are_refused(self, market: Market) -> None:
        """A refused key is no empty list; an empty balance says so."""
        rent(market)
        market.fault("list", {"unauthorized": True})
        with pytest.raises(Refused) as caught:
            market.provider.list_machines("")
        assert not caught.value.balance
        offer = market.provider.find_offers()[0]
        market.fault("create", {"balance_empty": True})
        with pytest.raises(Refused) as caught:
            market.provider.rent(order(offer, "gp-b", "t-2"), LATER)
        assert caught.value.balance

    def test_unknown_state_words_are_alive_and_billed(self, market: Market) -> None:
        """A word that nobody knows costs money until proved otherwise."""
        machine = rent(market)
        for on, look in (
            ("get", lambda: market.provider.get("r1", machine.id)),
            ("list", lambda: market.provider.list_machines("").machines[0]),
        ):
            market.fault(on, {"states": ["hibernating"]}, times=0)
            seen = look()
            assert (seen.word, seen.bills, seen.ended, seen.ready) == ("hibernating", True, False, False)


class AnswerContract:
    """For providers that read answers from a wire: what is missing or garbled in them."""

    def test_missing_fields_lose_no_machine(self, market: Market) -> None:
        """A machine without address, price and state is still a machine."""
        machine = rent(market)
        market.advance(5)
        market.fault("get", {"drop_fields": ["address", "price_per_hour", "state", "created_at"]}, times=0)
        seen = market.provider.get("r1", machine.id)
        assert (seen.id, seen.bills, seen.ready, seen.per_hour) == (machine.id, True, False, None)
        market.provider.release("r1", machine.id)
        assert market.bill()["alive"] == 0

    @pytest.mark.parametrize("field", ["id", "label"])
    def test_a_list_with_a_nameless_machine_proves_nothing(self, market: Market, field: str) -> None:
        """A list in which one machine cannot be told from another is not complete."""
        rent(market)
        market.fault("list", {"drop_fields": [field]}, times=0)
        assert not market.provider.list_machines("").complete

    @pytest.mark.parametrize("body", ["", "null", "{}", "[]", '{"machines": null}', "<html>", '{"machines": {}}'])
    def test_a_garbled_list_is_unavailable(self, market: Market, body: str) -> None:
        """A list that is none is never an empty one."""
        rent(market)
        market.fault("list", {"status": 200, "body": body}, times=0)
        with pytest.raises(Unavailable):
            market.provider.list_machines("")
