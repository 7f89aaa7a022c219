"""The keeper: extends the leases of steps that run in this process, so that a slow step is not taken for a dead one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from jobs.errors import GpupoorError
from jobs.money import SECOND
from orchestrator import leases
from orchestrator.world import Database
from providers.clock import Clock

_log = structlog.get_logger("keeper")


class LeaseKeeper:
    """`orchestrator.world.Keeper`: one thread, started by `start`, that renews each third of a lease."""

    def __init__(self, database: Database, clock: Clock, lease: int) -> None:
        self._database, self._clock, self._lease = database, clock, lease
        self._held: dict[tuple[str, str, str], int] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    @contextmanager
    def hold(self, kind: str, id: str, token: str) -> Iterator[None]:
        """Renew the lease of this row ('job' or 'machine') until the block ends."""
        key = (kind, id, token)
        with self._lock:
            self._held[key] = self._clock.now() + self._lease // 3
        try:
            yield
        finally:
            with self._lock:
                self._held.pop(key, None)

    def renew(self) -> int:
        """Extend each lease that is due; how many were. One that is ours no more is dropped."""
        now = self._clock.now()
        with self._lock:
            due = sorted(key for key, at in self._held.items() if at <= now)
        if not due:
            return 0
        with self._database.write() as session:
            ours = [leases.renew(session, kind, id, token, now + self._lease) for kind, id, token in due]
        with self._lock:
            for key, renewed in zip(due, ours, strict=True):
                if key in self._held and renewed:
                    self._held[key] = now + self._lease // 3
                elif not renewed:
                    self._held.pop(key, None)
        return sum(ours)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and give back what is held: those steps die with this process and write nothing more."""
        self._stopping.set()
        with self._lock:
            held, self._held = sorted(self._held), {}
        if held:
            with self._database.write() as session:
                for kind, id, token in held:
                    leases.let_go(session, kind, id, token)

    def _run(self) -> None:
        keep_on(self._stopping, min(1.0, self._lease / SECOND / 6), self.renew, "lease renewal")


def keep_on(stopping: threading.Event, pause_s: float, act: Callable[[], object], what: str) -> None:
    """Call `act` again and again until `stopping` is set; an error does not end it and is told once while it lasts."""
    told = ""
    while not stopping.wait(pause_s):
        try:
            act()
            told = ""
        except Exception as error:  # noqa: BLE001  a thread that dies silently is worse than any error
            if str(error) != told:
                _log.warning(f"{what} failed, trying again", error=str(error),
                             exc_info=not isinstance(error, GpupoorError))
            told = str(error)
            stopping.wait(1.0)
