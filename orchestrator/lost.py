"""A machine that does not answer over SSH: its provider knows whether it is over, and patience has a limit."""

from jobs.money import MINUTE, SECOND
from orchestrator import asking
from orchestrator.db.models import Machine
from orchestrator.ending import try_again
from orchestrator.result import StepResult
from orchestrator.snapshot import Snapshot
from orchestrator.world import World
from providers.base import Sighting

SILENT_LIMIT = 5 * MINUTE  # no sign of life for so long, while the provider answers: the machine is given up
LOOK_AGAIN = 2 * SECOND


def over_by_its_provider(snap: Snapshot, machine: Machine, seen: Sighting | None, world: World) -> StepResult | None:
    """The end of this try when the provider says that the machine is over; a 404 soon after create says nothing."""
    if seen is not None and seen.ended:
        why = "preempted" if seen.preempted else "host"
        return try_again(snap, world, why, f"host gone before exit code ({seen.word})", bad_host=True)
    if seen is None:
        lag = round(world.providers[machine.provider].facts.read_lag_s * SECOND)
        found, listing = asking.look_up(world, machine)
        if found is None and listing.complete and listing.taken_at > (machine.seen_at or 0) + lag:
            return try_again(snap, world, "host", "host gone before exit code: not listed any more", bad_host=True)
    return None


def unreachable(snap: Snapshot, machine: Machine, world: World, reason: str) -> StepResult:
    """SSH failed before the work started: look at the provider, then again, within the limit. Raises ProviderError."""
    assert snap.attempt is not None
    world.shells.drop(machine.id)
    over = over_by_its_provider(snap, machine, asking.get(world, machine), world)
    if over is not None:
        return over
    now = world.clock.now()
    since = snap.attempt.silent_since or now
    if now - since > SILENT_LIMIT:
        return try_again(snap, world, "host", f"connection lost: {reason}", bad_host=True)
    return StepResult(
        snap.job.state,
        snap.job.phase,
        job={"waiting_reason": reason},
        attempt={"silent_since": since},
        look_again_at=now + LOOK_AGAIN,
    )
