"""The watcher, against real shell processes that speak the follow text."""

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import update

from jobs.errors import Unanswered
from jobs.money import SECOND
from jobs.script import replies
from jobs.script.files import prepare, prepare_input
from jobs.script.hello import hello
from jobs.script.start import start
from orchestrator import log_store, watcher
from orchestrator.db.models import Attempt, Job
from orchestrator.follower import Follower
from orchestrator.world import World
from providers.clock import RealClock
from providers.shell import Channel, Shell, Unreachable, WrongHostKey
from tests.orchestrator.plumbing import (
    HandClock,
    OneShell,
    ProcessShell,
    add_running_job,
    attempt_of,
    make_world,
    pause,
)

TAG = "h-job1-1"


def now_directly(act: Callable[[], None]) -> None:
    """Connect within pump, without a thread."""
    act()


def launch(world: World, shell: Shell, run: str) -> None:
    """A job on the machine, started as the steps do it."""
    assert replies.parse(shell.perform(hello(TAG, "nonce1", first=True)).out)["nonce"] == "nonce1"
    script = prepare_input({}, "", run, "", {})
    assert replies.parse(shell.perform(prepare(TAG), script).out)["prepared"] == "yes"
    assert replies.parse(shell.perform(start(TAG, "nonce1")).out)["start"] == "started"


def follow_here(world: World) -> Follower:
    """A follower of the one job, claimed as the watcher does."""
    [followed] = watcher.claim(world)
    return Follower(world, followed, now_directly)


