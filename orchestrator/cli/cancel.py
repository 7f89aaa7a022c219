"""`gpupoor cancel`: a wish, back in seconds."""

from typing import Any

import click
from sqlalchemy import select

from jobs.errors import Usage
from jobs.states import LIVE, TERMINAL
from orchestrator import wiring
from orchestrator.cancel import Cancelled
from orchestrator.cancel import cancel as wish_to_cancel
from orchestrator.cli.output import confirm, output_option, person_there, print_json, say, this_folder, yes_option
from orchestrator.db.models import Job
from orchestrator.views.find import find_job
from orchestrator.world import World


@click.command(epilog="Example: gpupoor cancel qlora-7f3a")
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option("--all", "everything", is_flag=True, help="Every job that is not over.")
@yes_option
@output_option
def cancel(jobs: tuple[str, ...], everything: bool, yes: bool, output: str) -> None:
    """Stop jobs and give their machines back; outputs and logs come home first."""
    if everything and jobs:
        raise Usage("--all and a JOB: leave one of them out")
    settings = wiring.settings()
    world = wiring.world(settings)
    done = [wish_to_cancel(world, id) for id in _meant(world, jobs, everything, yes)]
    if any(one.state not in TERMINAL for one in done):
        from orchestrator import up

        up.ensure(settings)
    if output == "json":
        print_json([_document(one) for one in done])
        return
    for one in done:
        say(_text(one))
    if not done:
        say("no job is waiting or running")


def _meant(world: World, texts: tuple[str, ...], everything: bool, yes: bool) -> list[str]:
    """The ids of the jobs to cancel; without a name the newest of this folder, after a question."""
    with world.database.read() as session:
        if everything:
            return list(session.scalars(select(Job.id).where(Job.state.in_(LIVE)).order_by(Job.submitted_at)))
        found = [find_job(session, text, this_folder()) for text in texts or (None,)]
    if not texts and not yes:
        handle = found[0].handle
        if not person_there():
            raise Usage(f"name the job ({handle} is the newest of this folder), or say -y")
        if not confirm(f"Cancel {handle}?"):
            return []
    return list(dict.fromkeys(job.id for job in found))


def _document(one: Cancelled) -> dict[str, Any]:
    return {"id": one.id, "state": one.state, "machine_may_appear": one.machine_may_appear}


def _text(one: Cancelled) -> str:
    mark = " (SIMULATED)" if one.simulated else ""
    if one.state in TERMINAL:
        rest = "; its machine is on its way out" if one.machine_may_appear else ""
        return f"{one.handle}{mark} is over already ({one.state}){rest}"
    if one.machine_may_appear:
        return f"{one.handle}{mark} will be cancelled; a machine of it lives or may still appear, and is given back"
    return f"{one.handle}{mark} will be cancelled; it has no machine"
