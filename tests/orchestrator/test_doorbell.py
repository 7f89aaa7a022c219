"""Doorbells, turns and tasks: who rings whom, and that nothing runs twice at once."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import update

from jobs.errors import Unanswered
from jobs.money import SECOND
from orchestrator import advance, celery_app, keeper, leases, tasks
from orchestrator.db.engine import open_database
from orchestrator.db.models import Job
from orchestrator.doorbell import CommittedDoorbell, DueWatch, LocalDoorbell
from orchestrator.turns import Turns
from orchestrator.world import World
from tests.orchestrator.plumbing import START, HandClock, add_running_job, make_world
from tests.services import wait_until


@pytest.fixture
def clock() -> HandClock:
    """Time by hand."""
    return HandClock()


@pytest.fixture
def world(tmp_path: Path, clock: HandClock) -> World:
    """A world with one job that is not due."""
    world = make_world(tmp_path, clock=clock)
    add_running_job(world)
    return world


@pytest.fixture
def watch(world: World, tmp_path: Path) -> DueWatch:
    """A due watch that has looked once."""
    watch = DueWatch(world, tmp_path / "gpupoor.db")
    watch.look()
    return watch


def make_due(tmp_path: Path, due_at: int, **more: object) -> None:
    """What another process commits."""
    database = open_database(f"sqlite:///{tmp_path}/gpupoor.db")
    with database.write() as session:
        session.execute(update(Job).values(due_at=due_at, **more))
    database.close()


def test_a_commit_of_another_process_rings(world: World, watch: DueWatch, tmp_path: Path) -> None:
    """Nothing but the committed due_at is needed, and one ring is enough."""
    assert watch.look() == 0
    make_due(tmp_path, START)
    assert watch.look() == 1
    assert world.doorbell.rings == [("job", "job1")]
    assert watch.look() == 0


def test_what_is_due_later_rings_when_its_time_has_come(world: World, watch: DueWatch, tmp_path: Path,
                                                       clock: HandClock) -> None:
    """Without any commit in between, and not before."""
    make_due(tmp_path, START + 2 * SECOND)
    assert watch.look() == 0
    clock.sleep(1.9)
    assert watch.look() == 0
    clock.sleep(0.2)
    assert watch.look() == 1


def test_a_step_that_fails_at_once_does_not_spin(world: World, watch: DueWatch, tmp_path: Path) -> None:
    """The same instant is rung once; the sweep comes back to it."""
    make_due(tmp_path, START)
    watch.look()
    for number in range(5):
        make_due(tmp_path, START, priority=number)
        assert watch.look() == 0


def test_a_job_under_lease_is_left_alone(world: World, watch: DueWatch, tmp_path: Path, clock: HandClock) -> None:
    """Somebody is at it; when his lease has run out it rings."""
    make_due(tmp_path, START, lease_token="t", lease_until=START + 3 * SECOND)
    assert watch.look() == 0
    clock.sleep(6)
    assert watch.look() == 1


def test_rings_across_processes_are_nothing_but_commits() -> None:
    """A command's ring does nothing and fails never."""
    CommittedDoorbell().ring("job", "x")


def test_a_local_ring_goes_to_tasks_or_watcher() -> None:
    """follow wakes the watcher, all else is sent; before the parts are there it is lost, which is harmless."""
    bell, heard = LocalDoorbell(), []
    bell.ring("job", "lost")
    bell.ring("follow", "lost")
    bell.send, bell.follow = (lambda kind, id: heard.append((kind, id))), (lambda: heard.append("follow"))
    bell.ring("machine", "m")
    bell.ring("follow", "j")
    assert heard == [("machine", "m"), "follow"]


