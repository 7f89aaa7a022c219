"""The orchestrator of one home, seen from outside: is it there, start it, end it. What runs in it: embedded.py.

A lock on HOME/up.lock is the truth about whether it runs: it goes with the process, however that dies.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from jobs.errors import RefusedByLimit, Unanswered
from providers.clock import RealClock

if TYPE_CHECKING:
    from orchestrator.settings import Settings

LOCK: Final = "up.lock"
GUARD_LOCK: Final = "guard.lock"
STATE: Final = "up.json"
LOG: Final = "up.log"
WORKERS: Final = 4
_READY_S: Final = 20.0
_STOP_S: Final = 8.0
_LOG_LIMIT: Final = 10_000_000


def run(settings: "Settings", workers: int = WORKERS) -> None:
    """Be the orchestrator until SIGTERM or Ctrl-C. Raises RefusedByLimit when one runs in this home already."""
    from orchestrator.embedded import serve

    serve(settings, workers)


def ensure(settings: "Settings", workers: int = WORKERS) -> None:
    """Start the orchestrator of this home, detached, unless one runs; return when it is ready.

    A team's installation (broker_url) has its own services. Raises Unanswered when it does not come up.
    """
    if settings.broker_url or _is_ready(settings.home):
        return
    clock, child = RealClock(), None
    until = clock.monotonic() + _READY_S
    while not _is_ready(settings.home):
        if child is None and not is_running(settings):
            child = _spawn(settings, workers)
        if child is not None and child.poll() is not None:
            if child.returncode != 0:
                raise Unanswered(f"the orchestrator did not start: {_last_line(settings.home / LOG)}; "
                                 f"see {settings.home / LOG}")
            child = None  # another one was quicker
        if clock.monotonic() > until:
            raise Unanswered(f"the orchestrator is not ready after {_READY_S:.0f} s; see {settings.home / LOG}")
        clock.sleep(0.02)


def is_running(settings: "Settings") -> bool:
    """Whether an orchestrator runs in this home."""
    return is_held(settings.home / LOCK)


def stop(settings: "Settings", leave: bool = False) -> None:
    """End the orchestrator, its guard and an empty simulated cloud of ours; returns when they are over.

    Raises RefusedByLimit while machines live, unless `leave`: then their guard stays, and so does their cloud.
    """
    from orchestrator import wiring

    live, per_hour = _live_machines(wiring.world(settings))
    if live and not leave:
        from jobs.money import usd
        raise RefusedByLimit(f"{live} machine(s) live and cost up to ${usd(per_hour)}/h; end them with gpupoor cancel, "
                             "or leave them to their guard with gpupoor down --leave")
    _end(settings.home / LOCK)
    # again, now that nothing rents any more: a machine may have come in between
    if not _guarded(wiring.world(settings)):
        _end(settings.home / GUARD_LOCK)
        _end_cloud(settings.home / "sim" / "cloud.json")


@contextmanager
def held_lock(path: Path) -> Iterator[bool]:
    """Hold the lock file during the block, our process number in it; False when somebody else has it."""
    file = take_lock(path)
    if file is None:
        yield False
        return
    with file:
        write_pid(file, os.getpid())
        yield True


def take_lock(path: Path) -> IO[str] | None:
    """The lock file, locked and open, or None when somebody has it. The lock lasts until all copies are closed."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def write_pid(file: IO[str], pid: int) -> None:
    """Note whose lock it is."""
    file.seek(0)
    file.truncate()
    file.write(f"{pid}\n")
    file.flush()


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock file."""
    if not path.exists():
        return False
    with path.open() as file:
        try:
            # Shared, so that two who look at once do not take each other for the holder.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _is_ready(home: Path) -> bool:
    if not is_held(home / LOCK):
        return False
    state = _read_json(home / STATE)
    return state.get("pid") is not None and state.get("pid") == _pid_in(home / LOCK)


def _spawn(settings: "Settings", workers: int) -> subprocess.Popen[bytes]:
    """Start it in a session of its own, in the home: no terminal, no folder of the caller is kept busy."""
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = settings.home / LOG
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator.up", str(workers)], cwd=settings.home, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, "GPUPOOR_HOME": str(settings.home)})


def _live_machines(world: Any) -> tuple[int, int]:
    """How many machines may cost money, and micro-dollars per hour of them all."""
    from sqlalchemy import func, select

    from orchestrator.db.models import Machine

    with world.database.read() as session:
        live = select(func.count(), func.sum(Machine.price_ceiling)).where(
            Machine.state.in_(("intended", "sent", "alive", "releasing")))
        count, per_hour = session.execute(live).one()
    return count, per_hour or 0


def _guarded(world: Any) -> bool:
    """Whether a guard is needed: also while a create whose answer was lost may still bring a machine."""
    from sqlalchemy import exists, select

    from orchestrator.db.models import Machine

    with world.database.read() as session:
        return bool(session.scalar(select(exists().where(Machine.state != "gone"))))


def _end(lock: Path) -> None:
    """TERM to the holder of the lock, KILL when it does not go: every step of ours may be killed at any line."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        _wait_until(lambda: not is_held(lock) or _pid_in(lock) is not None, _STOP_S)  # it notes itself after locking
        pid = _pid_in(lock)
        if not is_held(lock) or pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, kind)
        if _wait_until(lambda: not is_held(lock), _STOP_S):
            return
    raise Unanswered(f"process {pid} does not end; look at it with: ps -fp {pid}")


def _end_cloud(note: Path) -> None:
    """End a simulated cloud that we started, if nothing lives in it; its state stays on the disk."""
    known = _read_json(note)
    pid, url = known.get("pid"), known.get("url")
    if not pid or not url:
        return
    try:
        with urllib.request.urlopen(f"{url}/_cloud/bill", timeout=5) as answer:
            alive = json.load(answer)["alive"]
    except (OSError, ValueError, KeyError):
        return
    if alive:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    # Its address stays known, so that it comes back there; no process number: it is meant to be off.
    aside = note.with_suffix(".aside")
    aside.write_text(json.dumps({"url": url, "pid": None}), encoding="utf-8")
    aside.replace(note)


def _wait_until(met: Callable[[], bool], limit_s: float) -> bool:
    clock = RealClock()
    until = clock.monotonic() + limit_s
    while not met():
        if clock.monotonic() > until:
            return False
        clock.sleep(0.02)
    return True


def _read_json(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _pid_in(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it said nothing"


def main() -> None:
    """What `ensure` starts: an orchestrator, or nothing at all when another one was quicker."""
    from orchestrator import wiring

    try:
        run(wiring.settings(), *(int(word) for word in sys.argv[1:2]))
    except RefusedByLimit:
        sys.exit(0)


if __name__ == "__main__":
    main()
