"""Migrations and models say the same."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from orchestrator.db import migrate
from orchestrator.db.engine import make_engines, open_database, parse
from orchestrator.db.models import Table
from tests.orchestrator.plumbing import at_once


def test_the_migrated_database_is_what_the_models_say(url: str) -> None:
    """Nothing is left for a further migration."""
    migrate.migrate(url)
    engine = make_engines(parse(url))[1]
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Table.metadata) == []
    engine.dispose()


def _schema(path: Path) -> dict[str, str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("select name, sql from sqlite_master where sql is not null").fetchall()
    return {name: " ".join(sorted(re.findall(r"[^\s,()\"]+", sql))) for name, sql in rows
            if name not in ("alembic_version", "sqlite_sequence")}


def test_checks_and_partial_indexes_are_the_same_too(tmp_path: Path) -> None:
    """Word for word, which the comparison of the tool does not see."""
    migrate.migrate(f"sqlite:///{tmp_path}/migrated.db")
    engine = create_engine(f"sqlite:///{tmp_path}/models.db")
    Table.metadata.create_all(engine)
    engine.dispose()
    assert _schema(tmp_path / "migrated.db") == _schema(tmp_path / "models.db")


def test_head_is_the_newest_script() -> None:
    """The constant of the quick way names the newest revision."""
    assert ScriptDirectory(str(migrate._SCRIPTS)).get_current_head() == migrate.HEAD


def test_many_who_open_an_empty_home_at_once_migrate_it_once(url: str) -> None:
    """All succeed, and the revision table has one row."""
    errors = at_once(lambda: migrate.migrate(url))
    assert errors == []


def test_a_database_that_is_up_to_date_needs_no_alembic(tmp_path: Path) -> None:
    """The quick way imports nothing of it."""
    url = f"sqlite:///{tmp_path}/gpupoor.db"
    open_database(url)
    code = ("import sys\nfrom orchestrator.db.engine import open_database\n"
            f"open_database({url!r})\nprint('alembic' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


def test_a_migration_that_dies_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one transaction: after a death inside of it the next one starts from the same state."""
    url = f"sqlite:///{tmp_path}/gpupoor.db"
    with pytest.raises(KeyboardInterrupt), make_engines(parse(url))[1].begin() as connection:
        migrate.upgrade(connection)
        raise KeyboardInterrupt
    with sqlite3.connect(tmp_path / "gpupoor.db") as connection:
        assert connection.execute("select count(*) from sqlite_master").fetchone() == (0,)
    migrate.migrate(url)
