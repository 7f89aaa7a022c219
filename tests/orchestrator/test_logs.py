"""The logs of our own processes, and the threads that must outlive any error."""

import subprocess
import sys
import threading
from pathlib import Path

from orchestrator.keeper import keep_on


def test_a_full_disk_loses_lines_not_processes() -> None:
    """Logging to a device that is always full raises nothing."""
    code = ("import structlog, logging\nfrom orchestrator import logs\nlogs.set_up()\n"
            "structlog.get_logger().warning('x', a=1)\nlogging.getLogger('y').warning('z')\n"
            "import os\nos._exit(0)")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_lines_are_keys_and_values() -> None:
    """Ours and those of libraries alike."""
    code = ("import structlog, logging\nfrom orchestrator import logs\nlogs.set_up()\n"
            "structlog.get_logger().warning('x', a=1)\nlogging.getLogger('y').warning('z')\n")
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.splitlines()
    assert [b"event='x' a=1" in lines[0], b"event='z' logger='y'" in lines[1]] == [True, True]


def test_no_error_ends_a_thread_that_must_go_on() -> None:
    """It is called again after any exception."""
    stopping, calls = threading.Event(), []

    def act() -> None:
        calls.append(1)
        if len(calls) == 2:
            stopping.set()
        raise ZeroDivisionError

    keep_on(stopping, 0.0, act, "this")
    assert len(calls) == 2
