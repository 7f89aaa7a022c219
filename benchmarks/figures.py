"""Figures that are taken in seconds: CPU of the commands people wait for, the choice among 100,000 offers."""

import os
import resource
import subprocess
import sys
import tempfile
import time

from jobs.money import HOUR, MINUTE, SECOND
from jobs.spec import GpuWish, JobSpec, Resources
from orchestrator.placement import Terms, rank
from providers.base import Offer, PriceParts

ROUNDS = 5
OFFERS = 100_000
PROGRAM = "from orchestrator.cli.main import main; main()"


def command_cpu_s(*words: str) -> float:
    """CPU seconds of one `gpupoor WORDS` in a home of its own, the best of some rounds."""
    best = float("inf")
    with tempfile.TemporaryDirectory() as home:
        for _ in range(ROUNDS):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", PROGRAM, *words], env={**os.environ, "GPUPOOR_HOME": home},
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)  # fmt: skip
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def choice_s() -> float:
    """Seconds to rank OFFERS offers for one job."""
    offers = [
        Offer("mock", str(number), "r", "RTX4090", 1, 24.0, PriceParts(300_000 + number), as_of=0)
        for number in range(OFFERS)
    ]
    spec = JobSpec(run="true", resources=Resources(gpu=(GpuWish(vram_gb=24.0),)))
    terms = Terms(0, 10**8, HOUR, 20 * MINUTE, 2 * MINUTE, 30 * SECOND)
    began = time.perf_counter()
    rank(spec, offers, terms)
    return time.perf_counter() - began


def main() -> None:
    """Print the table."""
    rows = [(f"gpupoor {word}, CPU s", command_cpu_s(word)) for word in ("--help", "status", "budget")]
    rows.append((f"cheapest of {OFFERS:,} offers, s", choice_s()))
    for name, value in rows:
        print(f"{name:40} {value:8.3f}")


if __name__ == "__main__":
    main()
