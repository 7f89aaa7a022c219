"""starting/renting: look for the label, else send the one create call that the machine's row describes."""

from sqlalchemy import update

from jobs.money import SECOND, usd
from jobs.script.fuse import boot_fuse_text
from jobs.states import QUEUED, STARTING
from orchestrator import asking, leases
from orchestrator.db.change import change
from orchestrator.db.models import Machine
from orchestrator.ending import end, try_again
from orchestrator.result import StepResult
from orchestrator.snapshot import Snapshot
from orchestrator.world import World
from providers.base import NoCapacity, Refused, Sighting, Unavailable, Uncertain

PAUSE_S = 5.0
REFUSED_PAUSE_S = 60.0
STALE_OFFER = 0.51  # just over the limit of placement: avoided for less than a minute


def rent(snap: Snapshot, world: World) -> StepResult:
    """starting/renting -> booting with a machine that was seen, or back to the queue where none was made."""
    machine = snap.machine
    assert machine is not None
    if machine.state == "intended":
        if snap.job.wish == "cancel":
            return end(snap, world, "cancelled", "cancelled before the create call")
        return _send(snap, machine, world)
    if snap.job.wish == "cancel":
        return end(snap, world, "cancelled", "cancelled while a machine was asked for")
    seen, listing = asking.look_up(world, machine)
    if seen is not None:
        return seen_first(snap, machine, seen, world)
    facts = world.providers[machine.provider].facts
    known_after = max(machine.sent_at or 0, machine.send_by) + round(facts.read_lag_s * SECOND)
    if not listing.complete or listing.taken_at <= known_after:
        return StepResult(STARTING, "renting", look_again_at=world.clock.now() + 2 * SECOND)
    reason = "the create call's answer was lost, and no machine came of it"
    return _not_made(snap, world, reason, absent_at=world.clock.now())


def _send(snap: Snapshot, machine: Machine, world: World) -> StepResult:
    if not _mark_sent(snap, machine, world):
        return StepResult(STARTING, "renting", look_again_at=world.clock.now())
    world.point("rent.marked")
    try:
        seen = asking.rent(world, machine, snap.spec.image or "", boot_text(snap, machine, world))
    except NoCapacity as error:
        return _not_made(snap, world, str(error))
    except Unavailable as error:
        return _not_made(snap, world, f"{machine.provider} does not answer: {error}", error.retry_after_s or PAUSE_S)
    except Refused as error:
        return _not_made(snap, world, f"{machine.provider} refuses: {error}", REFUSED_PAUSE_S)
    except Uncertain as error:
        return StepResult(
            STARTING,
            "renting",
            look_again_at=world.clock.now() + SECOND,
            events=(("answer_lost", {"text": str(error)}),),
        )
    world.point("rent.answered")
    return seen_first(snap, machine, seen, world)


def _mark_sent(snap: Snapshot, machine: Machine, world: World) -> bool:
    """Commit that the create call may be on its way, before a byte of it is written."""
    with world.database.write() as session:
        now = world.clock.now()
        until = now + world.settings.lease
        if not leases.renew(session, "job", snap.job.id, snap.job.lease_token or "", until):
            return False
        intended = update(Machine).where(Machine.id == machine.id, Machine.state == "intended")
        return change(session, intended.values(state="sent", sent_at=now)) == 1


def boot_text(snap: Snapshot, machine: Machine, world: World) -> str:
    """The boot fuse for markets that run a first command: short, lengthened once the machine is ours."""
    if machine.stop_class != "boot":
        return ""
    now = world.clock.now()
    grace = snap.grace(world.settings)
    left = min(machine.fuse_at - now, snap.boot_limit(world.settings) + grace)
    destroy = world.providers[machine.provider].facts.destroy_text
    return boot_fuse_text(max(left, 0) // SECOND, grace // SECOND, destroy, machine.fuse_at // SECOND)


def seen_first(snap: Snapshot, machine: Machine, seen: Sighting, world: World) -> StepResult:
    """The machine exists: take it, or give it back at once when it is dearer than agreed."""
    changes: dict[str, object] = {
        "provider_id": seen.id,
        "seen_at": world.clock.now(),
        "state": "alive",
        "provider_word": seen.word,
    }
    if seen.started_at is not None:
        changes["provider_start"] = seen.started_at
    if seen.per_hour is not None and seen.per_hour != machine.price["per_hour"]:
        changes["price"] = {**machine.price, "per_hour": seen.per_hour}
        agreed = max(machine.price["per_hour"], machine.price["highest_per_hour"])
        if seen.per_hour > agreed:
            text = f"it costs ${usd(seen.per_hour)}/h, agreed was ${usd(agreed)}/h"
            result = try_again(snap, world, "host", text, bad_host=True)
            return StepResult(**{**result.__dict__, "machine": changes})
    return StepResult(
        STARTING,
        "booting",
        job={"waiting_since": None},
        machine=changes,
        look_again_at=world.clock.now(),
        events=(("rented", {"machine_id": seen.id, "provider": machine.provider}),),
    )


def _not_made(
    snap: Snapshot, world: World, reason: str, pause_s: float = 0.0, *, absent_at: int | None = None
) -> StepResult:
    """No machine came of the create call: back to the queue, which is no failure of the job.

    Without a pause the offer was at fault, with one its provider was. absent_at: a list taken then
    does not show it, and it may still appear; None: nothing can have happened.
    """
    machine = snap.machine
    assert machine is not None
    now = world.clock.now()
    facts = world.providers[machine.provider].facts
    until = None if absent_at is None else machine.send_by + round(facts.ghost_window_s * SECOND)
    world.board.drop(machine.provider)
    changes = {
        "waiting_for": "provider" if pause_s else "capacity",
        "waiting_reason": reason,
        "waiting_since": snap.job.waiting_since or now,
    }
    return StepResult(
        QUEUED,
        None,
        job=changes,
        machine={"state": "absent", "ghost_until": until, "absent_list_1": absent_at},
        attempt={"outcome": "no_capacity", "ended_at": now},
        release=reason,
        bad_host=None if pause_s else "this offer could not be had",
        bad_weight=STALE_OFFER,
        look_again_at=now + round(pause_s * SECOND),
        events=(("not_made", {"reason": reason}),),
    )
