"""What the tests of real machines share: a set of hosts that leaves nothing behind, and a client."""

import io
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
import paramiko

from providers.clock import RealClock
from providers.simulator import clock_file
from providers.simulator.hosting import BootPlan
from providers.simulator.hosts import RealHosts

KEY = asyncssh.generate_private_key("ssh-ed25519")
PUBLIC = KEY.export_public_key().decode().strip()


def eventually(condition: Callable[[], object], limit_s: float = 30.0) -> None:
    """Wait for a condition; the limit only ends a test that has failed."""
    clock = RealClock()
    end = clock.monotonic() + limit_s
    while not condition():
        assert clock.monotonic() < end, "it never came true"
        clock.sleep(0.01)


@dataclass
class Answer:
    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()


class Client:
    """A paramiko connection that drains both streams."""

    def __init__(self, port: int, timeout_s: float = 20.0) -> None:
        self.transport = paramiko.Transport(socket.create_connection(("127.0.0.1", port), timeout_s))
        self.transport.banner_timeout = self.transport.auth_timeout = timeout_s
        try:
            self.transport.start_client(timeout=timeout_s)
            key = paramiko.Ed25519Key.from_private_key(io.StringIO(KEY.export_private_key().decode()))
            self.transport.auth_publickey("root", key)
        except BaseException:
            self.transport.close()
            raise
        self.host_key = self.transport.get_remote_server_key().asbytes()

    def start(self, command: str) -> paramiko.Channel:
        channel = self.transport.open_session(timeout=20)
        channel.exec_command(command)
        return channel

    def run(self, command: str, stdin: bytes = b"") -> Answer:
        channel = self.start(command)
        err: list[bytes] = []
        feeder = threading.Thread(target=self._feed, args=(channel, stdin))
        errors = threading.Thread(target=lambda: err.extend(iter(lambda: channel.recv_stderr(1 << 20), b"")))
        feeder.start()
        errors.start()
        out = b"".join(iter(lambda: channel.recv(1 << 20), b""))
        feeder.join()
        errors.join()
        code = channel.recv_exit_status()
        channel.close()
        return Answer(code, out, b"".join(err))

    @staticmethod
    def _feed(channel: paramiko.Channel, stdin: bytes) -> None:
        try:
            for start in range(0, len(stdin), 1 << 18):  # sendall copies the rest for each packet
                channel.sendall(stdin[start : start + (1 << 18)])
            channel.shutdown_write()
        except OSError:
            pass

    def close(self) -> None:
        self.transport.close()


@dataclass
class Lab:
    """Hosts on a clock, and all machines that they booted."""

    path: Path
    hosts: RealHosts
    clock: Path
    machines: list[str] = field(default_factory=list)

    def folder(self, machine: str) -> Path:
        return self.path / machine

    def home(self, machine: str) -> Path:
        return self.path / machine / "home"

    def boot(self, machine: str = "m1", **plan: object) -> str:
        self.machines.append(machine)
        self.hosts.boot(machine, self.folder(machine), BootPlan(PUBLIC, **{"boot_s": 0.0, **plan}))  # type: ignore[arg-type]
        return machine

    def up(self, machine: str = "m1", **plan: object) -> "Client":
        self.boot(machine, **plan)
        return self.client(machine)

    def client(self, machine: str = "m1") -> "Client":
        eventually(lambda: self.hosts.access(machine))
        access = self.hosts.access(machine)
        assert access is not None and access.host == "127.0.0.1" and access.host_key == ""
        last: list[Client] = []
        eventually(lambda: self._try(access.port, last))
        return last[0]

    @staticmethod
    def _try(port: int, last: list[Client]) -> bool:
        try:
            last.append(Client(port))
        except ConnectionRefusedError:
            return False
        return True

    def close(self) -> None:
        for machine in self.machines:
            self.hosts.destroy(machine)
            assert not self.hosts.alive(machine)
        self.hosts.close()


def new_lab(path: Path, speed: float = 1.0, as_user: str | None = None) -> Lab:
    """A lab whose state lies in `path`, on a clock that starts at the present."""
    clock = path / "clock"
    now = RealClock().now()
    clock_file.write(clock, now, now, speed)
    return Lab(path, RealHosts(path, clock, as_user=as_user), clock)
