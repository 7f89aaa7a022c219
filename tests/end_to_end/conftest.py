"""A cloud and a home for each test; at its end only their own processes are killed, by pid."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.cloud_process import Cloud
from tests.end_to_end.home import Home


@pytest.fixture
def clouds(tmp_path: Path) -> Iterator[Callable[[], Cloud]]:
    """Makes clouds; all are ended with their machines."""
    made: list[Cloud] = []

    def make() -> Cloud:
        made.append(Cloud(tmp_path / f"cloud-{len(made)}"))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def cloud(clouds: Callable[[], Cloud]) -> Cloud:
    """A cloud of this test alone."""
    return clouds()


@pytest.fixture
def homes(tmp_path: Path, clouds: Callable[[], Cloud]) -> Iterator[Callable[..., Home]]:
    """Makes homes at a cloud; their processes end before the clouds do."""
    made: list[Home] = []

    def make(cloud: Cloud | None, **settings: str) -> Home:
        made.append(Home(tmp_path / f"installation-{len(made)}", cloud, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def home(homes: Callable[..., Home], cloud: Cloud) -> Home:
    """A home at the test's cloud."""
    return homes(cloud)
