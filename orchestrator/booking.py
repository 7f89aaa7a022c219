"""Applies what a step decided: rows, money and events in the caller's one transaction."""

from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from jobs.money import usd
from jobs.states import QUEUED, TERMINAL
from orchestrator import ledger
from orchestrator.db.change import insert_into
from orchestrator.db.models import Alarm, Attempt, BadHost, Event, Job, Machine, Reservation
from orchestrator.placement import decayed, host_of
from orchestrator.result import MachineResult, StepResult
from orchestrator.rows import offer_of
from orchestrator.snapshot import Snapshot
from orchestrator.world import World

WAKE = 20  # how many waiting jobs are woken when money or a GPU comes free


def apply_job(session: Session, world: World, snap: Snapshot, result: StepResult) -> list[tuple[str, str]]:
    """Write a StepResult; the rings to send once it is committed. Raises CapReached: roll back."""
    now = world.clock.now()
    rings: list[tuple[str, str]] = []
    if result.new is not None:
        _insert_machine(session, world, snap, result)
    elif snap.machine is not None and (result.machine or result.release):
        rings += _change_machine(session, snap.machine, result, now)
    if result.attempt and snap.attempt is not None and result.new is None:
        session.execute(
            update(Attempt)
            .where(Attempt.job == snap.job.id, Attempt.number == snap.attempt.number)
            .values(**result.attempt)
        )
    if result.new is None and snap.attempt is not None:
        _note_phase(session, snap, result, now)
    if result.bad_host and snap.machine is not None:
        _avoid(session, snap.machine, result, now)
    tries = result.job.get("tries", snap.job.tries)
    if tries.get("faults") and "tries" not in result.job:
        tries = {**tries, "faults": 0}
    due_at = now if _news(session, snap) else result.look_again_at
    session.execute(
        update(Job)
        .where(Job.id == snap.job.id)
        .values(**{**result.job, "tries": tries}, state=result.state, phase=result.phase, due_at=due_at)
    )
    if result.state in TERMINAL:
        _finish_job(session, snap.job.id)
    for word, data in result.events:
        session.add(
            Event(at=now, job=snap.job.id, machine=snap.machine.id if snap.machine else None, word=word, data=data)
        )
    if due_at is not None and due_at <= now and result.state not in TERMINAL:
        rings.append(("job", snap.job.id))
    if (result.state, result.phase) in (("starting", "setup"), ("running", "run")):
        rings.append(("follow", snap.job.id))
    return rings


def _news(session: Session, snap: Snapshot) -> bool:
    """Whether a wish or something the watcher saw came in while the step was acting: look again at once."""
    wish = session.execute(select(Job.wish).where(Job.id == snap.job.id)).scalar_one()
    if snap.attempt is None:
        return wish != snap.job.wish
    columns = (Attempt.exit_code, Attempt.remote_phase, Attempt.silent_since)
    seen = session.execute(
        select(*columns).where(Attempt.job == snap.job.id, Attempt.number == snap.attempt.number)
    ).one()
    before = (snap.attempt.exit_code, snap.attempt.remote_phase, snap.attempt.silent_since)
    return wish != snap.job.wish or tuple(seen) != before


def _insert_machine(session: Session, world: World, snap: Snapshot, result: StepResult) -> None:
    assert result.new is not None
    now = world.clock.now()
    session.add(Machine(**result.new.row))
    session.flush()
    ledger.reserve(session, world.settings, snap.job, result.new.row, result.new.reserve, now)
    session.add(
        Attempt(
            job=snap.job.id,
            number=result.new.row["attempt"],
            machine=result.new.row["id"],
            started_at=now,
            phase_times={"renting": now},
        )
    )


def _change_machine(session: Session, machine: Machine, result: StepResult, now: int) -> list[tuple[str, str]]:
    """A job's step may end a machine's service, never bring it back: releasing and gone stay as they are."""
    if result.machine:
        session.execute(
            update(Machine)
            .where(Machine.id == machine.id, Machine.state.in_(("intended", "sent", "alive")))
            .values(**result.machine)
        )
    if not result.release:
        return []
    for old, new in (("alive", "releasing"), ("intended", "absent")):
        session.execute(update(Machine).where(Machine.id == machine.id, Machine.state == old).values(state=new))
    session.execute(
        update(Machine)
        .where(Machine.id == machine.id, Machine.state != "gone")
        .values(why_released=func.coalesce(Machine.why_released, result.release), due_at=now)
    )
    return [("machine", machine.id)]


