"""releasing: give an unwanted machine back, prove it gone, settle what it cost. Works on the MACHINE row.

Gone is proved by two complete lists of its region without it (or with it ended), gone_gap apart, and by
get: ended, or unknown after the provider's read lag. A 404 alone proves nothing.
"""

from jobs.money import SECOND
from orchestrator import asking
from orchestrator.db.models import Machine
from orchestrator.ledger import Usage
from orchestrator.result import MachineResult
from orchestrator.world import World
from providers.base import Facts, Listing, ProviderError, Sighting, Unavailable

PAUSES_S = (0.5, 1, 2, 5, 10, 20, 30, 60)
ALARM_AFTER = 3


def release(machine: Machine, world: World) -> MachineResult:
    """One look at a machine that nobody wants any more."""
    try:
        if machine.provider_id is None:
            return _resolve(machine, world)
        return _give_back(machine, world)
    except ProviderError as error:
        return _retry(machine, world, error)


def _resolve(machine: Machine, world: World) -> MachineResult:
    """No machine was seen yet for this row: look for its label until nothing can appear any more."""
    now = world.clock.now()
    if machine.state == "absent" and machine.ghost_until is None:
        return MachineResult({"state": "gone", "gone_at": now}, gone=True)
    seen, listing = asking.look_up(world, machine)
    if seen is not None:
        return MachineResult(
            {
                "state": "releasing",
                "provider_id": seen.id,
                "seen_at": now,
                "provider_word": seen.word,
                "provider_start": seen.started_at,
                "why_released": machine.why_released or "found late",
                "absent_list_1": None,
            },
            events=(("found_late", {"machine_id": seen.id}),),
            look_again_at=now,
        )
    facts = world.providers[machine.provider].facts
    # a row that was sent long ago may belong to a process that was stopped between check and write
    known_after = max(machine.sent_at or 0, machine.send_by) + _micros(facts.read_lag_s)
    ghost_until = machine.ghost_until or machine.send_by + _micros(facts.ghost_window_s)
    changes: dict[str, object] = {}
    if listing.complete and listing.taken_at > known_after:
        first = machine.absent_list_1 or world.clock.now()
        if listing.taken_at > ghost_until:
            return MachineResult({"state": "gone", "gone_at": now}, gone=True, usage=_unseen_usage(machine, first))
        changes = {"state": "absent", "ghost_until": ghost_until, "absent_list_1": first}
    return MachineResult(changes, look_again_at=min(now + 15 * SECOND, max(ghost_until + SECOND, now + SECOND)))


def _unseen_usage(machine: Machine, first_absent: int) -> Usage | None:
    """What a create without an answer may have cost, when nobody looked before its machine could have ended by itself.

    A list taken while it must still have lived proves that there never was one.
    """
    assert machine.sent_at is not None
    if first_absent <= min(machine.boot_by or machine.fuse_at, machine.fuse_at):
        return None
    return Usage(machine.sent_at, max(min(first_absent, machine.stop_at), machine.sent_at), bound=True)


