"""queued: find the cheapest machine that fits, and set its money aside before anything is asked for."""

from dataclasses import asdict
from typing import Any

from sqlalchemy import or_, select

from jobs.label import Label, job_digest
from jobs.money import SECOND, usd
from jobs.states import QUEUED, STARTING
from orchestrator import ledger
from orchestrator.db.models import BadHost, Job
from orchestrator.ending import end
from orchestrator.ledger import GB
from orchestrator.offers import list_shelves
from orchestrator.placement import Candidate, Ranking, Terms, ceiling, decayed, ladder, rank
from orchestrator.result import NewMachine, StepResult
from orchestrator.shelf import cheapest
from orchestrator.snapshot import Snapshot
from orchestrator.world import World

SEND_WITHIN = 30 * SECOND  # a create that was not written by then is never written
LOOK_AGAIN = 15 * SECOND


def choose(snap: Snapshot, world: World) -> StepResult:
    """queued -> starting/renting with a reserved machine, or a reason to wait, or the end."""
    if snap.job.wish == "cancel":
        return end(snap, world, "cancelled", "cancelled before a machine was rented")
    now = world.clock.now()
    since = snap.job.waiting_since or snap.job.submitted_at
    if now - since > snap.max_wait(world.settings):
        word = "no_capacity" if snap.job.waiting_for in (None, "capacity") else "max_wait"
        return end(snap, world, word, f"waited longer than max_wait: {snap.job.waiting_reason or 'no machine'}")
    if snap.job.waiting_for == "retry" and snap.job.due_at is not None and now < snap.job.due_at:
        return StepResult(QUEUED, None, look_again_at=snap.job.due_at)  # rung before its pause was over
    ahead = jobs_ahead(world, snap.job)
    if ahead:
        return wait(snap, world, ahead[0], f"{len(ahead)} job(s) before this one", snap.job.waiting_on)
    shelves = list_shelves(world, snap.job.simulated, snap.spec.resources.providers)
    if world.board.faults and not any(listing.offers for listing in shelves):
        faults = "; ".join(f"{name}: {text}" for name, text in sorted(world.board.faults.items()))
        return wait(snap, world, "provider", faults)
    limits = terms(snap, world)
    best = cheapest(shelves, snap.spec, limits)
    if best is None:
        offers = [offer for listing in shelves for offer in listing.offers]
        return _nothing_fits(snap, world, rank(snap.spec, offers, limits))
    return _take(snap, world, best)


def jobs_ahead(world: World, job: Job) -> list[str]:
    """What each job that is earlier (or of higher priority) waits for, if on a counter that this one needs too.

    Only such as need no more than this one: whatever cannot be placed does not block others.
    """
    earlier = or_(
        Job.priority > job.priority,
        (Job.priority == job.priority) & (Job.submitted_at < job.submitted_at),
        (Job.priority == job.priority) & (Job.submitted_at == job.submitted_at) & (Job.id < job.id),
    )
    shared = or_(
        Job.waiting_on == "gpus//",
        Job.waiting_on == "per_hour//",
        Job.waiting_on.like("overall//%"),
        Job.waiting_on.like("user/%") & (Job.user == job.user),
        Job.waiting_on.like("project/%") & (Job.project == job.project),
    )
    with world.database.read() as session:
        words = session.scalars(
            select(Job.waiting_for)
            .where(
                Job.state == QUEUED,
                Job.simulated == job.simulated,
                Job.wish.is_(None),
                earlier,
                shared,
                Job.gpus <= job.gpus,
                Job.budget <= job.budget,
            )
            .order_by(Job.priority.desc(), Job.submitted_at, Job.id)
        )
        return [word or "gpu_limit" for word in words]


def terms(snap: Snapshot, world: World) -> Terms:
    """What the job may still spend and how long it may still work."""
    now = world.clock.now()
    with world.database.read() as session:
        left = ledger.job_left(session, snap.job)
        bad = {(row.provider, row.host): decayed(row.weight, now - row.at) for row in session.scalars(select(BadHost))}
    limit = snap.spec.max_duration
    return Terms(
        now=now,
        budget_left=left,
        duration=None if limit is None else max(limit - int(snap.job.tries.get("worked", 0)), 0),
        boot_limit=snap.boot_limit(world.settings),
        grace=snap.grace(world.settings),
        guard_every=world.settings.guard_every,
        no_fuse_ok=snap.job.no_fuse_ok,
        max_gpus=world.settings.max_gpus,
        bad_hosts=bad,
    )


