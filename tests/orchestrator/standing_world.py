"""A world that stands still: a real database, a clock moved by hand, markets made of lists."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobs.money import MINUTE, SECOND
from orchestrator.blobs import FolderBlobs
from orchestrator.db.engine import open_database
from orchestrator.db.models import Job, Machine, Reservation
from orchestrator.settings import Settings
from orchestrator.world import World
from providers.base import Facts, Listing, Offer, Order, Provider, ProviderError, Sighting
from providers.shell import Access, Shell, ShellKey


def at(text: str) -> int:
    """The instant of a UTC time."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


@dataclass
class HandClock:
    """Time that a test moves."""

    time: int = at("2026-12-10T12:00:00")

    def now(self) -> int:
        """The instant that the test set."""
        return self.time

    def monotonic(self) -> float:
        """Seconds of the same time."""
        return self.time / SECOND

    def sleep(self, seconds: float) -> None:
        """Time passes at once."""
        self.time += round(seconds * SECOND)


class OpenLimiter:
    """No limit."""

    def wait(self, provider: str, kind: str) -> None:
        """At once."""


@dataclass
class ListedMarket(Provider):
    """A market that shows what the test put into it. fault: raised by every question."""

    name: str = "mock"
    simulated: bool = True
    machines: list[Sighting] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    bills: dict[str, int] = field(default_factory=dict)
    complete: bool = True
    fault: ProviderError | None = None

    def __post_init__(self) -> None:
        self.facts = Facts(self.name, self.simulated, read_lag_s=0, gone_gap_s=0, ghost_window_s=0)

    def _answer(self) -> None:
        if self.fault:
            raise self.fault

    def find_offers(self) -> list[Offer]:
        """The offers of the test."""
        self._answer()
        return self.offers

    def rent(self, order: Order, send_by: int) -> Sighting:
        """Never."""
        raise NotImplementedError

    def list_machines(self, region: str) -> Listing:
        """The machines of the test."""
        self._answer()
        return Listing(tuple(self.machines), self.complete)

    def get(self, region: str, machine_id: str) -> Sighting:
        """Never."""
        raise NotImplementedError

    def release(self, region: str, machine_id: str) -> None:
        """Never."""
        raise NotImplementedError

    def connect(self, access: Access, key: ShellKey) -> Shell:
        """Never."""
        raise NotImplementedError

    def bill(self, region: str, machine_id: str) -> int | None:
        """The bill of the test."""
        self._answer()
        return self.bills.get(machine_id)


def make_world(home: Path, markets: Sequence[Provider] = (), **settings: Any) -> World:
    """A world over a fresh database in `home`; only what views touch is there."""
    facts: dict[str, Any] = {
        "home": home,
        "database_url": f"sqlite:///{home}/gpupoor.db",
        "blobs_url": str(home / "blobs"),
    }
    return World(
        clock=HandClock(),
        chance=None,
        ids=None,
        settings=Settings(**(facts | settings)),
        installation="inst0001",
        providers={market.facts.name: market for market in markets},
        database=open_database(facts["database_url"]),
        shells=None,
        blobs=FolderBlobs(home / "blobs"),
        vault=None,  # type: ignore[arg-type]
        doorbell=None,
        limiter=OpenLimiter(),  # type: ignore[arg-type]
    )


def make_job(id: str = "job1", **changes: Any) -> Job:
    """A running job's row."""
    facts: dict[str, Any] = {
        "id": id,
        "handle": f"{id}-0000",
        "name": id,
        "project": "thesis",
        "user": "ann",
        "simulated": True,
        "spec": "{}",
        "spec_hash": "",
        "budget": 5_000_000,
        "state": "running",
        "phase": "run",
        "submitted_at": 0,
    }
    return Job(**{**facts, **changes})


def make_machine(job: str = "job1", **changes: Any) -> Machine:
    """The row of a live machine at 0.40 USD per hour, rented half an hour ago and to be gone in another."""
    now = HandClock().time
    facts: dict[str, Any] = {
        "id": "m1",
        "job": job,
        "attempt": 1,
        "simulated": True,
        "provider": "mock",
        "region": "",
        "offer": {},
        "offer_reason": "",
        "label": "gp-inst0001-0123456789-1-abcdef-1796905800",
        "token": "t1",
        "provider_id": "i-1",
        "spot": False,
        "gpu": "RTX 4090",
        "gpu_count": 1,
        "price": {"per_hour": 400_000},
        "disk_gb": 20,
        "price_ceiling": 400_000,
        "stop_class": "boot",
        "send_by": 0,
        "sent_at": now - 30 * MINUTE,
        "stop_at": now + 30 * MINUTE,
        "fuse_at": 0,
        "soft_stop_at": 0,
        "ssh_public": "",
        "state": "alive",
    }
    return Machine(**{**facts, **changes})


def make_sighting(id: str = "i-1", **changes: Any) -> Sighting:
    """What the market shows of `make_machine`."""
    facts: dict[str, Any] = {
        "id": id,
        "provider": "mock",
        "region": "",
        "label": make_machine().label,
        "word": "running",
        "bills": True,
        "ready": True,
        "gpu": "RTX 4090",
    }
    return Sighting(**{**facts, **changes})


def store(world: World, *rows: Any) -> None:
    """Write rows, in order."""
    with world.database.write() as session:
        for row in rows:
            session.add(row)
            session.flush()


def hold(machine: str = "m1", total: int = 400_000) -> Reservation:
    """The open reservation of a machine."""
    return Reservation(machine=machine, total=total, parts=[])
