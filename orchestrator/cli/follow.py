"""Following a job: its phases, its log as it comes, and one line that says what it costs."""

from dataclasses import dataclass, field
from typing import BinaryIO, TextIO

from jobs.errors import Unanswered
from jobs.states import TERMINAL, exit_code
from orchestrator import log_store
from orchestrator.cli.interrupt import Interrupt, interruptible
from orchestrator.cli.output import clean, money, per_hour
from orchestrator.db.models import Job
from orchestrator.views.instants import clock_text, elapsed_text
from orchestrator.views.jobs import Rows, cost_of, current_machine, price_per_hour, read_rows, stops_at
from orchestrator.world import World

LOOK_S = 0.15
CLEANUP_S = 60.0
_CLEAR = "\r\x1b[K"


@dataclass
class Screen:
    """Where a follower writes. log: bytes of the job; notes: everything of ours.

    sticky: notes is a terminal and its last line may be written over.
    """

    log: BinaryIO
    notes: TextIO
    sticky: bool = False
    _shown: str = field(default="", init=False)
    _mid_line: bool = field(default=False, init=False)

    def note(self, text: str) -> None:
        """One line of ours."""
        self._lift()
        self.notes.write(f"{clean(text)}\n")
        self.notes.flush()

    def write(self, data: bytes) -> None:
        """Bytes of the job, as they are."""
        self._lift()
        self.log.write(data)
        self.log.flush()
        self._mid_line = not data.endswith(b"\n")

    def keep(self, text: str) -> None:
        """Show the sticky line, unless the job is in the middle of a line of its own."""
        if self.sticky and not self._mid_line and text != self._shown:
            self.notes.write(f"{_CLEAR}{text}")
            self.notes.flush()
            self._shown = text

    def close(self) -> None:
        """Take the sticky line away."""
        self._lift()

    def _lift(self) -> None:
        if self._shown:
            self.notes.write(_CLEAR)
            self.notes.flush()
            self._shown = ""


@dataclass
class Follower:
    """Looks at one job again and again.

    attempt, offset: where its log goes on. show_log, tell_phases: what of it is written at all.
    """

    world: World
    job_id: str
    screen: Screen
    show_log: bool = True
    tell_phases: bool = True
    stream: str = "log"
    attempt: int = 0
    offset: int = 0
    _told: str = ""
    _interrupt: Interrupt = field(default_factory=Interrupt)

    def follow(self, cleanup: bool = True) -> Rows:
        """Return when the job is over and its log was shown; wait up to a minute for its clean-up as well.

        KeyboardInterrupt goes through: the job does not notice.
        """
        with interruptible() as self._interrupt:
            return self._until_over(cleanup)

    def _until_over(self, cleanup: bool) -> Rows:
        while True:
            rows = self.look()
            over = rows.job.state in TERMINAL
            if over and self.show_log:
                self._copy_log(rows)
            if self.tell_phases:
                self._tell_phase(rows)
            if over:
                break
            if self.show_log:
                self._copy_log(rows)
            self.screen.keep(sticky_line(rows, self.world))
            self._pause(LOOK_S)
        if cleanup:
            rows = self._await_cleanup(rows)
        self.screen.close()
        return rows

    def _await_cleanup(self, rows: Rows) -> Rows:
        until = self.world.clock.monotonic() + CLEANUP_S
        while rows.job.cleanup == "pending" and self.world.clock.monotonic() < until:
            self.screen.keep(f"{rows.job.handle} {rows.job.state}; waiting for the proof that its machine is gone")
            self._pause(LOOK_S)
            rows = self.look()
        return rows

    def _pause(self, seconds: float) -> None:
        self._interrupt.check()
        self.world.clock.sleep(seconds)
        self._interrupt.check()

    def look(self) -> Rows:
        """The job as it is now; a silent database is waited for, since the job goes on without us."""
        while True:
            try:
                with self.world.database.read() as session:
                    job = session.get_one(Job, self.job_id)
                    return read_rows(session, [job])[0]
            except Unanswered as error:
                self.screen.keep(f"{error}; still looking")
                self._pause(1.0)

    def _tell_phase(self, rows: Rows) -> None:
        text = phase_text(rows)
        if text != self._told:
            self._told = text
            self.screen.note(text)

    def _copy_log(self, rows: Rows) -> None:
        for attempt in rows.attempts:
            if attempt.number < self.attempt:
                continue
            if attempt.number > self.attempt:
                self.attempt, self.offset = attempt.number, 0
            # offsets count the job's bytes; a marker of the cap is printed and not counted
            end = log_store.size(self.world, self.job_id, self.attempt, self.stream)
            for data in log_store.read(self.world, self.job_id, self.attempt, self.stream, self.offset, end=end):
                self.screen.write(data)
            self.offset = max(end, self.offset)


def phase_text(rows: Rows) -> str:
    """Where a job stands, in one line."""
    job, machine = rows.job, current_machine(rows)
    if job.state in TERMINAL:
        reason = f": {job.reason}" if job.reason else ""
        return f"{job.handle} {job.state}{reason}"
    if job.waiting_for:
        return f"{job.handle} {job.state}, waits for {job.waiting_for}: {job.waiting_reason}"
    text = f"{job.handle} {job.state}{f': {job.phase}' if job.phase and job.phase != 'run' else ''}"
    if machine is None or job.state == "queued":
        return text
    count = f"{machine.gpu_count}x " if machine.gpu_count > 1 else ""
    what = f"{count}{machine.gpu or 'machine without GPU'} on {machine.provider} {machine.region}".rstrip()
    return f"{text} ({what}, {per_hour(price_per_hour(machine), job.simulated)})"


def sticky_line(rows: Rows, world: World) -> str:
    """Elapsed time, dollars of the budget, dollars per hour, when it stops."""
    job, now, machine = rows.job, world.clock.now(), current_machine(rows)
    cost = cost_of(rows, now)
    parts = [elapsed_text(now - job.submitted_at)]
    parts.append(f"{money(cost.settled + cost.running, job.simulated)} of {money(job.budget, job.simulated)}")
    stop = stops_at(rows)
    if machine is not None and stop is not None:
        parts.append(per_hour(price_per_hour(machine), job.simulated))
        parts.append(f"stops {clock_text(stop, now, world.settings.zone)}")
    return " · ".join([job.handle, job.phase or job.state, *parts])


def detached_text(rows: Rows, world: World) -> str:
    """What Ctrl-C leaves behind."""
    job, machine, stop = rows.job, current_machine(rows), stops_at(rows)
    if machine is None or stop is None:
        what = job.state
    else:
        price = per_hour(price_per_hour(machine), job.simulated)
        what = f"{price}, stops {clock_text(stop, world.clock.now(), world.settings.zone)}"
    return f"detached; {job.handle} goes on ({what}). gpupoor logs -f · gpupoor cancel"


def final_code(job: Job, own_code: bool = False) -> int:
    """The exit code for a job that is over; own_code: the job's own where it failed with one."""
    code = exit_code(job.state, job.reason_code, job.results)
    return job.exit_code if own_code and code == 5 and job.exit_code else code
