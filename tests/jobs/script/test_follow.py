"""Following: every byte from any offset, notes in between, and an end by itself."""

import os
import re
import signal
from pathlib import Path

import pytest

from jobs.script.follow import follow, follow_stderr
from tests.jobs.script.machine import TAG, until


def test_every_byte_and_the_end(machine):
    """A follower of a running job sends all its bytes, its phases, and the end last."""
    machine.prepare("printf two; sleep 0.5; printf three", setup="printf one; sleep 0.5")
    machine.start()
    outcome = machine.follow()
    assert (outcome.code, outcome.out) == (0, b"onetwothree")
    notes = outcome.err.decode().splitlines()
    assert notes[-1] == "end 0 11 0"
    assert all(re.fullmatch(r"hb \d+ (none|setup|run) \d+ \d+", note) for note in notes[:-1])
    assert {note.split()[2] for note in notes[:-1]} >= {"setup", "run"}


def test_heartbeats(machine):
    """A quiet job is still heard of."""
    machine.prepare("sleep 2.5")
    machine.start()
    outcome = machine.follow(heartbeat_s=1)
    assert len(outcome.err.splitlines()) >= 4


@pytest.mark.parametrize("offset", [0, 5, 10, 11, 99])
def test_from_an_offset(machine, offset):
    """A finished job's log is sent from the offset on, as often as asked."""
    assert machine.run("printf 0123456789; printf e >&2") == 0
    outcome = machine.follow(offset)
    assert (outcome.code, outcome.err) == (0, b"end 0 11 1\n")
    assert outcome.out == machine.log[offset:]


def test_a_log_without_any_newline(machine):
    """A log of 300 MB without a newline is followed while it grows."""
    machine.prepare("head -c 300000000 /dev/zero | tr '\\0' x")
    machine.start()
    outcome = machine.follow()
    assert len(outcome.out) == 300_000_000
    assert outcome.out.count(b"x") == 300_000_000


def test_stderr_alone(machine):
    """The second follower sends what went to stderr and ends too."""
    machine.prepare("echo out; echo err >&2; sleep 0.3; echo more >&2; exit 4")
    machine.start()
    outcome = machine.perform(follow_stderr(TAG, 2))
    assert (outcome.code, outcome.out) == (0, b"r\nmore\n")


def test_lost(machine):
    """Where there is no state, or the nonce is gone, the follower says lost."""
    outcome = machine.follow()
    assert (outcome.code, outcome.out, outcome.err) == (3, b"", b"lost\n")
    machine.prepare("sleep 600")
    machine.start()
    process = machine.popen(follow(TAG, 0))
    assert process.stderr.readline().startswith(b"hb ")
    nonce = machine.state / "nonce"
    nonce.rename(nonce.with_name("away"))
    assert process.communicate()[1].endswith(b"lost\n")
    assert process.returncode == 3
    os.killpg(machine.pid("pid"), signal.SIGKILL)
    until(lambda: (machine.state / "exit").exists())


@pytest.mark.parametrize("command", [follow(TAG, 0, 1), follow_stderr(TAG, 0)])
def test_nobody_listens(machine, command):
    """A follower whose streams are closed ends by itself and leaves nothing; the job goes on."""
    machine.prepare("sleep 600")
    machine.start()
    process = machine.popen(command)
    assert process.stderr.readline().startswith(b"hb ")
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
    process.wait(30)
    assert Path(f"/proc/{machine.pid('pid')}").exists()
    os.killpg(machine.pid("pid"), signal.SIGKILL)
    assert machine.wait() == 137
