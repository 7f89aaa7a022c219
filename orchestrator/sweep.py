"""Wake every job and machine whose time has come: what a lost message would have forgotten."""

from sqlalchemy import select

from jobs.states import TERMINAL
from orchestrator.db.models import Job, Machine
from orchestrator.world import World

MOST = 500


def sweep(world: World) -> int:
    """Ring all that is due, in the order of the queue; how many rings."""
    now = world.clock.now()
    with world.database.read() as session:
        machines = session.scalars(
            select(Machine.id)
            .where(Machine.state.in_(("sent", "absent", "releasing")), Machine.due_at <= now)
            .order_by(Machine.due_at)
            .limit(MOST)
        ).all()
        jobs = session.scalars(
            select(Job.id)
            .where(Job.due_at <= now, Job.state.not_in(TERMINAL))
            .order_by(Job.priority.desc(), Job.submitted_at, Job.id)
            .limit(MOST)
        ).all()
    for machine in machines:
        world.doorbell.ring("machine", machine)
    for job in jobs:
        world.doorbell.ring("job", job)
    return len(machines) + len(jobs)
