"""Cancel: a wish, written in one UPDATE; every step looks at it before it does anything else.

If the process dies after the commit, the sweep finds the job due and its step sees the wish.
"""

from dataclasses import dataclass

from sqlalchemy import exists, select, update

from jobs.errors import Usage
from jobs.states import LIVE
from orchestrator.db.models import Event, Job, Machine
from orchestrator.world import World

MAY_APPEAR = ("intended", "sent", "alive", "releasing")


@dataclass(frozen=True)
class Cancelled:
    """What was left behind by the wish. machine_may_appear: a machine of the job lives or may still come up."""

    id: str
    handle: str
    state: str
    simulated: bool
    machine_may_appear: bool


def cancel(world: World, job_id: str) -> Cancelled:
    """Wish that a job ends. Harmless when it is over or was cancelled before. Raises Usage for an unknown id."""
    now = world.clock.now()
    with world.database.write() as session:
        wished = session.execute(
            update(Job)
            .where(Job.id == job_id, Job.state.in_(LIVE), Job.wish.is_(None))
            .values(wish="cancel", wish_at=now, due_at=now)
            .returning(Job.id)
        )
        if wished.first() is not None:
            session.add(Event(at=now, job=job_id, word="cancel_wished", data={}))
        row = session.execute(select(Job.handle, Job.state, Job.simulated).where(Job.id == job_id)).first()
        if row is None:
            raise Usage(f"no job {job_id!r}; gpupoor status -a shows all")
        lives = session.scalar(select(exists().where(Machine.job == job_id, Machine.state.in_(MAY_APPEAR))))
    world.doorbell.ring("job", job_id)
    return Cancelled(job_id, row.handle, row.state, row.simulated, bool(lives))
