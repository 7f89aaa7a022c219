"""Shell: what can be done on a machine, whoever carries it (SSH, or the in-process simulator)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from jobs.command import Command, Outcome
from jobs.errors import GpupoorError


class ShellError(GpupoorError):
    """The way to the machine failed; what ran there goes on."""

    exit_code = 9


class Unreachable(ShellError):
    """No connection could be made, or it broke: try again, the command may have been carried out."""


class WrongHostKey(ShellError):
    """Another host key than the one pinned for this rental answers: never connect again."""


@dataclass(frozen=True)
class Access:
    """Where a machine listens. host_key: the key's OpenSSH text pinned for this rental, or "" at first contact."""

    host: str
    port: int
    user: str = "root"
    host_key: str = ""


@dataclass(frozen=True)
class ShellKey:
    """A job's own key pair: private in OpenSSH PEM, public as one authorized_keys line."""

    private: str
    public: str

    def __repr__(self) -> str:
        return f"ShellKey({self.public})"


class Channel(ABC):
    """A command that goes on: log bytes on one stream, notes on the other. Never blocks."""

    @abstractmethod
    def fileno(self) -> int:
        """A descriptor for poll(): readable when `read` has something (-1: in-process, ask `read`)."""

    @abstractmethod
    def read(self) -> tuple[bytes, bytes, bool]:
        """(stdout bytes, stderr bytes, ended) that are there now, at most 1 MiB each; empty when nothing is.

        Raises Unreachable when the connection broke. ended: the command ended and all was read.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go; the remote follower ends by itself, the job goes on."""


class Shell(ABC):
    """A connection to one machine. Every call has a limit and raises Unreachable beyond it."""

    host_key: str = ""

    @abstractmethod
    def perform(self, command: Command, stdin: bytes = b"") -> Outcome:
        """Run to the end, both streams drained (at most 4 MiB kept each)."""

    @abstractmethod
    def put(self, command: Command, source: BinaryIO, progress: Callable[[int], None] = lambda _: None) -> Outcome:
        """Run with `source` as stdin, streamed. The limit counts seconds without any byte moving."""

    @abstractmethod
    def get(self, command: Command, sink: Callable[[bytes], object]) -> Outcome:
        """Run and hand stdout to `sink` piece by piece. The limit counts seconds without any byte moving."""

    @abstractmethod
    def follow(self, command: Command) -> Channel:
        """Start a command that goes on, and return its channel."""

    @abstractmethod
    def close(self) -> None:
        """End the connection; may be called twice."""