def wait(snap: Snapshot, world: World, waiting_for: str, reason: str, waiting_on: str | None = None) -> StepResult:
    """Stay in the queue and say why. The wait of a job is counted from its first moment without a machine."""
    now = world.clock.now()
    told = snap.job.waiting_reason == reason
    changes = {
        "waiting_for": waiting_for,
        "waiting_reason": reason,
        "waiting_since": snap.job.waiting_since or now,
        "waiting_on": waiting_on,
    }
    events = () if told else (("waits", {"for": waiting_for, "reason": reason}),)
    return StepResult(QUEUED, None, job=changes, events=events, look_again_at=now + LOOK_AGAIN)


def _nothing_fits(snap: Snapshot, world: World, ranking: Ranking) -> StepResult:
    codes = {refusal.code for refusal in ranking.refused}
    nearest = [refusal for refusal in ranking.refused if refusal.code == "budget"]
    if nearest:
        least = min(nearest, key=lambda refusal: (refusal.offer.price.per_hour, refusal.offer.id))
        held = any(machine.state != "gone" for machine in snap.machines)
        if held:
            return wait(snap, world, "budget", f"an earlier machine still holds its reservation; {least.text}")
        if snap.job.attempt_number:
            return end(snap, world, "budget", f"the rest of the budget pays no further try: {least.text}")
        return wait(snap, world, "capacity", f"{least.offer.gpu} at ${usd(least.offer.price.per_hour)}/h: {least.text}")
    if not ranking.refused:
        return wait(snap, world, "capacity", "no provider offers anything now")
    return wait(
        snap,
        world,
        "capacity",
        f"none of {len(ranking.refused)} offers fits ({', '.join(sorted(codes))}); gpupoor offers --why",
    )


def _take(snap: Snapshot, world: World, best: Candidate) -> StepResult:
    """The rows of the machine, complete before anything is sent."""
    now = world.clock.now()
    settings, offer, number = world.settings, best.offer, snap.job.attempt_number + 1
    stop_at = now + best.lifetime
    rungs = ladder(settings.guard_every, snap.grace(settings))
    label = Label(world.installation, job_digest(snap.job.id), number, world.ids.token()[:6], stop_at)
    key = world.ids.key_pair()
    row: dict[str, Any] = {
        "id": world.ids.token(),
        "job": snap.job.id,
        "attempt": number,
        "simulated": snap.job.simulated,
        "provider": offer.provider,
        "region": offer.region,
        "offer": asdict(offer),
        "offer_reason": best.reason,
        "label": str(label),
        "token": world.ids.token(),
        "spot": offer.spot,
        "gpu": offer.gpu,
        "gpu_count": offer.gpu_count,
        "price": asdict(offer.price),
        "disk_gb": snap.spec.resources.disk_gb,
        "price_ceiling": ceiling(offer, snap.spec),
        "stop_class": offer.stop_class,
        "traffic_allowance": best.traffic * GB // offer.price.traffic_per_gb if best.traffic else None,
        "send_by": now + SEND_WITHIN,
        "stop_at": stop_at,
        "fuse_at": stop_at - rungs.fuse,
        "soft_stop_at": stop_at - rungs.soft_stop,
        "boot_by": now + snap.boot_limit(settings),
        "ssh_key_sealed": world.vault.seal(key.private.encode()),
        "ssh_public": key.public,
        "boot_nonce": world.ids.token(),
        "state": "intended",
    }
    changes = {"attempt_number": number, "waiting_for": None, "waiting_reason": None, "waiting_on": None}
    return StepResult(
        STARTING,
        "renting",
        job=changes,
        new=NewMachine(row, ledger.Amount(best.reserve, best.lump)),
        look_again_at=now,
        events=(("chose", {"provider": offer.provider, "gpu": offer.gpu, "reason": best.reason}),),
    )
