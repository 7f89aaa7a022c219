"""Real machines for the simulated cloud: folders, namespaces and SSH servers on loopback that outlive it."""

import json
import os
import pwd
import select
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

from jobs.errors import GpupoorError
from providers.clock import RealClock
from providers.shell import Access
from providers.simulator import partition, processes
from providers.simulator.folder import Folder, Orders, cloud_now, load_orders, replace_text, save_orders
from providers.simulator.hosting import BootPlan
from providers.simulator.namespaces import NamespaceError

_ANSWER_S = 20.0
_DEATH_S = 2.0


class HostsError(GpupoorError):
    """The process that machines are forked from does not do its work; its own words stand in nursery.log."""

    exit_code = 9


def _refuse_closed(folder: Path, user: str) -> None:
    """Raises HostsError when `user` cannot get into `folder`: their machines would have no home."""
    try:
        person = pwd.getpwnam(user)
    except KeyError:
        raise HostsError(f"there is no user {user} on this computer") from None
    for place in (folder, *folder.parents):
        found = place.stat()
        owner, group = (found.st_uid == person.pw_uid) * 0o100, (found.st_gid == person.pw_gid) * 0o010
        if not found.st_mode & (owner or group or 0o001):
            raise HostsError(f"{user} cannot get into {place}; name a state folder that they can reach: --state DIR")


