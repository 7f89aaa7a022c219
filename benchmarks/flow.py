"""Jobs end to end on the simulated cloud: how long we take, what is left over after trouble, what we weigh."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from benchmarks.figure import Figure, halves
from tests.end_to_end.cloud_process import CHEAP, Cloud
from tests.end_to_end.home import Home
from tests.services import wait_until

ROUNDS = 10
MANY = 200
AT_ONCE = 20
FAULT_S = 20


@contextmanager
def installation(folder: Path, **settings: str) -> Iterator[tuple[Cloud, Home]]:
    """A cloud of cheap machines and an empty home that takes its time from the cloud; nothing of them stays."""
    folder.mkdir()
    cloud = Cloud(folder / "cloud")
    home = Home(folder / "installation", cloud, clock_url=f"{cloud.url}/_cloud/clock", **settings)
    try:
        yield cloud, home
    finally:
        home.close()
        cloud.close()


def measure(folder: Path) -> Iterator[Figure]:
    """Readiness and memory, the two waits, set-up; then the accidents."""
    with installation(folder / "one") as (cloud, home):
        yield from _one_by_one(cloud, home)
    yield Figure("lost create answer: machines left", _lost_answer(folder / "lost"), "0", "leaks", "25")
    yield Figure("kill -9 during create: machines left", _killed(folder / "killed"), "0", "leaks", "1")
    yield Figure(f"deletes answer 500 for {FAULT_S} s (peers: 20 min): machines left", _deaf(folder / "deaf"), "0",
                 "leaks", "1")  # fmt: skip


def measure_many(folder: Path) -> Iterator[Figure]:
    """MANY jobs of 2 s, AT_ONCE machines at a time: all succeed and the book is the bill."""
    with installation(folder / "many", max_gpus=str(AT_ONCE)) as (cloud, home):
        home.run("up", "-d")
        file = home.job_file("sleep 2; date > out", outputs=["out"])
        began = time.monotonic()
        for _ in range(MANY):
            home.run("submit", file, "-o", "json")
        over = "select count(*) from jobs where cleanup in ('none', 'done') and ended_at is not null"
        heaviest = [0]

        def done() -> bool:
            time.sleep(1)
            heaviest[0] = max([heaviest[0], *(memory(pid) for pid in home.pids())])
            return home.rows(over) == [(MANY,)]

        wait_until(done, f"{MANY} jobs are over", 900)
        took = time.monotonic() - began
        won = home.rows("select count(*) from jobs where state = 'succeeded'")[0][0]
        book, bill = home.assert_settled(), cloud.total()
        alarms = home.rows("select count(*) from alarms")[0][0]
        yield Figure(f"{MANY} jobs of 2 s on {AT_ONCE} machines: succeeded, wall s", f"{won}, {took:.0f}", str(MANY))
        yield Figure(f"{MANY} jobs: ledger, bill, alarms", f"${book}, ${bill}, {alarms}", "equal, 0")
        yield Figure(f"{MANY} jobs: end -> release call, s, p50 / p95", halves(release_waits(cloud)))
        yield Figure(f"{MANY} jobs: heaviest process, MB", f"{heaviest[0] / 1e6:.0f}", "300")
        made = len(cloud.machines())
        yield Figure(f"{MANY} jobs: machines rented", f"{made}", str(MANY))


def _one_by_one(cloud: Cloud, home: Home) -> Iterator[Figure]:
    began = time.monotonic()
    home.run("up", "-d")
    ready = time.monotonic() - began
    wait_until(lambda: len(home.pids()) == 2 and bool(home.rows("select 1 from turns where kind = 'guard'")), "guard")
    idle = sum(memory(pid) for pid in home.pids())
    waits, setups, moved = [], [], []
    for _ in range(ROUNDS):
        job = home.submit("date +%s.%N > began", outputs=["began"])
        home.wait_clean(job)
        born, machine = cloud.requests("create")[-1], cloud.machines()[-1]
        submitted = home.rows("select submitted_at from jobs where id = ?", job)[0][0] / 1e6
        waits.append(_instant(born["time"]) - submitted)
        started = float(next(Path(machine["home"]).glob("gpupoor/*/began")).read_text())
        setups.append(started - _instant(machine["created_at"]) - CHEAP["boot_s"])
        moved.append(cloud.ask("GET", f"/mock/v1/machines/{machine['id']}")["traffic_bytes"])
    after = sum(memory(pid) for pid in home.pids())
    before = [cpu_ticks(pid) for pid in home.pids()]
    time.sleep(10)
    used = [now - then for now, then in zip([cpu_ticks(pid) for pid in home.pids()], before, strict=True)]
    yield Figure("orchestrator ready, s", f"{ready:.1f}", "2", "13", "4.4-11")
    weight = f"{idle / 1e6:.0f}, {after / 1e6:.0f}"
    yield Figure("orchestrator and guard, MB at ready, after jobs", weight, "150", "536", "200-243")
    yield Figure("orchestrator, guard at rest, % of a core", ", ".join(f"{ticks / 10:.1f}" for ticks in used))
    yield Figure("submit -> create call, s, p50 / p95", halves(waits), "0.3", "", "0.31")
    yield Figure("job's end -> release call, s, p50 / p95", halves(release_waits(cloud)), "1", "up to 15", "up to 10")
    yield Figure("machine up -> job runs, s, p50 / p95", halves(setups), "1", "23.6", "image pull + runner")
    yield Figure("bytes to and from a machine in its whole life", f"{max(moved):,}", "50,000", "517 MB (set-up)")


def release_waits(cloud: Cloud) -> list[float]:
    """Seconds from a job's exit on its machine to the first DELETE of that machine."""
    asked: dict[str, float] = {}
    for request in cloud.requests("delete"):
        asked.setdefault(request["path"].rsplit("/", 1)[-1], _instant(request["time"]))
    waits = []
    for machine in cloud.machines():
        for file in Path(machine["home"]).glob(".gpupoor/*/exit"):
            waits.append(asked[machine["id"]] - file.stat().st_mtime)
    return waits


def _lost_answer(folder: Path) -> str:
    with installation(folder) as (cloud, home):
        cloud.faults({"on": "create", "do": {"drop_answer": True}})
        home.wait_clean(home.submit("true"))
        return str(cloud.alive())


def _killed(folder: Path) -> str:
    with installation(folder) as (cloud, home):
        cloud.faults({"on": "create", "do": {"delay_after_s": 5}})
        job = home.submit("true")
        wait_until(lambda: bool(cloud.machines()), "the machine is made")
        home.kill_all()
        home.run("up", "-d")
        home.wait_clean(job)
        return str(cloud.alive())


def _deaf(folder: Path) -> str:
    with installation(folder) as (cloud, home):
        cloud.faults({"on": "delete", "for_s": FAULT_S, "do": {"status": 500}})
        home.wait_clean(home.submit("true"), 180)
        return str(cloud.alive())


def memory(pid: int) -> int:
    """Resident bytes of a process; 0 when it is over."""
    try:
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) * 1024  # type: ignore[index]
    except (OSError, TypeError):
        return 0


def cpu_ticks(pid: int) -> float:
    """Hundredths of CPU seconds that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) * 100 / os.sysconf("SC_CLK_TCK")


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
