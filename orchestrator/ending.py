"""How a try ends: the job goes on to an end, or back to the queue for another try, by what went wrong.

Own crash, host fault, no capacity and preemption are four things, each with a limit of its own;
all tries stay inside the budget, and fast failures wait longer each time.
"""

from jobs.money import SECOND
from jobs.states import QUEUED, REASONS, SUCCEEDED
from orchestrator.result import StepResult
from orchestrator.snapshot import Snapshot
from orchestrator.world import World

TRIES = ("own_exit", "host", "preempted")
MOST_TRIES = {"host": 6, "preempted": 20}
_FIRST_PAUSE = 2 * SECOND
_LONGEST_PAUSE = 300 * SECOND


def end(
    snap: Snapshot,
    world: World,
    reason_code: str,
    reason: str,
    *,
    exit_code: int | None = None,
    results: str | None = None,
    release: str | None = None,
    bad_host: str | None = None,
) -> StepResult:
    """The job is over. reason_code: a word of jobs.states.REASONS, or 'succeeded'."""
    now = world.clock.now()
    state = SUCCEEDED if reason_code == "succeeded" else REASONS[reason_code][0]
    busy = any(machine.state != "gone" for machine in snap.machines)
    changes = {
        "reason_code": None if reason_code == "succeeded" else reason_code,
        "reason": reason,
        "ended_at": now,
        "exit_code": exit_code,
        "waiting_for": None,
        "waiting_reason": None,
        "waiting_since": None,
        "waiting_on": None,
        "cleanup": "pending" if busy else "done" if snap.machines else "none",
        "results": results or snap.job.results,
    }
    if not busy:
        changes["secrets_sealed"] = None
    attempt = {} if snap.attempt is None or snap.attempt.outcome else {"outcome": reason_code, "ended_at": now}
    if attempt and exit_code is not None:
        attempt["exit_code"] = exit_code
    return StepResult(
        state,
        "releasing" if busy else None,
        job=changes,
        attempt=attempt,
        release=release or f"the job is over: {reason_code}",
        bad_host=bad_host,
        events=(("ended", {"state": state, "reason_code": reason_code, "reason": reason}),),
    )


def try_again(
    snap: Snapshot,
    world: World,
    why: str,
    reason: str,
    *,
    bad_host: bool = False,
    results: str | None = None,
    exit_code: int | None = None,
) -> StepResult:
    """Another try after `why` (own_exit, host, preempted), or the end when its limit is reached or a wish stands."""
    avoided = reason if bad_host else None
    if snap.job.wish == "cancel":
        return end(
            snap, world, "cancelled", "cancelled by its owner", results=results, exit_code=exit_code, bad_host=avoided
        )
    if snap.attempt is not None and snap.attempt.stop_why:
        return end(
            snap,
            world,
            snap.attempt.stop_why,
            f"stopped; then {reason}",
            results=results,
            exit_code=exit_code,
            bad_host=avoided,
        )
    tries = dict(snap.job.tries)
    tries[why] = tries.get(why, 0) + 1
    most = snap.spec.retries if why == "own_exit" else MOST_TRIES[why]
    if tries[why] > most:
        return end(snap, world, why, reason, exit_code=exit_code, results=results, bad_host=avoided)
    now = world.clock.now()
    pause = min(_FIRST_PAUSE * 2 ** (sum(tries.get(kind, 0) for kind in TRIES) - 1), _LONGEST_PAUSE)
    if snap.attempt is not None and snap.attempt.work_started_at is not None:
        tries["worked"] = tries.get("worked", 0) + (snap.attempt.work_ended_at or now) - snap.attempt.work_started_at
    changes = {
        "tries": tries,
        "waiting_for": "retry",
        "waiting_reason": f"try again: {reason}",
        "waiting_since": now,
        "results": "none",
    }
    return StepResult(
        QUEUED,
        "releasing",
        job=changes,
        attempt={"outcome": why, "ended_at": now, "exit_code": exit_code},
        release=f"this try is over: {reason}",
        bad_host=avoided,
        look_again_at=now + pause,
        events=(("try_again", {"why": why, "reason": reason, "pause_s": pause // SECOND}),),
    )