def _note_phase(session: Session, snap: Snapshot, result: StepResult, now: int) -> None:
    """When each phase began, for dollars by phase."""
    assert snap.attempt is not None
    if result.phase is None or result.phase == snap.job.phase or result.phase in snap.attempt.phase_times:
        return
    times = {**snap.attempt.phase_times, result.phase: now}
    session.execute(
        update(Attempt)
        .where(Attempt.job == snap.job.id, Attempt.number == snap.attempt.number)
        .values(phase_times=times)
    )


def _avoid(session: Session, machine: Machine, result: StepResult, now: int) -> None:
    host = host_of(offer_of(machine))
    old = session.get(BadHost, (machine.provider, host))
    before = decayed(old.weight, now - old.at) if old else 0.0
    weight = before + 1.0 if result.bad_weight >= 1.0 else max(before, result.bad_weight)
    _put(
        session,
        BadHost,
        {"provider": machine.provider, "host": host},
        {"weight": weight, "at": now, "why": (result.bad_host or "")[:200]},
    )


def _put(session: Session, table: Any, key: dict[str, Any], values: dict[str, Any]) -> None:
    """Insert or overwrite one row."""
    written = insert_into(session, table).values(**key, **values)
    session.execute(written.on_conflict_do_update(index_elements=list(key), set_=values))


def apply_machine(session: Session, world: World, machine: Machine, result: MachineResult) -> list[tuple[str, str]]:
    """Write a MachineResult: columns, alarms, and at the proof the settlement and its job's clean-up."""
    now = world.clock.now()
    session.execute(
        update(Machine)
        .where(Machine.id == machine.id)
        .values(**result.machine, due_at=None if result.gone else result.look_again_at)
    )
    for code, text in result.alarms.items():
        _set_alarm(session, world, machine, code, text)
    for word, data in result.events:
        session.add(Event(at=now, job=machine.job, machine=machine.id, word=word, data=data))
    rings: list[tuple[str, str]] = []
    if result.gone:
        rings = _settle(session, world, machine, result, now)
    elif result.look_again_at is not None and result.look_again_at <= now:
        rings = [("machine", machine.id)]
    return rings


def _set_alarm(session: Session, world: World, machine: Machine, code: str, text: str | None) -> None:
    key = {"code": code, "machine": machine.id}
    if text is None:
        old = session.get(Alarm, (code, machine.id))
        if old is not None:
            session.delete(old)
        return
    _put(
        session,
        Alarm,
        key,
        {"simulated": machine.simulated, "text": text, "at": world.clock.now(), "per_hour": machine.price_ceiling},
    )


def _settle(session: Session, world: World, machine: Machine, result: MachineResult, now: int) -> list[tuple[str, str]]:
    job = session.get(Job, machine.job)
    row = session.get(Machine, machine.id)
    assert job is not None and row is not None
    session.refresh(row)
    booked = ledger.settle(session, world.settings, job, row, result.usage, now)
    session.execute(update(Machine).where(Machine.id == machine.id).values(ssh_key_sealed=None))
    session.add(Event(at=now, job=job.id, machine=machine.id, word="settled", data={"amount": usd(booked)}))
    if booked > _reserved(session, machine.id):
        _set_alarm(
            session,
            world,
            machine,
            "cap_overrun",
            f"{machine.provider} {machine.provider_id} cost ${usd(booked)}, more than was reserved",
        )
    _finish_job(session, job.id)
    rings = [("job", job.id)] if job.state not in TERMINAL else []
    return rings + _wake_waiting(session, job, now)


def _reserved(session: Session, machine_id: str) -> int:
    return session.execute(select(Reservation.total).where(Reservation.machine == machine_id)).scalar_one()


def _finish_job(session: Session, job_id: str) -> None:
    """When the last machine of a finished job is proved gone: clean-up done, secrets deleted."""
    live = session.execute(
        select(func.count()).select_from(Machine).where(Machine.job == job_id, Machine.state != "gone")
    ).scalar_one()
    if not live:
        session.execute(
            update(Job)
            .where(Job.id == job_id, Job.state.in_(TERMINAL), Job.phase == "releasing")
            .values(phase=None, cleanup="done", secrets_sealed=None)
        )


def _wake_waiting(session: Session, job: Job, now: int) -> list[tuple[str, str]]:
    """Money and GPUs came free: the first who wait for them look again, in their order."""
    first = session.scalars(
        select(Job.id)
        .where(Job.state == QUEUED, Job.simulated == job.simulated, Job.waiting_for.in_(("gpu_limit", "budget")))
        .order_by(Job.priority.desc(), Job.submitted_at, Job.id)
        .limit(WAKE)
    ).all()
    if first:
        session.execute(update(Job).where(Job.id.in_(first)).values(due_at=now))
    if job.state == QUEUED:
        session.execute(update(Job).where(Job.id == job.id).values(due_at=func.coalesce(Job.due_at, now)))
    return [("job", id) for id in first]
