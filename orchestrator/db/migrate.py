"""Bring a database to the newest revision; cheap when it is there already."""

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Connection, create_engine, text
from sqlalchemy.exc import ProgrammingError

from jobs.errors import Unanswered
from orchestrator.db.engine import BUSY_S, make_engines, parse

HEAD: Final = "pre_0001"
_SCRIPTS: Final = Path(__file__).parent / "migrations"
_ADVISORY_LOCK: Final = 7_201_733


def migrate(url: str) -> None:
    """Upgrade the database at `url` to the newest revision, in one transaction, one process at a time."""
    bring_up_to_date(parse(url))


def bring_up_to_date(url: URL) -> None:
    """As `migrate`; when the database says that it is at HEAD, Alembic is not even imported."""
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "")
        if _sqlite_revision(path) != HEAD:
            with _file_lock(path.with_name("migrate.lock")):
                if _sqlite_revision(path) != HEAD:
                    _upgrade(url)
                    path.chmod(0o600)
    elif _postgresql_revision(url) != HEAD:
        _upgrade(url)


def upgrade(connection: Connection) -> None:
    """Run what is missing on an open connection, inside the caller's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _upgrade(url: URL) -> None:
    engine = make_engines(url)[1]
    try:
        with engine.begin() as connection:
            if url.get_backend_name() == "postgresql":
                connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
            upgrade(connection)
    finally:
        engine.dispose()


def _sqlite_revision(path: Path) -> str | None:
    if not path.exists():
        return None
    connection = sqlite3.connect(path, timeout=BUSY_S)
    try:
        row = connection.execute("select version_num from alembic_version").fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return None
    except sqlite3.DatabaseError as error:
        raise Unanswered(f"{path} cannot be read: {error}; restore it from a backup, or name another home") from None
    finally:
        connection.close()
    return row[0] if row else None


def _postgresql_revision(url: URL) -> str | None:
    engine = create_engine(url, connect_args={"connect_timeout": 10})
    try:
        with engine.connect() as connection:
            return connection.execute(text("select version_num from alembic_version")).scalar_one_or_none()
    except ProgrammingError:
        return None
    finally:
        engine.dispose()


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
