"""starting/setup and running/run: start the work once, then decide from what the watcher saw.

The watcher stores log, heartbeats, phase and exit code; this step only reads them, keeps the limits
of money and time, and looks at the provider when the machine is silent.
"""

from sqlalchemy import update

from jobs.money import SECOND, usd
from jobs.script import replies
from jobs.script.start import start
from jobs.script.stop import stop
from jobs.states import FINISHING, RUNNING, STARTING
from orchestrator import asking, leases
from orchestrator.db.models import Attempt, Machine
from orchestrator.ending import try_again
from orchestrator.lost import SILENT_LIMIT, over_by_its_provider, unreachable
from orchestrator.result import StepResult
from orchestrator.snapshot import Snapshot, open_shell
from orchestrator.world import World
from providers.base import ProviderError
from providers.shell import ShellError, WrongHostKey

LOOK_AGAIN = 15 * SECOND
LOOK_AT_TRAFFIC = 5 * SECOND
MOST_OF_TRAFFIC = 0.7  # the rest is for what moves between two looks and for the results
STOP_MARGIN = 15 * SECOND  # after TERM and grace, the exit code of a silent machine is not waited for longer
HEARD_MARGIN = 75 * SECOND  # while it is heard, its end and the last of its log are on their way


def follow(snap: Snapshot, world: World) -> StepResult:
    """setup -> run -> collecting, by what the watcher saw; stopped at its limits; given up when lost."""
    machine, attempt = snap.machine, snap.attempt
    assert machine is not None and attempt is not None
    now = world.clock.now()
    if attempt.exit_code is not None:
        return _to_collecting(snap, attempt)
    if machine.state != "alive":
        return _machine_over(snap, machine, world)
    if attempt.remote_phase == "lost":
        return try_again(snap, world, "host", "the container was restarted under the job", bad_host=True)
    why = _why_stop(snap, machine, attempt, now) or _too_much_moved(machine, world)
    if attempt.work_started_at is None:
        if why:
            return try_again(snap, world, "host", "there was no time left to start")
        return _start(snap, machine, world)
    if attempt.stop_why or why:
        return _stop(snap, machine, attempt, world, attempt.stop_why or why or "")
    if attempt.silent_since is not None:
        return _silent(snap, machine, attempt, world)
    if attempt.remote_phase in (None, "none"):
        return _start(snap, machine, world)  # the answer to the last one may have been lost; it starts once
    if snap.job.state == STARTING and attempt.remote_phase == "run":
        return StepResult(
            RUNNING,
            "run",
            job={"started_at": snap.job.started_at or now},
            look_again_at=_next_look(snap, machine, attempt, now),
            events=(("runs", {}),),
        )
    return StepResult(snap.job.state, snap.job.phase, look_again_at=_next_look(snap, machine, attempt, now))


def _to_collecting(snap: Snapshot, attempt: Attempt) -> StepResult:
    """The work is over. A run so short that nobody looked while it lasted began at latest when its work did end."""
    ran = attempt.remote_phase == "run" and snap.job.started_at is None
    return StepResult(
        FINISHING,
        "collecting",
        job={"started_at": attempt.work_started_at} if ran else {},
        look_again_at=0,
        events=(("work_over", {"exit_code": attempt.exit_code}),),
    )


