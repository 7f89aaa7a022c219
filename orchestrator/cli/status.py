"""`gpupoor status`: alarms first, then the table of jobs, or the whole story of one."""

import sys
from typing import Any

import click
from sqlalchemy import select

from jobs.errors import Usage
from jobs.money import HOUR
from orchestrator import wiring
from orchestrator.cli.output import output_option, print_json, say, this_folder
from orchestrator.cli.story import print_jobs, print_story
from orchestrator.cli.worlds import watch_over
from orchestrator.db.models import Event
from orchestrator.views.alarms import alarms
from orchestrator.views.find import find_job
from orchestrator.views.jobs import document, list_jobs, read_rows
from orchestrator.world import World

RECENT = 24 * HOUR
MOST_OVER = 20
WATCH_S = 1.0


@click.command(epilog="Example: gpupoor status qlora-7f3a")
@click.argument("job", required=False)
@click.option("-a", "--all", "everything", is_flag=True, help="Also jobs that were over long ago.")
@click.option("-w", "--watch", is_flag=True, help="Again every second, until Ctrl-C.")
@click.option("--project", metavar="P", help="Only jobs of this project.")
@output_option
def status(job: str | None, everything: bool, watch: bool, project: str | None, output: str) -> None:
    """What runs, what waits and why, and what it costs."""
    if watch and (output == "json" or not sys.stdout.isatty()):
        raise Usage("-w draws on a terminal; leave it out here")
    world = wiring.world(wiring.settings())
    for simulated in (False, True):
        watch_over(world, simulated)
    while True:
        if watch:
            click.clear()
        if job is not None:
            _one(world, job, output)
        else:
            _many(world, everything, project, output)
        if not watch:
            return
        world.clock.sleep(WATCH_S)


def _one(world: World, text: str, output: str) -> None:
    now = world.clock.now()
    with world.database.read() as session:
        rows = read_rows(session, [find_job(session, text, this_folder())])[0]
        events = list(session.scalars(select(Event).where(Event.job == rows.job.id).order_by(Event.id)))
    if output == "json":
        print_json(document(rows, now))
        return
    _print_alarms(alarms(world))
    print_story(rows, events, now, world.settings.zone)


def _many(world: World, everything: bool, project: str | None, output: str) -> None:
    now = world.clock.now()
    with world.database.read() as session:
        jobs = list_jobs(session, everything=everything, project=project, since=now - RECENT, most=MOST_OVER)
        rows = read_rows(session, jobs)
    known = alarms(world)
    if output == "json":
        print_json({"alarms": known, "jobs": [document(each, now) for each in rows]})
        return
    _print_alarms(known)
    if not rows:
        say("no jobs; gpupoor submit JOB.yaml hands one in" if everything else "no jobs lately; status -a shows all")
    for simulated in (False, True):
        some = [each for each in rows if each.job.simulated == simulated]
        if some:
            if simulated:
                click.secho("SIMULATED", bold=True)
            print_jobs(some, now)


def _print_alarms(known: list[dict[str, Any]]) -> None:
    for alarm in known:
        price = f" (${alarm['per_hour']}/h)" if alarm["per_hour"] else ""
        click.secho(f"ALARM {alarm['code']}: {alarm['text']}{price}", fg="red", bold=True)
