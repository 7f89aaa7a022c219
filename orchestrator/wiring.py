"""The only place that knows every real thing: what stands behind World in production.

Everything is made when it is first used, so that a command that only reads rows imports no SSH, no HTTP, no Celery.
"""

import json
import os
import secrets  # noqa: TID251  the one place where ids come from
import string
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobs.errors import GpupoorError, Usage
from orchestrator.blobs import FolderBlobs
from orchestrator.db.engine import installation_id, open_database
from orchestrator.doorbell import CommittedDoorbell
from orchestrator.settings import CONFIG_FILE, Settings, load
from orchestrator.shells import ShellPool
from orchestrator.vault import FernetVault
from orchestrator.world import Chance, Doorbell, Keeper, NoKeeper, World
from providers.clock import Clock, RealClock
from providers.shell import ShellKey

if TYPE_CHECKING:
    from providers.base import Provider

_LETTERS: Final = string.ascii_lowercase + string.digits
_UNLIMITED: Final = frozenset({"mock", "ssh", "localhost"})


def settings() -> Settings:
    """The settings of this process: environment and config.toml. Raises Usage."""
    return load(os.environ)


def world(settings: Settings, doorbell: Doorbell | None = None, with_keeper: bool = False) -> World:
    """Everything real. Opens the database, and makes it where there is none.

    doorbell: where rings go (default: what is committed is the ring). with_keeper: for a process that runs
    steps; it must start the keeper. Raises GpupoorError that says what is wrong with the home or the database.
    """
    from orchestrator.limiter import SharedLimiter

    clock = open_clock(settings)
    database = open_database(settings.database_url, clock)
    ids = SystemIds()
    chance = secrets.SystemRandom()
    providers = KnownProviders(settings, clock, chance)
    keeper: Keeper = NoKeeper()
    if with_keeper:
        from orchestrator.keeper import LeaseKeeper

        keeper = LeaseKeeper(database, clock, settings.lease)
    return World(
        clock=clock,
        chance=chance,
        ids=ids,
        settings=settings,
        installation=installation_id(database, lambda: ids.short() + ids.short(), clock.now()),
        providers=providers,
        database=database,
        shells=ShellPool(providers),
        blobs=open_blobs(settings),
        vault=FernetVault(settings.home, settings.secret_key),
        doorbell=doorbell or CommittedDoorbell(),
        limiter=SharedLimiter(database, clock, _UNLIMITED),
        keeper=keeper,
    )


def open_clock(settings: Settings) -> Clock:
    """The machine's clock, or the simulated cloud's where clock_url is set."""
    if not settings.clock_url:
        return RealClock()
    from providers.clock import CloudClock

    return CloudClock(settings.clock_url)


def open_blobs(settings: Settings) -> FolderBlobs:
    """The blobs of this installation. Raises Usage for an address that is no folder."""
    address = settings.blobs_url.removeprefix("file://")
    if "://" in address:
        raise Usage(f"blobs_url {address}: only folders can hold blobs; write a path")
    return FolderBlobs(Path(address))


class SystemIds:
    """`orchestrator.world.Ids` from the operating system's randomness."""

    def token(self) -> str:
        """32 hexadecimal digits that nobody had before."""
        return secrets.token_hex(16)

    def short(self) -> str:
        """4 lower-case letters or digits; may repeat."""
        return "".join(secrets.choice(_LETTERS) for _ in range(4))

    def key_pair(self) -> ShellKey:
        """A fresh ed25519 key pair."""
        from providers.keys import make_key_pair

        return make_key_pair("gpupoor")


class KnownProviders(Mapping[str, "Provider"]):
    """The markets that we have an account with, by name; built at first use and again when they changed.

    A key may be stored, and a simulated cloud started, while this process runs.
    """

    def __init__(self, settings: Settings, clock: Clock, chance: Chance) -> None:
        self._settings, self._clock, self._chance = settings, clock, chance
        self._lock = threading.Lock()
        self._built: dict[str, Provider] = {}
        self._stamp: tuple[object, ...] | None = None

    def __getitem__(self, name: str) -> "Provider":
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._now()))

    def __len__(self) -> int:
        return len(self._now())

    def _now(self) -> "dict[str, Provider]":
        stamp = (_stamp(self._settings.home / "credentials"), _stamp(_cloud_note(self._settings)))
        with self._lock:
            if stamp != self._stamp:
                from providers import registry

                clock, chance = open_clock(self._settings), secrets.SystemRandom()
                self._built = registry.build(mock_url(self._settings), clock, chance)
                self._stamp = stamp
            return self._built


class LiveLimits:
    """A world whose limits of money are those that config.toml has now: `config set` binds a running process.

    The other settings are taken at the start; a file that cannot be read changes nothing.
    """

    NAMES = ("max_gpus", "max_per_hour")

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.Lock()
        self._stamp = _stamp(world.settings.home / CONFIG_FILE)

    def __call__(self) -> World:
        """The world as it is now."""
        with self._lock:
            stamp = _stamp(self._world.settings.home / CONFIG_FILE)
            if stamp != self._stamp:
                try:
                    fresh = settings()
                except GpupoorError as error:
                    import structlog

                    structlog.get_logger("wiring").warning("config.toml cannot be read", error=str(error))
                    return self._world
                limits = {name: getattr(fresh, name) for name in self.NAMES}
                self._world = replace(self._world, settings=replace(self._world.settings, **limits))
                self._stamp = stamp
            return self._world


def mock_url(settings: Settings) -> str:
    """The address of the simulated cloud: as set, or of the one that was started for this home; "" where none is."""
    if settings.mock_url:
        return settings.mock_url
    try:
        note = json.loads(_cloud_note(settings).read_text(encoding="utf-8"))
        return str(note["url"]) if note.get("pid") else ""
    except (OSError, ValueError, KeyError, AttributeError):
        return ""


def _cloud_note(settings: Settings) -> Path:
    return settings.home / "sim" / "cloud.json"


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
