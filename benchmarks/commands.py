"""What a fresh installation brings and what its commands cost: measured in a virtual environment of its own."""

import os
import resource
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.figure import Figure
from jobs.money import SECOND
from orchestrator import wiring
from orchestrator.db.models import Job
from orchestrator.settings import load

ROUNDS = 7
JOBS = 1000
ROOT = Path(__file__).parent.parent


def measure(folder: Path) -> Iterator[Figure]:
    """Packages, bytes, CPU seconds of --help and of status with JOBS jobs."""
    gpupoor, packages, megabytes = installed(folder / "venv")
    home = folder / "home"
    fill(home)
    yield Figure("`--help`, CPU s", f"{cpu_s(home, gpupoor, '--help'):.2f}", "0.15", "2.5", "1.3")
    yield Figure(f"`status` with {JOBS:,} jobs, CPU s", f"{cpu_s(home, gpupoor, 'status'):.2f}", "0.6", "2.4+", "1.3+")
    yield Figure("packages, MB in a fresh environment", f"{packages}, {megabytes:.0f}", "50, 140", "96, 460", "89, 268")


def installed(folder: Path) -> tuple[Path, int, float]:
    """The command, the number of packages and their megabytes, once `pip install .` has run in `folder`."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    source = folder.parent / "source"
    kept = shutil.ignore_patterns(".*", "__pycache__", "tests")
    shutil.copytree(ROOT, source, ignore=kept)
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-qq", str(source)], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    taken = sum(file.stat().st_blocks * 512 for file in site.rglob("*") if not file.is_symlink())
    return folder / "bin" / "gpupoor", len(list(site.glob("*.dist-info"))), taken / 1e6


def fill(home: Path) -> None:
    """A home with JOBS queued jobs; nothing is started."""
    home.mkdir()
    world = wiring.world(load({"GPUPOOR_HOME": str(home), "GPUPOOR_DEFAULT_BUDGET": "1"}))
    with world.database.write() as session:
        for number in range(JOBS):
            session.add(Job(**waiting_row(number, world.clock.now())))


def waiting_row(number: int, now: int) -> dict[str, object]:
    """The columns of a job that waits."""
    limits = {"budget": {"value": SECOND, "from": "file"}}
    return {
        "id": f"{number:032x}", "handle": f"job-{number:04d}", "name": "job", "project": "p", "user": "u",
        "simulated": True, "spec": '{"run": "true"}', "spec_hash": "", "limits": limits, "budget": SECOND,
        "state": "queued", "phase": None, "submitted_at": now, "due_at": None,
    }  # fmt: skip


def cpu_s(home: Path, gpupoor: Path, *words: str) -> float:
    """CPU seconds of one `gpupoor WORDS`, user and system, the median of some rounds after a first one."""
    taken = []
    for _ in range(ROUNDS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = {**os.environ, "GPUPOOR_HOME": str(home)}
        subprocess.run([gpupoor, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return median(taken[1:])
