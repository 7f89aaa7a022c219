"""What the processes of the simulation are made of: seeded ids, a bell that loses messages, one world each."""

import random
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from orchestrator.blobs import FolderBlobs
from orchestrator.follower import Follower
from orchestrator.shells import KeptShell
from orchestrator.world import World
from providers.base import Provider
from providers.shell import Access, Shell, ShellKey
from tests.simulation.scheduler import Process


class SeededIds:
    """Ids from the seed."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def token(self) -> str:
        """32 hexadecimal digits."""
        return f"{self._dice.getrandbits(128):032x}"

    def short(self) -> str:
        """4 letters."""
        return "".join(self._dice.choice("abcdefghjkmnpq") for _ in range(4))

    def key_pair(self) -> ShellKey:
        """A key that nobody can use."""
        name = self.token()
        return ShellKey(f"private {name}", f"ssh-ed25519 {name}")


class ClearVault:
    """Seals nothing: the simulation has no secrets."""

    def seal(self, clear: bytes) -> bytes:
        """As it is."""
        return clear

    def open(self, sealed: bytes) -> bytes:
        """As it is."""
        return sealed


class NoLimit:
    """No rate limit."""

    def wait(self, provider: str, kind: str) -> None:
        """At once."""


class OneShellEach:
    """Connections of one process, kept by machine."""

    def __init__(self, process: Process, provider: Provider) -> None:
        self._process, self._provider = process, provider
        self._kept: dict[str, tuple[Access, Shell]] = {}

    def open(self, machine_id: str, provider: str, access: Access, key: ShellKey) -> Shell:
        """Kept or new."""
        self._process.check()
        kept = self._kept.get(machine_id)
        if kept is None or (kept[0].host, kept[0].port) != (access.host, access.port):
            shell = KeptShell(self._provider.connect(access, key), lambda: self.drop(machine_id))
            kept = (access, shell)
            self._kept[machine_id] = kept
        return kept[1]

    def drop(self, machine_id: str) -> None:
        """Forget it."""
        self._kept.pop(machine_id, None)


class ProcessBlobs:
    """The product's blob folder; a dead process writes nothing."""

    def __init__(self, process: Process, folder: Path) -> None:
        self._process, self._blobs = process, FolderBlobs(folder)

    def write(self, name: str, source: BinaryIO) -> int:
        """Whole or not at all."""
        self._process.check()
        return self._blobs.write(name, source)

    def open(self, name: str) -> BinaryIO:
        """Read."""
        return self._blobs.open(name)

    def delete(self, name: str) -> None:
        """Silent when it is not there."""
        self._process.check()
        self._blobs.delete(name)


@dataclass
class Bell:
    """The queue of one process: it may lose, double and delay."""

    process: Process
    dice: random.Random
    loss: float
    waiting: deque[tuple[str, str]] = field(default_factory=deque)

    def ring(self, kind: str, id: str) -> None:
        """Put a message in, perhaps twice, perhaps not at all."""
        self.process.check()
        if self.dice.random() >= self.loss:
            self.waiting.append((kind, id))
            if self.dice.random() < self.loss:
                self.waiting.append((kind, id))


@dataclass
class Worker:
    """A living process with its world."""

    process: Process
    world: World
    bell: Bell
    followers: list[Follower] = field(default_factory=list)
    sweep_at: int = 0
    watch_at: int = 0
