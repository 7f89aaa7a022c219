"""`gpupoor logs`: what a job printed, byte for byte, and nothing else."""

import sys
from collections import deque
from collections.abc import Iterable

import click

from jobs.errors import Usage
from orchestrator import log_store, wiring
from orchestrator.cli.follow import Follower, Screen, detached_text, final_code
from orchestrator.cli.output import say, this_folder
from orchestrator.views.find import find_job
from orchestrator.views.jobs import Rows, read_rows
from orchestrator.views.streams import only_stdout
from orchestrator.world import World


@click.command(epilog="Example: gpupoor logs qlora-7f3a -f")
@click.argument("job", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends; its exit code is ours.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="K", help="An earlier try; the newest by default.")
@click.option("--stdout", "only", flag_value="stdout", help="Only what went to stdout.")
@click.option("--stderr", "only", flag_value="stderr", help="Only what went to stderr.")
def logs(job: str | None, follow: bool, tail: int | None, attempt: int | None, only: str | None) -> int:
    """What `setup` and `run` of a job printed, byte for byte."""
    if follow and only == "stdout":
        raise Usage("-f follows both streams or --stderr; leave --stdout out")
    world = wiring.world(wiring.settings())
    with world.database.read() as session:
        rows = read_rows(session, [find_job(session, job, this_folder())])[0]
    number = attempt or rows.job.attempt_number
    if attempt and attempt > rows.job.attempt_number:
        raise Usage(f"{rows.job.handle} has had {rows.job.attempt_number} attempt(s)")
    if follow and number == rows.job.attempt_number:  # an earlier attempt is over
        return _follow(world, rows, only or "log", tail)
    pieces: Iterable[bytes] = ()
    if number and only == "stdout":
        pieces = _stdout(world, rows.job.id, number, tail)
    elif number:
        pieces = log_store.read(world, rows.job.id, number, only or "log", tail_lines=tail)
    for data in pieces:
        sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return 0


def _stdout(world: World, job_id: str, number: int, tail: int | None) -> Iterable[bytes]:
    """The combined log without stderr; the machine keeps no third stream."""
    both, stderr = (log_store.read(world, job_id, number, stream) for stream in log_store.STREAMS)
    lines = only_stdout(both, stderr)
    return lines if tail is None else deque(lines, maxlen=tail)


def _follow(world: World, rows: Rows, stream: str, tail: int | None) -> int:
    screen = Screen(sys.stdout.buffer, sys.stderr)
    job, offset = rows.job, 0
    if tail is not None and job.attempt_number:
        offset = log_store.size(world, job.id, job.attempt_number, stream)
        for data in log_store.read(world, job.id, job.attempt_number, stream, tail_lines=tail, end=offset):
            screen.write(data)
    follower = Follower(
        world, job.id, screen, tell_phases=False, stream=stream, attempt=job.attempt_number, offset=offset
    )
    try:
        return final_code(follower.follow(cleanup=False).job)
    except KeyboardInterrupt:
        say(detached_text(follower.look(), world))
        return 130
