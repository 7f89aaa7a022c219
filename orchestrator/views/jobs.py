"""The JSON document of a job, made from its rows. Money: decimal strings of dollars; times: RFC 3339 UTC."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.money import usd
from jobs.states import LIVE
from orchestrator import ledger
from orchestrator.db.models import COSTS, Attempt, Entry, Job, Machine, Reservation
from orchestrator.limits import limits_document
from orchestrator.views.instants import rfc3339

_ROWS_AT_ONCE = 400


@dataclass
class Rows:
    """All rows of one job. open: machine id -> micro-dollars reserved, for machines not settled."""

    job: Job
    attempts: list[Attempt] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=list)
    settled: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    open: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """Micro-dollars: booked, used so far and not booked, still held beyond that; together: what is committed."""

    settled: int
    running: int
    reserved: int


def read_rows(session: Session, jobs: Sequence[Job]) -> list[Rows]:
    """Everything that belongs to `jobs`, in the same order, in a few queries however many they are."""
    found = {job.id: Rows(job) for job in jobs}
    ids = list(found)
    for some in (ids[i : i + _ROWS_AT_ONCE] for i in range(0, len(ids), _ROWS_AT_ONCE)):
        for attempt in session.scalars(select(Attempt).where(Attempt.job.in_(some)).order_by(Attempt.number)):
            found[attempt.job].attempts.append(attempt)
        for machine in session.scalars(select(Machine).where(Machine.job.in_(some)).order_by(Machine.attempt)):
            found[machine.job].machines.append(machine)
        booked = select(Entry.job, Entry.machine, Entry.micro).where(Entry.job.in_(some), Entry.kind.in_(COSTS))
        for job, machine_id, micro in session.execute(booked):
            found[job].settled[machine_id] += micro
        held = (
            select(Machine.job, Reservation.machine, Reservation.total)
            .join(Machine, Machine.id == Reservation.machine)
            .where(Machine.job.in_(some), Reservation.settled_at.is_(None))
        )
        for job, machine_id, total in session.execute(held):
            found[job].open[machine_id] = total
    return list(found.values())


def cost_of(rows: Rows, now: int) -> Cost:
    """What a job has committed."""
    running = reserved = 0
    for machine in rows.machines:
        if machine.id in rows.open:
            used = ledger.used_so_far(machine, now)
            running += used
            reserved += max(rows.open[machine.id] - used, 0)
    return Cost(sum(rows.settled.values()), running, reserved)


def price_per_hour(machine: Machine) -> int:
    """Micro-dollars per hour of the whole machine, disk included."""
    return int(machine.price["per_hour"]) + machine.disk_gb * int(machine.price.get("disk_per_gb_hour", 0))


def current_machine(rows: Rows) -> Machine | None:
    """The machine of the newest attempt."""
    return rows.machines[-1] if rows.machines else None


def stops_at(rows: Rows) -> int | None:
    """The instant by which the newest machine is given back at the latest; None where none lives."""
    machine = current_machine(rows)
    return None if machine is None or machine.state in ("gone", "absent") else machine.stop_at


def document(rows: Rows, now: int) -> dict[str, Any]:
    """The `job` object."""
    job, cost, machine = rows.job, cost_of(rows, now), current_machine(rows)
    return {
        "id": job.id,
        "handle": job.handle,
        "name": job.name,
        "project": job.project,
        "user": job.user,
        "simulated": job.simulated,
        "state": job.state,
        "phase": job.phase,
        "waiting_for": job.waiting_for,
        "waiting_reason": job.waiting_reason,
        "waiting_since": rfc3339(job.waiting_since),
        "exit_code": job.exit_code,
        "reason": job.reason or None,
        "reason_code": job.reason_code,
        "results": job.results,
        "cleanup": job.cleanup,
        "budget": usd(job.budget),
        "cost": {"settled": usd(cost.settled), "running": usd(cost.running), "reserved": usd(cost.reserved)},
        "stops_at": rfc3339(stops_at(rows)),
        "stop_class": machine.stop_class if machine else None,
        "held_until": rfc3339(machine.held_until) if machine else None,
        "checkpoints": [],
        "attempts": [_attempt(rows, attempt, now) for attempt in rows.attempts],
        "limits": limits_document(job.limits),
        "git": job.git,
        "submitted_at": rfc3339(job.submitted_at),
        "started_at": rfc3339(job.started_at),
        "ended_at": rfc3339(job.ended_at),
    }


def _attempt(rows: Rows, attempt: Attempt, now: int) -> dict[str, Any]:
    machine = next(m for m in rows.machines if m.id == attempt.machine)
    cost = ledger.used_so_far(machine, now) if machine.id in rows.open else rows.settled.get(machine.id, 0)
    return {
        "number": attempt.number,
        "provider": machine.provider,
        "region": machine.region,
        "machine_id": machine.provider_id,
        "gpu": machine.gpu,
        "gpu_count": machine.gpu_count,
        "spot": machine.spot,
        "price_per_hour": usd(price_per_hour(machine)),
        "started_at": rfc3339(attempt.started_at),
        "ended_at": rfc3339(attempt.ended_at),
        "outcome": attempt.outcome,
        "cost": usd(cost),
        "phase_costs": {phase: usd(micro) for phase, micro in phase_costs(attempt, cost, now).items()},
        "offer_reason": machine.offer_reason,
        "gpu_util": attempt.gpu_util,
        "vram_peak_mb": attempt.vram_peak_mb,
    }


def phase_costs(attempt: Attempt, cost: int, now: int) -> dict[str, int]:
    """Micro-dollars of an attempt by phase: `cost` shared by time; the shares add up to it exactly.

    phase_times: phase -> the instant at which it began. What came after the last phase began is its own.
    """
    begins = sorted(attempt.phase_times.items(), key=lambda item: int(item[1]))
    ends = [*(int(at) for _, at in begins[1:]), attempt.ended_at or now]
    lengths = [max(end - int(at), 0) for (_, at), end in zip(begins, ends, strict=False)]
    whole = sum(lengths)
    shares, passed, told = {}, 0, 0
    for (phase, _), length in zip(begins, lengths, strict=True):
        passed += length
        upto = cost * passed // whole if whole else 0
        shares[phase] = upto - told
        told = upto
    return shares


def documents(session: Session, jobs: Sequence[Job], now: int) -> list[dict[str, Any]]:
    """The `job` objects of `jobs`, in the same order."""
    return [document(rows, now) for rows in read_rows(session, jobs)]


def list_jobs(session: Session, *, everything: bool, project: str | None, since: int, most: int) -> list[Job]:
    """Jobs for the table, newest first: all, or those that live, need cleaning up, or ended after `since`."""
    query = select(Job).order_by(Job.submitted_at.desc(), Job.id)
    if project is not None:
        query = query.where(Job.project == project)
    if everything:
        return list(session.scalars(query))
    live = list(session.scalars(query.where(Job.state.in_(LIVE) | Job.cleanup.in_(("pending", "alarm")))))
    over = query.where(Job.state.not_in(LIVE), Job.cleanup.not_in(("pending", "alarm")), Job.ended_at >= since)
    return sorted([*live, *session.scalars(over.limit(most))], key=lambda job: (-job.submitted_at, job.id))
