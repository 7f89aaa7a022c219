"""What the simulated market sells: offers as values, read from the form of `POST /_cloud/market`."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Final

from jobs.money import parse_usd, usd

STOP_CLASSES: Final = ("hard", "boot", "late", "none")
_CAPABILITIES: Final = ("stop", "labels", "token", "bills")
_NEEDED: Final = ("provider", "gpu", "vram_gb", "price_per_hour")
FIELDS: Final = (
    *_NEEDED,
    *("gpu_count", "spot_price", "capacity", "boot_s", "disk_price", "traffic_price"),
    *("region", "reliability", "trust", "capabilities", "host"),
)


@dataclass(frozen=True)
class MarketOffer:
    """One kind of machine that can be rented. Money: micro-dollars.

    id: the same as long as what is sold is the same (a new price keeps it). stock: the id whose capacity
    it shares; the spot variant of an offer has an id of its own and the same stock.
    per_hour: what a machine of it costs. price_per_hour, spot_price: as the offer was put up.
    told_price: what the faces show where the offer was put up with a price that is none (-1, null, NaN).
    stop: hard, boot, late or none. labels, token, bills: what the market can do for its machines.
    """

    id: str
    stock: str
    provider: str
    region: str
    gpu: str
    gpu_count: int
    vram_gb: float
    price_per_hour: int
    per_hour: int
    spot: bool = False
    spot_price: int | None = None
    told_price: object = None
    odd_price: bool = False
    capacity: int = 1000
    boot_s: float = 1.0
    disk_price: int = 0
    traffic_price: int = 0
    reliability: float = 0.99
    trust: str = "verified"
    stop: str = "boot"
    labels: bool = True
    token: bool = True
    bills: bool = False
    host: str = ""

    def fields(self) -> dict[str, object]:
        """The offer in the words of `POST /_cloud/market`, and `id` and `spot`: what a rule's match looks at."""
        return {
            "id": self.id,
            "provider": self.provider,
            "gpu": self.gpu,
            "vram_gb": self.vram_gb,
            "gpu_count": self.gpu_count,
            "price_per_hour": self.told_price if self.odd_price else usd(self.price_per_hour),
            "spot": self.spot,
            "spot_price": None if self.spot_price is None else usd(self.spot_price),
            "capacity": self.capacity,
            "boot_s": self.boot_s,
            "disk_price": usd(self.disk_price),
            "traffic_price": usd(self.traffic_price),
            "region": self.region,
            "reliability": self.reliability,
            "trust": self.trust,
            "capabilities": {"stop": self.stop, "labels": self.labels, "token": self.token, "bills": self.bills},
            "host": self.host,
        }


def read_offers(entries: object) -> list[MarketOffer]:
    """The offers of a list of entries, each followed by its spot variant. Raises ValueError with the reason."""
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise ValueError("offers: write a list of offers")  # noqa: TRY004
    found: list[MarketOffer] = []
    names: dict[str, int] = {}
    for number, entry in enumerate(entries):
        try:
            offer = _read(entry)
        except (ValueError, TypeError, OverflowError, InvalidOperation) as error:
            raise ValueError(f"offers[{number}]: {error}") from None
        names[offer.id] = names.get(offer.id, 0) + 1
        name = offer.id if names[offer.id] == 1 else f"{offer.id}-{names[offer.id]}"
        offer = replace(offer, id=name, stock=name, host=offer.host or name)
        found.append(offer)
        if offer.spot_price is not None:
            found.append(replace(offer, id=f"{name}-spot", spot=True, per_hour=offer.spot_price))
    return found


def _read(entry: object) -> MarketOffer:
    if not isinstance(entry, Mapping):
        raise TypeError("an offer is an object with at least provider, gpu, vram_gb and price_per_hour")
    for name in entry:
        if name not in FIELDS:
            raise ValueError(f"unknown field {name!r}; there are: {', '.join(FIELDS)}")
    for name in _NEEDED:
        if name not in entry:
            raise ValueError(f"{name} is needed")
    capabilities = entry.get("capabilities") or {}
    for name in capabilities:
        if name not in _CAPABILITIES:
            raise ValueError(f"unknown capability {name!r}; there are: {', '.join(_CAPABILITIES)}")
    stop = capabilities.get("stop", "boot")
    if stop not in STOP_CLASSES:
        raise ValueError(f"stop is {stop!r}; write one of {', '.join(STOP_CLASSES)}")
    price, odd = _price_or_odd(entry["price_per_hour"])
    spot_price = entry.get("spot_price")
    region, count = str(entry.get("region", "r1")), int(entry.get("gpu_count", 1))
    trust, vram_gb = str(entry.get("trust", "verified")), float(entry["vram_gb"])
    sold = f"{entry['provider']}/{entry['gpu']}/{vram_gb}/{count}/{region}/{trust}/{entry.get('host', '')}"
    name = "o-" + hashlib.sha256(sold.encode()).hexdigest()[:12]
    return MarketOffer(
        id=name,
        stock=name,
        provider=str(entry["provider"]),
        region=region,
        gpu=str(entry["gpu"]),
        gpu_count=count,
        vram_gb=vram_gb,
        price_per_hour=price,
        per_hour=price,
        spot_price=None if spot_price is None else _price(spot_price),
        told_price=entry["price_per_hour"] if odd else None,
        odd_price=odd,
        capacity=int(entry.get("capacity", 1000)),
        boot_s=float(entry.get("boot_s", 1)),
        disk_price=_price(entry.get("disk_price", 0)),
        traffic_price=_price(entry.get("traffic_price", 0)),
        reliability=float(entry.get("reliability", 0.99)),
        trust=trust,
        stop=stop,
        labels=bool(capabilities.get("labels", True)),
        token=bool(capabilities.get("token", True)),
        bills=bool(capabilities.get("bills", False)),
        host=str(entry.get("host", "")),
    )


def _price(value: object) -> int:
    """Micro-dollars, never below zero. A float's text is meant, so 0.1 is 0.1."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not an amount of dollars; write for example 0.34")  # noqa: TRY004
    price = parse_usd(format(Decimal(str(value)), "f"))
    if price < 0:
        raise ValueError(f"{value!r} is less than nothing")
    return price


def _price_or_odd(value: object) -> tuple[int, bool]:
    """(price, whether it is none at all): such an offer is shown as it was put up and costs nothing."""
    try:
        return _price(value), False
    except (ValueError, InvalidOperation):
        return 0, True