def pump_until(follower: Follower, met: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Pump as the watcher's thread does."""
    clock = RealClock()
    end = clock.monotonic() + limit_s
    while not met():
        assert clock.monotonic() < end, "it did not come to that"
        follower.pump(clock.monotonic())
        pause(0.02)


def stored(world: World, stream: str = "log") -> bytes:
    """What came home of a stream."""
    return b"".join(log_store.read(world, "job1", 1, stream))


@pytest.fixture
def machine(tmp_path: Path):
    """A machine made of processes."""
    home = tmp_path / "machine"
    home.mkdir()
    shell = ProcessShell(home)
    yield shell
    shell.close()


@pytest.fixture
def world(tmp_path: Path, machine: ProcessShell) -> World:
    """A world with one running job on that machine."""
    world = make_world(tmp_path / "home", OneShell(machine))
    add_running_job(world)
    return world


def test_log_stderr_phase_and_exit_come_home(world: World, machine: ProcessShell) -> None:
    """Byte for byte, with bytes that are no text, and the end is booked after the last byte (F4, G1, G2)."""
    launch(world, machine, r"printf 'one\r\200\377two\n'; echo oops >&2; exit 7")
    follower = follow_here(world)
    pump_until(follower, lambda: follower.over)
    attempt = attempt_of(world)
    assert (attempt.exit_code, attempt.follow_token, attempt.silent_since) == (7, None, None)
    assert attempt.work_ended_at is not None
    assert (stored(world), stored(world, "stderr")) == (
        (machine.home / "gpupoor" / f"{TAG}.log").read_bytes(), b"oops\n")
    assert b"one\r\200\377two\n" in stored(world)
    assert ("job", "job1") in world.doorbell.rings
    assert watcher.claim(world) == []


def test_the_phase_is_noted_while_it_runs(world: World, machine: ProcessShell) -> None:
    """`run` stands on the attempt before the job has ended."""
    launch(world, machine, "mkfifo go; read -r line < go; exit 0")
    follower = follow_here(world)
    pump_until(follower, lambda: attempt_of(world).remote_phase == "run")
    assert attempt_of(world).exit_code is None
    follower.close()


@pytest.mark.parametrize("seed", range(3))
def test_cuts_and_deaths_lose_no_byte_and_double_none(world: World, machine: ProcessShell, seed: int) -> None:
    """Connections cut and followers dead at random moments, also between blob and row (F2, G6, L9)."""
    from dataclasses import replace

    class Death(BaseException):
        pass

    chance = random.Random(seed)

    def point(name: str) -> None:
        if chance.random() < 0.15:
            raise Death

    deadly = replace(world, point=point)
    launch(world, machine, "i=0; while [ $i -lt 3000 ]; do echo line $i; echo err $i >&2; i=$((i+1)); "
                           "case $i in *00) sleep 0.05;; esac; done; exit 3")
    deaths = cuts = 0
    follower = follow_here(deadly)
    clock = RealClock()
    end = clock.monotonic() + 120
    while attempt_of(world).exit_code is None:
        assert clock.monotonic() < end
        if chance.random() < 0.03 and machine.channels:
            machine.channels[-1 - chance.randrange(2)].broken = True
            cuts += 1
        try:
            follower._retry_at = 0.0
            follower.pump(clock.monotonic())
        except Death:
            deaths += 1
            watcher.let_go(world, [follower.followed])
            follower = follow_here(deadly)
        pause(0.01)
    assert stored(world) == (machine.home / "gpupoor" / f"{TAG}.log").read_bytes()
    assert stored(world, "stderr") == b"".join(b"err %d\n" % number for number in range(3000))
    assert attempt_of(world).exit_code == 3
    assert deaths + cuts > 0


def test_a_machine_that_forgot_the_job_is_lost(world: World, machine: ProcessShell) -> None:
    """A container that was restarted has no state folder: noted, rung, followed no more."""
    follower = follow_here(world)
    pump_until(follower, lambda: follower.over)
    assert attempt_of(world).remote_phase == "lost"
    assert world.doorbell.rings == [("job", "job1")]
    assert watcher.claim(world) == []


def test_another_host_key_is_never_tried_again(world: World, machine: ProcessShell) -> None:
    """Whoever answers there is not our machine."""

    class Wrong(OneShell):
        def open(self, *_):
            raise WrongHostKey("another key")

    world.shells.__class__ = Wrong
    follower = follow_here(world)
    follower.pump(world.clock.monotonic())
    assert follower.over
    assert attempt_of(world).remote_phase == "lost"


class ScriptedChannel(Channel):
    """Says what the test tells it to."""

    def __init__(self) -> None:
        self.out, self.notes, self.ended, self.broken = b"", b"", False, False

    def fileno(self) -> int:
        return -1

    def read(self) -> tuple[bytes, bytes, bool]:
        if self.broken:
            raise Unreachable("cut")
        out, notes, self.out, self.notes = self.out, self.notes, b"", b""
        return out, notes, self.ended

    def close(self) -> None:
        self.ended = True


class ScriptedShell(ProcessShell):
    """Gives scripted channels: log, stderr, log, stderr ..."""

    def follow(self, command):
        self.channels.append(ScriptedChannel())  # type: ignore[arg-type]
        return self.channels[-1]


@pytest.fixture
def scripted(tmp_path: Path):
    """A world by hand: its clock, its machine, its follower."""
    clock, shell = HandClock(), ScriptedShell(tmp_path)
    world = make_world(tmp_path / "home", OneShell(shell), clock)
    add_running_job(world)
    return world, clock, shell, follow_here(world)


def test_twenty_seconds_without_heartbeat_is_silence(scripted) -> None:
    """Noted once with its time and rung; the connection is made anew; a heartbeat clears it."""
    world, clock, shell, follower = scripted
    for _ in range(25):
        follower.pump(clock.monotonic())
        clock.sleep(1)
    assert attempt_of(world).silent_since is not None
    assert world.doorbell.rings == [("job", "job1")]
    assert world.shells.dropped == ["m-job1"]
    follower.pump(clock.monotonic())
    shell.channels[-2].notes = b"hb 5 run 0 0\n"
    follower.pump(clock.monotonic())
    assert (attempt_of(world).silent_since, attempt_of(world).remote_phase) == (None, "run")


def test_our_own_sleep_is_not_the_machines_silence(scripted) -> None:
    """After a laptop's night the machine has twenty seconds again."""
    world, clock, _, follower = scripted
    follower.pump(clock.monotonic())
    clock.sleep(9 * 3600)
    follower.pump(clock.monotonic())
    assert attempt_of(world).silent_since is None


def test_reconnects_come_later_each_time(scripted) -> None:
    """1, 2, 4, 8, then every 15 seconds, in any outage; a heartbeat starts it over."""
    world, clock, _, follower = scripted
    world.shells.down = True
    tries: list[float] = []
    world.shells.__class__ = type("Counting", (OneShell,), {"open": lambda self, *_: _fail(tries, clock)})
    for _ in range(1000):
        follower.pump(clock.monotonic())
        clock.sleep(0.1)
    pauses = [round(two - one) for one, two in pairwise(tries)]
    assert pauses[:6] == [1, 2, 4, 8, 15, 15]


def _fail(tries: list[float], clock: HandClock) -> Shell:
    tries.append(clock.monotonic())
    raise Unreachable("down")


def test_little_output_is_gathered_before_it_is_stored(scripted) -> None:
    """Lines within half a second become one chunk, and none waits longer."""
    world, clock, shell, follower = scripted
    follower.pump(clock.monotonic())
    for number in range(4):
        shell.channels[0].out = b"line %d\n" % number
        follower.pump(clock.monotonic())
        clock.sleep(0.1)
    assert stored(world) == b""
    clock.sleep(0.2)
    follower.pump(clock.monotonic())
    assert stored(world) == b"line 0\nline 1\nline 2\nline 3\n"


def test_the_end_waits_for_both_streams(scripted) -> None:
    """The exit code is not booked before the last byte of stderr is home; notes may be cut anywhere (G4)."""
    world, clock, shell, follower = scripted
    follower.pump(clock.monotonic())
    shell.channels[0].out, shell.channels[0].notes = b"log", b"hb 1 run 3 0\nend 0 3"
    follower.pump(clock.monotonic())
    shell.channels[0].notes, shell.channels[0].ended = b" 4\n", True
    follower.pump(clock.monotonic())
    assert attempt_of(world).exit_code is None
    shell.channels[1].out = b"last"
    follower.pump(clock.monotonic())
    assert (attempt_of(world).exit_code, stored(world, "stderr"), follower.over) == (0, b"last", True)


def test_a_claim_taken_by_somebody_else_ends_the_follower(scripted) -> None:
    """It writes nothing more."""
    world, clock, shell, follower = scripted
    follower.pump(clock.monotonic())
    with world.database.write() as session:
        session.execute(update(Attempt).values(follow_token="other"))
    shell.channels[0].out = b"late"
    clock.sleep(1)
    follower.pump(clock.monotonic())
    clock.sleep(1)
    follower.pump(clock.monotonic())
    assert (follower.over, stored(world)) == (True, b"")


def test_a_silent_database_keeps_what_was_read(scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unanswered goes to the caller; the next pump stores it."""
    world, clock, shell, follower = scripted
    follower.pump(clock.monotonic())
    shell.channels[0].out = b"kept"
    real = log_store.append
    monkeypatch.setattr(log_store, "append", _unanswered)
    follower.pump(clock.monotonic())
    clock.sleep(1)
    with pytest.raises(Unanswered):
        follower.pump(clock.monotonic())
    monkeypatch.setattr(log_store, "append", real)
    follower.pump(clock.monotonic())
    assert stored(world) == b"kept"


def _unanswered(*_: object) -> int:
    raise Unanswered("silent")


def test_claims_are_exclusive_renewed_and_run_out(scripted) -> None:
    """One at a time; what a dead process followed is free after lease and margin; a job that went on is let go."""
    world, clock, _, follower = scripted
    assert watcher.claim(world) == []
    clock.sleep(65)
    assert watcher.renew(world, [follower.followed]) == [follower.followed]
    clock.sleep(65)
    assert watcher.claim(world) == []
    clock.sleep(10)
    [second] = watcher.claim(world)
    assert watcher.renew(world, [follower.followed, second]) == [second]
    with world.database.write() as session:
        session.execute(update(Job).values(state="finishing", phase="collecting"))
    assert watcher.renew(world, [second]) == []


@pytest.mark.parametrize("place", [("starting", "uploading"), ("finishing", "collecting"), ("queued", None)])
def test_only_jobs_at_work_are_followed(tmp_path: Path, place: tuple[str, str | None]) -> None:
    """Before the start and after the end there is nothing to follow."""
    world = make_world(tmp_path)
    add_running_job(world, state=place[0], phase=place[1])  # type: ignore[arg-type]
    assert watcher.claim(world) == []


def test_the_thread_follows_many_and_gives_claims_back(tmp_path: Path, machine: ProcessShell) -> None:
    """Started, it claims by itself, books the end, and a stopped one leaves no claim behind."""
    world = make_world(tmp_path / "home", OneShell(machine))
    add_running_job(world)
    launch(world, machine, "echo done")
    thread = watcher.Watcher(world)
    thread.start()
    clock = RealClock()
    end = clock.monotonic() + 60
    while attempt_of(world).exit_code is None:
        assert clock.monotonic() < end
        pause(0.05)
    add_running_job(world, "job2")
    with world.database.write() as session:
        session.execute(update(Attempt).where(Attempt.job == "job2").values(follow_token="mine", follow_until=SECOND))
    thread.wake()
    while attempt_of(world, "job2").remote_phase != "lost":
        assert clock.monotonic() < end
        pause(0.05)
    thread.stop()
    assert attempt_of(world, "job2").follow_token is None
    assert stored(world).endswith(b"done\n")
