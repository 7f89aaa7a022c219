"""The simulated market's own face: a small REST API under `/mock/v1`, for provider `mock`.

Every request carries `Authorization: Bearer KEY` (any key that is not empty). Bodies are JSON.
Money: decimal strings of USD. Times: RFC 3339 UTC with microseconds. Instants not known: null.

    GET    /mock/v1/offers               200 {"offers": [OFFER, ...]}            what can be rented now
    POST   /mock/v1/machines  ORDER      201 MACHINE, or 200 MACHINE where the token is known already
    GET    /mock/v1/machines?region=R    200 {"machines": [MACHINE, ...]}        without region: all; no ended ones
    GET    /mock/v1/machines/ID          200 MACHINE (also after its end), 404 not known
    DELETE /mock/v1/machines/ID          202 {"id", "state"}; 200 when it is over already; 404 not known

OFFER    id, provider, region, gpu, gpu_count, vram_gb (per GPU), price_per_hour (whole machine, without disk),
         highest_per_hour (spot: the on-demand price), disk_price (USD per GB and hour), traffic_price (USD per GB),
         spot, stop (hard/boot/late/none), trust, reliability, boot_s, capacity, host, labels, token, bills, as_of
ORDER    offer_id, label, token, public_key (one authorized_keys line), disk_gb (whole GB), and where wanted
         boot_text (shell, run as root as the first boot command; stop class boot), stop_at (time; stop class hard),
         image
MACHINE  id, region, label, gpu, gpu_count, spot, state, price_per_hour, disk_price, disk_gb, created_at, ended_at,
         traffic_bytes, preempted (true/false), address {"host", "port", "user"} or null, and cost where the market
         tells bills
state    booting, running, terminating (delete accepted, still billed), stopped (only the disk is billed), gone

Errors are {"error": {"code", "text"}}: 400 wrong_request, 401 unauthorized, 402 balance_empty, 404 not_found,
409 no_capacity. On a machine `poweroff` gives it back. Read lag 30 s, proof gap 2 s, ghost window 300 s,
all in cloud seconds.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from jobs.money import parse_usd, usd
from providers.simulator.bill import machine_cost, scaled
from providers.simulator.cloud_clock import parse_rfc3339, rfc3339
from providers.simulator.face import Answer, Ask, Request
from providers.simulator.machine import GONE, Machine, MarketOrder
from providers.simulator.market import Market, SoldOutError, UnknownMachineError
from providers.simulator.offers import MarketOffer

_STATUS: Final = {
    "wrong_request": 400,
    "unauthorized": 401,
    "balance_empty": 402,
    "not_found": 404,
    "no_capacity": 409,
}


class MockFace:
    """Reads requests of `/mock/v1`, does them on a market, and writes the answers."""

    name: Final = "mock"
    prefix: Final = "/mock/v1"

    def read(self, request: Request) -> Ask | None:
        """What the request asks for, or None where there is no such call."""
        parts = [part for part in request.path.removeprefix(self.prefix).split("/") if part]
        match request.method, parts:
            case "GET", ["offers"]:
                ask = Ask("offers")
            case "GET", ["machines"]:
                ask = Ask("list", region=request.query.get("region") or None)
            case "GET", ["machines", machine_id]:
                ask = Ask("get", machine_id=machine_id)
            case "DELETE", ["machines", machine_id]:
                ask = Ask("delete", machine_id=machine_id)
            case "POST", ["machines"]:
                ask = self._read_order(request)
            case _:
                return None
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            return Ask(ask.call, wrong=self.error("unauthorized", "send a bearer key"))
        return ask

    def _read_order(self, request: Request) -> Ask:
        try:
            return Ask("create", order=read_order(json.loads(request.body or b"null")))
        except ValueError as error:
            return Ask("create", wrong=self.error("wrong_request", str(error)))

    def error(self, code: str, text: str = "") -> Answer:
        """An error in this face's form."""
        return Answer(_STATUS.get(code, 500), {"error": {"code": code, "text": text or code.replace("_", " ")}})

    def act(self, ask: Ask, market: Market, deeds: Mapping[str, Any]) -> Answer:
        """Do what is asked; deeds are those of the rule that hurts this call."""
        try:
            return self._act(ask, market, deeds)
        except SoldOutError as error:
            return self.error("no_capacity", f"offer {error} is not to be had")
        except UnknownMachineError as error:
            return self.error("not_found", f"there is no machine {error}")

    def _act(self, ask: Ask, market: Market, deeds: Mapping[str, Any]) -> Answer:
        now = market.now()
        if ask.call == "offers":
            return Answer(200, {"offers": [show_offer(offer, now) for offer in market.for_sale(self.name)]})
        if ask.call == "list":
            return Answer(200, {"machines": [show_machine(m, market) for m in market.seen(self.name, ask.region)]})
        if ask.call == "create":
            assert ask.order is not None
            machine, new = market.rent(self.name, ask.order, deeds)
            return Answer(201 if new else 200, show_machine(machine, market))
        machine = market.find(self.name, ask.machine_id, hidden_too=ask.call == "delete")
        if ask.call == "get":
            return Answer(200, show_machine(machine, market))
        over = machine.ended_at is not None
        market.release(machine, deeds.get("still_alive_s", 0), deeds.get("reborn"))
        return Answer(200 if over else 202, {"id": machine.id, "state": _word(machine, now)})

    def entries(self, ask: Ask, body: Any) -> list[dict[str, Any]]:
        """The offers or machines inside an answer's body, to be changed in place."""
        if ask.call in ("offers", "list"):
            return list(body["offers" if ask.call == "offers" else "machines"])
        return [body]

    def keep_entries(self, _ask: Ask, body: Any, kept: list[dict[str, Any]]) -> None:
        """Leave only `kept` of the offers inside an answer's body."""
        body["offers"] = kept

    def emptied(self, ask: Ask) -> object:
        """A well-formed answer with nothing in it."""
        return {"offers": []} if ask.call == "offers" else {"machines": []} if ask.call == "list" else {}

    def set_state(self, entry: dict[str, Any], word: str) -> None:
        """Say another state."""
        entry["state"] = word

    def scale_price(self, entry: dict[str, Any], factor: float) -> None:
        """Say another price."""
        try:
            entry["price_per_hour"] = usd(_scaled_usd(entry["price_per_hour"], factor))
        except (KeyError, ValueError):
            return

    def ghost(self, ask: Ask, market: Market) -> Answer:
        """A machine that is not there and never will be."""
        order = ask.order
        assert order is not None
        offer = market.offers.get(order.offer_id)
        if offer is None:
            return self.error("no_capacity", f"offer {order.offer_id} is not to be had")
        body = {
            "id": f"ghost-{market.now():x}",
            "region": offer.region,
            "label": order.label,
            "gpu": offer.gpu,
            "gpu_count": offer.gpu_count,
            "spot": offer.spot,
            "state": "booting",
            "price_per_hour": usd(offer.per_hour),
            "disk_price": usd(offer.disk_price),
            "disk_gb": order.disk_gb,
            "created_at": rfc3339(market.now()),
            "ended_at": None,
            "traffic_bytes": 0,
            "preempted": False,
            "address": None,
        }
        return Answer(201, body)


