"""The SSH server of a simulated machine: one key, exec channels, every byte pumped with backpressure.

It runs inside the machine. A command ends as under OpenSSH: a closed channel does not kill it unless it
writes; its channel closes after the last byte of both streams, then the exit code or signal is told.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import subprocess
import sys
from pathlib import Path

import asyncssh

from providers.simulator.command_pump import Account, Children, Throttle, run_command
from providers.simulator.folder import Folder, Orders, cloud_now, load_orders, replace_text
from providers.simulator.partition import until

_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")


def serve(folder: Folder, orders: Orders, variables: dict[str, str], first: bool) -> None:
    """Run the server until the machine ends. first: a first boot, with the delays that its plan orders."""
    sys.stdout.flush()
    logging.getLogger("asyncssh").setLevel(logging.ERROR)
    asyncio.run(_Machine(folder, orders, variables, first).live())


class _Machine:
    """The server's state: its listener, its host keys, and what the plan orders."""

    def __init__(self, folder: Folder, orders: Orders, variables: dict[str, str], first: bool) -> None:
        self.folder = folder
        self.orders = orders
        self.account = Account(variables, folder.home, orders.as_user)
        self.clock = Path(orders.clock)
        plan = orders.plan
        self.up_at = cloud_now(self.clock)
        open_s = plan.sshd_s
        self.delays = (open_s, open_s + plan.banner_s, open_s + plan.key_s) if first else (0.0, 0.0, 0.0)
        self.throttle = Throttle(plan.bandwidth_bytes_s, _number(folder.traffic))
        self.children = Children()
        self.authorized = asyncssh.import_public_key(plan.authorized_key.strip()).public_data
        self.acceptor: asyncssh.SSHAcceptor | None = None

    async def live(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self.children.reap)
        moves = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, moves.set)
        moves.set()
        self._run_boot_text()
        counting = asyncio.create_task(self._write_traffic())
        await self._listen(*self.delays[:2])
        while not counting.done():
            await moves.wait()
            moves.clear()
            self._change()
            if self.folder.moved.exists():
                self.folder.moved.unlink()
                await self._move()

    def _change(self) -> None:
        """Take up orders that were changed meanwhile: the speed of the line, and another host key."""
        self.orders = load_orders(self.folder)
        self.throttle.set(self.orders.plan.bandwidth_bytes_s)
        if self.acceptor is not None:
            self.acceptor.update(server_host_keys=[self._host_key()])

    async def _listen(self, sshd_s: float, banner_s: float) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.folder.port.unlink(missing_ok=True)
        door = socket.socket()
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("127.0.0.1", 0))  # bound and not listening: the port is known, and refuses
        if not sshd_s:
            door.listen(128)
        replace_text(self.folder.port, str(door.getsockname()[1]))
        if sshd_s:
            await self._wait(sshd_s)
            door.listen(128)
        await self._wait(banner_s)  # connections are made by the kernel, and nobody speaks
        while (end := until(self.folder)) is not None and cloud_now(self.clock) < end:
            await asyncio.sleep(0.02)
        door.setblocking(False)
        self.acceptor = await asyncssh.listen(
            sock=door,
            server_factory=lambda: _Door(self),
            server_host_keys=[self._host_key()],
            encoding=None,
            line_editor=False,
            encryption_algs=_CIPHERS,
            compression_algs=None,
            allow_scp=False,
            login_timeout=120,
            server_version="OpenSSH_9.2",
        )

    async def _write_traffic(self) -> None:
        written = -1
        while True:
            if self.throttle.passed != written:
                written = self.throttle.passed
                replace_text(self.folder.traffic, str(written))
            await asyncio.sleep(0.2)

    async def _move(self) -> None:
        """Listen elsewhere; connections that are there stay."""
        if self.acceptor is not None:
            self.acceptor.close()
        await self._listen(0.0, 0.0)

    async def _wait(self, seconds: float) -> None:
        while cloud_now(self.clock) < self.up_at + seconds * 1e6:
            await asyncio.sleep(0.01)

    def _host_key(self) -> asyncssh.SSHKey:
        name = "host_key_2" if self.folder.second_key.exists() else "host_key"
        path = self.folder.run / name
        if not path.exists():
            key = asyncssh.generate_private_key("ssh-ed25519")
            replace_text(path, key.export_private_key().decode())
            path.chmod(0o600)
        return asyncssh.read_private_key(str(path))

    def _run_boot_text(self) -> None:
        if self.orders.plan.boot_text:
            self.children.add(
                self.account.start(["/bin/sh", "-c", self.orders.plan.boot_text], stdin=subprocess.DEVNULL)
            )

    async def run(self, channel: asyncssh.SSHServerProcess) -> None:
        """One session, to its end."""
        await run_command(channel, self.account, self.children, self.throttle)

    def accepts(self, key: asyncssh.SSHKey) -> bool:
        """Whether this key opens the door now; the first that does may change the lock behind itself."""
        if cloud_now(self.clock) < self.up_at + self.delays[2] * 1e6:
            return False
        return key.public_data == self.authorized

    def entered(self) -> None:
        """Somebody logged in."""
        if self.orders.plan.wrong_host_key and not self.folder.second_key.exists():
            self.folder.second_key.touch()
            if self.acceptor is not None:
                self.acceptor.update(server_host_keys=[self._host_key()])


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


class _Door(asyncssh.SSHServer):
    """One connection."""

    def __init__(self, machine: _Machine) -> None:
        self.machine = machine
        self.sessions = 0

    def begin_auth(self, _username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, _username: str, key: asyncssh.SSHKey) -> bool:
        return self.machine.accepts(key)

    def auth_completed(self) -> None:
        self.machine.entered()

    def session_requested(self) -> asyncssh.SSHServerProcess | bool:
        limit = self.machine.orders.max_sessions
        if limit and self.sessions >= limit:
            return False
        self.sessions += 1
        return asyncssh.SSHServerProcess(self._run, None, 3, False)

    async def _run(self, channel: asyncssh.SSHServerProcess) -> None:
        try:
            await self.machine.run(channel)
        finally:
            self.sessions -= 1

    def connection_requested(self, *_where: object) -> bool:
        return True
