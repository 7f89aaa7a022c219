"""Commands of a simulated machine's SSH server, and the bytes that go in and out of them."""

import asyncio
import contextlib
import fcntl
import os
import pty
import pwd
import signal
import struct
import subprocess
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

_PIECE = 1 << 17


@dataclass(frozen=True)
class Account:
    """Whom commands run as: environment, home, and the user ("": whoever the server is)."""

    variables: dict[str, str]
    home: Path
    user: str

    def start(self, arguments: list[str], **how: Any) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own."""
        if self.user:
            person = pwd.getpwnam(self.user)
            how |= {"user": person.pw_uid, "group": person.pw_gid, "extra_groups": []}
        # A home that a job removed does not lock its owner out.
        cwd = self.home if self.home.is_dir() else Path("/")
        popen: Any = subprocess.Popen  # its overloads do not see through **
        return popen(arguments, cwd=cwd, start_new_session=True, **({"env": self.variables} | how))


class Children:
    """Processes that the server started, and how each ended."""

    def __init__(self) -> None:
        self._ends: dict[int, asyncio.Future[int]] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def add(self, process: subprocess.Popen[bytes]) -> asyncio.Future[int]:
        """Give the future of its exit code (negative: the signal)."""
        end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._ends[process.pid] = end
        self._processes[process.pid] = process
        return end

    def reap(self) -> None:
        """Called for every SIGCHLD, in the loop's own thread."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                process = self._processes.pop(pid, None)
                if process is not None:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    self._ends.pop(pid).set_result(process.returncode)


class Throttle:
    """All bytes of the machine in both directions share so many bytes a second; 0: no limit. passed: how many did."""

    def __init__(self, bytes_s: int, passed: int) -> None:
        self._free_at = 0.0
        self.passed = passed
        self.set(bytes_s)

    def set(self, bytes_s: int) -> None:
        """Another speed from now on."""
        self._bytes_s = bytes_s
        self.piece = min(_PIECE, max(bytes_s // 20, 256)) if bytes_s else _PIECE

    async def take(self, count: int) -> None:
        """Wait until `count` more bytes may pass, and count them."""
        self.passed += count
        if self._bytes_s:
            now = asyncio.get_running_loop().time()
            self._free_at = max(self._free_at, now) + count / self._bytes_s
            await asyncio.sleep(self._free_at - now)


async def run_command(channel: Any, account: Account, children: Children, throttle: Throttle) -> None:
    """Run what one session channel asks for, to the end of its bytes or until the channel is closed."""
    text = channel.command
    shell = account.variables["SHELL"]
    arguments = [shell, "-c", text] if text is not None else [shell, "-l"]
    environment = dict(account.variables)
    # As a usual sshd_config: AcceptEnv LANG LC_*.
    environment.update({k: v for k, v in channel.env.items() if k == "LANG" or k.startswith("LC_")})
    if channel.term_type is not None:
        environment["TERM"] = channel.term_type
        await _run_on_terminal(channel, account, arguments, environment, children, throttle)
    else:
        await _run_on_pipes(channel, account, arguments, environment, children, throttle)


async def _run_on_pipes(
    channel: Any, account: Account, arguments: list[str], env: dict[str, str], children: Children, throttle: Throttle
) -> None:
    process = account.start(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        bufsize=0,
    )
    end = children.add(process)
    outward = [
        asyncio.create_task(_pump_out(process.stdout, channel.stdout, throttle)),
        asyncio.create_task(_pump_out(process.stderr, channel.stderr, throttle)),
    ]
    inward = asyncio.create_task(_pump_in(channel, process.stdin, process.pid, throttle))
    await _finish(channel, end, outward, inward)


async def _run_on_terminal(
    channel: Any, account: Account, arguments: list[str], env: dict[str, str], children: Children, throttle: Throttle
) -> None:
    ours, theirs = pty.openpty()
    _resize(ours, *channel.term_size)
    process = account.start(
        arguments,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0) and None,
    )
    os.close(theirs)
    end = children.add(process)
    # Each end has a file of its own, so that closing one leaves the other.
    reading, writing = os.fdopen(os.dup(ours), "rb", 0), os.fdopen(ours, "wb", 0)
    outward = [asyncio.create_task(_pump_out(reading, channel.stdout, throttle))]
    inward = asyncio.create_task(_pump_in(channel, writing, process.pid, throttle, lambda *s: _resize(ours, *s)))
    await _finish(channel, end, outward, inward)


async def _finish(channel: Any, end: asyncio.Future[int], outward: list[Any], inward: Any) -> None:
    closed = asyncio.create_task(channel.channel.wait_closed())
    try:
        drained = asyncio.gather(*outward)
        await asyncio.wait([drained, closed], return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            # The client is gone. Our ends close, and the command goes on until it writes.
            drained.cancel()
            return
        await asyncio.wait([end, closed], return_when=asyncio.FIRST_COMPLETED)
        if end.done():
            _tell_end(channel, end.result())
    finally:
        inward.cancel()
        closed.cancel()
        await asyncio.gather(inward, closed, *outward, return_exceptions=True)


def _tell_end(channel: Any, code: int) -> None:
    if code >= 0:
        channel.exit(code)
        return
    name = signal.Signals(-code).name.removeprefix("SIG")
    channel.exit_with_signal(name, False, "", "en")


async def _pump_out(source: Any, sink: Any, throttle: Throttle) -> None:
    """Everything that the command writes, no faster than the client takes it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_PIECE)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    try:
        # A terminal whose last user is gone reads as an error; a closed channel takes nothing more.
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await reader.read(throttle.piece):
                await throttle.take(len(data))
                sink.write(data)
                await sink.drain()
    finally:
        transport.close()


async def _pump_in(
    channel: Any, sink: Any, pid: int, throttle: Throttle, resize: Callable[..., None] = lambda *_: None
) -> None:
    """Everything that the client sends, no faster than the command takes it; signals go to its group."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sink)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        while True:
            try:
                data = await channel.stdin.read(throttle.piece)
            except asyncssh.TerminalSizeChanged as change:
                resize(change.width, change.height)
                continue
            except asyncssh.SignalReceived as wish:
                with contextlib.suppress(ProcessLookupError, AttributeError):
                    os.killpg(pid, getattr(signal, "SIG" + wish.signal))
                continue
            except asyncssh.BreakReceived:
                continue
            if not data:
                return
            await throttle.take(len(data))
            # A command that closed its stdin lets the rest fall on the floor.
            with contextlib.suppress(OSError):
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()


def _resize(descriptor: int, width: int, height: int, *_: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
