"""The orchestrator in one process: tasks in threads, watcher, keeper, due watch, sweep, and a guard beside it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog
from sqlalchemy import delete, update

from jobs.errors import GpupoorError, RefusedByLimit
from jobs.money import SECOND
from orchestrator import celery_app, logs, tasks, wiring
from orchestrator.blobs import FolderBlobs
from orchestrator.db.change import change
from orchestrator.db.engine import ConnectedDatabase
from orchestrator.db.models import Attempt, Job, Machine, Turn
from orchestrator.doorbell import DueWatch, LocalDoorbell
from orchestrator.keeper import LeaseKeeper
from orchestrator.settings import Settings
from orchestrator.sweep import sweep
from orchestrator.turns import Turns
from orchestrator.up import GUARD_LOCK, LOCK, STATE, held_lock, take_lock, write_pid
from orchestrator.watcher import Watcher

_TICK_S: Final = 1.0
_EVERY_S: Final = 5.0
_SHOWN_EVERY: Final = 5 * SECOND

_log = structlog.get_logger("up")


def serve(settings: Settings, workers: int) -> None:
    """Run until SIGTERM or SIGINT, and end the process then. Raises RefusedByLimit when one runs already."""
    with held_lock(settings.home / LOCK) as ours:
        if not ours:
            raise RefusedByLimit("an orchestrator runs in this home already; end it with gpupoor down")
        logs.set_up()
        stopping = threading.Event()
        for kind in (signal.SIGTERM, signal.SIGINT):
            signal.signal(kind, lambda *_: stopping.set())
        orchestrator = Orchestrator(settings, workers)
        orchestrator.start()
        while not stopping.wait(_TICK_S):
            orchestrator.tick()
        orchestrator.stop()
        (settings.home / STATE).unlink(missing_ok=True)
        # A thread that waits for a provider would hold us up; every step may be killed at any line.
        sys.stdout.flush()
        os._exit(0)


class Orchestrator:
    """All parts of the process, made in `start` order."""

    def __init__(self, settings: Settings, workers: int) -> None:
        self._settings = settings
        self._bell = LocalDoorbell()
        self.world = wiring.world(settings, doorbell=self._bell, with_keeper=True)
        self._me = f"orchestrator:{socket.gethostname()}:{os.getpid()}"
        app = celery_app.make_app()
        self._sender = celery_app.Sender(app)
        self._turns = Turns(self.world, self._sender.send, wiring.LiveLimits(self.world))
        tasks.register(app, self._turns, self._sender.taken)
        self._app, self._workers = app, workers
        self._worker = celery_app.EmbeddedWorker(app, workers)
        self._watcher = Watcher(self.world)
        assert isinstance(self.world.database, ConnectedDatabase)
        self._database = self.world.database
        self._due = DueWatch(self.world, self._database.path)
        self._shown_at: int | None = None
        self._next = 0.0
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start everything; ready when it returns, and the state file says so."""
        self._take_over()
        if isinstance(self.world.blobs, FolderBlobs):
            self.world.blobs.clear_aside()
        self._show()
        self._start_guard()
        self._bell.send, self._bell.follow = self._sender.send, self._watcher.wake
        if isinstance(self.world.keeper, LeaseKeeper):
            self.world.keeper.start()
        self._worker.start()
        self._watcher.start()
        self._due.start()
        _write_whole(self._settings.home / STATE, json.dumps({"pid": os.getpid(), "workers": self._workers}))
        _log.info("ready", home=str(self._settings.home), pid=os.getpid(), workers=self._workers)

    def tick(self) -> None:
        """What comes around: show that we live, sweep, see that guard and worker live. Never raises."""
        for act in (self._show, self._look_around):
            try:
                act()
            except GpupoorError as error:
                _log.warning("postponed", error=str(error))
            except Exception:  # noqa: BLE001  the process that sweeps must not die of one bad row
                _log.exception("failed")

    def stop(self) -> None:
        """End within a few seconds; what is under way is taken up by whoever comes next."""
        _log.info("ending")
        self._due.stop()
        self._watcher.stop(1.5)
        self._worker.stop(2.0)
        self._turns.stop()
        with suppress(GpupoorError):
            if isinstance(self.world.keeper, LeaseKeeper):
                self.world.keeper.stop()
            with self.world.database.write() as session:
                session.execute(delete(Turn).where(Turn.process == self._me))

    def _take_over(self) -> None:
        """Free what the process before us held: we have the home's lock, so it is dead.

        Only where the database is the home's own: a PostgreSQL may have living processes elsewhere.
        """
        if self._database.path is None:
            return
        free: dict[str, None] = {"lease_token": None, "lease_until": None}
        with self.world.database.write() as session:
            session.execute(update(Job).where(Job.lease_token.is_not(None)).values(free))
            session.execute(update(Machine).where(Machine.lease_token.is_not(None)).values(free))
            session.execute(update(Attempt).where(Attempt.follow_token.is_not(None))
                            .values(follow_token=None, follow_until=None, silent_since=None))

    def _show(self) -> None:
        now = self.world.clock.now()
        if self._shown_at is not None and abs(now - self._shown_at) < _SHOWN_EVERY:
            return
        with self.world.database.write() as session:
            if change(session, update(Turn).where(Turn.process == self._me).values(at=now)) == 0:
                host = socket.gethostname()
                session.execute(delete(Turn).where(Turn.kind == "orchestrator", Turn.host == host))
                session.add(Turn(process=self._me, kind="orchestrator", host=host, pid=os.getpid(), at=now,
                                 started_at=now))
        self._shown_at = now

    def _look_around(self) -> None:
        now = self.world.clock.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_S
        self._start_guard()
        if not self._worker.alive:
            _log.error("the worker ended, starting it again")
            self._worker = celery_app.EmbeddedWorker(self._app, self._workers)
            self._worker.start()
        sweep(self.world)

    def _start_guard(self) -> None:
        """Start the guard unless one lives, perhaps of an orchestrator before us: it outlives its parent.

        It inherits the locked file and knows nothing of it; the lock goes when the guard goes.
        """
        if self._guard is not None and self._guard.poll() is None:
            return
        lock = take_lock(self._settings.home / GUARD_LOCK)
        if lock is None:
            return
        with lock, (self._settings.home / "guard.log").open("ab") as out:
            self._guard = subprocess.Popen(
                [sys.executable, "-m", "orchestrator.guard"], cwd=self._settings.home, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=(lock.fileno(),),
                env={**os.environ, "GPUPOOR_HOME": str(self._settings.home)})
            write_pid(lock, self._guard.pid)


def _write_whole(path: Path, text: str) -> None:
    aside = path.with_suffix(".aside")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