class RealHosts:
    """hosting.Hosts with real processes. Calls may come from any thread.

    state_dir: the cloud's (nursery.log goes there). clock_file: see providers.simulator.clock_file. sshd: asyncssh
    or openssh. as_user: who the jobs of the machines are, where this process is root. max_sessions: channels per
    connection (0: no limit; OpenSSH has 10). Raises HostsError for an unknown sshd, for as_user without being root, and
    for one who cannot reach state_dir.
    """

    def __init__(
        self,
        state_dir: Path,
        clock_file: Path,
        sshd: str = "asyncssh",
        as_user: str | None = None,
        max_sessions: int = 0,
    ) -> None:
        if sshd not in ("asyncssh", "openssh"):
            raise HostsError(f"sshd of simulated machines: {sshd!r} is neither asyncssh nor openssh")
        if sshd == "openssh" and (os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists()):
            raise HostsError("openssh for simulated machines needs root and /usr/sbin/sshd; use sshd asyncssh")
        if as_user and os.geteuid() != 0:
            raise HostsError(f"only root can run the jobs of simulated machines as {as_user}")
        if as_user:
            _refuse_closed(state_dir.resolve(), as_user)
        if not Path("/proc/self/ns/pid").exists():
            raise NamespaceError("simulated machines need Linux namespaces; this computer has none, so none is started")
        self._state_dir = state_dir.resolve()
        self._clock_file = clock_file.resolve()
        self._sshd = sshd
        self._as_user = as_user or ""
        self._max_sessions = max_sessions
        self._folders: dict[str, Folder] = {}
        self._lock = threading.Lock()
        self._nursery: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    def ready(self) -> None:
        """Wait until machines can be forked. Raises NamespaceError when this computer cannot have them, HostsError."""
        with self._lock:
            self._warm()

    def close(self) -> None:
        """End the nursery; machines go on."""
        with self._lock:
            self._drop_nursery()

    def boot(self, machine: str, folder: Path, plan: BootPlan) -> None:
        """Start it, unless it lives; `access` tells when it is up. Raises NamespaceError, HostsError."""
        place = Folder(folder.resolve())
        self._folders[machine] = place
        if self.alive(machine):
            return
        place.run.mkdir(parents=True, exist_ok=True)
        place.home.mkdir(exist_ok=True)
        now = cloud_now(self._clock_file)
        orders = Orders(
            machine, plan, str(self._clock_file), self._sshd, self._as_user, self._max_sessions, booted_at=now
        )
        save_orders(place, orders)
        self._order("boot", place)

    def adopt(self, machine: str, folder: Path) -> None:
        """Take up a machine of an earlier cloud process; one that died before its boot began begins now."""
        place = Folder(folder.resolve())
        self._folders[machine] = place
        begun = place.host.exists() or place.init.exists() or place.ended.exists()
        if place.orders.exists() and not begun and not place.destroyed.exists():
            self._order("boot", place)
        if partition.until(place) is not None:
            self._order("hold", place)

    def access(self, machine: str) -> Access | None:
        """Where it listens, or None while it is not up. With sshd_s the port is told before it opens, and refuses."""
        place = self._folders.get(machine)
        if place is None or not processes.lives(processes.read_mark(place.init)):
            return None
        try:
            return Access("127.0.0.1", int(place.port.read_text()), self._as_user or "root")
        except (OSError, ValueError):
            return None

    def ended_by_itself(self, machine: str) -> int | None:
        """Cloud microseconds at which it powered itself off, or None."""
        place = self._folders.get(machine)
        try:
            return int(place.ended.read_text()) if place is not None else None
        except (OSError, ValueError):
            return None

    def alive(self, machine: str) -> bool:
        """Whether any process of it lives, booting included."""
        place = self._folders.get(machine)
        return place is not None and any(map(processes.lives, _marks(place)))

    def destroy(self, machine: str) -> None:
        """End all of it for good. The home stays."""
        place = self._folders.get(machine)
        if place is None or not place.run.exists():
            return
        # The order matters: a host that boots it at this moment sees the file, or its PID 1 has a mark already.
        place.destroyed.touch()
        self._end(place)

    def kill(self, machine: str) -> None:
        """As a power cut."""
        place = self._folders.get(machine)
        if place is not None:
            self._end(place)

    def freeze(self, machine: str) -> None:
        """Stop SSH server and jobs; TCP connections stay open."""
        place = self._folders.get(machine)
        if place is not None:
            partition.freeze(place)

    def unfreeze(self, machine: str) -> None:
        """Let all go on."""
        place = self._folders.get(machine)
        if place is not None:
            partition.unfreeze(place)

    def partition(self, machine: str, seconds: float) -> None:
        """No byte passes for so many cloud seconds; connections are kept, new ones hang, jobs go on."""
        place = self._folders.get(machine)
        if place is None:
            return
        replace_text(place.partitioned, str(cloud_now(self._clock_file) + int(seconds * 1e6)))
        partition.cut(place)
        self._order("hold", place)

    def restart(self, machine: str, wipe: bool) -> None:
        """All processes die, PID 1 is a new one, the boot text runs again, SSH comes up with no delay of the plan."""
        place = self._folders.get(machine)
        if place is None or place.destroyed.exists():
            return
        processes.send(processes.read_mark(place.host), signal.SIGKILL)
        _wait_dead(place.host)
        place.port.unlink(missing_ok=True)
        self._order("wipe" if wipe else "again", place)

    def new_port(self, machine: str) -> None:
        """From now on it listens elsewhere; connections that are there stay."""
        place = self._folders.get(machine)
        if place is None:
            return
        place.moved.touch()
        place.port.unlink(missing_ok=True)
        _ring(place)

    def change(self, machine: str, plan: BootPlan) -> None:
        """From now on disk, line and host key are as in `plan`; a running job is not touched."""
        place = self._folders.get(machine)
        if place is None or not place.orders.exists():
            return
        orders = load_orders(place)
        wrong = plan.wrong_host_key and not orders.plan.wrong_host_key
        hurt = replace(
            orders.plan,
            disk_gb=plan.disk_gb,
            bandwidth_bytes_s=plan.bandwidth_bytes_s,
            wrong_host_key=plan.wrong_host_key,
        )
        save_orders(place, replace(orders, plan=hurt))
        replace_text(place.disk, str(int(plan.disk_gb * 1e9)))
        if wrong:
            place.second_key.touch()
        _ring(place)

    def gpu_report(self, machine: str, text: str | None) -> None:
        """What nvidia-smi prints from now on ("hang": it hangs; None: as booted)."""
        place = self._folders.get(machine)
        if place is None:
            return
        if text is None:
            place.gpu_report.unlink(missing_ok=True)
        else:
            replace_text(place.gpu_report, text)

    def notice(self, machine: str) -> None:
        """Leave the file .spot_notice in its home."""
        place = self._folders.get(machine)
        if place is not None and place.home.is_dir():
            (place.home / ".spot_notice").touch()

    def _end(self, place: Folder) -> None:
        # First whoever may still start a PID 1, then that one: with it the kernel kills all of its namespace.
        processes.send(processes.read_mark(place.host), signal.SIGKILL)
        _wait_dead(place.host)
        processes.send(processes.read_mark(place.init), signal.SIGKILL)
        _wait_dead(place.init)

    def _order(self, do: str, place: Folder) -> None:
        order = json.dumps({"do": do, "folder": str(place.path)}).encode() + b"\n"
        with self._lock:
            for attempt in (1, 2):
                line = self._warm()
                try:
                    line.sendall(order)
                    answer = _read_line(line)
                except OSError as error:
                    answer = f"no {error}"
                if answer == "ok":
                    return
                # A nursery that was killed is replaced; the lock of the machine keeps a doubled order harmless.
                self._drop_nursery()
                if attempt == 2:
                    raise HostsError(f"a simulated machine could not be forked: {answer or 'the nursery died'}")

    def _warm(self) -> socket.socket:
        if self._line is not None and self._nursery is not None and self._nursery.poll() is None:
            return self._line
        self._drop_nursery()
        ours, theirs = socket.socketpair()
        self._state_dir.mkdir(parents=True, exist_ok=True)
        # A clean environment: whatever the machines' processes show of it is no secret of the cloud.
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)]),
            "GPUPOOR_ROOM": "." * 1024,  # the place in memory in which a machine writes its own environment
        }
        with theirs, (self._state_dir / "nursery.log").open("ab") as log:
            self._nursery = subprocess.Popen(
                [sys.executable, "-m", "providers.simulator.nursery"],
                stdin=theirs.fileno(),
                stdout=log,
                stderr=log,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        self._line = ours
        try:
            answer = _read_line(ours)
        except OSError as error:
            answer = f"{error}"
        if answer != "ready":
            self._drop_nursery()
            if answer.startswith("no "):
                raise NamespaceError(answer.removeprefix("no "))
            raise HostsError(f"the nursery of simulated machines does not start; see {self._state_dir}/nursery.log")
        return ours

    def _drop_nursery(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._nursery is not None:
            self._nursery.kill()
            self._nursery.wait()
            self._nursery = None


def _ring(place: Folder) -> None:
    """Let its server look at what is wished; not the sessions of OpenSSH, which would die of it."""
    for mark in partition.servers(place):
        if processes.inner_pid(mark) == partition.FIRST_SERVER:
            processes.send(mark, signal.SIGUSR1)


def _marks(place: Folder) -> list[processes.Mark | None]:
    # The host first: between the two reads it may end, but only after PID 1's mark is there.
    return [processes.read_mark(place.host), processes.read_mark(place.init)]


def _wait_dead(path: Path) -> None:
    """Until the process marked there is gone, which after SIGKILL takes milliseconds."""
    clock = RealClock()
    give_up = clock.monotonic() + _DEATH_S
    mark = processes.read_mark(path)
    while processes.lives(mark) and clock.monotonic() < give_up:
        clock.sleep(0.001)


def _read_line(line: socket.socket) -> str:
    """One answer. Raises OSError when none comes in time or the other end is gone."""
    got = b""
    while not got.endswith(b"\n"):
        if not select.select([line], [], [], _ANSWER_S)[0]:
            raise TimeoutError("no answer from the nursery")
        piece = line.recv(4096)
        if not piece:
            raise ConnectionError("the nursery is gone")
        got += piece
    return got.decode().strip()
