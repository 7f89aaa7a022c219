"""The texts on a system of busybox alone: no bash, no perl, a grep that stops at a NUL."""

import shutil
import subprocess

import pytest

from jobs.script.files import manifest
from jobs.script.fuse import arm_fuse
from jobs.script.stop import stop, tombstone
from tests.jobs.script.machine import TAG, Machine, until

BUSYBOX = shutil.which("busybox")
LEAVER = """setsid env -u X sh -c 'trap "" TERM; echo ready; sleep 600; sleep 600' & sleep 601"""


@pytest.fixture
def small(tmp_path):
    """A machine whose only programs are busybox's."""
    assert BUSYBOX is not None, "busybox is not installed; type: sudo apt-get install -y busybox"
    programs = tmp_path / "programs"
    programs.mkdir()
    names = subprocess.run([str(BUSYBOX), "--list"], capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        (programs / name).symlink_to(str(BUSYBOX))
    host = Machine(tmp_path, str(programs / "sh"), str(programs))
    try:
        yield host
        until(lambda: not host.processes(), 15)
    finally:
        host.clear()


def test_a_job(small):
    """A job's streams, code and files are right."""
    assert small.run("echo out; echo err >&2; printf 12345 > file; exit 3", env={"A": "$(touch x)\n"}) == 3
    assert small.stderr.endswith(b"err\n") and b"out\n" in small.log
    assert small.follow(3).out == small.log[3:]
    assert small.ask(manifest(TAG, ["file", "none"]))["bytes.0"] == "5"


def test_whoever_left_is_found(small):
    """Stop and tombstone find a child that left the group, and the fuse fires."""
    small.prepare(LEAVER)
    small.start()
    until(lambda: b"ready" in small.log)
    assert small.ask(stop(TAG, 1)) == {"stop": "sent"}
    assert small.wait() == 143
    assert not small.processes("sleep 60")
    assert small.ask(tombstone(TAG)) == {"tombstone": "dead"}
    assert small.ask(arm_fuse(TAG, 0, 0, 'echo x >> "$HOME/gone"')) == {"fuse": "armed"}
    until(lambda: (small.home / "gone").exists())
    small.clear()
