"""Following a job: every byte once, the end seen, the sticky line out of the way."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from jobs.money import MINUTE, SECOND
from orchestrator import log_store
from orchestrator.cli.follow import Follower, Screen, detached_text, final_code, phase_text, sticky_line
from orchestrator.db.models import Attempt, Job
from orchestrator.views.jobs import Rows, read_rows
from orchestrator.world import World
from tests.orchestrator.door_world import door_world
from tests.orchestrator.standing_world import HandClock, hold, make_job, make_machine, store


@dataclass
class PlayedClock(HandClock):
    """Each time somebody sleeps, the next act happens."""

    acts: list[Callable[[], object]] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        """Time passes and the next act is played."""
        super().sleep(seconds)
        if self.acts:
            self.acts.pop(0)()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A running job with one attempt on a machine at 0.40 USD per hour."""
    world = replace(door_world(tmp_path), clock=PlayedClock())
    attempt = Attempt(job="job1", number=1, machine="m1", started_at=0, follow_token="f")
    store(world, make_job(attempt_number=1, submitted_at=world.clock.now()), make_machine(), hold(), attempt)
    return world


def change(world: World, **columns: Any) -> None:
    """Write to the job's row."""
    with world.database.write() as session:
        session.execute(update(Job).values(**columns))


def rows_of(world: World) -> Rows:
    """The job as it is."""
    with world.database.read() as session:
        return read_rows(session, [session.get_one(Job, "job1")])[0]


def test_every_byte_is_shown_once_and_the_end_is_seen(world: World) -> None:
    """Bytes that are no text pass unchanged; what came with the end is not lost."""
    log, notes = io.BytesIO(), io.StringIO()
    log_store.append(world, "job1", 1, "log", 0, b"one\n\x80\xff\r", "f")

    def ending() -> None:
        log_store.append(world, "job1", 1, "log", 7, b"last", "f")
        change(world, state="succeeded", phase=None, results="complete", cleanup="done")

    world.clock.acts = [  # type: ignore[attr-defined]
        lambda: log_store.append(world, "job1", 1, "log", 0, b"one\n\x80\xff\r", "f"),
        ending,
    ]
    rows = Follower(world, "job1", Screen(log, notes)).follow()
    assert log.getvalue() == b"one\n\x80\xff\rlast"
    assert final_code(rows.job) == 0
    told = [line.split(" (")[0] for line in notes.getvalue().splitlines()]
    assert told == ["job1-0000 running", "job1-0000 succeeded"]


def test_a_second_attempt_begins_its_own_log(world: World) -> None:
    """The first one's log is shown whole before."""
    log = io.BytesIO()
    log_store.append(world, "job1", 1, "log", 0, b"first\n", "f")

    def again() -> None:
        store(world, make_machine(id="m2", label="gp-2", token="t2", attempt=2))
        store(world, Attempt(job="job1", number=2, machine="m2", started_at=1, follow_token="f"))
        log_store.append(world, "job1", 2, "log", 0, b"second\n", "f")
        change(world, state="failed", phase=None, attempt_number=2, reason_code="own_exit", exit_code=3)

    world.clock.acts = [again]  # type: ignore[attr-defined]
    rows = Follower(world, "job1", Screen(log, io.StringIO())).follow()
    assert log.getvalue() == b"first\nsecond\n"
    assert (final_code(rows.job), final_code(rows.job, own_code=True)) == (5, 3)


def test_clean_up_is_waited_for_at_most_a_minute(world: World) -> None:
    """A machine that does not go does not hold the follower for ever."""
    change(world, state="succeeded", phase="releasing", cleanup="pending")
    before = world.clock.now()
    Follower(world, "job1", Screen(io.BytesIO(), io.StringIO())).follow()
    assert 60 * SECOND <= world.clock.now() - before <= 61 * SECOND


def test_the_sticky_line_never_tears_a_line_of_the_job() -> None:
    """It is lifted before bytes are written and stays away while the job is in the middle of a line."""
    log, notes = io.BytesIO(), io.StringIO()
    screen = Screen(log, notes, sticky=True)
    screen.keep("line")
    screen.write(b"half")
    screen.keep("other")
    screen.write(b" whole\n")
    screen.keep("third")
    screen.close()
    assert notes.getvalue() == "\r\x1b[Kline\r\x1b[K\r\x1b[Kthird\r\x1b[K"


def test_without_a_terminal_there_is_no_sticky_line() -> None:
    """A pipe gets lines only."""
    notes = io.StringIO()
    Screen(io.BytesIO(), notes).keep("line")
    assert notes.getvalue() == ""


def test_the_sticky_line_has_time_dollars_price_and_stop(world: World) -> None:
    """Simulated amounts say so."""
    world.clock.time += MINUTE  # type: ignore[attr-defined]
    line = sticky_line(rows_of(world), world)
    assert line == "job1-0000 · run · 1m 00s · sim $0.207 of sim $5.00 · sim $0.40/h · stops 12:30"


def test_detaching_says_what_goes_on(world: World) -> None:
    """The price, the stop and the two commands."""
    assert detached_text(rows_of(world), world) == (
        "detached; job1-0000 goes on (sim $0.40/h, stops 12:30). gpupoor logs -f · gpupoor cancel"
    )


def test_a_waiting_job_says_why(world: World) -> None:
    """The word and the reason."""
    change(world, state="queued", phase=None, waiting_for="capacity", waiting_reason="nothing fits")
    assert phase_text(rows_of(world)) == "job1-0000 queued, waits for capacity: nothing fits"
