"""The database behind World's two verbs, read and write, on SQLite and on PostgreSQL.

SQLite, as measured: writes begin with BEGIN IMMEDIATE and queue on one lock per process (a deferred
BEGIN fails under load), WAL, synchronous=FULL (NORMAL loses the last intent at power loss).
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Engine, create_engine, event, make_url, select, text
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.orm import Session

from jobs.errors import GpupoorError, Unanswered
from orchestrator.db.ballast import Ballast
from orchestrator.db.models import Installation
from providers.clock import Clock, RealClock

BUSY_S: Final = 30
_QUEUE_S: Final = 120
_FORMS: Final = "sqlite:///FILE or postgresql://HOST/NAME"
_NETWORK_FILE_SYSTEMS: Final = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "lustre", "ceph")


class ConnectedDatabase:
    """Short transactions on one address; `orchestrator.world.Database`.

    The engine is made at first use and again after a fork, so no two processes share a connection.
    """

    def __init__(self, url: URL, ballast: Ballast | None = None) -> None:
        self.url = url
        self._ballast = ballast
        self._pid = 0
        self._make_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._writer = 0
        self._engines: tuple[Engine, Engine] | None = None

    @property
    def path(self) -> Path | None:
        """The file of a SQLite database, else None."""
        return Path(self.url.database or "") if self.url.get_backend_name() == "sqlite" else None

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A picture of one moment. Raises Unanswered when the database is silent."""
        with self.translated(), Session(self._both()[0], expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Committed at the end of the block, rolled back by an exception.

        Raises Unanswered when the database is silent or its disk is full; nothing was changed then,
        unless the answer to the very commit was lost: every caller may repeat its block.
        """
        engine = self._both()[1]
        with self._turn(), self.translated():
            with Session(engine, expire_on_commit=False) as session, session.begin():
                yield session
            if self._ballast:
                self._ballast.restore()

    def close(self) -> None:
        """Close every idle connection; the next use opens new ones."""
        with self._make_lock:
            if self._engines and self._pid == os.getpid():
                self._engines[0].dispose()
            self._engines = None

    def _both(self) -> tuple[Engine, Engine]:
        """The engine as readers and as writers use it."""
        engines = self._engines
        if engines is not None and self._pid == os.getpid():
            return engines
        with self._make_lock:
            if self._engines is None or self._pid != os.getpid():
                if self._pid != os.getpid():
                    self._write_lock, self._writer = threading.Lock(), 0
                self._engines, self._pid = make_engines(self.url), os.getpid()
            return self._engines

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One writer at a time per process: threads queue here, where waiting is fair and cheap."""
        if self.path is None:
            yield
            return
        me = threading.get_ident()
        if self._writer == me:
            raise RuntimeError("a write transaction inside another one")
        if not self._write_lock.acquire(timeout=_QUEUE_S):
            raise Unanswered(f"database {self.path}: another thread has been writing for {_QUEUE_S} s")
        self._writer = me
        try:
            yield
        finally:
            self._writer = 0
            self._write_lock.release()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Errors of the driver become Unanswered, with what to do and no password in it."""
        try:
            yield
        except IntegrityError:
            raise
        except DBAPIError as error:
            if self._ballast and _is_full(error):
                self._ballast.free()
                text = f"the disk of {self.path} is full; free some space, the work goes on by itself"
                raise Unanswered(text) from error
            if isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated:
                reason = str(error.orig).strip().splitlines() or [type(error.orig).__name__]
                raise Unanswered(f"database {shown(self.url)} does not answer: {reason[0]}") from error
            raise


def open_database(url: str, clock: Clock | None = None, bare: bool = False) -> ConnectedDatabase:
    """The database at `url`, made or brought up to date if need be.

    bare: taken as it is, with no migration and no ballast beside it (for many short-lived files).

    Raises GpupoorError for a folder that SQLite cannot trust, Unanswered when nobody answers there.
    """
    parsed = parse(url)
    if bare:
        return ConnectedDatabase(parsed)
    database = ConnectedDatabase(parsed)
    if database.path:
        folder = database.path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        refuse_network_folder(folder)
        database = ConnectedDatabase(parsed, Ballast(folder, clock or RealClock()))
    from orchestrator.db.migrate import bring_up_to_date
    with database.translated():
        bring_up_to_date(parsed)
    return database


def parse(url: str) -> URL:
    """The address with its driver. Raises GpupoorError for one that cannot be used."""
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        # The text of the error would hold the address, password and all.
        raise GpupoorError(f"database_url cannot be read; write {_FORMS}") from None
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and parsed.database and parsed.database != ":memory:":
        return parsed.set(drivername="sqlite", database=str(Path(parsed.database).absolute()))
    raise GpupoorError(f"database_url {shown(parsed)}: write {_FORMS}")


def shown(url: URL) -> str:
    """The address for people: its password hidden."""
    return url.render_as_string(hide_password=True)


def installation_id(database: ConnectedDatabase, fresh: Callable[[], str], now: int) -> str:
    """Who we are: the one row of `installations`, made once from `fresh()` (8 of a-z0-9)."""
    with database.read() as session:
        found = session.execute(select(Installation.id)).scalars().first()
    if found:
        return found
    with database.write() as session:
        if database.path is None:  # two processes may both come here; the second must see the first one's row
            session.execute(text("lock table installations in exclusive mode"))
        found = session.execute(select(Installation.id)).scalars().first()
        if found is None:
            found = fresh()
            session.add(Installation(id=found, created_at=now))
    return found


def refuse_network_folder(folder: Path, mounts: Path = Path("/proc/mounts")) -> None:
    """Raise GpupoorError when `folder` lies on a network file system: its locks and WAL cannot be trusted there."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    real = folder.resolve()
    best, kind = -1, ""
    for line in lines:
        words = line.split()
        if len(words) < 3:
            continue
        point = Path(words[1].replace("\\040", " "))
        if (real == point or point in real.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), words[2]
    if kind in _NETWORK_FILE_SYSTEMS:
        raise GpupoorError(f"{folder} lies on {kind}, where a SQLite database breaks when two computers use it; "
                           "set GPUPOOR_HOME to a local folder, or GPUPOOR_DATABASE_URL to a PostgreSQL server")


def make_engines(url: URL) -> tuple[Engine, Engine]:
    """One pool of connections, as readers and as writers use it."""
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_S}, pool_size=5, max_overflow=-1)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine, engine.execution_options(writes=True)
    limits = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000,
              "options": "-c statement_timeout=60s -c lock_timeout=30s -c timezone=utc"}
    engine = create_engine(url, pool_pre_ping=True, pool_size=5, max_overflow=20, connect_args=limits)
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True), engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver would begin by itself, too late and deferred
    for pragma in (f"busy_timeout={BUSY_S * 1000}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Any) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _is_full(error: DBAPIError) -> bool:
    """SQLITE_FULL, or an I/O error, which is how a full disk shows in the write-ahead log."""
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    return code in (13, 10)
