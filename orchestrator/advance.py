"""Move one job, or one unwanted machine, one step on: lease, look, act, apply.

Killed between any two lines it leaves a state from which the next call goes on: what a step did
outside is safe to repeat, and what it decided is applied in one transaction that counts only
while the lease is still ours.
"""

from collections.abc import Callable
from typing import Any

import structlog
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from jobs.money import SECOND
from jobs.states import QUEUED, TERMINAL, may_move, place
from orchestrator import leases, ledger
from orchestrator.booking import apply_job, apply_machine
from orchestrator.db.models import Job, Machine
from orchestrator.ending import end
from orchestrator.result import StepResult
from orchestrator.snapshot import Snapshot, read_snapshot
from orchestrator.steps.boot import boot
from orchestrator.steps.choose import choose, wait
from orchestrator.steps.collect import collect
from orchestrator.steps.follow import follow
from orchestrator.steps.probe import probe
from orchestrator.steps.release import release
from orchestrator.steps.rent import rent
from orchestrator.steps.upload import upload
from orchestrator.world import World
from providers.base import ProviderError
from providers.shell import ShellError

log = structlog.get_logger()


def wait_for_proof(snap: Snapshot, world: World) -> StepResult:
    """queued/releasing -> queued once every earlier machine is proved gone or carries a tombstone."""
    if snap.job.wish == "cancel":
        return end(snap, world, "cancelled", "cancelled between two tries")
    now = world.clock.now()
    # an absent row without provider_id stays reserved, but no process of ours can have started anything there
    if all(
        machine.state == "gone" or machine.tombstoned_at or machine.provider_id is None for machine in snap.machines
    ):
        return StepResult(QUEUED, None, look_again_at=max(now, snap.job.due_at or now))
    return StepResult(QUEUED, "releasing", look_again_at=now + 2 * SECOND)


STEPS: dict[str, Callable[[Snapshot, World], StepResult]] = {
    "queued/": choose,
    "queued/choosing": choose,
    "queued/releasing": wait_for_proof,
    "starting/renting": rent,
    "starting/booting": boot,
    "starting/probing": probe,
    "starting/uploading": upload,
    "starting/setup": follow,
    "running/run": follow,
    "finishing/collecting": collect,
}
SLOW = ("starting/uploading", "finishing/collecting")
FAULT_PAUSES_S = (1, 2, 5, 10, 30, 60)


def is_slow(world: World, job_id: str) -> bool:
    """Whether the job's next step moves bytes and so must not occupy a task slot."""
    with world.database.read() as session:
        row = session.execute(select(Job.state, Job.phase).where(Job.id == job_id)).one_or_none()
    return row is not None and place(row.state, row.phase) in SLOW


def advance_job(world: World, job_id: str) -> None:
    """One step of one job. Harmless when there is nothing to do or somebody else is at it."""
    token = world.ids.token()
    snap = _take_job(world, job_id, token)
    if snap is None:
        return
    world.point("advance.leased")
    with world.keeper.hold("job", job_id, token):
        result = _look_and_act(snap, world)
    world.point("advance.acted")
    assert may_move(snap.place, place(result.state, result.phase)), f"{snap.place} -> {result.state}/{result.phase}"
    try:
        rings = _apply(world, snap, token, result)
    except ledger.CapReached as full:
        waits = wait(snap, world, full.waiting_for, str(full), full.counter)
        rings = _apply(world, snap, token, waits)
    world.point("advance.applied")
    for kind, id in rings:
        world.doorbell.ring(kind, id)


def _take_job(world: World, job_id: str, token: str) -> Snapshot | None:
    now = world.clock.now()
    with world.database.write() as session:
        if not leases.take(session, "job", job_id, token, now, now + world.settings.lease):
            return None
        snap = read_snapshot(session, job_id)
        assert snap is not None
        if snap.job.state in TERMINAL:
            session.execute(update(Job).where(Job.id == job_id).values(due_at=None))
            leases.let_go(session, "job", job_id, token)
            return None
        return snap


def _look_and_act(snap: Snapshot, world: World) -> StepResult:
    """The step's decision; a fault of the outside, or of ours, means: again, later, and say why."""
    try:
        return STEPS[snap.place](snap, world)
    except (ProviderError, ShellError) as error:
        reason = str(error)
        log.info("step.postponed", job=snap.job.id, place=snap.place, reason=reason)
    except Exception as error:
        reason = f"internal error: {error}"
        log.exception("step.failed", job=snap.job.id, place=snap.place)
    faults = snap.job.tries.get("faults", 0)
    tries = {**snap.job.tries, "faults": min(faults + 1, 1000)}
    pause = FAULT_PAUSES_S[min(faults, len(FAULT_PAUSES_S) - 1)] * SECOND
    changes: dict[str, Any] = {"tries": tries, "waiting_reason": reason[:500]}
    if snap.job.state == QUEUED:
        changes["waiting_for"] = "provider"
    return StepResult(snap.job.state, snap.job.phase, job=changes, look_again_at=world.clock.now() + pause)


def _apply(world: World, snap: Snapshot, token: str, result: StepResult) -> list[tuple[str, str]]:
    """One short transaction, nothing at all when the lease is lost."""
    with world.database.write() as session:
        if not leases.let_go(session, "job", snap.job.id, token):
            log.info("lease.lost", job=snap.job.id)
            return []
        return apply_job(session, world, snap, result)


def advance_machine(world: World, machine_id: str) -> None:
    """One look at a machine that nobody wants any more."""
    token = world.ids.token()
    machine = _take_machine(world, machine_id, token)
    if machine is None:
        return
    world.point("release.leased")
    with world.keeper.hold("machine", machine_id, token):
        result = release(machine, world)
    world.point("release.acted")
    with world.database.write() as session:
        if not leases.let_go(session, "machine", machine_id, token):
            return
        rings = apply_machine(session, world, machine, result)
    world.point("release.applied")
    if result.gone:
        world.shells.drop(machine_id)
    for kind, id in rings:
        world.doorbell.ring(kind, id)


def _take_machine(world: World, machine_id: str, token: str) -> Machine | None:
    now = world.clock.now()
    with world.database.write() as session:
        if not leases.take(session, "machine", machine_id, token, now, now + world.settings.lease):
            return None
        machine = session.get(Machine, machine_id)
        if machine is None or not _unwanted(session, machine):
            leases.let_go(session, "machine", machine_id, token)
            return None
        session.expunge(machine)
        return machine


def _unwanted(session: Session, machine: Machine) -> bool:
    """Releasing and absent machines are; a sent one only when its job does not look for it any more."""
    if machine.state in ("releasing", "absent"):
        return True
    if machine.state != "sent":
        return False
    job = session.get(Job, machine.job)
    return job is None or job.attempt_number != machine.attempt or place(job.state, job.phase) != "starting/renting"
