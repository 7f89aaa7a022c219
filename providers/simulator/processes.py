"""Processes of simulated machines as seen from outside: told apart by start time, so a reused pid is never hit."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Mark:
    """One process for good: pid, its start in clock ticks, and the boot of this computer in which both hold."""

    pid: int
    start: int
    boot: str

    def text(self) -> str:
        """The mark as one line for a file."""
        return f"{self.pid} {self.start} {self.boot}\n"


def mark_of(pid: int) -> Mark | None:
    """The mark of a process that lives now; None when there is none or it is a zombie."""
    stat = _stat(pid)
    if stat is None or stat[0] in "ZX":
        return None
    return Mark(pid, int(stat[19]), _boot())


def read_mark(path: Path) -> Mark | None:
    """The mark written in `path`, or None where no whole one stands."""
    try:
        pid, start, boot = path.read_text(encoding="ascii").split()
        return Mark(int(pid), int(start), boot)
    except (OSError, ValueError):
        return None


def lives(mark: Mark | None) -> bool:
    """Whether that very process lives. A namespace's PID 1 dies last: when it is gone, all of its processes are."""
    return mark is not None and mark_of(mark.pid) == mark


def send(mark: Mark | None, number: signal.Signals) -> bool:
    """Signal that very process and no other; False when it is gone."""
    if mark is None:
        return False
    try:
        descriptor = os.pidfd_open(mark.pid)
    except OSError:
        return False
    try:
        # The descriptor holds the process: what is verified now is what gets the signal.
        if mark_of(mark.pid) != mark:
            return False
        signal.pidfd_send_signal(descriptor, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)


def members(init: Mark | None) -> list[Mark]:
    """Every living process in the PID namespace whose PID 1 is `init`; empty when that is gone."""
    if init is None or not lives(init):
        return []
    namespace = _namespace(init.pid)
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and namespace and _namespace(int(entry.name)) == namespace:
            mark = mark_of(int(entry.name))
            if mark is not None:
                found.append(mark)
    return found


def inner_pid(mark: Mark) -> int:
    """The pid of a process as its own namespace counts; 0 when it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (_PROC / str(mark.pid) / "status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return 0


def name_of(mark: Mark) -> str:
    """The program's short name (comm), "" when it is gone."""
    with contextlib.suppress(OSError):
        return (_PROC / str(mark.pid) / "comm").read_text().strip()
    return ""


def stopped(mark: Mark) -> bool:
    """Whether it is stopped by a signal, or gone."""
    stat = _stat(mark.pid)
    return stat is None or stat[0] in "TtZX"


def _namespace(pid: int) -> str:
    try:
        return str((_PROC / str(pid) / "ns" / "pid").readlink())
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the third on (state first)."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
