"""Shells: one connection per machine, shared by the steps and the watcher of this process."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import BinaryIO

from jobs.command import Command, Outcome
from providers.base import Provider
from providers.shell import Access, Channel, Shell, ShellError, ShellKey


class ShellPool:
    """`orchestrator.world.Shells`. Safe for threads; a connection that failed once is dropped."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[Access, KeptShell]] = {}
        self._connecting: dict[str, threading.Lock] = {}

    def open(self, machine_id: str, provider: str, access: Access, key: ShellKey) -> Shell:
        """A connection, kept or new. Raises Unreachable or WrongHostKey.

        Only callers for the same machine wait for each other: a host that does not answer blocks no other.
        """
        with self._lock:
            alone = self._connecting.setdefault(machine_id, threading.Lock())
        with alone:
            with self._lock:
                kept = self._kept.get(machine_id)
            if kept and _same_place(kept[0], access):
                return kept[1]
            self.drop(machine_id)
            shell = KeptShell(self._providers[provider].connect(access, key), lambda: self.drop(machine_id, shell))
            with self._lock:
                self._kept[machine_id] = (access, shell)
            return shell

    def drop(self, machine_id: str, shell: Shell | None = None) -> None:
        """Close what is kept of this machine (`shell`: only if it is still that one)."""
        with self._lock:
            kept = self._kept.get(machine_id)
            if kept is None or (shell is not None and kept[1] is not shell):
                return
            del self._kept[machine_id]
        kept[1].end()

    def close(self) -> None:
        """Close all."""
        for machine_id in sorted(self._kept):
            self.drop(machine_id)


class KeptShell(Shell):
    """A shell of the pool. Its first failure takes it out of the pool, so that the next caller connects anew."""

    def __init__(self, shell: Shell, drop: Callable[[], None]) -> None:
        self._shell, self._drop = shell, drop
        self.host_key = shell.host_key

    def perform(self, command: Command, stdin: bytes = b"") -> Outcome:
        """As Shell.perform."""
        with self._watched():
            return self._shell.perform(command, stdin)

    def put(self, command: Command, source: BinaryIO, progress: Callable[[int], None] = lambda _: None) -> Outcome:
        """As Shell.put."""
        with self._watched():
            return self._shell.put(command, source, progress)

    def get(self, command: Command, sink: Callable[[bytes], object]) -> Outcome:
        """As Shell.get."""
        with self._watched():
            return self._shell.get(command, sink)

    def follow(self, command: Command) -> Channel:
        """As Shell.follow."""
        with self._watched():
            return self._shell.follow(command)

    def close(self) -> None:
        """Take it out of the pool and end the connection, also for all others who use it."""
        self._drop()
        self.end()

    def end(self) -> None:
        """End the connection itself."""
        with suppress(ShellError, OSError):
            self._shell.close()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except ShellError:
            self._drop()
            raise


def _same_place(kept: Access, wanted: Access) -> bool:
    """Whether both name the same listener; the pinned key may have been learned in between, never changed."""
    return (kept.host, kept.port, kept.user) == (wanted.host, wanted.port, wanted.user) and (
        not kept.host_key or not wanted.host_key or kept.host_key == wanted.host_key)
