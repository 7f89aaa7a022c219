"""The wallet as people and programs are shown it: caps of a month, and what the ledger says was spent.

Documents have the form of `budget -o json` and `spend -o json`; amounts are decimal strings of dollars.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import Select, select

from jobs.money import HOUR, SECOND, usd
from orchestrator.caps import OVERALL, caps_in_force, end_of, split_by_month, start_of
from orchestrator.db.models import COSTS, Balance, Entry, Job, Machine, Reservation
from orchestrator.ledger import spread, used_so_far
from orchestrator.views.instants import rfc3339
from orchestrator.views.jobs import price_per_hour
from providers.base import Provider, ProviderError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from orchestrator.world import World

DAY: Final = 24 * HOUR
GROUPINGS: Final = ("job", "user", "project", "provider", "gpu", "day")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LIVE: Final = ("sent", "alive", "releasing")

Scope = tuple[str, str]


class _Open(NamedTuple):
    """What machines that are not settled yet cost under one scope: so far in this month, and per hour now."""

    running: int
    burning: int


def budget(world: World, simulated: bool, month: str) -> dict[str, Any]:
    """Every cap of `month` with what is settled, running, reserved and free; the overall line is always there.

    settled + running + reserved is what is committed; free is the rest (less than nothing after a cap was
    lowered). burning: dollars per hour of the live machines, a key of its own beside the contract's.
    """
    with world.database.read() as session:
        caps = caps_in_force(session, simulated, month)
        balances = {
            (row.scope, row.name): row
            for row in session.scalars(select(Balance).where(Balance.simulated == simulated, Balance.month == month))
        }
        open_machines = _open_machines(session, world, simulated, month)
    scopes: list[Scope] = [(OVERALL, ""), *(scope for scope in caps if scope != (OVERALL, ""))]
    rows = []
    for scope in scopes:
        balance = balances.get(scope)
        settled, held = (balance.settled, balance.held) if balance else (0, 0)
        rows.append(_cap_row(world, month, scope, caps.get(scope), (settled, held), open_machines[scope]))
    return {"month": month, "caps": rows}


def _cap_row(
    world: World, month: str, scope: Scope, cap: int | None, balance: tuple[int, int], now_open: _Open
) -> dict[str, Any]:
    settled, held = balance
    reserved = max(held - now_open.running, 0)
    committed = settled + now_open.running + reserved
    spent = settled + now_open.running
    return {
        "scope": scope[0],
        "name": scope[1],
        "cap": None if cap is None else usd(cap),
        "settled": usd(settled),
        "running": usd(now_open.running),
        "reserved": usd(reserved),
        "free": None if cap is None else usd(cap - committed),
        "forecast": usd(max(_at_this_pace(world, month, spent), committed)),
        "burning": usd(now_open.burning),
    }


def _at_this_pace(world: World, month: str, spent: int) -> int:
    """What the month will have cost if it goes on as so far; a month younger than a day counts as one day old."""
    start, end = start_of(month, world.settings.zone), end_of(month, world.settings.zone)
    now = world.clock.now()
    if not start <= now < end:
        return spent
    return -(-spent * (end - start) // max(now - start, DAY))


def _open_machines(session: Session, world: World, simulated: bool, month: str) -> dict[Scope, _Open]:
    now = world.clock.now()
    found: dict[Scope, _Open] = defaultdict(lambda: _Open(0, 0))
    rows = session.execute(
        select(Machine, Job.user, Job.project)
        .join(Job, Job.id == Machine.job)
        .join(Reservation, Reservation.machine == Machine.id)
        .where(Machine.simulated == simulated, Reservation.settled_at.is_(None))
    )
    for machine, user, project in rows:
        used = dict(_by_month(world, machine, used_so_far(machine, now), now)).get(month, 0)
        burning = price_per_hour(machine) if machine.state in _LIVE else 0
        for scope in ((OVERALL, ""), ("user", user), ("project", project or "")):
            found[scope] = _Open(found[scope].running + used, found[scope].burning + burning)
    return found


def _by_month(world: World, machine: Machine, used: int, now: int) -> Iterable[tuple[str, int]]:
    start = machine.provider_start or machine.sent_at or now
    end = max(machine.provider_end or machine.gone_at or now, start + 1)
    slices = split_by_month(start, end, world.settings.zone)
    return zip((month for month, _, _ in slices), spread(used, slices), strict=True)


def spend(world: World, simulated: bool, month: str, by: str) -> dict[str, Any]:
    """What the ledger settled in `month`, grouped; running: what machines that are not settled cost so far."""
    with world.database.read() as session:
        entries = session.scalars(_settled(simulated, month)).all()
        jobs = _settled(simulated, month).with_only_columns(Entry.job).order_by(None)
        handles = {job.id: job.handle for job in session.scalars(select(Job).where(Job.id.in_(jobs)))}
        machines = session.scalars(_machines(simulated, month)).all()
        running = _open_machines(session, world, simulated, month)[(OVERALL, "")].running
    amounts: dict[str, int] = defaultdict(int)
    times: dict[str, int] = defaultdict(int)
    for entry in entries:
        for key, micro, time in _shares(entry, by, handles, world.settings.zone):
            amounts[key] += micro
            times[key] += time if entry.part == "gpu" else 0
    order = sorted(amounts, key=lambda key: key if by == "day" else (-amounts[key], key))
    rows = [{"key": key, "amount": usd(amounts[key]), "machine_seconds": times[key] // SECOND} for key in order]
    return {
        "month": month,
        "rows": rows,
        "total": usd(sum(amounts.values())),
        "running": usd(running),
        "provider_difference": _difference(world, machines),
    }


def receipts(world: World, simulated: bool, month: str) -> list[dict[str, Any]]:
    """One line per machine for a reimbursement form: provider, machine id, start, end, amount, project, user."""
    with world.database.read() as session:
        entries = session.scalars(_settled(simulated, month)).all()
        machines = {machine.id: machine for machine in session.scalars(_machines(simulated, month))}
    lines: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        lines[entry.machine].append(entry)
    found = []
    for machine_id, booked in lines.items():
        machine = machines.get(machine_id)
        found.append(
            {
                "provider": booked[0].provider,
                "machine_id": (machine.provider_id if machine else None) or machine_id,
                "start": rfc3339(min((e.from_at for e in booked if e.from_at is not None), default=None)),
                "end": rfc3339(max((e.to_at for e in booked if e.to_at is not None), default=None)),
                "amount": usd(sum(e.micro for e in booked)),
                "project": booked[0].project or "",
                "user": booked[0].user,
            }
        )
    return sorted(found, key=lambda line: (line["start"] or "", line["machine_id"]))


def _settled(simulated: bool, month: str) -> Select[Entry]:
    wanted = select(Entry).where(Entry.simulated == simulated, Entry.month == month, Entry.kind.in_(COSTS))
    return wanted.order_by(Entry.key)


def _machines(simulated: bool, month: str) -> Select[Machine]:
    ids = _settled(simulated, month).with_only_columns(Entry.machine).order_by(None)
    return select(Machine).where(Machine.id.in_(ids)).order_by(Machine.id)


def _shares(entry: Entry, by: str, handles: dict[str, str], zone: str) -> list[tuple[str, int, int]]:
    """(key, micro-dollars, microseconds): one for all groupings but days, over which an entry is spread."""
    start, end = entry.from_at or entry.at, entry.to_at or entry.at
    if by == "day":
        days = _split_by_day(start, max(end, start + 1), zone)
        amounts = spread(entry.micro, days)
        return [(day, micro, to - of) for (day, of, to), micro in zip(days, amounts, strict=True)]
    key = handles.get(entry.job, entry.job) if by == "job" else getattr(entry, by)
    return [(key or "", entry.micro, end - start)]


def _split_by_day(start: int, end: int, zone: str) -> list[tuple[str, int, int]]:
    """[start, end) cut at the midnights of `zone`."""
    pieces = []
    while start < end:
        local = (_EPOCH + timedelta(microseconds=start)).astimezone(ZoneInfo(zone))
        midnight = datetime(local.year, local.month, local.day, tzinfo=ZoneInfo(zone)) + timedelta(days=1)
        cut = (midnight.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
        # A clock set back across midnight shows the old date after it: go on to the next midnight.
        cut = min(end, cut if cut > start else cut + DAY)
        pieces.append((local.date().isoformat(), start, cut))
        start = cut
    return pieces


def _difference(world: World, machines: Sequence[Machine]) -> str | None:
    """Ledger minus the provider's own bill over the machines of which a provider tells dollars; None: none does.

    A provider that does not answer is left out, and not asked again.
    """
    total, told, silent = 0, False, set()
    for machine in machines:
        provider = world.providers.get(machine.provider)
        if provider is None or machine.provider in silent or type(provider).bill is Provider.bill:
            continue
        if machine.provider_id is None:
            continue
        try:
            billed = provider.bill(machine.region, machine.provider_id)
        except ProviderError:
            silent.add(machine.provider)
            continue
        if billed is not None:
            told = True
            total += _booked(world, machine) - billed
    return usd(total) if told else None


def _booked(world: World, machine: Machine) -> int:
    with world.database.read() as session:
        return sum(session.scalars(select(Entry.micro).where(Entry.machine == machine.id, Entry.kind.in_(COSTS))))