class Steps:
    """Steps that wait until the test lets them go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slow: bool = False) -> None:
        self.begun, self.go, self.running, self.most = 0, threading.Semaphore(0), 0, 0
        self.lock = threading.Lock()
        monkeypatch.setattr(advance, "is_slow", lambda world, id: slow)
        monkeypatch.setattr(advance, "advance_job", self.step)
        monkeypatch.setattr(advance, "advance_machine", self.step)

    def step(self, world: World, id: str) -> None:
        """One step."""
        with self.lock:
            self.begun += 1
            self.running += 1
            self.most = max(self.most, self.running)
        self.go.acquire(timeout=30)
        with self.lock:
            self.running -= 1


def test_a_ring_during_a_run_causes_one_more_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five rings while a step runs: it is never run twice at once, and once more after."""
    steps, again = Steps(monkeypatch), []
    turns = Turns(world, lambda kind, id: again.append((kind, id)))
    thread = threading.Thread(target=turns.advance_job, args=("job1",))
    thread.start()
    wait_until(lambda: steps.begun == 1, "the step runs")
    for _ in range(5):
        turns.advance_job("job1")
    steps.go.release()
    thread.join()
    assert (steps.begun, steps.most, again) == (1, 1, [("job", "job1")])


def test_steps_that_move_bytes_leave_the_slot(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task returns at once, four transfers run beside each other, and a release does not wait for them."""
    steps = Steps(monkeypatch, slow=True)
    turns = Turns(world, lambda kind, id: None)
    for number in range(8):
        turns.advance_job(f"job{number}")
    wait_until(lambda: steps.begun == 4, "four transfers run")
    release = threading.Thread(target=turns.advance_machine, args=("m",))
    release.start()
    wait_until(lambda: steps.begun == 5, "the release runs")
    steps.go.release(9)
    release.join()
    wait_until(lambda: steps.begun == 9, "all ran")
    turns.stop()


def test_an_unexpected_error_ends_neither_task_nor_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged; the next ring runs the step again (L10)."""
    ran: list[str] = []

    def fail(world: World, id: str) -> None:
        ran.append(id)
        raise ZeroDivisionError if len(ran) == 1 else Unanswered("silent")

    monkeypatch.setattr(advance, "is_slow", lambda world, id: False)
    monkeypatch.setattr(advance, "advance_job", fail)
    turns = Turns(world, lambda kind, id: None)
    for _ in range(3):
        turns.advance_job("job1")
    assert ran == ["job1"] * 3


def test_a_message_runs_its_task_in_this_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real Celery worker on memory://: ten rings of one waiting job are one message."""
    steps = Steps(monkeypatch)
    app = celery_app.make_app()
    sender = celery_app.Sender(app)
    turns = Turns(world, sender.send)
    tasks.register(app, turns, sender.taken)
    for _ in range(10):
        sender.send("job", "job1")
    sender.send("machine", "m")
    worker = celery_app.EmbeddedWorker(app, 2)
    worker.start()
    wait_until(lambda: steps.begun == 2, "both tasks run")
    steps.go.release(2)
    wait_until(lambda: steps.running == 0, "both ended")
    sender.send("job", "job1")
    wait_until(lambda: steps.begun == 3, "a new ring is a new message")
    steps.go.release()
    worker.stop(10)
    assert (steps.begun, worker.alive) == (3, False)


def test_tasks_have_names_by_hand() -> None:
    """Messages survive a move of the code."""
    assert (tasks.ADVANCE_JOB, tasks.ADVANCE_MACHINE, tasks.SWEEP) == (
        "gpupoor.advance_job", "gpupoor.advance_machine", "gpupoor.sweep")


def test_a_held_lease_is_renewed_each_third(world: World, clock: HandClock) -> None:
    """While the block lasts; a lease that somebody else took is dropped; what is held at the end is given back."""
    lease = 60 * SECOND
    one = keeper.LeaseKeeper(world.database, clock, lease)
    with world.database.write() as session:
        assert leases.take(session, "job", "job1", "t", clock.now(), clock.now() + lease)
    with one.hold("job", "job1", "t"), one.hold("machine", "m-job1", "not ours"):
        assert one.renew() == 0
        clock.sleep(21)
        assert one.renew() == 1
        with world.database.read() as session:
            assert session.get_one(Job, "job1").lease_until == clock.now() + lease
        one.stop()
    with world.database.read() as session:
        assert session.get_one(Job, "job1").lease_token is None
