"""The money book: reserve before a create, settle after the proof, give the rest back. Append-only.

Every cap is a counter row (what is settled, what is held) per scope and month. A reservation is
one conditional UPDATE per scope in a fixed order inside one transaction: no read-then-write, so
two workers can never both take the last dollar. GPUs and dollars per hour are counted likewise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from jobs.errors import GpupoorError
from jobs.money import SECOND, cost, usd
from orchestrator.caps import cap_in_force, split_by_month
from orchestrator.db.change import change, insert_into
from orchestrator.db.models import COSTS, Balance, Entry, Job, Machine, Reservation
from orchestrator.settings import Settings
from providers.base import PriceParts

MONTHLY = ("user", "project", "overall")
GB = 1_000_000_000


class CapReached(GpupoorError):
    """A cap has no room for this reservation; nothing was changed. waiting_for: the word for status."""

    exit_code = 3

    def __init__(self, scope: str, name: str, month: str, needed: int, free: int) -> None:
        self.scope, self.name, self.month, self.needed, self.free = scope, name, month, needed, free
        self.waiting_for = "gpu_limit" if scope == "gpus" else "burst" if scope == "burst" else "budget"
        super().__init__(self._text())

    @property
    def counter(self) -> str:
        """`scope/name/month`, as jobs.waiting_on has it."""
        return f"{self.scope}/{self.name}/{self.month}"

    def _text(self) -> str:
        if self.scope == "gpus":
            return f"needs {self.needed} GPU(s), {self.free} of max_gpus free; gpupoor config set max_gpus N"
        if self.scope == "per_hour":
            return f"needs ${usd(self.needed)}/h, ${usd(self.free)}/h of max_per_hour is free"
        what = {"job": "this job's budget", "overall": f"the cap of {self.month}"}
        where = what.get(self.scope, f"the cap of {self.scope} {self.name} {self.month}".rstrip())
        return f"needs ${usd(self.needed)}, {where} has ${usd(self.free)} free"


@dataclass(frozen=True)
class Hold:
    """One counter to raise. limit: None where nobody set one."""

    scope: str
    name: str
    month: str
    micro: int
    limit: int | None


def spread(total: int, slices: Sequence[tuple[str, int, int]]) -> list[int]:
    """`total` micro-dollars over time slices (month, start, end) by length; the parts add up to `total`."""
    length = sum(end - start for _, start, end in slices) or 1
    parts, done, passed = [], 0, 0
    for _, start, end in slices:
        passed += end - start
        upto = total * passed // length
        parts.append(upto - done)
        done = upto
    if parts:
        parts[-1] += total - done
    return parts


@dataclass(frozen=True)
class Amount:
    """Micro-dollars to set aside. lump: of these, what may fall into one month whole (traffic, a billing step)."""

    total: int
    lump: int = 0

    def by_month(self, slices: Sequence[tuple[str, int, int]]) -> list[int]:
        """What each month must hold: its share by time, and where there are several also the whole lump."""
        if len(slices) == 1:
            return [self.total]
        return [min(share + self.lump, self.total) for share in spread(self.total, slices)]


def holds(
    session: Session, settings: Settings, job: Job, machine: Mapping[str, Any], amount: Amount, now: int
) -> list[Hold]:
    """The counters that a reservation for `machine` raises, in the fixed order of locking."""
    wanted = [Hold("job", job.id, "", amount.total, job.budget)]
    slices = split_by_month(now, machine["stop_at"], settings.zone)
    monthly = list(zip(slices, amount.by_month(slices), strict=True))
    for scope, name in (("user", job.user), ("project", job.project), ("overall", "")):
        if name is None:
            continue
        for (month, _, _), micro in monthly:
            limit = cap_in_force(session, job.simulated, scope, name, month)
            wanted.append(Hold(scope, name, month, micro, limit))
    wanted.append(Hold("per_hour", "", "", machine["price_ceiling"], settings.max_per_hour))
    wanted.append(Hold("gpus", "", "", machine["gpu_count"] if machine["gpu"] else 0, settings.max_gpus))
    return wanted


def reserve(
    session: Session, settings: Settings, job: Job, machine: Mapping[str, Any], amount: Amount, now: int
) -> None:
    """Hold money for a machine that is about to be asked for.

    Raises CapReached, and the caller's transaction must be rolled back.
    """
    parts = []
    for hold in holds(session, settings, job, machine, amount, now):
        if hold.micro == 0:
            continue
        _raise_counter(session, job.simulated, hold)
        parts.append({"scope": hold.scope, "name": hold.name, "month": hold.month, "micro": hold.micro})
    session.add(Reservation(machine=machine["id"], total=amount.total, parts=parts))
    session.add(_entry(job, machine, "reserve", "all", "", amount.total, now, (now, machine["stop_at"]), False))


def _where(simulated: bool, scope: str, name: str, month: str) -> list[Any]:
    return [Balance.simulated == simulated, Balance.scope == scope, Balance.name == name, Balance.month == month]


def _raise_counter(session: Session, simulated: bool, hold: Hold) -> None:
    where = _where(simulated, hold.scope, hold.name, hold.month)
    _make_balance(session, simulated, hold.scope, hold.name, hold.month)
    guarded = list(where)
    if hold.limit is not None:
        guarded.append(Balance.settled + Balance.held + hold.micro <= hold.limit)
    if change(session, update(Balance).where(*guarded).values(held=Balance.held + hold.micro)) != 1:
        taken = session.execute(select(Balance.settled + Balance.held).where(*where)).scalar_one()
        free = max((hold.limit or 0) - taken, 0)
        raise CapReached(hold.scope, hold.name, hold.month, hold.micro, free)


def _make_balance(session: Session, simulated: bool, scope: str, name: str, month: str) -> None:
    """The counter row, made if it is not there; two who make it at once are both served."""
    session.execute(
        insert_into(session, Balance)
        .values(simulated=simulated, scope=scope, name=name, month=month, settled=0, held=0)
        .on_conflict_do_nothing()
    )


@dataclass(frozen=True)
class Usage:
    """From when to when a machine cost money, and what it moved. bound: times are ours, an upper bound."""

    start: int
    end: int
    traffic_bytes: int = 0
    bound: bool = False


def charges(price: PriceParts, disk_gb: int, usage: Usage) -> dict[str, int]:
    """Micro-dollars by part, each rounded up once; the simulated cloud's bill has the same form."""
    time = max(usage.end - usage.start, price.minimum_s * SECOND)
    if price.step_s:
        step = price.step_s * SECOND
        time = -(-time // step) * step
    traffic = -(-usage.traffic_bytes * price.traffic_per_gb // GB)
    return {"gpu": cost(price.per_hour, time), "disk": cost(disk_gb * price.disk_per_gb_hour, time), "traffic": traffic}


def used_so_far(machine: Machine, now: int) -> int:
    """Micro-dollars that an unsettled machine has cost up to `now`: from create sent to proved gone, a bound."""
    if machine.sent_at is None or machine.state in ("intended", "absent"):
        return 0
    start = machine.provider_start or machine.sent_at
    end = machine.provider_end or machine.gone_at or now
    usage = Usage(start, max(end, start), machine.traffic_bytes)
    return sum(charges(PriceParts(**machine.price), machine.disk_gb, usage).values())


def settle(session: Session, settings: Settings, job: Job, machine: Machine, usage: Usage | None, now: int) -> int:
    """Book what a machine cost, and give back the rest of its reservation. usage None: it never existed.

    A second call finds the reservation settled and does nothing. Returns micro-dollars booked.
    """
    open_one = update(Reservation).where(Reservation.machine == machine.id, Reservation.settled_at.is_(None))
    if change(session, open_one.values(settled_at=now)) != 1:
        return _book_late(session, settings, job, machine, usage, now)
    reservation = session.execute(select(Reservation).where(Reservation.machine == machine.id)).scalar_one()
    for held in reservation.parts:
        where = _where(job.simulated, held["scope"], held["name"], held["month"])
        session.execute(update(Balance).where(*where).values(held=Balance.held - held["micro"]))
    booked = 0 if usage is None else _book(session, settings, job, machine, usage, "settle", now)
    if booked < reservation.total:
        left = reservation.total - booked
        session.add(_entry(job, _facts(machine), "give_back", "all", "", left, now, (None, None), False))
    return booked


def _book_late(session: Session, settings: Settings, job: Job, machine: Machine, usage: Usage | None, now: int) -> int:
    """A machine that appeared after its row was closed: what it cost is an overrun, booked once."""
    booked = select(Entry.key).where(Entry.machine == machine.id, Entry.kind.in_(COSTS))
    if usage is None or session.execute(booked.limit(1)).first() is not None:
        return 0
    return _book(session, settings, job, machine, usage, "overrun", now)


def _facts(machine: Machine) -> dict[str, Any]:
    return {column: getattr(machine, column) for column in ("id", "attempt", "provider", "gpu")}


def _book(session: Session, settings: Settings, job: Job, machine: Machine, usage: Usage, kind: str, now: int) -> int:
    """Entries part by part and month by month, and the counters with them; micro-dollars booked."""
    slices = split_by_month(usage.start, max(usage.end, usage.start + 1), settings.zone)
    booked = 0
    for part, total in charges(PriceParts(**machine.price), machine.disk_gb, usage).items():
        for (month, start, end), micro in zip(slices, spread(total, slices), strict=True):
            if micro:
                span = (start, min(end, usage.end))
                session.add(_entry(job, _facts(machine), kind, part, month, micro, now, span, usage.bound))
                _raise_settled(session, job, month, micro)
        booked += total
    return booked


def _raise_settled(session: Session, job: Job, month: str, micro: int) -> None:
    scopes = (("job", job.id, ""), ("user", job.user, month), ("project", job.project, month), ("overall", "", month))
    for scope, name, when in scopes:
        if name is not None:
            _make_balance(session, job.simulated, scope, name, when)
            where = _where(job.simulated, scope, name, when)
            session.execute(update(Balance).where(*where).values(settled=Balance.settled + micro))


def _entry(
    job: Job,
    machine: Mapping[str, Any],
    kind: str,
    part: str,
    month: str,
    micro: int,
    now: int,
    span: tuple[int | None, int | None],
    bound: bool,
) -> Entry:
    return Entry(
        key=f"{kind}:{machine['id']}:{part}:{month}",
        at=now,
        kind=kind,
        simulated=job.simulated,
        job=job.id,
        machine=machine["id"],
        attempt=machine["attempt"],
        user=job.user,
        project=job.project,
        provider=machine["provider"],
        gpu=machine["gpu"],
        part=part,
        month=month,
        from_at=span[0],
        to_at=span[1],
        micro=micro,
        bound=bound,
    )


def job_left(session: Session, job: Job) -> int:
    """Micro-dollars of the job's budget that nothing holds and nothing was spent of."""
    taken = session.execute(select(Balance.settled + Balance.held).where(*_where(job.simulated, "job", job.id, "")))
    return job.budget - (taken.scalar_one_or_none() or 0)
