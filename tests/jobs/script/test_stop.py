"""Stopping a job with grace, and refusing it for ever."""

import os
import signal
import threading

from jobs.script.follow import follow
from jobs.script.start import start, state
from jobs.script.stop import stop, tombstone
from tests.jobs.script.machine import CLOCK, NONCE, TAG, Machine, until

SAVES = """
python3 -c '
import signal, sys, time
def save(*_):
    time.sleep(1.5)
    open("saved", "a").write("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True: time.sleep(0.1)
'; true
"""


def _running(machine, run: str) -> None:
    machine.prepare(run)
    assert machine.start() == {"start": "started"}
    until(lambda: b"ready" in machine.log)


def test_the_group_gets_term_and_time_to_save(machine):
    """TERM reaches the program below the shell, which may save although the shell above it died at once."""
    _running(machine, SAVES)
    assert machine.ask(stop(TAG, 30)) == {"stop": "sent"}
    assert machine.ask(stop(TAG, 30)) == {"stop": "sent"}
    assert machine.wait() == 143
    assert (machine.dir / "saved").read_text() == "saved"
    assert machine.ask(stop(TAG, 30)) == {"stop": "over"}


def test_kill_after_the_grace(machine):
    """Whoever ignores TERM is killed after the grace: the code is 137."""
    _running(machine, "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    assert machine.ask(stop(TAG, 1)) == {"stop": "sent"}
    assert machine.wait() == 137


def test_a_child_that_left_the_group(machine):
    """A child in a session of its own that ignores TERM is gone after the grace."""
    _running(machine, """setsid sh -c 'trap "" TERM; echo ready; while :; do sleep 600; done' & sleep 601""")
    assert machine.ask(stop(TAG, 1)) == {"stop": "sent"}
    assert machine.wait() == 143
    assert not machine.processes("sleep 60")


def test_the_neighbour_lives(machine):
    """Stopping one job leaves another one on the machine alone, also one whose tag begins the same."""
    other = TAG + "2"
    _running(machine, "echo ready; sleep 600")
    folder = machine.brother(other)
    assert machine.ask(start(other, NONCE)) == {"start": "started"}
    until(lambda: (folder / "phase").exists() and (folder / "phase").read_text() == "run\n")
    machine.ask(stop(TAG, 5))
    assert machine.wait() == 143
    assert machine.ask(state(other))["phase"] == "run"
    assert machine.ask(tombstone(other)) == {"tombstone": "dead"}


def test_the_same_tag_in_another_home_lives(machine, tmp_path):
    """Two installations on one host do not know each other's jobs, whatever their tags."""
    other = Machine(tmp_path / "other", machine.shell, machine.env["PATH"])
    try:
        for host in (machine, other):
            host.prepare("echo ready; sleep 600")
            host.start()
            until(lambda host=host: b"ready" in host.log)
        assert machine.ask(tombstone(TAG)) == {"tombstone": "dead"}
        assert other.ask(state(TAG))["phase"] == "run"
    finally:
        other.ask(tombstone(TAG))
        other.clear()


def test_stop_before_the_start(machine):
    """There is nothing to stop before the start."""
    machine.prepare("echo never")
    assert machine.ask(stop(TAG, 1)) == {"stop": "over"}


def test_last_words_are_in_the_log(machine):
    """What was printed before the end is in the log, whole lines, none lost or torn."""
    _running(machine, 'echo ready; i=0; while :; do i=$((i + 1)); echo "$i" | tee -a count; done')
    until(lambda: machine.log.count(b"\n") > 50)
    machine.ask(stop(TAG, 5))
    assert machine.wait() == 143
    numbers = machine.log.split(b"\n")[1:-1]
    assert numbers == [b"%d" % (i + 1) for i in range(len(numbers))]
    assert len((machine.dir / "count").read_bytes().split()) - len(numbers) in (0, 1)


def test_tombstone_before_the_start(machine):
    """After a tombstone a start is refused with code 97."""
    machine.prepare("echo x > count")
    assert machine.ask(tombstone(TAG)) == {"tombstone": "dead"}
    outcome = machine.perform(start(TAG, NONCE))
    assert (outcome.code, outcome.out) == (97, b"start=tombstone\n")
    assert not (machine.dir / "count").exists()


def test_tombstone_on_a_running_job(machine):
    """A tombstone kills the job and whatever left its group, and says so when all is gone."""
    _running(machine, """setsid sh -c 'trap "" TERM; echo ready; sleep 600; sleep 600' & sleep 601""")
    assert machine.ask(tombstone(TAG)) == {"tombstone": "dead"}
    assert not machine.processes("sleep 60")
    assert machine.wait() == 137


def test_tombstone_racing_with_a_start(machine):
    """However a tombstone and a start fall together: after `dead` nothing of the job runs, or ever will."""
    machine.prepare("while :; do date >> count; sleep 0.05; done")
    for turn in range(15):
        tag = f"race-{turn}"
        machine.brother(tag)
        starter = threading.Thread(target=lambda tag=tag: machine.perform(start(tag, NONCE)))
        starter.start()
        CLOCK.sleep(turn * 0.008)
        assert machine.ask(tombstone(tag)) == {"tombstone": "dead"}
        count = machine.home / "gpupoor" / tag / "count"
        lines = count.stat().st_size if count.exists() else 0
        starter.join()
        until(lambda tag=tag: not machine.marked(tag))
        assert (count.stat().st_size if count.exists() else 0) == lines
        assert machine.perform(start(tag, NONCE)).code == 97


def test_kill_at_random_moments(machine):
    """Whatever of ours is killed at whatever moment, a job runs at most once and its end is told."""
    machine.prepare("echo x >> count; sleep 0.3")
    for turn in range(8):
        tag = f"kill-{turn}"
        machine.brother(tag)
        process = machine.popen(start(tag, NONCE))
        CLOCK.sleep(turn * 0.02)
        for pid in [process.pid, *machine.processes(f"gpupoor-wrapper:{tag}")]:
            os.kill(pid, signal.SIGKILL)
        process.communicate()
        machine.perform(start(tag, NONCE))
        machine.perform(start(tag, NONCE))
        outcome = machine.perform(follow(tag, 0, 1))
        assert outcome.err.split(b"\n")[-2].startswith(b"end "), outcome
        count = machine.home / "gpupoor" / tag / "count"
        assert not count.exists() or count.read_text() == "x\n"
