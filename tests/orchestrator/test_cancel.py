"""A cancel is a wish: written once, harmless when repeated, and honest about machines."""

from pathlib import Path

import pytest
from sqlalchemy import select

from jobs.errors import Usage
from orchestrator.cancel import cancel
from orchestrator.db.models import Event, Job
from orchestrator.world import World
from tests.orchestrator.door_world import door_world
from tests.orchestrator.standing_world import make_job, make_machine, store


def row(world: World) -> Job:
    """The only job."""
    with world.database.read() as session:
        return session.scalars(select(Job)).one()


def test_a_cancel_is_a_wish_that_makes_the_job_due(tmp_path: Path) -> None:
    """State and phase stay; the wish, the event and the bell are there."""
    world = door_world(tmp_path)
    store(world, make_job(state="queued", phase=None, due_at=None))
    done = cancel(world, "job1")
    job = row(world)
    assert (job.state, job.wish, job.wish_at, job.due_at) == ("queued", "cancel", world.clock.now(), world.clock.now())
    assert (done.state, done.machine_may_appear) == ("queued", False)
    assert world.doorbell.rung == [("job", "job1")]


def test_a_cancel_may_be_repeated(tmp_path: Path) -> None:
    """Fifty times give one event."""
    world = door_world(tmp_path)
    store(world, make_job())
    for _ in range(50):
        cancel(world, "job1")
    with world.database.read() as session:
        assert [event.word for event in session.scalars(select(Event))] == ["cancel_wished"]


def test_a_job_that_is_over_stays_as_it_is(tmp_path: Path) -> None:
    """No wish is written to a finished job."""
    world = door_world(tmp_path)
    store(world, make_job(state="succeeded", phase=None))
    assert cancel(world, "job1").state == "succeeded"
    assert row(world).wish is None


@pytest.mark.parametrize(
    ("state", "may"),
    [("intended", True), ("sent", True), ("alive", True), ("releasing", True), ("absent", False), ("gone", False)],
)
def test_it_says_whether_a_machine_may_appear(tmp_path: Path, state: str, may: bool) -> None:
    """True from the row of the intent on, false only after the proof."""
    world = door_world(tmp_path)
    store(world, make_job(state="starting", phase="renting"), make_machine(state=state))
    assert cancel(world, "job1").machine_may_appear is may


def test_an_unknown_job_is_wrong_usage(tmp_path: Path) -> None:
    """Nothing is written."""
    with pytest.raises(Usage, match="nobody"):
        cancel(door_world(tmp_path), "nobody")
