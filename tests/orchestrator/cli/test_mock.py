"""Which world is meant, and the simulated cloud that is started for it."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.errors import Usage
from orchestrator.cli.mock import ensure_cloud, means_simulated
from orchestrator.settings import Settings


@pytest.mark.parametrize(
    ("url", "mock", "providers", "simulated"),
    [
        ("", False, (), False), ("", True, (), True), ("", False, ("mock",), True), ("http://x", False, (), True),
        ("http://x", False, ("vast",), False), ("", True, ("mock",), True), ("", False, ("vast", "runpod"), False),
    ],
)  # fmt: skip
def test_the_simulated_world_is_meant_only_when_named(
    tmp_path: Path, url: str, mock: bool, providers: tuple[str, ...], simulated: bool
) -> None:
    """By the flag, the job file or the address; a real provider that is named wins over the address."""
    assert means_simulated(Settings(home=tmp_path, mock_url=url), mock, providers) is simulated


@pytest.mark.parametrize(
    ("mock", "providers"), [(False, ("mock", "vast")), (True, ("vast",)), (True, ("vast", "mock"))]
)
def test_the_worlds_are_never_mixed(tmp_path: Path, mock: bool, providers: tuple[str, ...]) -> None:
    """Exit 2."""
    with pytest.raises(Usage):
        means_simulated(Settings(home=tmp_path), mock, providers)


def test_an_address_that_was_set_is_not_questioned(tmp_path: Path) -> None:
    """Nothing is started."""
    settings = Settings(home=tmp_path, mock_url="http://127.0.0.1:1")
    assert ensure_cloud(settings) is settings
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home; the cloud that was started in it is ended at the end."""
    yield tmp_path
    end(tmp_path)


def end(home: Path) -> None:
    """Kill the cloud of `home` and wait until it is over."""
    pid = json.loads((home / "sim/cloud.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_cloud_is_started_once_and_again_at_its_old_address(home: Path) -> None:
    """One that answers is used as it is; a dead one comes back where the orchestrator knows it."""
    settings = Settings(home=home)
    first = ensure_cloud(settings).mock_url
    note = (home / "sim/cloud.json").read_bytes()
    assert ensure_cloud(settings).mock_url == first
    assert (home / "sim/cloud.json").read_bytes() == note
    end(home)
    assert ensure_cloud(settings).mock_url == first
    assert (home / "sim/cloud.json").read_bytes() != note
