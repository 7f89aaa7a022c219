"""Much output comes home whole and in little memory; over the cap its middle is left out and said."""

import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from orchestrator.up import LOCK
from tests.end_to_end.cloud_process import Cloud
from tests.end_to_end.home import Home

MEGABYTE = 1_000_000
FLOOD = """
python3 - <<'END'
import os, sys
for _ in range(100):
    sys.stdout.buffer.write(b"x" * 1000000)
sys.stdout.buffer.write(bytes(range(256)) * 4000 + os.urandom(100000))
sys.stdout.flush()
for number in range(100000):
    sys.stderr.write(f"warning {number}\\n")
END
"""


def memory(home: Home, word: str) -> int:
    """Bytes of the orchestrator's process: VmRSS (now) or VmHWM (the most there ever was)."""
    text = Path(f"/proc/{home.pid_of(LOCK)}/status").read_text()
    return int(re.search(rf"{word}:\s+(\d+) kB", text)[1]) * 1024  # type: ignore[index]


def streams_of(cloud: Cloud, machine: int) -> tuple[bytes, bytes]:
    """The machine's own files of both streams."""
    work = next(Path(cloud.machines()[machine]["home"]).glob("gpupoor/*-1"))
    log, errors = ((work.parent / f"{work.name}.{name}").read_bytes() for name in ("log", "stderr"))
    return log, errors


def test_a_hundred_megabytes_without_a_newline_come_home_whole(homes: Callable[..., Home], cloud: Cloud) -> None:
    """Byte for byte on both streams, with at most 50 MB of memory more than a small job takes."""
    home = homes(cloud, log_cap="150MB")
    small = home.run("submit", home.job_file("echo here", name="small"), "--wait", "-o", "json").json
    home.wait_clean(small["id"])
    idle = memory(home, "VmRSS")
    job = home.run("submit", home.job_file(FLOOD, budget="2.00"), "--wait", "-o", "json").json["id"]
    home.wait_clean(job)
    most = memory(home, "VmHWM")
    log, errors = streams_of(cloud, 1)
    assert len(log) > 102 * MEGABYTE
    assert errors.count(b"\n") == 100_000
    assert sha256(home.log(job)).digest() == sha256(log).digest()
    assert sha256(home.log(job, "--stderr")).digest() == sha256(errors).digest()
    assert most - idle <= 50 * MEGABYTE
    home.assert_settled()


def test_over_the_cap_the_first_nine_tenths_and_the_last_tenth_are_kept(
    homes: Callable[..., Home], cloud: Cloud
) -> None:
    """Between them stands one line that says how much was left out."""
    home = homes(cloud, log_cap="1MB")
    job = home.run("submit", home.job_file("seq 1 1000000"), "--wait", "-o", "json").json["id"]
    whole, _ = streams_of(cloud, 0)
    kept = home.log(job)
    left_out = len(whole) - MEGABYTE
    marker = b"\n[gpupoor: %d bytes left out here, over the cap of the log]\n" % left_out
    assert kept == whole[:900_000] + marker + whole[-100_000:]
