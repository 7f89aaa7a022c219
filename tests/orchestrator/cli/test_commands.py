"""status, logs, cancel and pull on a fresh home with a real database; the orchestrator is only noted as started."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator import log_store, wiring
from orchestrator.cli.main import main
from orchestrator.db.models import Attempt, Event
from orchestrator.world import World
from tests.orchestrator.standing_world import make_job, make_machine, store

Gpupoor = Callable[..., Result]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Whenever the orchestrator would be started."""
    calls: list[Any] = []
    monkeypatch.setattr("orchestrator.up.ensure", calls.append)
    monkeypatch.setenv("GPUPOOR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return calls


@pytest.fixture
def world(started: list[Any]) -> World:
    """The world of the fresh home, with one failed job that had two attempts and one that waits."""
    world = wiring.world(wiring.settings())
    now = world.clock.now()
    store(
        world,
        make_job("job1", state="failed", phase=None, attempt_number=2, submitted_at=now - 2, ended_at=now,
                 budget=5_000_000, reason_code="own_exit", reason="exit code 3", exit_code=3, cleanup="done",
                 folder=str(Path.cwd())),
        make_job("job2", state="queued", phase=None, submitted_at=now - 1, simulated=False, waiting_for="budget",
                 waiting_reason="the cap is reached", folder="/elsewhere"),
    )  # fmt: skip
    for number in (1, 2):
        name = f"m{number}"
        store(world, make_machine(id=name, label=name, token=name, attempt=number, state="gone", gone_at=now))
        store(world, Attempt(job="job1", number=number, machine=name, started_at=now, ended_at=now, follow_token="f"))
    store(world, Event(at=now, job="job1", word="ended", data={"reason": "exit code 3"}))
    log_store.append(world, "job1", 1, "log", 0, b"first\n", "f")
    log_store.append(world, "job1", 2, "log", 0, b"out\n\x80\xff\nerr\n", "f")
    log_store.append(world, "job1", 2, "stderr", 0, b"err\n", "f")
    return world


@pytest.fixture
def gpupoor(world: World) -> Gpupoor:
    """Run `gpupoor WORDS`."""
    return lambda *words: CliRunner().invoke(main, list(words))


def test_status_shows_alarms_and_jobs(gpupoor: Gpupoor) -> None:
    """One document with two lists; the newest job first; both worlds, marked."""
    found = json.loads(gpupoor("status", "-o", "json").stdout)
    assert list(found) == ["alarms", "jobs"]
    assert [(job["id"], job["simulated"]) for job in found["jobs"]] == [("job2", False), ("job1", True)]


def test_the_table_keeps_the_worlds_apart(gpupoor: Gpupoor) -> None:
    """Real jobs first; the simulated ones under their own head, their money marked."""
    lines = gpupoor("ps").stdout.splitlines()
    assert lines[1].startswith("job2-0000")
    assert "waits for budget: the cap is reached" in lines[1]
    assert lines[2] == "SIMULATED"
    assert "sim $5.00" in lines[4]


def test_status_of_one_job_is_an_object_or_its_story(gpupoor: Gpupoor) -> None:
    """The document of the job; as text its attempts and events."""
    assert json.loads(gpupoor("status", "job1", "-o", "json").stdout)["exit_code"] == 3
    story = gpupoor("status", "job1").stdout
    for part in ("job1-0000  failed  SIMULATED", "exit code 3", "Attempt 1", "Attempt 2", "Events"):
        assert part in story


def test_status_without_a_name_in_a_pipe_draws_nothing(gpupoor: Gpupoor) -> None:
    """-w wants a terminal."""
    assert gpupoor("status", "-w").exit_code == 2


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (["job1"], b"out\n\x80\xff\nerr\n"), ([], b"out\n\x80\xff\nerr\n"), (["job1", "--attempt", "1"], b"first\n"),
        (["job1", "--stderr"], b"err\n"), (["job1", "--stdout"], b"out\n\x80\xff\n"),
        (["job1", "--tail", "1"], b"err\n"),
        (["job1", "--stdout", "--tail", "1"], b"\x80\xff\n"), (["job1", "--tail", "0"], b""), (["job2"], b""),
        (["job1", "--attempt", "1", "-f"], b"first\n"),
    ],
)  # fmt: skip
def test_logs_are_byte_for_byte(gpupoor: Gpupoor, words: list[str], data: bytes) -> None:
    """Each stream, each attempt, the last lines; empty before anything ran."""
    done = gpupoor("logs", *words)
    assert (done.exit_code, done.stdout_bytes, done.stderr) == (0, data, "")


def test_logs_of_an_attempt_that_never_was(gpupoor: Gpupoor) -> None:
    """Exit 2."""
    assert gpupoor("logs", "job1", "--attempt", "3").exit_code == 2


def test_logs_follow_ends_with_the_job(gpupoor: Gpupoor) -> None:
    """Its log, nothing else, and the exit code of its end."""
    done = gpupoor("logs", "job1", "-f", "--tail", "1")
    assert (done.exit_code, done.stdout_bytes, done.stderr) == (5, b"err\n", "")


def test_cancel_is_a_list_in_json(gpupoor: Gpupoor, started: list[Any]) -> None:
    """id, state, machine_may_appear; somebody is started to see the wish."""
    done = gpupoor("cancel", "job2", "job1", "-o", "json")
    assert json.loads(done.stdout) == [
        {"id": "job2", "state": "queued", "machine_may_appear": False},
        {"id": "job1", "state": "failed", "machine_may_appear": False},
    ]
    assert len(started) == 1


def test_cancel_of_what_is_over_starts_nothing(gpupoor: Gpupoor, started: list[Any]) -> None:
    """Harmless, exit 0."""
    assert gpupoor("stop", "job1").exit_code == 0
    assert started == []


def test_cancel_without_a_name_asks_and_in_a_pipe_refuses(gpupoor: Gpupoor, world: World) -> None:
    """Nobody is there to answer: exit 2, nothing wished; -y is the answer."""
    done = gpupoor("cancel")
    assert done.exit_code == 2
    assert "job1-0000" in done.stderr
    assert gpupoor("cancel", "-y").exit_code == 0


def test_cancel_all_takes_what_lives(gpupoor: Gpupoor) -> None:
    """Jobs that are over are not among them."""
    assert [one["id"] for one in json.loads(gpupoor("cancel", "--all", "-o", "json").stdout)] == ["job2"]
    assert gpupoor("cancel", "--all", "job1").exit_code == 2


def test_pull_of_a_job_without_results(gpupoor: Gpupoor) -> None:
    """Exit 2 and the reason, no folder."""
    done = gpupoor("pull", "job1")
    assert done.exit_code == 2
    assert "no outputs" in done.stderr
    assert not Path("gpupoor-out").exists()
