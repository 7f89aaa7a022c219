"""config, doctor, up and down, cloud."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from orchestrator import wiring
from orchestrator.cli.up import unit_text
from orchestrator.views.health import checks
from orchestrator.wiring import LiveLimits
from providers.base import Unavailable
from tests.orchestrator.cli.conftest import Run, Stand
from tests.orchestrator.standing_world import ListedMarket, make_job, make_machine, make_sighting, store


def test_config(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set is read back with where it came from; the environment wins, and that is said."""
    assert run("config", "set", "max_gpus", "4").exit_code == 0
    assert run("config", "get", "max_gpus").stdout == "4\n"
    assert json.loads(run("config", "get", "GPUPOOR_MAX_GPUS", "-o", "json").stdout) == {
        "name": "max_gpus", "value": "4", "from": "setting"}  # fmt: skip
    monkeypatch.setenv("GPUPOOR_GRACE", "3m")
    assert "wins over the file" in run("config", "set", "grace", "1m").stderr
    found = {row["name"]: row for row in json.loads(run("config", "get", "-o", "json").stdout)}
    assert (found["grace"]["value"], found["grace"]["from"], found["hold"]["from"]) == ("3m", "environment", "default")
    assert found["home"]["value"] == str(home)


@pytest.mark.parametrize(
    "words", [["get", "max_gpu"], ["set", "max_gpu", "4"], ["set", "max_gpus", "four"], ["set", "grace"]]
)
def test_config_wrong(run: Run, home: Path, words: list[str]) -> None:
    """A wrong name or value is exit 2, and nothing is written."""
    assert run("config", *words).exit_code == 2
    assert not (home / "config.toml").exists()


def test_doctor_of_a_fresh_home(run: Run) -> None:
    """A fresh home is well: every check has a name, a verdict and a sentence."""
    run("budget", "set", "5")
    ended = run("doctor", "-o", "json")
    document = json.loads(ended.stdout)
    assert (ended.exit_code, document["ok"]) == (0, True), document
    names = [check["name"] for check in document["checks"]]
    assert names == ["settings", "home", "clock", "keys", "database", "broker", "blobs", "disk", "ballast", "guard",
                     "orchestrator", "strays", "alarms"]  # fmt: skip
    assert all(set(check) == {"name", "ok", "text"} and check["text"] for check in document["checks"])
    assert "NOT OK" not in run("doctor").stdout


def verdicts(world: Any) -> dict[str, bool]:
    """Check -> whether it is well."""
    return {check.name: check.ok for check in checks(world)}


@pytest.mark.parametrize(("variable", "value", "check"), [
    ("GPUPOOR_GRACE", "soon", "settings"), ("GPUPOOR_MAX_GPU", "2", "settings"),
    ("GPUPOOR_BROKER_URL", "redis://127.0.0.1:1/0", "broker"),
    ("GPUPOOR_DATABASE_URL", "mysql://x", "database"), ("GPUPOOR_BLOBS_URL", "/dev/null/blobs", "blobs"),
])  # fmt: skip
def test_doctor_finds(run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, check: str) -> None:
    """What is wrong is one check that is not well, and exit 9."""
    monkeypatch.setenv(variable, value)
    ended = run("doctor", "-o", "json")
    wrong = [each["name"] for each in json.loads(ended.stdout)["checks"] if not each["ok"]]
    assert ended.exit_code == 9 and check in wrong


def test_doctor_of_a_broken_database(run: Run, home: Path) -> None:
    """A file that is no database is a check that is not well, not a crash."""
    home.mkdir()
    (home / "gpupoor.db").write_bytes(b"this is no database" * 400)
    ended = run("doctor", "-o", "json")
    wrong = [each["name"] for each in json.loads(ended.stdout)["checks"] if not each["ok"]]
    assert ended.exit_code == 9 and "database" in wrong


