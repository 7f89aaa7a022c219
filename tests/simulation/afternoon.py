"""One simulated afternoon: users, two workers, a guard, a cloud with bad weather, all from one seed."""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from jobs.money import MICRO, MINUTE, SECOND
from jobs.spec import GpuWish, JobSpec, Resources
from orchestrator import advance, reap, sweep, watcher
from orchestrator.cancel import cancel
from orchestrator.caps import set_cap
from orchestrator.db.models import Installation, Job
from orchestrator.follower import Follower
from orchestrator.settings import Settings
from orchestrator.world import World
from providers.simulator import control
from providers.simulator.bill import machine_cost
from providers.simulator.in_process import InProcessCloud, Weather
from providers.simulator.sim_job import FakeJob
from providers.simulator.virtual_clock import VirtualClock
from tests.simulation.checks import Checks, Truth
from tests.simulation.durable import DurableDatabase, lose_power
from tests.simulation.market import OFFERS
from tests.simulation.processes import Bell, ClearVault, NoLimit, OneShellEach, ProcessBlobs, SeededIds, Worker
from tests.simulation.scheduler import Process, Scheduler

START = 1_798_750_000 * SECOND  # some minutes before a month ends, in UTC
INSTALLATION = "simulate"
SHM = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Afternoon:
    """Runs one seed. trouble: 0 (a calm day) to 1."""

    def __init__(self, seed: int, template: Path, trouble: float | None = None) -> None:
        self.scheduler = Scheduler(seed)
        self.dice = self.scheduler.dice
        self.trouble = self.dice.choice([0.0, 0.3, 1.0]) if trouble is None else trouble
        self.folder = Path(tempfile.mkdtemp(prefix=f"seed-{seed}-", dir=SHM))
        self.file = self.folder / "book.db"
        shutil.copyfile(template, self.file)
        self.clock = VirtualClock(START, wait=lambda until: self.scheduler.switch("sleep", until))
        self.works: dict[str, FakeJob] = {}
        # Two things end an overdue machine with the workers dead, the fuse and the guard: one of them may fail
        self.fuse_works = self.dice.random() < 0.8
        self.trouble = self.trouble if self.fuse_works else 1.0
        weather = self._weather() if self.fuse_works else Weather()
        self.cloud = InProcessCloud(
            OFFERS, self.clock, self.dice, self.scheduler.switch, self._work, weather, self.fuse_works
        )
        self.settings = Settings(
            home=self.folder,
            max_gpus=self.dice.choice([1, 2, 4]),
            grace=20 * SECOND,
            boot_limit=4 * MINUTE,
            guard_every=30 * SECOND,
            max_wait=40 * MINUTE,
            lease=self.dice.choice([10, 60]) * SECOND,
        )
        # Machines that cannot be reached and will not go away: what a job's next try must wait for
        self.sticky = self.fuse_works and self.dice.random() < 0.3 * self.trouble
        if self.sticky:
            self.cloud.fault({"on": "delete", "for_s": 1200, "do": {"status": 500}})
        self.outside = Process("user")
        self.databases: list[DurableDatabase] = []
        self.database = self._open(self.outside)
        self.user_world = self._world(self.outside, Bell(self.outside, self.dice, 1.0))
        self.checks = Checks(self.database, self.settings, self)
        self.workers: list[Worker] = []
        self.guard: tuple[Process, World] | None = None
        self.guard_at = START
        self.restart_at: dict[str, int] = {"worker-1": START, "worker-2": START, "guard": START}
        self.submitted: list[str] = []
        self.taken_away: set[str] = set()
        self.storm_ends = START + self.dice.randint(8, 16) * MINUTE
        self.job_times = sorted(
            START + self.dice.randint(0, 6 * 60) * SECOND for _ in range(self.dice.choice([1, 2, 2, 3, 4]))
        )
        self.fuzzed_cap()

    # -- the world of each process

    def _weather(self) -> Weather:
        """Each seed has a mix of its own: some faults at zero, some high."""

        def pick(most: float) -> float:
            return self.dice.choice([0.0, 0.0, most / 3, most]) * self.trouble

        return Weather(
            unavailable=pick(0.3),
            lost=pick(0.3),
            slow=pick(0.2),
            broken=pick(0.2),
            slow_s=self.dice.choice([5.0, 60.0, 200.0]),
        )

    def _world(self, process: Process, bell: Bell) -> World:
        return World(
            clock=self.clock,
            chance=self.dice,
            ids=SeededIds(self.dice),
            settings=self.settings,
            installation=INSTALLATION,
            providers={"mock": self.cloud.provider},
            database=self._open(process),
            shells=OneShellEach(process, self.cloud.provider),
            blobs=ProcessBlobs(process, self.folder / "blobs"),
            vault=ClearVault(),
            doorbell=bell,
            limiter=NoLimit(),
            point=self.scheduler.switch,
        )

    def _open(self, process: Process) -> DurableDatabase:
        self.databases.append(DurableDatabase(self.file, process))
        return self.databases[-1]

    def _work(self, tag: str) -> FakeJob:
        return self.works[tag.rsplit("-", 1)[0]]

    # -- what the users do

    def fuzzed_cap(self) -> None:
        """Sometimes a monthly cap that holds only some of the jobs."""
        with self.database.write() as session:
            if session.get(Installation, INSTALLATION) is None:
                session.add(Installation(id=INSTALLATION, created_at=START))
            if self.dice.random() < 0.4:
                set_cap(session, True, "overall", "", "2026-01", self.dice.choice([MICRO // 2, 2 * MICRO]))

    def submit(self) -> None:
        """A job with a budget and work of some kind."""
        number = len(self.submitted) + 1
        handle = f"job{number}"
        outputs = {"out/model": b"weights"} if self.dice.random() < 0.5 else {}
        self.works[handle] = FakeJob(
            duration_s=self.dice.choice([1, 20, 120, 300, 900] if self.fuse_works and not self.sticky else [900]),
            setup_s=self.dice.choice([0, 10]),
            exit_code=self.dice.choice([0, 0, 0, 1]),
            save_s=self.dice.choice([0.0, 5.0, None]),
            outputs=outputs,
        )
        spec = JobSpec(
            run="work",
            outputs=tuple(outputs),
            retries=self.dice.choice([0, 2]),
            max_duration=self.dice.choice([None, 5 * MINUTE]),
            resources=Resources(
                gpu=(GpuWish(vram_gb=self.dice.choice([24, 24, 80] if self.fuse_works else [80])),), disk_gb=10
            ),
        )
        budget = self.dice.choice(self._budgets())
        with self.database.write() as session:
            session.add(
                Job(
                    id=handle,
                    handle=handle,
                    name="job",
                    user="ada",
                    simulated=True,
                    spec=spec.model_dump_json(),
                    spec_hash="",
                    budget=budget,
                    state="queued",
                    submitted_at=self.clock.now(),
                    gpus=1,
                    due_at=self.clock.now(),
                    limits={},
                )
            )
        self.submitted.append(handle)

    def _budgets(self) -> list[int]:
        if self.sticky:
            return [MICRO]
        return [MICRO // 10, MICRO // 4, MICRO] if self.fuse_works else [MICRO // 10]

    # -- the cloud's truth

    def machines(self) -> list[Truth]:
        """Every machine that ever was."""
        self.cloud.market.settle()
        now = self.clock.now()
        truths = []
        for machine in self.cloud.market.machines.values():
            host = self.cloud.hosts.machines.get(machine.id)
            starts = tuple(sorted(host.starts.items())) if host else ()
            working = frozenset(tag for tag, _ in starts if host and (job := host.job(tag)) and not job.over(now))
            truths.append(
                Truth(
                    machine.id,
                    machine.label,
                    machine.ended_at is None,
                    machine_cost(machine, now),
                    machine.created_at,
                    machine.ended_at,
                    working,
                    starts,
                    machine.id in self.taken_away,
                )
            )
        return truths

    # -- moves

    def run(self) -> None:
        """The storm, then calm weather until all is over. Raises Broken."""
        try:
            while self.clock.now() < self.storm_ends:
                self.move(storm=True)
                self.checks.after_move()
            self.calm()
            until = self.clock.now() + 240 * MINUTE
            while self.clock.now() < until and not self.over():
                self.move(storm=False)
                self.checks.after_move()
            self.checks.at_the_end()
        finally:
            for process in (*[worker.process for worker in self.workers], *([self.guard[0]] if self.guard else [])):
                process.alive = False
            for database in self.databases:
                database.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def calm(self) -> None:
        """The faults end: what is frozen thaws, nobody dies any more."""
        self.cloud.weather = Weather()
        for job_time in self.job_times:
            if job_time > self.clock.now():
                self.submit()
        self.job_times = []
        for machine in self.cloud.market.alive():
            with suppress(KeyError, ValueError):
                self.cloud.hosts.unfreeze(machine.id)

    def over(self) -> bool:
        """Whether nothing has anything left to do."""
        with suppress(AssertionError):
            self.checks.at_the_end()
            return True
        return False

    def move(self, storm: bool) -> None:
        """One thing happens."""
        self._revive()
        while self.job_times and self.job_times[0] <= self.clock.now():
            self.job_times.pop(0)
            self.submit()
        self._periodic()
        if storm and self.dice.random() < 0.04 * self.trouble:
            self._hurt()
        if storm and self.submitted and self.dice.random() < 0.002:
            self._as_user(lambda: cancel(self.user_world, self.dice.choice(self.submitted)))
        bells = [worker for worker in self.workers if worker.bell.waiting and len(worker.process.running) < 6]
        if bells and self.dice.random() < 0.5:
            worker = self.dice.choice(bells)
            self._deliver(worker, *worker.bell.waiting.popleft())
        elif not self.scheduler.step(self.clock.now()) or self.dice.random() < 0.1:
            self._pass_time(storm)

    def _as_user(self, act: Callable[[], object]) -> None:
        act()

    def _deliver(self, worker: Worker, kind: str, id: str) -> None:
        if kind == "job":
            self.scheduler.start(worker.process, f"advance {id}", lambda: advance.advance_job(worker.world, id))
        elif kind == "machine":
            self.scheduler.start(worker.process, "release", lambda: advance.advance_machine(worker.world, id))

    def _periodic(self) -> None:
        now = self.clock.now()
        for worker in self.workers:
            names = [task.what for task in worker.process.running]
            if now >= worker.sweep_at and "sweep" not in names:
                worker.sweep_at = now + 10 * SECOND
                self.scheduler.start(worker.process, "sweep", lambda w=worker: sweep.sweep(w.world))
            if now >= worker.watch_at and "watch" not in names:
                worker.watch_at = now + 5 * SECOND
                self.scheduler.start(worker.process, "watch", lambda w=worker: self._watch(w))
        if self.guard and now >= self.guard_at and not self.guard[0].running:
            self.guard_at = now + self.settings.guard_every
            world = self.guard[1]
            self.scheduler.start(self.guard[0], "guard", lambda: reap.reap(world))

    def _watch(self, worker: Worker) -> None:
        """What the watcher's thread does in one turn."""
        world = worker.world
        for followed in watcher.claim(world):
            worker.followers.append(Follower(world, followed, lambda act: act()))
        if worker.followers:
            ours = watcher.renew(world, [one.followed for one in worker.followers])
            for one in worker.followers:
                if one.followed not in ours:
                    one.close()
        for one in list(worker.followers):
            if not one.over:
                one.pump(world.clock.monotonic())
        worker.followers = [one for one in worker.followers if not one.over]

    def _pass_time(self, storm: bool) -> None:
        """To the next thing that is due, sometimes a little, sometimes a laptop's sleep."""
        now = self.clock.now()
        if storm and self.fuse_works and self.dice.random() < 0.003 * self.trouble:
            self.clock.advance_to(now + self.dice.randint(60, 900) * SECOND)
            return
        dues = [task.wake_at for task in self.scheduler.tasks if task.wake_at > now]
        dues += [worker.sweep_at for worker in self.workers] + [worker.watch_at for worker in self.workers]
        dues += [self.guard_at, *self.restart_at.values(), *self.job_times[:1]]
        later = [due for due in dues if due > now]
        if any(task.wake_at <= now for task in self.scheduler.tasks):
            self.clock.advance_to(now + self.dice.randint(1, 2000) * SECOND // 1000)
        else:
            self.clock.advance_to(min([*later, now + 10 * SECOND]))

    # -- faults

    def _revive(self) -> None:
        now = self.clock.now()
        for name, due in list(self.restart_at.items()):
            if now < due:
                continue
            del self.restart_at[name]
            process = Process(name)
            if name == "guard":
                self.guard = (process, self._world(process, Bell(process, self.dice, 1.0)))
                self.guard_at = now
            else:
                bell = Bell(process, self.dice, self.dice.choice([0.0, 0.3]) * self.trouble)
                self.workers.append(Worker(process, self._world(process, bell), bell))

    def _hurt(self) -> None:
        kind = self.dice.choice(["worker", "worker", "worker", "guard", "power", "machine", "machine"])
        if kind == "worker" and self.workers:
            # with a fuse that fails, nobody but the guard may be left
            for worker in self.dice.sample(self.workers, 1 if self.fuse_works else len(self.workers)):
                self._kill_worker(worker)
        elif kind == "guard" and self.guard and self.fuse_works:
            self._kill_guard()
        elif kind == "power" and self.fuse_works and self.dice.random() < 0.5:
            for worker in list(self.workers):
                self._kill_worker(worker)
            self._kill_guard()
            if lose_power(self.file):
                self.checks.places.clear()
        elif kind == "machine":
            self._hurt_machine()

    def _kill_worker(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.scheduler.kill(worker.process)
        pauses = [1, 5, 60, 300, 600] if self.fuse_works else [300, 600]
        self.restart_at[worker.process.name] = self.clock.now() + self.dice.choice(pauses) * SECOND

    def _kill_guard(self) -> None:
        if self.guard:
            self.scheduler.kill(self.guard[0])
            self.guard = None
            self.restart_at["guard"] = self.clock.now() + self.dice.choice([1, 60, 300]) * SECOND

    def _hurt_machine(self) -> None:
        alive = self.cloud.market.alive()
        if not alive:
            return
        machine = self.dice.choice(alive)
        verbs = ["kill", "vanish", "restart", "freeze", "partition", "preempt"]
        verb = "partition" if self.sticky else self.dice.choice(verbs)
        if verb in ("kill", "vanish", "preempt"):
            self.taken_away.add(machine.id)
        seconds = 900 if self.sticky else self.dice.choice([10, 200, 600])
        said = {"partition": {"seconds": seconds}, "preempt": {"notice_s": 0}}.get(verb, {})
        with suppress(ValueError, KeyError):
            getattr(control, f"_{verb}")(self.cloud.market, machine, said)
