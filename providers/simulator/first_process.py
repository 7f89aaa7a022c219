"""How a simulated machine comes up: a host process waits for its time, makes the namespaces and starts PID 1.

Each stage leaves its mark on disk before the next one may act, so that a machine can be found and ended
whichever process dies in between.
"""

import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from providers.clock import RealClock
from providers.simulator import namespaces, open_ssh, processes, ssh_server
from providers.simulator.folder import Folder, Orders, cloud_now, load_orders, replace_text, wait_until
from providers.simulator.shims import real_date, write_shims

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SIGNALS = {signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2}
_POWER_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
_DUMPABLE = 4
_TICK_S = 0.05  # how old /proc/uptime may be


def bring_up(folder: Folder, how: str, tell: Callable[[str], None]) -> None:
    """In a fresh fork: boot the machine ("boot"), or end it and start it again ("again", "wipe" with an empty home).

    `tell` is called once its mark is on disk: from then on it can be ended.
    """
    lock = os.open(folder.run / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        tell("ok")  # another one brings it up already
        return
    if how == "boot" and processes.lives(processes.read_mark(folder.init)):
        tell("ok")  # a doubled order for a machine that is up
        return
    mark = processes.mark_of(os.getpid())
    assert mark is not None
    replace_text(folder.host, mark.text())
    tell("ok")
    _own_streams(folder)
    orders = load_orders(folder)
    if how == "boot":
        _wait_for_boot(orders)
    else:
        _end_the_old(folder, how == "wipe")
    _start(folder, orders, lock, how)


def variables(folder: Folder, orders: Orders) -> dict[str, str]:
    """The environment of PID 1 and of all commands on the machine; nothing of the cloud's own."""
    user = orders.as_user or "root"
    shell = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
    return {
        "HOME": str(folder.home),
        "USER": user,
        "LOGNAME": user,
        "SHELL": shell,
        "PATH": f"{folder.path_first}:{_PATH}",
        "LANG": "C.UTF-8",
    }


def _own_streams(folder: Folder) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(folder.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nothing)
    os.close(log)


def _wait_for_boot(orders: Orders) -> None:
    while orders.plan.never:
        signal.pause()
    wait_until(Path(orders.clock), orders.booted_at + int(orders.plan.boot_s * 1e6))


def _end_the_old(folder: Folder, wipe: bool) -> None:
    old = processes.read_mark(folder.init)
    processes.send(old, signal.SIGKILL)
    while processes.lives(old):
        RealClock().sleep(0.002)
    for left in (folder.init, folder.port, folder.ended, folder.partitioned, folder.frozen):
        left.unlink(missing_ok=True)
    if wipe:
        shutil.rmtree(folder.home, ignore_errors=True)


def _start(folder: Folder, orders: Orders, lock: int, how: str) -> None:
    folder.home.mkdir(mode=0o755, exist_ok=True)
    folder.gpu_calls.touch()
    covers = write_shims(folder, orders.plan.disk_gb, orders.plan.gpu_lines, Path(orders.clock))
    folder.uptime.write_text("0.00 0.00\n")
    covers.append((Path("/proc/uptime"), folder.uptime))
    if orders.sshd == "openssh":
        covers.append((Path("/etc/passwd"), open_ssh.own_passwd(folder, orders)))
    if orders.as_user:
        person = pwd.getpwnam(orders.as_user)
        for path in (folder.home, folder.run, folder.gpu_calls):
            os.chown(path, person.pw_uid, person.pw_gid)
    if folder.destroyed.exists():
        return
    namespaces.separate()
    wait_end, go_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(lock)
        os.close(go_end)
        # If the host dies before the mark of this process is on disk, nobody could ever end it: so it ends itself.
        if os.read(wait_end, 1) == b"g":
            os.close(wait_end)
            _as_last_act(lambda: _be_first(folder, orders, covers, how))
        os._exit(1)
    mark = processes.mark_of(child)
    if mark is None:
        raise RuntimeError("the machine's PID 1 died before it began")
    replace_text(folder.init, mark.text())
    os.write(go_end, b"g")


def _be_first(folder: Folder, orders: Orders, covers: list[tuple[Path, Path]], how: str) -> None:
    """PID 1: furnish the namespaces, start the SSH server, then reap, keep the uptime and end on demand."""
    os.chdir("/")
    namespaces.keep_real(real_date(), folder.real_date)
    namespaces.furnish(covers)
    namespaces.own_environment(variables(folder, orders))
    uptime = os.open(folder.uptime, os.O_WRONLY | os.O_CLOEXEC)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    server = os.fork()
    if server == 0:
        os.close(uptime)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a wish at a server not yet ready: it looks by itself then
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        _as_last_act(lambda: _serve(folder, orders, how))
        os._exit(1)
    if orders.as_user:
        _become(orders.as_user)  # so that its jobs may signal it
    _reap_for_ever(folder, orders, uptime)


def _serve(folder: Folder, orders: Orders, how: str) -> None:
    act = open_ssh.serve if orders.sshd == "openssh" else ssh_server.serve
    act(folder, orders, variables(folder, orders), first=how == "boot")


def _reap_for_ever(folder: Folder, orders: Orders, uptime: int) -> None:
    clock = Path(orders.clock)
    while True:
        now = cloud_now(clock)
        # As on a host that ran for an hour already; goes on over a container's restart.
        up_s = 3600 + max(now - orders.booted_at, 0) / 1e6
        os.pwrite(uptime, b"%.2f %.2f\n" % (up_s, up_s), 0)
        got = signal.sigtimedwait(_SIGNALS, _TICK_S)
        if got is not None and got.si_signo in _POWER_SIGNALS:
            replace_text(folder.ended, str(cloud_now(clock)))
            os._exit(0)  # the kernel kills every process of the namespace
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _become(user: str) -> None:
    person = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(person.pw_gid)
    os.setuid(person.pw_uid)
    # A change of user hides /proc/1/environ from the machine's own jobs; here they may read it.
    ctypes.CDLL(None).prctl(_DUMPABLE, 1, 0, 0, 0)


def _as_last_act(act: Callable[[], None]) -> None:
    """Run in a fork, and never come back to the code of the parent."""
    try:
        act()
    except SystemExit:
        pass
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        os._exit(1)
