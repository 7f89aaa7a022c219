"""The cheapest of 100,000 offers, and the database's writes: CPU in this process alone."""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.figure import Figure
from jobs.gpu_table import TABLE
from jobs.money import HOUR, MINUTE, SECOND
from jobs.spec import GpuWish, JobSpec, Resources
from orchestrator.db.engine import open_database
from orchestrator.db.models import Event
from orchestrator.placement import Terms
from orchestrator.shelf import Shelves
from providers.base import Offer, PriceParts

OFFERS = 100_000
WRITES = 1000
ROUNDS = 15


def measure(folder: Path) -> Iterator[Figure]:
    """Choice, sorting at listing, and small durable transactions a second."""
    offers = [
        Offer("mock", str(n), f"r{n % 7}", TABLE[n % len(TABLE)].name, 1 + n % 4, 8.0 * (1 + n % 10),
              PriceParts(300_000 + n * 7919 % 1_000_000), spot=n % 3 == 0, as_of=0)
        for n in range(OFFERS)
    ]  # fmt: skip
    began = time.process_time()
    shelves = Shelves(offers)
    sorted_s = time.process_time() - began
    spec = JobSpec(run="true", resources=Resources(gpu=(GpuWish(vram_gb=24.0),)))
    terms = Terms(0, 10**8, HOUR, 20 * MINUTE, 2 * MINUTE, 30 * SECOND)
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        assert shelves.cheapest(spec, terms) is not None
        taken.append(time.process_time() - began)
    yield Figure(f"cheapest of {OFFERS:,} offers, CPU s", f"{median(taken):.3f}", "0.02", "0.14 (of 11,900)", "0.48")
    yield Figure(f"taking in a list of {OFFERS:,} offers, CPU s", f"{sorted_s:.2f}", "", "", "3.1")
    yield Figure("durable write transactions a second", f"{writes_per_s(folder):,.0f}")


def writes_per_s(folder: Path) -> float:
    """Transactions of one insert each, one after the other, on SQLite with synchronous=FULL."""
    database = open_database(f"sqlite:///{folder / 'writes.db'}")
    began = time.perf_counter()
    for number in range(WRITES):
        with database.write() as session:
            session.add(Event(job=None, at=number, word="measured", data={}))
    return WRITES / (time.perf_counter() - began)
