"""`gpupoor submit`: hand in job files, and say what was understood."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click

from jobs.errors import Usage
from orchestrator import up, wiring
from orchestrator.cli import understanding
from orchestrator.cli.follow import Follower, Screen, detached_text, final_code
from orchestrator.cli.job_request import Flags, Read, read_request
from orchestrator.cli.mock import means_simulated
from orchestrator.cli.output import (
    confirm,
    mock_option,
    money,
    output_option,
    person_there,
    print_json,
    say,
    yes_option,
)
from orchestrator.cli.worlds import ask
from orchestrator.db.models import Job
from orchestrator.settings import Settings
from orchestrator.submit import Accepted, check, rehearse
from orchestrator.submit import submit as take_in
from orchestrator.views.jobs import Rows, document, read_rows
from orchestrator.world import World

_LATER = {"burst": "--burst", "keep": "--keep"}


@click.command(epilog="Example: gpupoor submit train.yaml --budget 5 --follow")
@click.argument("files", nargs=-1, required=True, metavar="JOB.yaml...")
@click.option("-f", "--follow", is_flag=True, help="Show phases, log and cost until the job is over.")
@click.option("--wait", is_flag=True, help="Return when the jobs are over; the exit code says how.")
@click.option("--budget", metavar="USD", help="The most that the job may spend.")
@click.option("--env", multiple=True, metavar="K=V", help="A variable of the job (K alone: its value here).")
@click.option("--env-file", type=click.Path(path_type=Path), metavar="F", help="Variables, one K=V per line.")
@click.option("--secret", multiple=True, metavar="K", help="A secret of the job; its value is taken from K here.")
@click.option("--set", "sets", multiple=True, metavar="PATH=VALUE", help="Change the job file: resources.gpu=24GB.")
@click.option("--name", metavar="N", help="The job's name.")
@click.option("--project", metavar="P", help="The project that pays.")
@click.option("--burst", metavar="B", hidden=True)
@click.option("--keep", metavar="D", hidden=True)
@mock_option
@click.option("--now", is_flag=True, help="Refuse (exit 3) instead of waiting.")
@click.option("--no-fuse-ok", is_flag=True, help="Also take machines that nothing stops while we sleep.")
@click.option("--exit-code", "own_code", is_flag=True, help="With -f or --wait: the job's own exit code.")
@click.option("--id", "job_id", metavar="ID", help="Your own id: submitting it again is harmless.")
@yes_option
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@output_option
def submit(files: tuple[str, ...], output: str, dry_run: bool, **options: Any) -> int:
    """Hand in job files; `-` reads one from stdin."""
    flags = _flags(files, options)
    follow, wait = options["follow"], options["wait"]
    if dry_run and (follow or wait):
        raise Usage("--dry-run queues nothing to follow or to wait for")
    if options["own_code"] and not (follow or wait):
        raise Usage("--exit-code needs -f or --wait")
    if follow and len(files) > 1:
        raise Usage("-f follows one job; hand in several with --wait")
    settings = wiring.settings()
    read = [read_request(file, flags, settings) for file in files]
    worlds = [_open(settings, each, flags.mock) for each in read]
    for world, each in zip(worlds, read, strict=True):
        _ask(each, world.settings, options["yes"])
    if dry_run:
        _rehearse(worlds, read, output)
        return 0
    if len(read) > 1:
        for world, each in zip(worlds, read, strict=True):
            rehearse(world, each.request)
    accepted = []
    for world, each in zip(worlds, read, strict=True):
        one = take_in(world, each.request)
        accepted.append(one)
        if output == "table":
            _print_accepted(one, each, world.settings.zone, follow)
        up.ensure(world.settings)
    return _finish(worlds, accepted, options, output)


def _flags(files: tuple[str, ...], options: dict[str, Any]) -> Flags:
    for name, flag in _LATER.items():
        if options[name] is not None:
            raise Usage(f"{flag} is not yet supported by this version; leave it out")
    if len(files) > 1 and options["job_id"]:
        raise Usage("--id names one job; hand in the files one by one")
    if files.count("-") > 1:
        raise Usage("- reads stdin, which is there only once")
    names = {field.name for field in dataclasses.fields(Flags)}
    return Flags(**{name: value for name, value in options.items() if name in names})


def _open(settings: Settings, read: Read, mock: bool) -> World:
    """The world that the job belongs to. Raises Usage for what is wrong with the job before any provider is asked."""
    providers = read.request.spec.resources.providers
    read.request = dataclasses.replace(read.request, simulated=means_simulated(settings, mock, providers))
    check(read.request, settings)
    return ask(mock, providers)[0]


def _ask(read: Read, settings: Settings, yes: bool) -> None:
    """A budget that nobody named for this job is asked about, where a person is there to answer."""
    limit = check(read.request, settings)["budget"]
    if limit["from"] in ("file", "flag") or yes or not person_there():
        return
    amount = money(limit["value"], read.request.simulated)
    if not confirm(f"{read.shown}: no budget named. Spend up to {amount} (your default)?"):
        raise Usage("nothing was queued; name a budget: --budget USD")


def _rehearse(worlds: list[World], read: list[Read], output: str) -> None:
    documents = []
    for world, each in zip(worlds, read, strict=True):
        limits, preview = rehearse(world, each.request)
        documents.append(understanding.document(each.request, limits, preview, each.left_out))
        if output == "table":
            mark = "  SIMULATED" if each.request.simulated else ""
            click.echo(f"{each.request.spec.name or each.request.default_name}  would be queued{mark}")
            _print_lines(each, understanding.lines(each.request, limits, preview, each.left_out, world.settings.zone))
    if output == "json":
        print_json(documents[0] if len(documents) == 1 else documents)


def _print_lines(read: Read, lines: list[str], to_stderr: bool = False) -> None:
    for warning in read.warnings:
        say(f"warning: {warning}")
    for line in lines:
        click.echo(f"  {line}", err=to_stderr)


def _print_accepted(one: Accepted, read: Read, zone: str, to_stderr: bool) -> None:
    mark = "  SIMULATED" if read.request.simulated else ""
    if one.repeated or one.preview is None:
        click.echo(f"{one.handle}  was accepted before; nothing was queued again{mark}", err=to_stderr)
        return
    click.echo(f"{one.handle}  queued{mark}", err=to_stderr)
    _print_lines(read, understanding.lines(read.request, one.limits, one.preview, read.left_out, zone), to_stderr)


def _finish(worlds: list[World], accepted: list[Accepted], options: dict[str, Any], output: str) -> int:
    """Follow or wait where that was asked for; the documents come last."""
    follow, code = options["follow"], 0
    many: list[Rows] = []
    for world, one in zip(worlds, accepted, strict=True):
        screen = _screen(output, follow)
        follower = Follower(world, one.id, screen, show_log=follow, tell_phases=follow)
        try:
            many.append(follower.follow() if follow or options["wait"] else _rows(world, one.id))
        except KeyboardInterrupt:
            screen.close()
            say(detached_text(follower.look(), world))
            return 130
        if follow or options["wait"]:
            code = code or final_code(many[-1].job, options["own_code"])
    if output == "json":
        documents = [document(rows, world.clock.now()) for world, rows in zip(worlds, many, strict=True)]
        print_json(documents[0] if len(documents) == 1 else documents)
    return code


def _screen(output: str, follow: bool) -> Screen:
    """With JSON the log goes to stderr, so that stdout holds one document."""
    log = sys.stderr.buffer if output == "json" else sys.stdout.buffer
    return Screen(log, sys.stderr, sticky=follow and sys.stderr.isatty())


def _rows(world: World, job_id: str) -> Rows:
    with world.database.read() as session:
        return read_rows(session, [session.get_one(Job, job_id)])[0]