def _give_back(machine: Machine, world: World) -> MachineResult:
    now = world.clock.now()
    facts = world.providers[machine.provider].facts
    changes: dict[str, object] = {}
    if machine.release_sent_at is None or machine.absent_list_1 is None:
        asking.release(world, machine)
        world.point("release.sent")
        changes["release_sent_at"] = machine.release_sent_at or now
        changes["release_tries"] = machine.release_tries + 1
    listing = asking.list_region(world, machine.provider, machine.region)
    if _shown_alive(machine, listing):
        return _still_there(machine, changes, now)
    if not listing.complete:
        return MachineResult(
            {**changes, "absent_list_1": None},
            alarms={"list_untrusted": "its list cannot be trusted"},
            look_again_at=now + 5 * SECOND,
        )
    first = machine.absent_list_1
    if first is None or listing.taken_at - first < _micros(facts.gone_gap_s):
        # when the answer was here: it may have lived until then, and the gap is the longer for it
        answered = world.clock.now()
        due = (first or answered) + _micros(facts.gone_gap_s)
        return MachineResult(
            {**changes, "absent_list_1": first or answered}, look_again_at=max(due, answered + SECOND // 10)
        )
    return _proof_by_get(machine, world, changes, listing, facts)


def _micros(seconds: float) -> int:
    return round(seconds * SECOND)


def _shown_alive(machine: Machine, listing: Listing) -> Sighting | None:
    return next((seen for seen in listing.machines if seen.id == machine.provider_id and not seen.ended), None)


def _still_there(machine: Machine, changes: dict[str, object], now: int) -> MachineResult:
    tries = machine.release_tries
    alarms = {}
    if tries >= ALARM_AFTER:
        alarms["delete_failed"] = (
            f"{machine.provider} {machine.provider_id} is still there after {tries + 1} release calls"
        )
    pause = PAUSES_S[min(tries, len(PAUSES_S) - 1)]
    return MachineResult({**changes, "absent_list_1": None}, alarms=alarms, look_again_at=now + _micros(pause))


def _proof_by_get(
    machine: Machine, world: World, changes: dict[str, object], listing: Listing, facts: Facts
) -> MachineResult:
    now = world.clock.now()
    seen = asking.get(world, machine)
    if seen is not None and not seen.ended:
        return _still_there(machine, changes, now)
    if seen is None and listing.taken_at <= (machine.seen_at or 0) + _micros(facts.read_lag_s):
        return MachineResult(changes, look_again_at=(machine.seen_at or 0) + _micros(facts.read_lag_s) + SECOND)
    usage = usage_of(machine, seen, listing)
    changes = {
        **changes,
        "state": "gone",
        "gone_at": now,
        "absent_list_2": listing.taken_at,
        "provider_start": usage.start if not usage.bound else machine.provider_start,
        "provider_end": usage.end if not usage.bound else None,
        "traffic_bytes": usage.traffic_bytes,
    }
    if seen is not None:
        changes["provider_word"] = seen.word
        changes["preempted"] = seen.preempted
    return MachineResult(
        changes,
        gone=True,
        usage=usage,
        alarms={"delete_failed": None, "list_untrusted": None},
        events=(("gone", {"machine_id": machine.provider_id}),),
    )


def usage_of(machine: Machine, seen: Sighting | None, listing: Listing) -> Usage:
    """The provider's own start, end and traffic where it tells them, else our bound: create sent to first proof.

    A machine that stops itself (class hard, boot) has not outlived its reserved end, however late we looked.
    """
    start = (seen.started_at if seen else None) or machine.provider_start
    end = seen.ended_at if seen else None
    moved = max(machine.traffic_bytes, (seen.traffic_bytes if seen else None) or 0)
    if start is not None and end is not None:
        return Usage(start, end, moved)
    begin = min(start or machine.sent_at or listing.taken_at, machine.sent_at or listing.taken_at)
    last = machine.absent_list_1 or listing.taken_at
    if machine.stop_class in ("hard", "boot"):
        last = min(last, machine.stop_at)
    return Usage(begin, max(last, begin), moved, bound=True)


def _retry(machine: Machine, world: World, error: ProviderError) -> MachineResult:
    """The provider did not do it: again, with growing pauses, at least as long as it asked for."""
    now = world.clock.now()
    tries = machine.release_tries + 1
    pause = PAUSES_S[min(tries, len(PAUSES_S) - 1)]
    if isinstance(error, Unavailable) and error.retry_after_s:
        pause = max(pause, error.retry_after_s)
    alarms: dict[str, str | None] = {}
    if tries >= ALARM_AFTER and machine.state == "releasing":
        alarms["delete_failed"] = (
            f"{machine.provider} {machine.provider_id or machine.label} is not given back: {error}"
        )
    return MachineResult(
        {"release_tries": tries},
        alarms=alarms,
        look_again_at=now + _micros(pause),
        events=(("release_failed", {"text": str(error)[:300]}),),
    )
