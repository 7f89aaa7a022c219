"""A machine of the simulated market as its books have it; what it is made of lies with its host."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from jobs.money import SECOND

BOOTING: Final = "booting"
RUNNING: Final = "running"
STOPPED: Final = "stopped"
GONE: Final = "gone"


@dataclass(frozen=True)
class MarketOrder:
    """What a create call asks for. stop_at: cloud microseconds, heeded where the offer's stop class is hard."""

    offer_id: str
    label: str = ""
    token: str = ""
    public_key: str = ""
    disk_gb: int = 0
    boot_text: str = ""
    stop_at: int | None = None
    image: str = ""


@dataclass
class Machine:
    """One rented machine, from its create to long after its end. Money: micro-dollars. Instants: cloud microseconds.

    created_at..ended_at is billed, booting too; stopped_at: from here only the disk is billed.
    up_at: when it has booted (None: never). ends_at: when it will end if nothing comes first, with end_preempts
    whether that is a spot loss. deleting: a delete was accepted. hidden_until: list and get do not show it before.
    vanished: list and get never show it again. host_ended: its host was told of the end. gpu_calls: how many calls of
    nvidia-smi were counted. deeds: what its create was told to do to it. told: what its host was told.
    reborn: how its spot request will start it anew.
    """

    id: str
    provider: str
    stock: str
    region: str
    gpu: str
    gpu_count: int
    vram_gb: float
    spot: bool
    per_hour: int
    disk_per_gb_hour: int
    traffic_per_gb: int
    stop: str
    bills: bool
    label: str
    token: str
    public_key: str
    disk_gb: int
    boot_text: str
    image: str
    created_at: int
    up_at: int | None
    boot_s: float = 1.0
    ended_at: int | None = None
    stopped_at: int | None = None
    ends_at: int | None = None
    end_preempts: bool = False
    preempted: bool = False
    deleting: bool = False
    hidden_until: int = 0
    vanished: bool = False
    host_ended: bool = False
    traffic_bytes: int = 0
    gpu_calls: int = 0
    deeds: dict[str, Any] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)
    reborn: dict[str, Any] | None = None

    def state(self, now: int) -> str:
        """booting, running, stopped or gone, at cloud time `now`."""
        if self.ended_at is not None:
            return GONE
        if self.stopped_at is not None:
            return STOPPED
        return RUNNING if self.up_at is not None and self.up_at <= now else BOOTING

    def plan_end(self, at: int, preempts: bool = False) -> None:
        """It will end at `at`, unless an earlier end is planned already."""
        if self.ends_at is None or at < self.ends_at:
            self.ends_at, self.end_preempts = at, preempts

    def up_after(self, seconds: float | None) -> None:
        """Set how long it boots, counted from its create (None: for ever)."""
        self.up_at = None if seconds is None else self.created_at + round(seconds * SECOND)

    def dump(self) -> dict[str, Any]:
        """As a value for JSON."""
        return asdict(self)

    @classmethod
    def load(cls, value: Mapping[str, Any]) -> "Machine":
        """From `dump`."""
        return cls(**{f.name: value[f.name] for f in fields(cls) if f.name in value})
