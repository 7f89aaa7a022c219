"""World: everything outside that a step may touch, handed in, so that a test can hand in something else."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from sqlalchemy.orm import Session

from orchestrator.offers import OfferBoard
from orchestrator.settings import Settings
from providers.base import Provider
from providers.clock import Clock
from providers.shell import Access, Shell, ShellKey


class Chance(Protocol):
    """Where chance comes from."""

    def random(self) -> float:
        """0 <= x < 1."""


class Ids(Protocol):
    """Where ids come from."""

    def token(self) -> str:
        """32 hexadecimal digits that nobody had before."""

    def short(self) -> str:
        """4 lower-case letters or digits, for handles; may repeat."""

    def key_pair(self) -> ShellKey:
        """A fresh ed25519 key pair."""


class Database(Protocol):
    """Short transactions; nothing outside the database is touched while one is open."""

    def read(self) -> AbstractContextManager[Session]:
        """A picture of one moment; rows stay usable after it ends."""

    def write(self) -> AbstractContextManager[Session]:
        """Committed at the end of the block, rolled back by an exception; one writer at a time."""


class Blobs(Protocol):
    """Whole immutable objects by name ('logs/…', 'bundles/…', 'results/…')."""

    def write(self, name: str, source: BinaryIO) -> int:
        """Store all of `source` under `name`, whole or not at all; bytes stored."""

    def open(self, name: str) -> BinaryIO:
        """Read; raises KeyError where there is no such blob."""

    def delete(self, name: str) -> None:
        """Silent when it is not there."""


class Vault(Protocol):
    """Seals what must not rest in clear: secrets of jobs, SSH keys."""

    def seal(self, clear: bytes) -> bytes:
        """Encrypted and authenticated."""

    def open(self, sealed: bytes) -> bytes:
        """The clear bytes; raises GpupoorError when the key does not fit."""


class Doorbell(Protocol):
    """A hint that something should be looked at: lost, doubled or late, it changes nothing."""

    def ring(self, kind: str, id: str) -> None:
        """kind: 'job', 'machine' or 'follow'; id: of that row (follow: of the job)."""


class Shells(Protocol):
    """Connections to machines, kept between steps where that is cheaper."""

    def open(self, machine_id: str, provider: str, access: Access, key: ShellKey) -> Shell:
        """A connection, kept or new. Raises Unreachable or WrongHostKey."""

    def drop(self, machine_id: str) -> None:
        """Close what is kept of this machine."""


class Keeper(Protocol):
    """Keeps a lease alive while a long step runs."""

    def hold(self, kind: str, id: str, token: str) -> AbstractContextManager[None]:
        """Renew the lease of this row ('job' or 'machine') until the block ends."""


class NoKeeper:
    """Leases run out by themselves: for short commands and for simulation."""

    def hold(self, kind: str, id: str, token: str) -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()


class Limiter(Protocol):
    """One rate limit per provider key, shared by all processes."""

    def wait(self, provider: str, kind: str) -> None:
        """Return when a call of this kind (release, list, rent, offers) may go out."""


@dataclass(frozen=True)
class World:
    """All that a step may touch. point(name): a place where a test may kill us; nothing in production."""

    clock: Clock
    chance: Chance
    ids: Ids
    settings: Settings
    installation: str
    providers: Mapping[str, Provider]
    database: Database
    shells: Shells
    blobs: Blobs
    vault: Vault
    doorbell: Doorbell
    limiter: Limiter
    keeper: Keeper = field(default_factory=NoKeeper)
    board: OfferBoard = field(default_factory=OfferBoard)
    point: Callable[[str], None] = field(default=lambda _name: None)