def test_a_home_that_cannot_be_is_wrong_usage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence with the path, no trace."""
    monkeypatch.setenv("GPUPOOR_HOME", "/proc/no/home")
    ended = run("budget")
    assert ended.exit_code == 2 and "/proc/no" in ended.stderr and "internal" not in ended.stderr


def test_limits_set_now_bind_a_process_that_runs(run: Run, home: Path) -> None:
    """max_gpus and max_per_hour are those of the file at each step; a broken file changes nothing."""
    run("config", "set", "max_gpus", "5")
    current = LiveLimits(wiring.world(wiring.settings()))
    assert current().settings.max_gpus == 5
    run("config", "set", "max_gpus", "1")
    run("config", "set", "max_per_hour", "0.20")
    assert (current().settings.max_gpus, current().settings.max_per_hour) == (1, 200_000)
    (home / "config.toml").write_text("max_gpus = ")
    assert current().settings.max_gpus == 1


def test_doctor_asks_the_markets(stand: Stand) -> None:
    """A market that does not answer, and a machine with our label that no row knows, are strays."""
    real = ListedMarket("vast", simulated=False)
    world = stand(real)
    assert verdicts(world)["strays"]
    real.machines = [make_sighting(label="somebody", provider="vast")]
    assert verdicts(world)["strays"]
    real.machines = [make_sighting(provider="vast")]
    assert not verdicts(world)["strays"]
    real.machines, real.fault = [], Unavailable("down")
    assert not verdicts(world)["strays"]


def test_doctor_misses_guard_and_orchestrator(stand: Stand) -> None:
    """Neither is needed where nothing lives, both where a machine does."""
    world = stand(ListedMarket(machines=[make_sighting()]))
    found = verdicts(world)
    assert found["guard"] and found["orchestrator"] and found["alarms"]
    store(world, make_job(), make_machine())
    found = verdicts(world)
    assert not found["guard"] and not found["orchestrator"] and not found["alarms"]


def test_doctor_sees_a_clock_that_was_set_back(stand: Stand) -> None:
    """A clock behind what was written last is not well."""
    world = stand()
    store(world, make_job(state="succeeded", phase=None, submitted_at=world.clock.now() + 10**9))
    assert not verdicts(world)["clock"]


def test_unit(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """--at-login writes a unit that names this home and leaves the guard alive when it is stopped."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = run("up", "--at-login", "--workers", "2")
    text = (tmp_path / "xdg" / "systemd" / "user" / "gpupoor.service").read_text()
    assert ended.exit_code == 0 and "systemctl --user enable" in ended.stderr
    assert f'Environment="GPUPOOR_HOME={home}"' in text and "KillMode=process" in text
    assert f'ExecStart="{sys.executable}"' in text and '"up" "--workers" "2"' in text


def test_unit_quotes() -> None:
    """What means something to systemd is written so that it means itself."""
    assert 'Environment="GPUPOOR_HOME=/a b/100%%/\\"q\\""' in unit_text(Path('/a b/100%/"q"'), 4)


def test_up_in_the_background(run: Run, started: list[Any], home: Path) -> None:
    """`up -d` starts the orchestrator of this home."""
    assert run("up", "-d").exit_code == 0
    assert [settings.home for settings in started] == [home]


def test_down_of_nothing(run: Run) -> None:
    """Stopping what does not run is harmless."""
    assert run("down").exit_code == 0


def test_cloud(home: Path, tmp_path: Path) -> None:
    """The first line of the cloud is its address; its clock runs at the speed asked for; SIGTERM ends it."""
    program = "from orchestrator.cli.main import main; main()"
    words = ["cloud", "--port", "0", "--state", str(tmp_path / "sim"), "--speed", "0"]
    with subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with urllib.request.urlopen(f"{url}/_cloud/clock", timeout=10) as answer:
                assert json.load(answer)["speed"] == 0
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.mark.parametrize("words", [["--speed", "-1"], ["--port", "70000"], ["--faults", "/nowhere.yaml"]])
def test_cloud_wrong(run: Run, words: list[str]) -> None:
    """Wrong options are exit 2."""
    assert run("cloud", *words).exit_code == 2
