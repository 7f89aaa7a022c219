"""The Celery tasks, a line or two each; named by hand, so that messages survive a move of the code."""

from collections.abc import Callable

from celery import Celery

from orchestrator.sweep import sweep
from orchestrator.turns import Turns

ADVANCE_JOB = "gpupoor.advance_job"
ADVANCE_MACHINE = "gpupoor.advance_machine"
SWEEP = "gpupoor.sweep"


def register(app: Celery, turns: Turns, taken: Callable[[str, str], None]) -> None:
    """Give `app` its tasks, which act in the world of `turns`. taken: told which message was taken up."""

    def advance_job(job_id: str) -> None:
        taken("job", job_id)
        turns.advance_job(job_id)

    def advance_machine(machine_id: str) -> None:
        taken("machine", machine_id)
        turns.advance_machine(machine_id)

    def sweep_once() -> None:
        sweep(turns.world)

    app.task(name=ADVANCE_JOB)(advance_job)
    app.task(name=ADVANCE_MACHINE)(advance_machine)
    app.task(name=SWEEP)(sweep_once)
