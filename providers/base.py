"""The interface that every market implements, and the five ways in which it may fail.

A provider is told what to do and says what it saw; it decides nothing and keeps no state.
Every method may be called twice with the same arguments; none is retried here except
where nothing can have happened. Money: micro-dollars. Instants: microseconds UTC.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.errors import GpupoorError
from providers.shell import Access, Shell, ShellKey


class ProviderError(GpupoorError):
    """A provider said no or nothing; subclasses are sorted by what the caller can do."""

    exit_code = 9


class NoCapacity(ProviderError):
    """This offer is not to be had now, and nothing was made: try another offer."""


class Unavailable(ProviderError):
    """The provider does not answer or is overloaded, and nothing happened: try again later.

    retry_after_s: seconds that the provider asked us to wait, if it did.
    """

    def __init__(self, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class Uncertain(ProviderError):
    """The call may have been carried out although no good answer came: look before repeating."""


class Refused(ProviderError):
    """The provider will not do this until a person acts (key, balance, quota, wrong request)."""

    def __init__(self, text: str, balance: bool = False) -> None:
        super().__init__(text)
        self.balance = balance


class Gone(ProviderError):
    """The machine is not known to the provider: over, or not visible yet."""


@dataclass(frozen=True)
class Facts:
    """What a provider promises about itself; waits and proofs are computed from these.

    read_lag_s: a machine may be missing from list and get for so long after its create.
    gone_gap_s: two complete lists without the machine, so far apart, prove it gone (N).
    ghost_window_s: a create whose answer was lost may still appear for so long after its send_by.
    labels, token: whether create takes a label, an idempotency token.
    regions: what list_machines must be asked for to see everything.
    billed_words: the provider's state words that still cost money; unknown words count too.
    destroy_text: shell text by which a machine of this market gives itself back (the fuse's last act).
    """

    name: str
    simulated: bool
    read_lag_s: float
    gone_gap_s: float
    ghost_window_s: float
    labels: bool = True
    token: bool = True
    regions: tuple[str, ...] = ("",)
    container: bool = True
    billed_words: tuple[str, ...] = ()
    default_image: str = ""
    default_python: str = ""
    destroy_text: str = ""


@dataclass(frozen=True)
class PriceParts:
    """What a machine costs, part by part; each part is rounded up once per machine.

    per_hour: the whole machine without disk. disk_per_gb_hour, traffic_per_gb: micro-dollars.
    step_s: time is billed in steps of so many seconds (0: by the microsecond). minimum_s: at least so long.
    highest_per_hour: the most that per_hour may become (spot: the on-demand price).
    """

    per_hour: int
    disk_per_gb_hour: int = 0
    traffic_per_gb: int = 0
    step_s: int = 0
    minimum_s: int = 0
    highest_per_hour: int = 0


@dataclass(frozen=True)
class Offer:
    """A machine that can be rented now.

    vram_gb: memory per GPU in GB as the provider states it. stop_class: hard, boot, late or none.
    trust: datacenter, verified or any. host: who owns the iron, for the bad-host list.
    boot_s: seconds until SSH, as far as known. capacity: how many are left (None: not told).
    """

    provider: str
    id: str
    region: str
    gpu: str
    gpu_count: int
    vram_gb: float
    price: PriceParts
    spot: bool = False
    stop_class: str = "boot"
    trust: str = "verified"
    reliability: float = 0.99
    boot_s: float = 60.0
    capacity: int | None = None
    cpus: int | None = None
    memory_gb: float | None = None
    disk_gb: float | None = None
    cuda: str | None = None
    compute_capability: float | None = None
    container: bool = True
    host: str = ""
    as_of: int = 0


@dataclass(frozen=True)
class Order:
    """A create call in full, committed to the database before it is sent.

    boot_text: shell text for the first boot command (arms the boot fuse), for stop class boot.
    stop_at: when the machine must be gone, for markets of stop class hard. disk_gb: whole GB.
    """

    offer: Offer
    label: str
    token: str
    stop_at: int
    public_key: str
    disk_gb: int
    image: str = ""
    boot_text: str = ""


@dataclass(frozen=True)
class Sighting:
    """A machine as its provider showed it at one moment.

    word: the provider's own state word. bills: whether this state may cost money (unknown: yes).
    ready: it can be connected to (access is then set). ended: the provider says it is over.
    per_hour: what it costs, read back (None: not told). started_at, ended_at: the bill's times, if told.
    traffic_bytes: what it moved so far, both ways (None: not told).
    preempted: the provider took it away (None: not told).
    """

    id: str
    provider: str
    region: str
    label: str
    word: str
    bills: bool
    ready: bool
    ended: bool = False
    gpu: str = ""
    gpu_count: int = 1
    spot: bool = False
    per_hour: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    access: Access | None = None
    traffic_bytes: int | None = None
    preempted: bool | None = None


@dataclass(frozen=True)
class Listing:
    """All machines of one region at one moment.

    complete: authenticated, well formed and with no page missing; only such a list proves absence.
    taken_at: when the request was sent (instant of World's clock).
    """

    machines: Sequence[Sighting] = field(default_factory=tuple)
    complete: bool = False
    taken_at: int = 0


class Provider(ABC):
    """One market. Errors: ProviderError's five subclasses and nothing else."""

    facts: Facts

    @abstractmethod
    def find_offers(self) -> list[Offer]:
        """Everything that can be rented now. Offers with a price <= 0 or no number are left out."""

    @abstractmethod
    def rent(self, order: Order, send_by: int) -> Sighting:
        """Create a machine. `send_by` is checked right before the request is written: later, Unavailable.

        NoCapacity, Unavailable and Refused promise that nothing was made; Uncertain does not.
        """

    @abstractmethod
    def list_machines(self, region: str) -> Listing:
        """All machines of the account in `region`, also those that are not ours."""

    @abstractmethod
    def get(self, region: str, machine_id: str) -> Sighting:
        """One machine. Raises Gone where the provider does not know it (which proves nothing alone)."""

    @abstractmethod
    def release(self, region: str, machine_id: str) -> None:
        """Give a machine back. Silent when it is gone or going already; may have to be repeated."""

    @abstractmethod
    def connect(self, access: Access, key: ShellKey) -> Shell:
        """A shell on the machine. Raises Unreachable (try again) or WrongHostKey (never again)."""

    def bill(self, region: str, machine_id: str) -> int | None:
        """Micro-dollars that the provider says the machine cost; compared, never copied. None: not told."""
        return None
