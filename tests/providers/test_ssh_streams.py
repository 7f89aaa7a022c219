"""Bytes over SSH: uploads, downloads, followers, and what a cut leaves of them."""

import io
import os
import select
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import pytest

from jobs.command import Command
from providers.shell import Unreachable
from tests.providers.ssh_acts import cut_after, read_to_end, run
from tests.services import wait_until


class Counting(io.RawIOBase):
    """A source that knows how far it was read."""

    def __init__(self, size: int) -> None:
        self.given = 0
        self._size = size

    def read(self, size: int = -1) -> bytes:
        piece = bytes(min(size, self._size - self.given))
        self.given += len(piece)
        return piece


def test_put_streams_with_backpressure(shell, tmp_path):
    """A source is read no faster than the machine takes it, and every byte arrives."""
    source = Counting(60_000_000)
    gate = tmp_path / "gate"
    seen: list[int] = []
    text = f"head -c 1000 >/dev/null; while [ ! -e {gate} ]; do sleep 0.05; done; wc -c"
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(shell.put, Command("test", text, 60.0), source, seen.append)
        wait_until(lambda: source.given > 1_000_000 and still(source), "the source waits")
        held_back = source.given
        gate.touch()
        outcome = pending.result(60)
    assert held_back < 20_000_000
    assert seen[-1] == 60_000_000
    assert outcome.code == 0
    assert 0 < int(outcome.out) <= 60_000_000 - 1000


def still(source: Counting) -> bool:
    """Whether nothing is read of it for a moment."""
    before = source.given
    threading.Event().wait(0.3)
    return source.given == before


def test_put_into_a_command_that_does_not_read(shell):
    """A command that ends without reading its input gives its exit code, not an error of the connection."""
    outcome = shell.put(Command("test", "echo full >&2; exit 3", 30.0), io.BytesIO(bytes(20_000_000)))
    assert (outcome.code, outcome.err) == (3, b"full\n")


def test_an_error_of_the_source_is_raised_to_the_caller(shell):
    """What the source raises comes out of put, and the connection still works."""

    class Torn(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise ValueError("torn")

    source: BinaryIO = Torn()  # type: ignore[assignment]
    with pytest.raises(ValueError, match="torn"):
        shell.put(Command("test", "cat", 30.0), source)
    assert run(shell, "echo on").out == b"on\n"


def test_get_hands_over_every_byte(shell):
    """150 MB go to the sink piece by piece, none kept."""
    sizes: list[int] = []
    outcome = shell.get(
        Command("test", "head -c 150000000 /dev/zero; echo end >&2", 30.0), lambda p: sizes.append(len(p))
    )
    assert (sum(sizes), outcome.out, outcome.err) == (150_000_000, b"", b"end\n")


def test_get_cut_in_the_middle_is_no_answer(sshd, shell):
    """A transfer that breaks is Unreachable, however much had arrived."""
    got: list[int] = []
    cut_after(
        sshd, lambda: shell.get(Command("t", "head -c 1000 /dev/zero; exec sleep 60", 60), lambda p: got.append(len(p)))
    )


def test_follow_gives_both_streams_and_the_end(shell):
    """A followed command is read by poll() alone, to its last byte, in pieces of at most 1 MiB."""
    channel = shell.follow(Command("follow", "head -c 5000000 /dev/zero; echo hb >&2; sleep 0.2; printf last"))
    out, err = read_to_end(channel)
    channel.close()
    assert (len(out), out[-4:], err) == (5_000_004, b"last", b"hb\n")


def test_follow_never_waits(shell):
    """A read of a quiet channel comes back empty."""
    channel = shell.follow(Command("follow", "exec sleep 30"))
    assert channel.read() == (b"", b"", False)
    channel.close()
    channel.close()


def test_a_broken_follow_is_unreachable_after_its_last_byte(sshd, shell):
    """What had arrived is read first, then the break is raised."""
    channel = shell.follow(Command("follow", "echo first; exec sleep 60"))
    wait_until(lambda: bool(select.select([channel.fileno()], [], [], 0)[0]), "the first line")
    for pid in sshd.session_pids():
        os.kill(pid, signal.SIGKILL)
    wait_until(shell.is_broken, "the connection is over")
    assert channel.read() == (b"first\n", b"", False)
    with pytest.raises(Unreachable):
        channel.read()
    channel.close()
