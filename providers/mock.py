"""Provider `mock`: the simulated cloud over HTTP, through the face described in providers/simulator/face_mock.py."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from providers.answers import count, entry, instant, number, price, price_or_free, rfc3339, text
from providers.base import (
    Facts,
    Gone,
    Listing,
    NoCapacity,
    Offer,
    Order,
    PriceParts,
    Provider,
    ProviderError,
    Sighting,
    Unavailable,
    Uncertain,
)
from providers.clock import Clock
from providers.http import JSON, Chance, Http, HttpLimits
from providers.shell import Access, Shell, ShellKey

_MACHINES: Final = "/mock/v1/machines"
_OVER: Final = "gone"
_STOP_CLASSES: Final = ("hard", "boot", "late", "none")
_TRUSTS: Final = ("datacenter", "verified", "any")


class MockProvider(Provider):
    """The simulated cloud at `url`."""

    facts = Facts(
        name="mock",
        simulated=True,
        read_lag_s=30,
        gone_gap_s=2,
        ghost_window_s=300,
        container=True,
        billed_words=("booting", "running", "terminating", "stopped"),
        destroy_text="shutdown -h now || poweroff",
    )

    def __init__(self, url: str, clock: Clock, chance: Chance, limits: HttpLimits | None = None) -> None:
        self._clock = clock
        self._http = Http(
            "mock", url, lambda: {"Authorization": "Bearer no-key-needed"}, clock, chance, limits or HttpLimits()
        )

    def find_offers(self) -> list[Offer]:
        """All offers with whole and sensible figures; the others are left out."""
        found = entry(self._http.read("/mock/v1/offers")).get("offers")
        if not isinstance(found, list):
            raise Unavailable("mock: the answer holds no list of offers")
        offers = (_read_offer(entry(one), self._clock.now()) for one in found)
        return [offer for offer in offers if offer is not None]

    def rent(self, order: Order, send_by: int) -> Sighting:
        """Create a machine; the token makes a second call harmless."""
        body = {
            "offer_id": order.offer.id,
            "label": order.label,
            "token": order.token,
            "public_key": order.public_key,
            "disk_gb": order.disk_gb,
            "image": order.image or None,
            "boot_text": order.boot_text or None,
            "stop_at": rfc3339(order.stop_at) if order.offer.stop_class == "hard" else None,
        }
        wanted = {name: value for name, value in body.items() if value is not None}
        # An offer that the market does not know is one that was sold meanwhile.
        errors: Mapping[int, Callable[[str], ProviderError]] = {409: NoCapacity, 404: NoCapacity}
        sighting = _read_machine(self._http.create(_MACHINES, wanted, send_by, errors), order.offer.region)
        if sighting is None:
            raise Uncertain("mock: the create was accepted, but its answer names no machine")
        return sighting

    def list_machines(self, region: str) -> Listing:
        """All machines that are not over; complete only where every entry can be told apart by id and label."""
        taken_at = self._clock.now()
        answer = self._http.read(_MACHINES, {"region": region} if region else None)
        found = entry(answer).get("machines")
        if not isinstance(found, list):
            raise Unavailable("mock: the answer holds no list of machines")
        machines = [_read_machine(one, region) for one in found]
        named = all(isinstance(entry(one).get("label"), str) for one in found)
        seen = tuple(machine for machine in machines if machine is not None)
        return Listing(seen, complete=named and len(seen) == len(found), taken_at=taken_at)

    def get(self, region: str, machine_id: str) -> Sighting:
        """One machine, also after its end. Raises Gone where it is not known."""
        sighting = _read_machine(self._http.read(_path(machine_id)), region)
        if sighting is None or sighting.id != machine_id:
            raise Unavailable(f"mock: the answer does not tell of machine {machine_id}")
        return sighting

    def release(self, region: str, machine_id: str) -> None:
        """Give it back; silent where it is gone already."""
        try:
            self._http.delete(_path(machine_id))
        except Gone:
            return

    def connect(self, access: Access, key: ShellKey) -> Shell:
        """A shell over SSH."""
        from providers.ssh import connect

        return connect(access, key, clock=self._clock)

    def bill(self, region: str, machine_id: str) -> int | None:
        """What the market says the machine cost, where it tells bills."""
        try:
            return price_or_free(entry(self._http.read(_path(machine_id))).get("cost"))
        except Gone:
            return None


def _path(machine_id: str) -> str:
    return f"{_MACHINES}/{quote(machine_id, safe='')}"


def _read_offer(said: Mapping[str, Any], now: int) -> Offer | None:
    """None where a figure is missing without which its cost or its use cannot be known."""
    name, gpu, gpus = text(said.get("id")), text(said.get("gpu")), count(said.get("gpu_count"))
    per_hour, vram_gb, spot = price(said.get("price_per_hour")), number(said.get("vram_gb")), said.get("spot")
    disk, traffic = price_or_free(said.get("disk_price")), price_or_free(said.get("traffic_price"))
    highest = price(said.get("highest_per_hour")) if spot else per_hour
    if name is None or gpu is None or gpus is None or per_hour is None or highest is None:
        return None
    if vram_gb is None or vram_gb <= 0 or disk is None or traffic is None or not isinstance(spot, bool):
        return None
    stop, trust = said.get("stop"), said.get("trust")
    capacity, reliability, boot_s = (number(said.get(word)) for word in ("capacity", "reliability", "boot_s"))
    if capacity is not None and capacity < 1:
        return None
    return Offer(
        provider="mock",
        id=name,
        region=text(said.get("region")) or "",
        gpu=gpu,
        gpu_count=gpus,
        vram_gb=float(vram_gb),
        price=PriceParts(per_hour, disk, traffic, highest_per_hour=max(highest, per_hour)),
        spot=spot,
        # What is not known is taken at its worst.
        stop_class=stop if stop in _STOP_CLASSES else "none",
        trust=trust if trust in _TRUSTS else "any",
        reliability=float(reliability) if reliability is not None and 0 <= reliability <= 1 else 0.0,
        boot_s=float(boot_s) if boot_s is not None and boot_s >= 0 else Offer.boot_s,
        capacity=None if capacity is None else int(capacity),
        host=text(said.get("host")) or name,
        as_of=instant(said.get("as_of")) or now,
    )


def _read_machine(value: JSON, region: str) -> Sighting | None:
    """None without an id. Whatever else is missing: it lives, it is billed, and it is not ready."""
    said = entry(value)
    name = text(said.get("id"))
    if name is None:
        return None
    word = text(said.get("state")) or "not told"
    access = _read_address(entry(said.get("address")))
    preempted, moved = said.get("preempted"), number(said.get("traffic_bytes"))
    return Sighting(
        id=name,
        provider="mock",
        region=text(said.get("region")) or region,
        label=text(said.get("label")) or "",
        word=word,
        bills=word != _OVER,
        ready=word == "running" and access is not None,
        ended=word == _OVER,
        gpu=text(said.get("gpu")) or "",
        gpu_count=count(said.get("gpu_count")) or 1,
        spot=said.get("spot") is True,
        per_hour=price(said.get("price_per_hour")),
        started_at=instant(said.get("created_at")),
        ended_at=instant(said.get("ended_at")),
        access=access,
        traffic_bytes=None if moved is None or moved < 0 else int(moved),
        preempted=preempted if isinstance(preempted, bool) else None,
    )


def _read_address(said: Mapping[str, Any]) -> Access | None:
    host, port = text(said.get("host")), count(said.get("port"))
    if host is None or port is None or port > 65535:
        return None
    return Access(host, port, text(said.get("user")) or "root")
