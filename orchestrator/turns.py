"""Turns of this process: which step runs where, and never the same row twice at once.

A ring for a row whose step is running causes one more look after it. Steps that move bytes go to a
small pool of their own, so that they never keep a release waiting.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from jobs.errors import GpupoorError
from orchestrator import advance
from orchestrator.world import World

TRANSFERS: Final = 4

_log = structlog.get_logger("steps")


class Turns:
    """Runs steps. Made once per process. current: the world with the limits as they are at that moment."""

    def __init__(
        self, world: World, again: Callable[[str, str], object], current: Callable[[], World] | None = None
    ) -> None:
        self.world = world
        self._current = current or (lambda: world)
        self._again = again
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], bool] = {}
        self._transfers = ThreadPoolExecutor(TRANSFERS, thread_name_prefix="transfer")

    def advance_job(self, job_id: str) -> None:
        """One step of a job, here or in the pool for bytes; at once, or after the one that runs."""
        if not self._begin("job", job_id):
            return
        try:
            slow = advance.is_slow(self.world, job_id)
            if slow:
                self._transfers.submit(self._run, "job", job_id, advance.advance_job)
        except BaseException:
            self._end("job", job_id)
            raise
        if not slow:
            self._run("job", job_id, advance.advance_job)

    def advance_machine(self, machine_id: str) -> None:
        """One look at an unwanted machine; at once, or after the one that runs."""
        if self._begin("machine", machine_id):
            self._run("machine", machine_id, advance.advance_machine)

    def stop(self) -> None:
        """Take no more transfers; those that run are repeated by whoever comes next."""
        self._transfers.shutdown(wait=False, cancel_futures=True)

    def _begin(self, kind: str, id: str) -> bool:
        with self._lock:
            if (kind, id) in self._running:
                self._running[kind, id] = True
                return False
            self._running[kind, id] = False
            return True

    def _end(self, kind: str, id: str) -> None:
        with self._lock:
            rung = self._running.pop((kind, id))
        if rung:
            self._again(kind, id)

    def _run(self, kind: str, id: str, step: Callable[[World, str], None]) -> None:
        try:
            step(self._current(), id)
        except GpupoorError as error:
            _log.warning("postponed", kind=kind, id=id, error=str(error))
        except Exception:  # noqa: BLE001  a job must survive one unexpected error; the sweep comes back to it
            _log.exception("failed", kind=kind, id=id)
        finally:
            self._end(kind, id)
