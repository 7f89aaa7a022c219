"""Fixtures that every folder of tests may use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import SSHD, Sshd, run_redis, run_sshd


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A real OpenSSH server of this test alone."""
    assert SSHD is not None, "OpenSSH's sshd is not installed; type: sudo apt-get install -y openssh-server"
    folder = tmp_path / "sshd"
    folder.mkdir()
    with run_sshd(folder) as server:
        yield server


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Redis for all tests of this process."""
    with run_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url