def _next_look(snap: Snapshot, machine: Machine, attempt: Attempt, now: int) -> int:
    limit = snap.spec.max_duration
    ends = [now + (LOOK_AGAIN if machine.traffic_allowance is None else LOOK_AT_TRAFFIC), machine.soft_stop_at]
    if limit is not None and attempt.work_started_at is not None:
        ends.append(attempt.work_started_at + limit - _worked_before(snap))
    return max(min(ends), now + SECOND // 10)


def _worked_before(snap: Snapshot) -> int:
    """Microseconds of setup + run in earlier tries."""
    assert snap.attempt is not None
    return int(snap.job.tries.get("worked", 0))


def _why_stop(snap: Snapshot, machine: Machine, attempt: Attempt, now: int) -> str | None:
    """The reason_code for which the work must stop now, or None."""
    if snap.job.wish == "cancel":
        return "cancelled"
    limit = snap.spec.max_duration
    started = attempt.work_started_at
    if limit is not None and started is not None and now >= started + limit - _worked_before(snap):
        return "max_duration"
    return "budget" if now >= machine.soft_stop_at else None


def _too_much_moved(machine: Machine, world: World) -> str | None:
    """budget, when the market charges for bytes and nearly all that were paid for have moved."""
    if machine.traffic_allowance is None:
        return None
    try:
        seen = asking.get(world, machine)
    except ProviderError:
        return None  # no other limit waits for this answer
    moved = (seen.traffic_bytes if seen else None) or 0
    return "budget" if moved >= machine.traffic_allowance * MOST_OF_TRAFFIC else None


def _start(snap: Snapshot, machine: Machine, world: World) -> StepResult:
    assert machine.boot_nonce is not None
    now = world.clock.now()
    if snap.job.wish == "cancel":
        return try_again(snap, world, "host", "cancelled before it started")
    if not _mark_started(snap, world):
        return StepResult(snap.job.state, snap.job.phase, look_again_at=now)
    world.point("follow.marked")
    try:
        reply = replies.parse(open_shell(world, machine).perform(start(snap.tag, machine.boot_nonce)).out).get("start")
    except WrongHostKey:
        return try_again(snap, world, "host", "another host key answers than the one of this rental", bad_host=True)
    except ShellError as error:
        return unreachable(snap, machine, world, f"SSH: {error}")
    world.point("follow.started")
    if reply in ("started", "already"):
        return StepResult(
            STARTING,
            "setup",
            job={"waiting_reason": None},
            attempt={"silent_since": None},
            look_again_at=now + LOOK_AGAIN,
            events=() if reply == "already" else (("started", {}),),
        )
    return try_again(
        snap, world, "host", f"the machine would not start the job ({reply or 'no answer'})", bad_host=True
    )


def _mark_started(snap: Snapshot, world: World) -> bool:
    """Commit that the work may run from now on, before the command is sent: from here every end goes through a stop."""
    with world.database.write() as session:
        now = world.clock.now()
        until = now + world.settings.lease
        if not leases.renew(session, "job", snap.job.id, snap.job.lease_token or "", until):
            return False
        of_this = (Attempt.job == snap.job.id, Attempt.number == snap.job.attempt_number)
        session.execute(update(Attempt).where(*of_this, Attempt.work_started_at.is_(None)).values(work_started_at=now))
        return True


def _stop(snap: Snapshot, machine: Machine, attempt: Attempt, world: World, why: str) -> StepResult:
    """TERM now, KILL after the grace; when nobody answers by then, go on without the exit code."""
    now = world.clock.now()
    grace = snap.grace(world.settings)
    sent = attempt.stop_sent_at
    margin = STOP_MARGIN if attempt.silent_since is not None else HEARD_MARGIN
    if sent is not None and now >= sent + grace + margin:
        return StepResult(FINISHING, "collecting", look_again_at=now, events=(("stop_unanswered", {"why": why}),))
    changes: dict[str, object] = {"stop_why": why}
    try:
        open_shell(world, machine).perform(stop(snap.tag, grace // SECOND))
    except ShellError:
        world.shells.drop(machine.id)
    changes["stop_sent_at"] = sent or now
    events = () if sent else (("stopping", {"why": why, "spent_at_most": usd(machine.price_ceiling)}),)
    return StepResult(
        snap.job.state,
        snap.job.phase,
        attempt=changes,
        events=events,
        look_again_at=min(now + 5 * SECOND, (sent or now) + grace + margin),
    )


def _silent(snap: Snapshot, machine: Machine, attempt: Attempt, world: World) -> StepResult:
    """No heartbeat: the provider knows whether the machine is over; else wait, within a limit."""
    now = world.clock.now()
    assert attempt.silent_since is not None
    try:
        seen = asking.get(world, machine)
        over = over_by_its_provider(snap, machine, seen, world)
    except ProviderError:
        # nobody answers: our own network is gone as likely as the machine, and the fuse watches over the money
        return StepResult(snap.job.state, snap.job.phase, look_again_at=now + 5 * SECOND)
    if over is not None:
        return over
    if now - attempt.silent_since > SILENT_LIMIT:
        return try_again(snap, world, "host", "connection lost: no heartbeat for 5 min", bad_host=True)
    changes = {}
    if seen is not None and seen.access is not None and machine.access is not None:
        where = {**machine.access, "host": seen.access.host, "port": seen.access.port}
        if where != machine.access:  # the port map of a container may change
            world.shells.drop(machine.id)
            changes["access"] = where
    return StepResult(snap.job.state, snap.job.phase, machine=changes, look_again_at=now + 5 * SECOND)


def _machine_over(snap: Snapshot, machine: Machine, world: World) -> StepResult:
    why = "preempted" if machine.preempted else "host"
    return try_again(snap, world, why, machine.why_released or "its machine ended", bad_host=True)
