"""`gpupoor pull`: the outputs of a job, under the paths that its job file names."""

import json
import tarfile
from pathlib import Path

import click

from jobs.errors import GpupoorError, Usage
from orchestrator import wiring
from orchestrator.cli.output import output_option, print_json, say
from orchestrator.db.models import Attempt, Job
from orchestrator.views.find import find_job
from orchestrator.views.jobs import document, read_rows
from orchestrator.world import World

MARK = ".gpupoor-run.json"


@click.command(epilog="Example: gpupoor pull qlora-7f3a results/")
@click.argument("job", required=False)
@click.argument("dest", required=False, type=click.Path(path_type=Path, file_okay=False))
@output_option
def pull(job: str | None, dest: Path | None, output: str) -> None:
    """Copy the outputs of a job's newest attempt to DEST (./gpupoor-out/HANDLE)."""
    world = wiring.world(wiring.settings())
    with world.database.read() as session:
        rows = read_rows(session, [find_job(session, job, str(Path.cwd()))])[0]
    attempt = rows.attempts[-1] if rows.attempts else None
    if attempt is None or attempt.results_blob is None:
        raise Usage(f"{rows.job.handle} has no results here: {_why_none(rows.job)}")
    target = dest or Path("gpupoor-out") / rows.job.handle
    count = fetch(world, rows.job, attempt, target)
    if output == "json":
        print_json(document(rows, world.clock.now()))
        return
    missing = [path for path, facts in (attempt.results_list or {}).items() if facts["is"] == "missing"]
    say(f"{count} files of {rows.job.handle}, attempt {attempt.number}, are in {target}")
    if missing:
        say(f"not among them, because the job did not write them: {', '.join(missing)}")


def fetch(world: World, job: Job, attempt: Attempt, target: Path) -> int:
    """Unpack the results of an attempt into `target`; files written.

    Raises Usage for a folder that holds another run's outputs. The mark is written first: what a
    broken pull left is known as this run's, and pulling again completes it.
    """
    assert attempt.results_blob is not None
    mine = {"job": job.id, "attempt": attempt.number}
    _refuse_others(target, mine, attempt, job.handle)
    target.mkdir(parents=True, exist_ok=True)
    (target / MARK).write_text(json.dumps(mine) + "\n", encoding="utf-8")
    count = 0
    try:
        with world.blobs.open(attempt.results_blob) as source, tarfile.open(fileobj=source, mode="r|*") as archive:
            for member in archive:
                archive.extract(member, target, filter=_as_written)
                count += member.isreg()
    except KeyError:
        raise GpupoorError(f"the results of {job.handle} are no longer in the store") from None
    except tarfile.TarError as error:
        raise GpupoorError(f"the results of {job.handle} cannot be unpacked: {error}") from None
    return count


def _as_written(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo:
    """Modes and links as the job wrote them; nothing outside the folder, no devices, no other owner."""
    return tarfile.data_filter(member, target)


def _refuse_others(target: Path, mine: dict[str, object], attempt: Attempt, handle: str) -> None:
    try:
        there = json.loads((target / MARK).read_text(encoding="utf-8"))
    except FileNotFoundError:
        there = None
    except (OSError, ValueError):
        there = {}
    if there == mine:
        return
    if there is not None:
        raise Usage(f"{target} holds the outputs of another run; name another folder: gpupoor pull {handle} DEST")
    standing = [path for path in attempt.results_list or {} if (target / path).exists()]
    if standing:
        raise Usage(f"{target / standing[0]} is there already; name another folder: gpupoor pull {handle} DEST")


def _why_none(job: Job) -> str:
    if job.state in ("queued", "starting", "running", "finishing"):
        return f"it is {job.state}"
    return "its job file names no outputs" if job.results == "none" else "none of its outputs was written"
