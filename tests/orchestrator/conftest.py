"""Both databases, for every test here that must hold on both."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.orchestrator.plumbing import make_database, run_postgresql


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """One server; its address without a database's name."""
    with run_postgresql() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/gpupoor.db"
    return make_database(request.getfixturevalue("postgresql"))
