"""The fuse ends jobs and machine without us; here the machine's end is a file that appears."""

import os
import signal
import time

import pytest

from jobs.script.fuse import arm_fuse, boot_fuse_text
from jobs.script.hello import hello
from tests.jobs.script.machine import NONCE, TAG, until

ARMED = {"fuse": "armed"}


@pytest.fixture
def fused(machine):
    """A machine whose fuses are killed after the test, which nothing else does."""
    yield machine
    for pid in machine.processes("gpupoor-fuse"):
        os.kill(pid, signal.SIGKILL)


def _pid(machine) -> int:
    return int((machine.state.parent / "fuse.pid").read_text())


def test_it_ends_job_and_machine(fused):
    """At its end the job gets TERM and its grace, then the machine destroys itself, again and again."""
    fused.prepare("trap 'echo saved; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
    fused.start()
    until(lambda: b"ready" in fused.log)
    assert fused.ask(arm_fuse(TAG, 1, 20, 'echo gone >> "$HOME/gone"; sleep 999')) == ARMED
    assert fused.wait() == 5
    assert b"saved\n" in fused.log
    until(lambda: (fused.home / "gone").exists())
    assert fused.ask(arm_fuse(TAG, 99, 1, "")) == {"fuse": "fired"}
    for pid in [*fused.processes("gpupoor-fuse"), *fused.processes("sleep 999")]:
        os.kill(pid, signal.SIGKILL)
    fused.clear()


def test_it_kills_whoever_ignores_term(fused):
    """After the grace everything with a mark is killed, also what left its group."""
    fused.prepare(
        """setsid sh -c 'trap "" TERM; sleep 600; sleep 600' & trap '' TERM; echo ready; sleep 601; sleep 602"""
    )
    fused.start()
    until(lambda: b"ready" in fused.log)
    assert fused.ask(arm_fuse(TAG, 0, 1, "")) == ARMED
    assert fused.wait() == 137
    assert not fused.processes("sleep 60")
    until(lambda: not fused.processes("gpupoor-fuse"))
    assert fused.ask(arm_fuse(TAG, 600, 1, "")) == ARMED


def test_moved_later(fused):
    """An end that is moved later is respected, by the process that burns already."""
    assert fused.ask(arm_fuse(TAG, 3, 0, 'echo gone >> "$HOME/gone"')) == ARMED
    first, end = _pid(fused), int((fused.state.parent / "fuse.end").read_text())
    assert fused.ask(arm_fuse(TAG, 600, 0, "")) == ARMED
    until(lambda: int(fused.ask(hello(TAG, NONCE, False))["uptime"]) > end + 1)
    assert _pid(fused) == first and first in fused.processes("gpupoor-fuse")
    assert not (fused.home / "gone").exists()
    assert fused.ask(arm_fuse(TAG, 0, 0, "")) == ARMED
    until(lambda: (fused.home / "gone").exists())


def test_armed_at_boot_then_adopted(fused):
    """The boot fuse and the one armed over SSH are the same: one process, whose end moves."""
    outcome = fused.perform(boot_fuse_text(600, 5, "true", 2**40))
    assert (outcome.code, outcome.out, outcome.err) == (0, b"", b"")
    first, end = _pid(fused), int((fused.state.parent / "fuse.end").read_text())
    assert fused.ask(arm_fuse(TAG, 6000, 5, "true")) == ARMED
    assert _pid(fused) == first
    assert int((fused.state.parent / "fuse.end").read_text()) > end + 5000
    fused.perform(boot_fuse_text(1, 5, "true", 2**40))
    assert int((fused.state.parent / "fuse.end").read_text()) > end + 5000


@pytest.mark.parametrize(("by", "least", "most"), [(100, 90, 100), (-600, -1, 1), (-7200, 595, 600), (7200, 595, 600)])
def test_a_boot_that_took_long_does_not_move_the_end(fused, by, least, most):
    """The boot fuse ends at the stated second of the day, unless that clock is off by more than an hour."""
    before = int(fused.ask(hello(TAG, NONCE, True))["uptime"])
    fused.perform(boot_fuse_text(600, 600, "true", int(time.time()) + by))

    assert least <= int((fused.state.parent / "fuse.end").read_text()) - before <= most + 2


def test_killed_by_the_job(fused):
    """A fuse that was killed is lit again by the next arming; TERM does not put it out."""
    fused.ask(arm_fuse(TAG, 600, 5, "true"))
    first = _pid(fused)
    os.kill(first, signal.SIGTERM)
    fused.ask(arm_fuse(TAG, 600, 5, "true"))
    assert _pid(fused) == first
    os.kill(first, signal.SIGKILL)
    until(lambda: first not in fused.processes())
    assert fused.ask(arm_fuse(TAG, 600, 5, "true")) == ARMED
    assert _pid(fused) != first and _pid(fused) in fused.processes("gpupoor-fuse")


def test_files_deleted(fused):
    """A job that deletes every file of the fuse does not put it out."""
    fused.ask(arm_fuse(TAG, 3, 0, 'echo gone >> "$HOME/gone"'))
    until(lambda: _pid(fused) in fused.processes("sleep") or fused.processes("sleep"))
    for name in ("fuse.end", "fuse.grace", "fuse.pid"):
        (fused.state.parent / name).unlink()
    until(lambda: (fused.home / "gone").exists())


def test_the_uptime_is_told(fused):
    """hello tells the clock that the fuse burns by."""
    said = fused.ask(hello(TAG, NONCE, False))
    fused.ask(arm_fuse(TAG, 1000, 5, "true"))
    end = int((fused.state.parent / "fuse.end").read_text())
    assert 1000 <= end - int(said["uptime"]) <= 1030
