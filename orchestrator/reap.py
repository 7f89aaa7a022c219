"""One turn of the guard: destroy what is overdue or unowned, warn, and ring. It starts nothing.

Only machines with our installation's label are ever touched: one whose row is over or unwanted at
once; one past its stop time minus a guard period; one with our label and no row (a restored backup)
is an alarm and goes at its label's stop time. All others are shown, and taken only by `adopt`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from sqlalchemy import or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from jobs.errors import GpupoorError, Usage
from jobs.label import parse_label
from jobs.money import SECOND
from jobs.states import TERMINAL
from orchestrator.db.change import change
from orchestrator.db.models import Alarm, Job, Machine, Reservation
from orchestrator.world import World
from providers.base import Gone, Listing, ProviderError, Sighting

log = structlog.get_logger()


@dataclass
class Report:
    """Machines by provider id: given back, not ours, overdue (a subset of destroyed or still there); and
    regions that did not answer."""

    destroyed: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    overdue: list[str] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)


def reap(world: World, simulated: bool | None = None, dry_run: bool = False, adopt: str | None = None) -> Report:
    """Look at every region of every provider once. adopt: provider id of a foreign machine to take and end."""
    report = Report()
    for name, provider in sorted(world.providers.items()):
        if simulated is not None and provider.facts.simulated != simulated:
            continue
        for region in provider.facts.regions:
            reap_region(world, name, region, report, dry_run, adopt)
    if adopt is not None and adopt not in report.destroyed:
        raise Usage(f"no machine {adopt} is alive at any provider; gpupoor machines --all")
    return report


def reap_region(
    world: World, provider: str, region: str, report: Report, dry_run: bool = False, adopt: str | None = None
) -> None:
    """One region: the machines are listed before the rows are read, so that a new row is never missed."""
    try:
        _write_down(lambda: world.limiter.wait(provider, "list"))
        listing = world.providers[provider].list_machines(region)
    except ProviderError as error:
        report.unreachable.append(f"{provider}{'/' + region if region else ''}: {error}")
        return
    rows = _rows(world, provider)
    for seen in listing.machines:
        if not seen.ended:
            _look(world, seen, rows, report, dry_run, adopt)
    if rows is not None and not dry_run:
        _note_absent(world, provider, region, listing, rows)


@dataclass(frozen=True)
class Rows:
    """What the database knows of one provider's machines."""

    by_label: dict[str, Machine]
    by_id: dict[str, Machine]

    def of(self, seen: Sighting) -> Machine | None:
        """The row of this very machine, else the row whose label it carries."""
        return self.by_id.get(seen.id) or self.by_label.get(seen.label)


def _rows(world: World, provider: str) -> Rows | None:
    """Rows, or None when the database is not to be had: then only labels count."""
    of_provider = select(Machine).where(Machine.provider == provider)
    try:
        with world.database.read() as session:
            over = session.scalars(
                of_provider.where(Machine.state == "gone").order_by(Machine.gone_at.desc()).limit(1000)
            )
            rows = [*over, *session.scalars(of_provider.where(Machine.state != "gone"))]
    except (SQLAlchemyError, GpupoorError) as error:
        log.warning("guard.no_database", error=str(error))
        return None
    return Rows({row.label: row for row in rows}, {row.provider_id: row for row in rows if row.provider_id})


def _look(world: World, seen: Sighting, rows: Rows | None, report: Report, dry_run: bool, adopt: str | None) -> None:
    label = parse_label(seen.label)
    if seen.id == adopt:
        _destroy(world, seen, report, dry_run)
        return
    if label is None or label.installation != world.installation:
        report.foreign.append(seen.id)
        return
    row = None if rows is None else rows.of(seen)
    # the next turn comes up to a period later, and must not be the first after the end
    guard_at = world.clock.now() + 2 * world.settings.guard_every
    if row is None:
        if rows is not None and not dry_run:
            _write_down(lambda: _alarm_no_row(world, seen))
        if guard_at >= label.stop_at:
            report.overdue.append(seen.id)
            _destroy(world, seen, report, dry_run)
        return
    if row.provider_id not in (None, seen.id):
        if not dry_run:
            _write_down(lambda: _take_stray(world, seen, row))
        _destroy(world, seen, report, dry_run)
        return
    overdue = guard_at >= row.stop_at
    if row.state in ("intended", "sent", "alive") and not overdue:
        return
    if overdue:
        report.overdue.append(seen.id)
    why = row.why_released or ("its reserved time ended" if overdue else "its row is over")
    if not dry_run:
        _write_down(lambda: _take_away(world, seen, row, why))
    _destroy(world, seen, report, dry_run)


