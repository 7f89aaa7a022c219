"""Doorbells: hints that something should be looked at. The database is the truth, so a lost ring only costs time.

Within a process a ring goes straight to its tasks. Between processes a commit is the ring: SQLite's data_version
tells cheaply that somebody else committed, and a query tells what is due (a second process's message on
memory:// would vanish silently).
"""

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import func, or_, select

from jobs.states import TERMINAL
from orchestrator.db.models import Job, Machine
from orchestrator.world import World

LOOK_EVERY_S: Final = 0.1
_ANYWAY_S: Final = 5.0
_MOST: Final = 200


class CommittedDoorbell:
    """For processes that run no steps: what they committed is the ring."""

    def ring(self, kind: str, id: str) -> None:
        """Nothing."""


class LocalDoorbell:
    """For the process that runs the steps. send: (kind, id) of a job or machine; follow: wakes the watcher."""

    def __init__(self) -> None:
        self.send: Callable[[str, str], object] = lambda *_: None
        self.follow: Callable[[], object] = lambda: None

    def ring(self, kind: str, id: str) -> None:
        """Hand it on; both are set by whoever starts the process's parts."""
        if kind == "follow":
            self.follow()
        else:
            self.send(kind, id)


class DueWatch:
    """Rings what is due soon after its time has come, or after another process's commit made it due."""

    def __init__(self, world: World, path: Path | None) -> None:
        self._world, self._path = world, path
        self._connection: sqlite3.Connection | None = None
        self._version = -1
        self._rung: dict[tuple[str, str], int] = {}
        self._next_due: int | None = None
        self._looked_at = float("-inf")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="doorbell", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()

    def look(self) -> int:
        """Ring what is due if anything may have changed; how many rings. Raises Unanswered."""
        now = self._world.clock.monotonic()
        changed = self._changed()
        due = self._next_due is not None and self._next_due <= self._world.clock.now()
        if not changed and not due and now - self._looked_at < _ANYWAY_S:
            return 0
        self._looked_at = now
        return self._ring_due()

    def _changed(self) -> bool:
        """Whether somebody committed since the last call; on PostgreSQL: time for a look each second."""
        if self._path is None:
            return self._world.clock.monotonic() - self._looked_at >= 1.0
        if self._connection is None:
            self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        changed, self._version = version != self._version, version
        return bool(changed)

    def _ring_due(self) -> int:
        now = self._world.clock.now()
        with self._world.database.read() as session:
            due: dict[tuple[str, str], int] = {}
            later: list[int] = []
            for kind, table, dead in (("machine", Machine, ("gone", "intended")), ("job", Job, TERMINAL)):
                lively = [table.due_at.is_not(None), table.state.not_in(dead)]
                free = or_(table.lease_token.is_(None), table.lease_until < now)
                rows = select(table.id, table.due_at).where(*lively, table.due_at <= now, free)
                for row in session.execute(rows.order_by(table.due_at).limit(_MOST)):
                    due[kind, row.id] = row.due_at
                soonest = session.execute(select(func.min(table.due_at)).where(*lively, table.due_at > now)).scalar()
                later += [soonest] if soonest is not None else []
        self._next_due = min(later, default=None)
        # What was rung for the same instant already is left to the sweep: a step that fails must not spin.
        fresh = [key for key, at in due.items() if self._rung.get(key) != at]
        self._rung = due
        for kind, id in fresh:
            self._world.doorbell.ring(kind, id)
        return len(fresh)

    def _run(self) -> None:
        from orchestrator.keeper import keep_on

        keep_on(self._stopping, LOOK_EVERY_S, self.look, "looking for due work")

