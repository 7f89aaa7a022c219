"""Acts on a real SSH connection that several tests need."""

import os
import select
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobs.command import Command, Outcome
from providers.shell import Unreachable
from providers.ssh import SshChannel, SshShell
from tests.services import Sshd, wait_until


def run(shell: SshShell, text: str, limit_s: float = 60.0, stdin: bytes = b"") -> Outcome:
    """Perform a shell text."""
    return shell.perform(Command("test", text, limit_s), stdin)


def read_to_end(channel: SshChannel) -> tuple[bytes, bytes]:
    """Follow by poll() alone, as the watcher does."""
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    out, err, ended = bytearray(), bytearray(), False
    while not ended:
        assert poll.poll(30_000), "no ring within 30 s"
        more_out, more_err, ended = channel.read()
        assert len(more_out) <= 1024 * 1024
        assert len(more_err) <= 1024 * 1024
        out += more_out
        err += more_err
    return bytes(out), bytes(err)


def cut_after(sshd: Sshd, act: Callable[[], object]) -> None:
    """Kill the server's side of the connection while `act` runs; it must be Unreachable."""
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(act)
        children = sshd.session_pids()
        wait_until(lambda: any(grandchildren(pid) for pid in children), "the command runs")
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unreachable):
            pending.result(30)


def grandchildren(pid: int) -> list[int]:
    """The children of a process; none where it is over."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
