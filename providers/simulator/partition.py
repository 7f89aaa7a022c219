"""Frozen and cut-off machines: all of their processes stopped, or only those that speak SSH."""

import contextlib
import signal
from pathlib import Path

from providers.clock import RealClock
from providers.simulator import processes
from providers.simulator.folder import Folder, cloud_now, load_orders

FIRST_SERVER = 2  # PID 1 forks the SSH server before anything else


def until(folder: Folder) -> int | None:
    """Cloud microseconds until which no byte passes, or None."""
    with contextlib.suppress(OSError, ValueError):
        return int(folder.partitioned.read_text())
    return None


def cut(folder: Folder) -> None:
    """Stop whatever speaks SSH: connections are kept by the kernel, and no byte passes."""
    for mark in servers(folder):
        processes.send(mark, signal.SIGSTOP)


def hold(folder: Folder) -> None:
    """Wait until the cut is over by the cloud's clock, then let it go on. Runs in a process of its own."""
    clock = Path(load_orders(folder).clock)
    init = processes.read_mark(folder.init)
    while (end := until(folder)) is not None and processes.lives(init):
        if cloud_now(clock) >= end:
            folder.partitioned.unlink(missing_ok=True)
            break
        RealClock().sleep(0.02)
    if not folder.frozen.exists():
        for mark in servers(folder):
            processes.send(mark, signal.SIGCONT)


def freeze(folder: Folder) -> None:
    """Stop every process; those that were just being forked are caught by looking again."""
    folder.frozen.touch()
    init = processes.read_mark(folder.init)
    for _ in range(100):
        running = [mark for mark in processes.members(init) if not processes.stopped(mark)]
        if not running:
            return
        for mark in running:
            processes.send(mark, signal.SIGSTOP)
        RealClock().sleep(0.001)


def unfreeze(folder: Folder) -> None:
    """Let all go on, but not what a partition still holds."""
    folder.frozen.unlink(missing_ok=True)
    held = set(servers(folder)) if until(folder) is not None else set()
    for mark in processes.members(processes.read_mark(folder.init)):
        if mark not in held:
            processes.send(mark, signal.SIGCONT)


def servers(folder: Folder) -> list[processes.Mark]:
    """Whatever speaks SSH in the machine."""
    everyone = processes.members(processes.read_mark(folder.init))
    return [
        mark
        for mark in everyone
        if processes.inner_pid(mark) == FIRST_SERVER or processes.name_of(mark).startswith("sshd")
    ]
