"""A home of its own for each test of a command, and `gpupoor WORDS`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main
from orchestrator.world import World
from providers.base import Provider
from tests.orchestrator.standing_world import make_world

Run = Callable[..., Result]
Stand = Callable[..., World]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty GPUPOOR_HOME, and no other variable of ours."""
    for name in ("GPUPOOR_MOCK_URL", "GPUPOOR_CLOCK_URL", "GPUPOOR_ZONE"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "home"
    monkeypatch.setenv("GPUPOOR_HOME", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return path


@pytest.fixture
def run(home: Path) -> Run:
    """Run `gpupoor WORDS` in this process."""
    return lambda *words: CliRunner().invoke(main, list(words))


@pytest.fixture
def stand(home: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Put a world that stands still in place of the real one; starts of the orchestrator are counted in `started`."""

    def put(*markets: Provider, **settings: Any) -> World:
        world = make_world(home, markets, **settings)
        monkeypatch.setattr("orchestrator.wiring.world", lambda _settings: world)
        monkeypatch.setattr("orchestrator.cli.worlds.ensure_cloud", lambda settings: settings)
        return world

    return put


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Settings of every orchestrator that was started."""
    calls: list[Any] = []
    monkeypatch.setattr("orchestrator.up.ensure", lambda settings, *_: calls.append(settings))
    return calls
