"""A standing world with everything that submit and cancel touch: ids, a vault, blobs and a doorbell."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jobs.spec import JobSpec
from orchestrator.blobs import FolderBlobs
from orchestrator.submit import Request
from orchestrator.vault import FernetVault
from orchestrator.world import World
from providers.base import Offer, PriceParts
from providers.shell import ShellKey
from tests.orchestrator.standing_world import ListedMarket, make_world


@dataclass
class ListedIds:
    """Ids in the order of a list; `shorts` repeats its last one."""

    shorts: list[str] = field(default_factory=lambda: [f"a{n:03d}" for n in range(500)])
    count: int = 0

    def token(self) -> str:
        """The next of 1, 2, 3, ... as 32 digits."""
        self.count += 1
        return f"{self.count:032x}"

    def short(self) -> str:
        """The next of the list."""
        return self.shorts.pop(0) if len(self.shorts) > 1 else self.shorts[0]

    def key_pair(self) -> ShellKey:
        """Never needed at the door."""
        raise NotImplementedError


@dataclass
class Bell:
    """Remembers who rang."""

    rung: list[tuple[str, str]] = field(default_factory=list)

    def ring(self, kind: str, id: str) -> None:
        """Note it."""
        self.rung.append((kind, id))


def door_world(home: Path, offers: list[Offer] | None = None, **settings: Any) -> World:
    """A world with the simulated market `mock` that lists `offers` (one at 0.40 USD per hour)."""
    market = ListedMarket(offers=[make_offer()] if offers is None else offers)
    world = make_world(home, [market], **settings)
    return replace(world, ids=ListedIds(), blobs=FolderBlobs(home / "blobs"), vault=FernetVault(home), doorbell=Bell())


def make_offer(id: str = "o1", per_hour: int = 400_000, **changes: Any) -> Offer:
    """A 24 GB card that boots in a second."""
    facts: dict[str, Any] = {
        "provider": "mock",
        "region": "r1",
        "gpu": "RTX4090",
        "gpu_count": 1,
        "vram_gb": 24,
        "price": PriceParts(per_hour),
        "boot_s": 1.0,
    }
    return Offer(id=id, **{**facts, **changes})


def make_request(**changes: Any) -> Request:
    """A job of one line with a budget of 5 USD from its file; `spec` facts are merged in."""
    spec = {"run": "true", "budget": 5_000_000, "resources": {"gpu": [{"vram_gb": 24}]}, **changes.pop("spec", {})}
    facts: dict[str, Any] = {"default_name": "hello", "folder": "/home/ann/hello", "user": "ann", "simulated": True}
    return Request(spec=JobSpec.model_validate(spec), **{**facts, **changes})