def _write_down(act: Callable[[], None]) -> None:
    """A database that cannot be written keeps nobody from destroying what must go."""
    try:
        act()
    except (SQLAlchemyError, GpupoorError) as error:
        log.warning("guard.no_database", error=str(error))


def _take_stray(world: World, seen: Sighting, row: Machine) -> None:
    """A second machine with the label of a row (a doubled create, a reborn spot request): it gets a row of its own,
    with nothing reserved, so that its end is proved and its cost is booked."""
    now = world.clock.now()
    columns = [column.key for column in Machine.__table__.columns]
    copy = {key: getattr(row, key) for key in columns}
    copy |= {
        "id": world.ids.token(),
        "token": world.ids.token(),
        "label": f"{row.label}/{seen.id}"[:200],
        "provider_id": seen.id,
        "state": "releasing",
        "why_released": "a second machine with our label",
        "sent_at": seen.started_at or now,
        "seen_at": now,
        "due_at": now,
        "provider_start": seen.started_at,
    }
    copy |= dict.fromkeys(
        (
            "gone_at",
            "provider_end",
            "absent_list_1",
            "absent_list_2",
            "release_sent_at",
            "access",
            "lease_token",
            "lease_until",
            "tombstoned_at",
        )
    )
    with world.database.write() as session:
        known = select(Machine.id).where(Machine.provider == seen.provider, Machine.provider_id == seen.id)
        if session.execute(known).first() is None:
            session.add(Machine(**copy))
            session.flush()
            session.add(Reservation(machine=copy["id"], total=0, parts=[]))
    world.doorbell.ring("machine", copy["id"])


def _destroy(world: World, seen: Sighting, report: Report, dry_run: bool) -> None:
    if not dry_run:
        try:
            _write_down(lambda: world.limiter.wait(seen.provider, "release"))
            world.providers[seen.provider].release(seen.region, seen.id)
        except Gone:
            pass  # over already, which is what was asked for
        except ProviderError as error:
            report.unreachable.append(f"{seen.provider} {seen.id}: {error}")
            return
    report.destroyed.append(seen.id)


def _take_away(world: World, seen: Sighting, row: Machine, why: str) -> None:
    """The row says so too: its release step proves the end and settles."""
    now = world.clock.now()
    # a row that was closed without ever seeing a machine opens again: what it cost is booked as an overrun
    open_row = or_(Machine.state != "gone", Machine.provider_id.is_(None))
    with world.database.write() as session:
        taken = change(
            session,
            update(Machine)
            .where(Machine.id == row.id, open_row)
            .values(
                state="releasing",
                provider_id=seen.id,
                why_released=why,
                due_at=now,
                gone_at=None,
                absent_list_1=None,
                provider_start=seen.started_at or row.provider_start,
            ),
        )
        if taken:
            live = Job.state.not_in(TERMINAL)
            session.execute(update(Job).where(Job.id == row.job, live).values(due_at=now))
    if taken:
        world.doorbell.ring("machine", row.id)
        world.doorbell.ring("job", row.job)


def _alarm_no_row(world: World, seen: Sighting) -> None:
    with world.database.write() as session:
        if session.get(Alarm, ("foreign_row", seen.id)) is None:
            session.add(
                Alarm(
                    code="foreign_row",
                    machine=seen.id,
                    simulated=world.providers[seen.provider].facts.simulated,
                    text=f"{seen.provider} {seen.id} carries our label and no row knows it; it goes at its stop time",
                    per_hour=seen.per_hour,
                    at=world.clock.now(),
                )
            )


def _note_absent(world: World, provider: str, region: str, listing: Listing, rows: Rows) -> None:
    """A machine of ours that is not listed any more: its job's step asks the provider and decides."""
    if not listing.complete:
        return
    there = {seen.id for seen in listing.machines if not seen.ended}
    lag = round(world.providers[provider].facts.read_lag_s * SECOND)
    for row in rows.by_label.values():
        fresh = (row.seen_at or 0) + lag >= listing.taken_at
        if row.region == region and row.state == "alive" and row.provider_id not in there and not fresh:
            with world.database.write() as session:
                session.execute(update(Job).where(Job.id == row.job).values(due_at=world.clock.now()))
            world.doorbell.ring("job", row.job)
