"""Namespaces of a simulated machine: own processes, own mounts, and own files over the dangerous ones.

Without them a machine's `shutdown` would switch off the computer that simulates it, so whatever
cannot be had or verified here ends in NamespaceError and no machine starts.
"""

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from jobs.errors import GpupoorError

_NEW_MOUNTS, _NEW_USER, _NEW_PIDS = 0x00020000, 0x10000000, 0x20000000
_NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_MASKED = ("/run/systemd", "/run/dbus", "/var/run/systemd", "/var/run/dbus")
_SET_MEMORY, _ENVIRONMENT_END = 35, 11
_LIBC = ctypes.CDLL(None, use_errno=True)


class NamespaceError(GpupoorError):
    """This computer does not let a machine have namespaces of its own; says what was refused and what to do."""

    exit_code = 9


def separate() -> None:
    """Give the children of this process a PID namespace, and itself a mount namespace. Raises NamespaceError.

    Root needs no user namespace; anybody else (or root without the capability) becomes root of a new one.
    """
    if os.geteuid() == 0 and _call("unshare", _NEW_PIDS | _NEW_MOUNTS) == 0:
        _must_mount("none", "/", None, _REC | _PRIVATE)
        return
    uid, gid = os.geteuid(), os.getegid()
    if _call("unshare", _NEW_USER | _NEW_PIDS | _NEW_MOUNTS) != 0:
        raise NamespaceError(
            f"simulated machines need Linux namespaces, and unshare says: {os.strerror(ctypes.get_errno())}. "
            "Without them a machine's shutdown would reach this computer, so none is started. "
            "Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces) "
            "or, in a container, give it CAP_SYS_ADMIN"
        )
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise NamespaceError(f"the user namespace of a simulated machine cannot be set up: {error}") from error
    _must_mount("none", "/", None, _REC | _PRIVATE)


def furnish(covers: Sequence[tuple[Path, Path]]) -> None:
    """In PID 1 of the machine: own /proc, masked buses, and each (real, own) file laid over the real one.

    Raises NamespaceError when a mount fails or a real file is still seen afterwards.
    """
    _must_mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    if os.getpid() != 1:
        raise NamespaceError("the machine has no PID namespace of its own")
    for name in {os.path.realpath(name) for name in _MASKED}:
        if Path(name).is_dir():
            _must_mount("tmpfs", name, "tmpfs", _NOSUID | _NODEV)
    if os.access("/proc/sysrq-trigger", os.F_OK):
        _must_mount("/dev/null", "/proc/sysrq-trigger", None, _BIND)
    for real, own in covers:
        _must_mount(str(own), str(real), None, _BIND)
    for real, own in covers:
        if not real.samefile(own):
            raise NamespaceError(f"{real} could not be covered; a machine would reach this computer's own")


def keep_real(real: Path, place: Path) -> None:
    """Make a program that will be covered reachable at `place` (an empty file there)."""
    place.touch()
    _must_mount(str(real), str(place), None, _BIND)


def own_environment(variables: dict[str, str]) -> None:
    """Make /proc/self/environ of a forked process show `variables` and nothing of its parent's.

    The kernel shows the memory in which the first program got its environment: it is overwritten in place,
    cut to its size. Only root may tell the kernel that it is shorter now; else it ends in zero bytes.
    """
    fields = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    start, end = int(fields[47]), int(fields[48])
    if end <= start:
        return
    block = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in variables.items())
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, block, min(len(block), end - start - 1))
    _LIBC.prctl(_SET_MEMORY, _ENVIRONMENT_END, ctypes.c_ulong(min(start + len(block), end)), 0, 0)


def _must_mount(source: str, target: str, kind: str | None, flags: int) -> None:
    arguments = (source.encode(), target.encode(), kind.encode() if kind else None, flags, None)
    if _call("mount", *arguments) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise NamespaceError(f"a simulated machine cannot mount over {target}: {reason}; none is started")


def _call(name: str, *arguments: object) -> int:
    return int(getattr(_LIBC, name)(*arguments))