def _scaled_usd(price: str, factor: float) -> int:
    """Micro-dollars of a decimal string times `factor`, rounded up. Raises ValueError."""
    return scaled(parse_usd(price), factor)


def read_order(body: object) -> MarketOrder:
    """An ORDER. Raises ValueError with the reason."""
    known = ("offer_id", "label", "token", "public_key", "disk_gb", "boot_text", "stop_at", "image")
    if not isinstance(body, Mapping):
        raise ValueError("the body is an object")  # noqa: TRY004
    for name, value in body.items():
        if name not in known:
            raise ValueError(f"unknown field {name!r}; there are: {', '.join(known)}")
        if name != "disk_gb" and value is not None and not isinstance(value, str):
            raise ValueError(f"{name} is a text")
    disk_gb = body.get("disk_gb") or 0
    if isinstance(disk_gb, bool) or not isinstance(disk_gb, int) or disk_gb < 0:
        raise ValueError("disk_gb is a whole number")
    if not body.get("offer_id"):
        raise ValueError("offer_id is needed")
    texts = {name: body.get(name) or "" for name in ("offer_id", "label", "token", "public_key", "boot_text", "image")}
    stop_at = body.get("stop_at")
    return MarketOrder(**texts, disk_gb=disk_gb, stop_at=None if stop_at is None else parse_rfc3339(stop_at))


def show_offer(offer: MarketOffer, now: int) -> dict[str, object]:
    """An OFFER."""
    fields = offer.fields()
    price = fields["price_per_hour"] if offer.odd_price and not offer.spot else usd(offer.per_hour)
    capabilities = fields.pop("capabilities")
    assert isinstance(capabilities, dict)
    highest = usd(max(offer.price_per_hour, offer.per_hour))
    return {**fields, **capabilities, "price_per_hour": price, "highest_per_hour": highest, "as_of": rfc3339(now)}


def show_machine(machine: Machine, market: Market) -> dict[str, object]:
    """A MACHINE."""
    now = market.now()
    access = market.access(machine)
    shown: dict[str, object] = {
        "id": machine.id,
        "region": machine.region,
        "label": machine.label,
        "gpu": machine.gpu,
        "gpu_count": machine.gpu_count,
        "spot": machine.spot,
        "state": _word(machine, now),
        "price_per_hour": usd(machine.per_hour),
        "disk_price": usd(machine.disk_per_gb_hour),
        "disk_gb": machine.disk_gb,
        "created_at": rfc3339(machine.created_at),
        "ended_at": None if machine.ended_at is None else rfc3339(machine.ended_at),
        "traffic_bytes": machine.traffic_bytes,
        "preempted": machine.preempted,
        "address": None if access is None else {"host": access.host, "port": access.port, "user": access.user},
    }
    if machine.bills:
        shown["cost"] = usd(machine_cost(machine, now))
    return shown


def _word(machine: Machine, now: int) -> str:
    state = machine.state(now)
    return "terminating" if machine.deleting and state != GONE else state
