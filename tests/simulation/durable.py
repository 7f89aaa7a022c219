"""The product's own database on a file in memory, with power loss: commits that were not durable are gone."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.orm import Session

from orchestrator.db.engine import open_database
from tests.simulation.scheduler import Process

FULL = 2
LOST_COMMITS = 4
_COMMITS: dict[Path, list[int]] = {}


class DurableDatabase:
    """World's Database for one process of the simulation, over the product's engine.

    Counts open transactions, so that the scheduler can see that none is open when the baton changes hands.
    With a weaker setting than synchronous=FULL it keeps the state before the last commits, which a power loss
    brings back: that is how a weaker setting is found out.
    """

    def __init__(self, file: Path, process: Process) -> None:
        self.file, self._process = file, process
        self._database = open_database(f"sqlite:///{file}", bare=True)
        self._weak: bool | None = None
        self._count = _COMMITS.setdefault(file, [0])

    def commits(self) -> int:
        """How many write transactions of all processes have ended on this file."""
        return self._count[0]

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A picture of one moment."""
        self._process.check()
        with self._counted(), self._database.read() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction of a living process."""
        self._process.check()
        with self._counted():
            self._keep_older()
            with self._database.write() as session:
                yield session
                self._process.check()
            self._count[0] += 1

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._process.open_transactions += 1
        try:
            yield
        finally:
            self._process.open_transactions -= 1

    def _keep_older(self) -> None:
        if self._weak is None:
            with self._database.write() as session:
                self._weak = session.execute(text("PRAGMA synchronous")).scalar_one() < FULL
        if self._weak:
            for age in range(LOST_COMMITS - 1, 0, -1):
                if older(self.file, age - 1).exists():
                    older(self.file, age - 1).replace(older(self.file, age))
            copy_database(self.file, older(self.file, 0))

    def close(self) -> None:
        """End its connections."""
        self._database.close()


def older(file: Path, age: int) -> Path:
    """Where the state before the last commit but `age` is kept."""
    return file.with_suffix(f".older{age}")


def copy_database(source: Path, target: Path) -> None:
    """A whole copy, write-ahead log included."""
    with sqlite3.connect(source) as read, sqlite3.connect(target) as write:
        read.backup(write)


def lose_power(file: Path) -> bool:
    """What was not on the disk is gone; whether anything was lost. Every process must be dead."""
    last = older(file, LOST_COMMITS - 1)
    if not last.exists():
        return False
    for suffix in ("-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)
    shutil.copyfile(last, file)
    return True


def template_database(folder: Path) -> Path:
    """A migrated, empty database, made once and copied for every seed."""
    file = folder / "template.db"
    database = open_database(f"sqlite:///{file}")
    with database.read():
        pass
    database.close()
    return file
