"""What would happen to a job if it were queued now: which machine, or which limit says never."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.errors import RefusedByLimit
from jobs.money import usd
from jobs.spec import JobSpec
from orchestrator import ledger
from orchestrator.db.models import BadHost, Balance, Job
from orchestrator.offers import list_offers
from orchestrator.placement import Candidate, Ladder, Ranking, Terms, ceiling, decayed, ladder, rank
from orchestrator.steps.choose import jobs_ahead
from orchestrator.world import World


@dataclass(frozen=True)
class Preview:
    """Offers for a job, best first, at `now`. faults: provider -> why it did not answer.

    rungs: how long before the reserved end the machine is stopped.
    """

    now: int
    ranking: Ranking
    rungs: Ladder
    faults: dict[str, str]


def look_ahead(world: World, job: Job, spec: JobSpec, *, refuse_waiting: bool = False) -> Preview:
    """Rank what can be rented now for a job that is not queued yet.

    Raises RefusedByLimit with the command that raises the limit when the job can never fit it,
    and with `refuse_waiting` also when it would have to wait.
    """
    refuse_gpus(spec, world.settings.max_gpus)
    offers = list_offers(world, job.simulated, spec.resources.providers)
    now = world.clock.now()
    settings = world.settings
    grace = settings.grace if spec.grace is None else spec.grace
    with world.database.read() as session:
        bad = {(row.provider, row.host): decayed(row.weight, now - row.at) for row in session.scalars(select(BadHost))}
    terms = Terms(
        now=now,
        budget_left=job.budget,
        duration=spec.max_duration,
        boot_limit=settings.boot_limit if spec.boot_limit is None else spec.boot_limit,
        grace=grace,
        guard_every=settings.guard_every,
        no_fuse_ok=job.no_fuse_ok,
        max_gpus=settings.max_gpus,
        bad_hosts=bad,
    )
    ranking = rank(spec, offers, terms)
    with world.database.read() as session:
        _refuse_never(session, world, job, spec, ranking, now)
    if refuse_waiting:
        _refuse_waiting(world, job, spec, ranking, now)
    return Preview(now, ranking, ladder(settings.guard_every, grace), dict(world.board.faults))


def refuse_gpus(spec: JobSpec, max_gpus: int) -> None:
    """Raise RefusedByLimit when every wish asks for more GPUs than the installation may ever run."""
    least = min((wish.count for wish in spec.resources.gpu), default=0)
    if least > max_gpus:
        raise RefusedByLimit(
            f"the job wants {least} GPUs and max_gpus is {max_gpus}, so it could never start; "
            f"gpupoor config set max_gpus {least}"
        )


def _refuse_never(session: Session, world: World, job: Job, spec: JobSpec, ranking: Ranking, now: int) -> None:
    """No offer of today fits a limit that only a person can raise. Where nothing is offered, nobody knows."""
    if not ranking.candidates:
        dear = [refusal for refusal in ranking.refused if refusal.code == "budget"]
        if dear:
            least = min(dear, key=lambda refusal: (refusal.offer.price.per_hour, refusal.offer.id))
            raise RefusedByLimit(
                f"the budget of {_dollars(job, job.budget)} pays no machine that fits; on {_name(least.offer.gpu)} at "
                f"{_dollars(job, ceiling(least.offer, spec))}/h {least.text}; name a larger one: --budget USD"
            )
        return
    _refuse_rate(world, job, spec, ranking.candidates)
    least_reserve = min(ranking.candidates, key=lambda candidate: candidate.reserve)
    for hold in _holds(session, world, job, spec, least_reserve, now):
        if hold.scope in ledger.MONTHLY and hold.limit is not None and hold.micro > hold.limit:
            whose = f"{hold.scope} {hold.name}".rstrip()
            world_option = " --mock" if job.simulated else ""
            option = f" --{whose}" if hold.name else ""
            raise RefusedByLimit(
                f"the smallest reservation for this job is {_dollars(job, hold.micro)} and the cap of {whose} in "
                f"{hold.month} is {_dollars(job, hold.limit)}; raise it: gpupoor budget set "
                f"{usd(hold.micro)}{option}{world_option}, or name a smaller budget or max_duration"
            )


def _refuse_rate(world: World, job: Job, spec: JobSpec, candidates: Sequence[Candidate]) -> None:
    limit = world.settings.max_per_hour
    least = min(ceiling(candidate.offer, spec) for candidate in candidates)
    if limit is not None and least > limit:
        raise RefusedByLimit(
            f"the cheapest machine that fits costs {_dollars(job, least)}/h and max_per_hour is "
            f"{_dollars(job, limit)}; gpupoor config set max_per_hour {usd(least)}"
        )


def _refuse_waiting(world: World, job: Job, spec: JobSpec, ranking: Ranking, now: int) -> None:
    """The same questions that the first step will ask, asked now."""
    ahead = jobs_ahead(world, job)
    if ahead:
        raise RefusedByLimit(f"--now: {len(ahead)} job(s) wait before this one; nothing was queued")
    if not ranking.candidates:
        faults = "; ".join(f"{name}: {text}" for name, text in sorted(world.board.faults.items()))
        raise RefusedByLimit(f"--now: {faults or 'no machine that fits can be rented now'}; nothing was queued")
    best = ranking.candidates[0]
    with world.database.read() as session:
        for hold in _holds(session, world, job, spec, best, now):
            free = None if hold.limit is None else hold.limit - _taken(session, job.simulated, hold)
            if free is not None and hold.micro > free:
                reached = ledger.CapReached(hold.scope, hold.name, hold.month, hold.micro, max(free, 0))
                raise RefusedByLimit(f"--now: {reached}; nothing was queued")


def _holds(session: Session, world: World, job: Job, spec: JobSpec, choice: Candidate, now: int) -> list[ledger.Hold]:
    """What a reservation for `choice` would add to every counter."""
    machine = {
        "stop_at": now + choice.lifetime,
        "price_ceiling": ceiling(choice.offer, spec),
        "gpu": choice.offer.gpu,
        "gpu_count": choice.offer.gpu_count,
    }
    return ledger.holds(session, world.settings, job, machine, ledger.Amount(choice.reserve, choice.lump), now)


def _taken(session: Session, simulated: bool, hold: ledger.Hold) -> int:
    row = session.get(Balance, (simulated, hold.scope, hold.name, hold.month))
    return row.settled + row.held if row else 0


def _name(gpu: str) -> str:
    return gpu or "a machine without GPU"


def _dollars(job: Job, micro: int) -> str:
    """Exact, and marked where it is play money."""
    return f"{'sim ' if job.simulated else ''}${usd(micro)}"
