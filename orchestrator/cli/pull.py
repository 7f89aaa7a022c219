"""`gpupoor pull`: the outputs of a job, under the paths that its job file names."""

import json
import os
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

from jobs.errors import GpupoorError, Usage
from orchestrator import wiring
from orchestrator.cli.output import clean, output_option, print_json, say, this_folder
from orchestrator.db.models import Attempt, Job
from orchestrator.views.find import find_job
from orchestrator.views.jobs import document, read_rows
from orchestrator.world import World


@click.command(epilog="Example: gpupoor pull qlora-7f3a results/")
@click.argument("job", required=False)
@click.argument("dest", required=False, type=click.Path(path_type=Path, file_okay=False))
@output_option
def pull(job: str | None, dest: Path | None, output: str) -> None:
    """Copy the outputs of a job's newest attempt to DEST (./gpupoor-out/HANDLE)."""
    world = wiring.world(wiring.settings())
    with world.database.read() as session:
        rows = read_rows(session, [find_job(session, job, this_folder())])[0]
    attempt = rows.attempts[-1] if rows.attempts else None
    if attempt is None or attempt.results_blob is None:
        raise Usage(f"{rows.job.handle} has no results here: {_why_none(rows.job)}")
    target = dest or Path("gpupoor-out") / rows.job.handle
    kept = fetch(world, rows.job, attempt, target)
    for name in kept.skipped:
        say(f"skipped {clean(name)}: it points out of the folder, or is no file")
    if output == "json":
        print_json(document(rows, world.clock.now()))
        return
    missing = [path for path, facts in (attempt.results_list or {}).items() if facts["is"] == "missing"]
    say(f"{kept.files} files of {rows.job.handle}, attempt {attempt.number}, are in {target}")
    if missing:
        say(f"not among them, because the job did not write them: {', '.join(missing)}")


def fetch(world: World, job: Job, attempt: Attempt, target: Path) -> "Kept":
    """Unpack the results of an attempt into `target`.

    Raises Usage for a folder that holds another run's outputs. What was pulled where is noted first,
    in the home and not among the outputs: a broken pull is known as this run's, and pulling again completes it.
    """
    assert attempt.results_blob is not None
    paths = sorted(attempt.results_list or {})
    mine = {"job": job.id, "attempt": attempt.number, "paths": paths}
    target.mkdir(parents=True, exist_ok=True)
    note = world.settings.home / "pulls" / f"{sha256(os.fsencode(target.resolve())).hexdigest()[:32]}.json"
    there = _read(note)
    standing = [path for path in [*there.get("paths", ()), *paths] if (target / path).exists()]
    if standing and there != mine:
        raise Usage(
            f"{target / standing[0]} is there already, from another run; name another folder: "
            f"gpupoor pull {job.handle} DEST"
        )
    note.parent.mkdir(exist_ok=True, mode=0o700)
    note.write_text(json.dumps(mine), encoding="utf-8")
    kept = Kept()
    try:
        with world.blobs.open(attempt.results_blob) as source, tarfile.open(fileobj=source, mode="r|*") as archive:
            # Python before 3.11.4 knows no filters, later ones insist on one: ours has judged already.
            archive.extraction_filter = lambda member, _path: member
            archive.extractall(target, (one for one in archive if kept.takes(one, target.resolve())))
    except KeyError:
        raise GpupoorError(f"the results of {job.handle} are no longer in the store") from None
    except tarfile.TarError as error:
        raise GpupoorError(f"the results of {job.handle} cannot be unpacked: {error}") from None
    return kept


class Kept:
    """Takes what stays inside the folder, with the modes that the job wrote; devices and ways out are skipped."""

    def __init__(self) -> None:
        self.files = 0
        self.skipped: list[str] = []

    def takes(self, member: tarfile.TarInfo, root: Path) -> bool:
        """Whether a member is unpacked; owner and mode are then made fit for this computer.

        root: the folder, resolved. Links may point about inside it, but nothing is written through one.
        """
        name = member.name = member.name.lstrip("/")
        if not _is_plain(root, name, last=not member.issym()) or not self._may_be(member, root):
            self.skipped.append(name)
            return False
        self.files += member.isreg()
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        executable = member.isdir() or member.mode & 0o100
        member.mode = member.mode & (0o755 if executable else 0o644) | (0o700 if member.isdir() else 0o600)
        return True

    @staticmethod
    def _may_be(member: tarfile.TarInfo, root: Path) -> bool:
        if member.issym():
            end = os.path.join(root, os.path.dirname(member.name), member.linkname)  # noqa: PTH118, PTH120
            return Path(os.path.realpath(end)).is_relative_to(root)
        return member.isreg() or member.isdir() or (member.islnk() and _is_plain(root, member.linkname, last=True))


def _is_plain(root: Path, name: str, last: bool) -> bool:
    """Whether a path below `root` has no `..` and goes through no link; last: is no link itself."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        return False
    checked = parts if last else parts[:-1]
    return not any(root.joinpath(*parts[: number + 1]).is_symlink() for number in range(len(checked)))


def _read(note: Path) -> dict[str, Any]:
    """What was pulled into a folder before; empty when nothing is known."""
    try:
        found: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _why_none(job: Job) -> str:
    if job.state in ("queued", "starting", "running", "finishing"):
        return f"it is {job.state}"
    return "its job file names no outputs" if job.results == "none" else "none of its outputs was written"
