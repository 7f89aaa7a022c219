"""What a person must know now: alarms that somebody wrote down, and those that follow from the rows.

codes: machine_lives, delete_failed, host_silent, list_untrusted, key_missing, cap_overrun, book_differs,
guard_still, foreign_row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import func, or_, select

from jobs.money import MINUTE, usd
from orchestrator.caps import cap_in_force, month_of
from orchestrator.db.models import Alarm, Attempt, Balance, Machine, Trust, Turn
from orchestrator.views.instants import elapsed_text
from orchestrator.views.jobs import price_per_hour

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from orchestrator.world import World

STILL_PERIODS: Final = 3
SILENT: Final = 2 * MINUTE
COSTING: Final = ("sent", "alive", "releasing")


class _Found(NamedTuple):
    """machine: id of the row or of the provider, or empty; about: what else the alarm is about."""

    code: str
    simulated: bool
    text: str
    machine: str = ""
    per_hour: int | None = None
    about: str = ""


def alarms(world: World, simulated: bool | None = None) -> list[dict[str, Any]]:
    """All alarms, the dearest first: [code, text, machine_id, per_hour, simulated].

    simulated None: of both worlds. machine_id is the provider's id where it is known. The same code for
    the same machine is told once.
    """
    with world.database.read() as session:
        machines = session.scalars(_of(select(Machine), Machine, simulated).where(Machine.state.in_(COSTING))).all()
        ids = {row.id: row.provider_id or row.id for row in machines}
        found = {
            (alarm.code, alarm.machine or alarm.about): alarm
            for alarm in _computed(session, world, machines, simulated)
        }
        written = session.scalars(_of(select(Alarm), Alarm, simulated).order_by(Alarm.code, Alarm.machine))
        for row in written:
            found[(row.code, row.machine)] = _Found(row.code, row.simulated, row.text, row.machine, row.per_hour)
    order = sorted(found.values(), key=lambda alarm: (-(alarm.per_hour or 0), alarm.code, alarm.machine))
    return [
        {
            "code": alarm.code,
            "text": alarm.text,
            "machine_id": ids.get(alarm.machine, alarm.machine) or None,
            "per_hour": None if alarm.per_hour is None else usd(alarm.per_hour),
            "simulated": alarm.simulated,
        }
        for alarm in order
    ]


def guard_seen_at(session: Session) -> int | None:
    """When a guard last finished a turn; None: never."""
    return session.scalar(select(func.max(Turn.at)).where(Turn.kind == "guard"))


def _of(query: Any, table: Any, simulated: bool | None) -> Any:
    return query if simulated is None else query.where(table.simulated == simulated)


def _computed(session: Session, world: World, machines: Sequence[Machine], simulated: bool | None) -> Iterator[_Found]:
    yield from _unguarded(session, world, machines)
    yield from _overdue(world, machines)
    yield from _without_key(world, machines)
    yield from _silent_hosts(session, world, machines)
    yield from _over_cap(session, world, simulated)
    yield from _untrusted(session, world, simulated)


def _unguarded(session: Session, world: World, machines: Sequence[Machine]) -> Iterator[_Found]:
    """Machines that nobody watches: no guard made a turn for three periods."""
    at = guard_seen_at(session)
    now = world.clock.now()
    if not machines or (at is not None and now - at <= STILL_PERIODS * world.settings.guard_every):
        return
    since = "no guard ever looked" if at is None else f"the guard has stood still for {elapsed_text(now - at)}"
    total = sum(price_per_hour(machine) for machine in machines)
    play = all(machine.simulated for machine in machines)
    yield _Found("guard_still", play, f"{since} and {len(machines)} machine(s) live; gpupoor up -d", per_hour=total)
    for machine in machines:
        yield _lives(machine, f"{since}; gpupoor up -d, or gpupoor reap")


def _overdue(world: World, machines: Sequence[Machine]) -> Iterator[_Found]:
    for machine in machines:
        late = world.clock.now() - machine.stop_at
        if late > world.settings.guard_every:
            yield _lives(machine, f"should have been gone {elapsed_text(late)} ago; gpupoor reap")


def _lives(machine: Machine, why: str) -> _Found:
    name = f"{machine.provider} {machine.provider_id or machine.label}"
    return _Found("machine_lives", machine.simulated, f"{name} lives: {why}", machine.id, price_per_hour(machine))


def _without_key(world: World, machines: Sequence[Machine]) -> Iterator[_Found]:
    for machine in machines:
        if machine.provider not in world.providers:
            name = f"{machine.provider} {machine.provider_id or machine.label}"
            text = f"{name} lives and there is no key for its provider; gpupoor doctor"
            yield _Found("key_missing", machine.simulated, text, machine.id, price_per_hour(machine))


def _silent_hosts(session: Session, world: World, machines: Sequence[Machine]) -> Iterator[_Found]:
    by_id = {machine.id: machine for machine in machines}
    silent = session.scalars(select(Attempt).where(Attempt.silent_since.is_not(None), Attempt.ended_at.is_(None)))
    for attempt in silent:
        machine = by_id.get(attempt.machine)
        quiet = world.clock.now() - (attempt.silent_since or 0)
        if machine is not None and quiet > SILENT:
            text = f"{machine.provider} {machine.provider_id} has said nothing for {elapsed_text(quiet)}"
            yield _Found("host_silent", machine.simulated, text, machine.id, price_per_hour(machine))


def _over_cap(session: Session, world: World, simulated: bool | None) -> Iterator[_Found]:
    """Caps below what is spent and held: lowered by a person, or overrun by a machine that would not stop."""
    this_month = month_of(world.clock.now(), world.settings.zone)
    taken = select(Balance).where(Balance.month != "", or_(Balance.month >= this_month, Balance.held > 0))
    for row in session.scalars(_of(taken, Balance, simulated).order_by(Balance.month, Balance.scope, Balance.name)):
        cap = cap_in_force(session, row.simulated, row.scope, row.name, row.month)
        if cap is not None and row.settled + row.held > cap:
            over = usd(row.settled + row.held - cap)
            where = f"{row.scope} {row.name}".strip()
            text = f"cap of {where} {row.month}: ${over} over; no new machine is rented under it"
            yield _Found("cap_overrun", row.simulated, text, about=f"{row.simulated} {where} {row.month}")


def _untrusted(session: Session, world: World, simulated: bool | None) -> Iterator[_Found]:
    for row in session.scalars(select(Trust).where(Trust.why.is_not(None)).order_by(Trust.provider, Trust.region)):
        provider = world.providers.get(row.provider)
        play = provider is not None and provider.facts.simulated
        if simulated in (None, play):
            place = f"{row.provider} {row.region}".strip()
            yield _Found("list_untrusted", play, f"the list of {place} is not believed: {row.why}", about=place)
