"""SSH by paramiko, and nothing else in the house knows it: every wait has a limit, every stream is drained.

Only the job's own key is ever offered: no agent, no default keys, no known_hosts. The host key is pinned
per rental, because rented addresses are used again by strangers.
"""

import contextlib
import io
import logging
import shlex
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import paramiko

from jobs.command import Command, Outcome
from providers.bell import Bell
from providers.clock import Clock, RealClock
from providers.shell import Access, Channel, Shell, ShellError, ShellKey, Unreachable, WrongHostKey

KEPT: Final = 4 * 1024 * 1024
PIECE: Final = 1024 * 1024
SENT_AT_ONCE: Final = 32 * 1024

# sshd's MaxSessions is 10 by default: the 11th is refused.
SESSIONS: Final = 8
# sshd's MaxStartups is 10:30:100 by default: beyond 10 half-open logins it drops some at random.
_logins = threading.BoundedSemaphore(8)

# A left-over child may hold the streams open for ever: so many seconds of silence after the exit code end a command.
_LINGER_S: Final = 5.0
_LOOK_S: Final = 0.25

# What goes wrong is raised to the caller; paramiko would also print tracebacks from its own threads.
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True)
class Limits:
    """Real seconds: TCP connect, first line of the server, key exchange, login, a session's opening, a free login slot.

    keepalive_s: a sign of life into a quiet connection that often, so that no NAT forgets it.
    unheard_s: a connection whose bytes the other side leaves unanswered for so long is over (Linux).
    """

    connect_s: float = 10.0
    banner_s: float = 15.0
    handshake_s: float = 15.0
    login_s: float = 20.0
    open_s: float = 15.0
    slot_s: float = 60.0
    keepalive_s: int = 15
    unheard_s: int = 60


def connect(access: Access, key: ShellKey, limits: Limits | None = None, clock: Clock | None = None) -> "SshShell":
    """A shell on the machine. Raises Unreachable (try again) or WrongHostKey (never again)."""
    limits, clock = limits or Limits(), clock or RealClock()
    private = _private_key(key)
    where = f"{access.host}:{access.port}"
    if not _logins.acquire(timeout=limits.slot_s):
        raise Unreachable(f"{where}: too many logins are under way")
    transport: paramiko.Transport | None = None
    try:
        transport = paramiko.Transport(_dial(access, limits))
        host_key = _log_in(transport, access, private, limits)
    except BaseException as error:
        if transport is not None:
            transport.close()
        if isinstance(error, _BROKEN):
            raise Unreachable(f"{where}: no login ({_short(error)})") from None
        raise
    finally:
        _logins.release()
    return SshShell(transport, where, host_key, limits, clock)


def _dial(access: Access, limits: Limits) -> socket.socket:
    connection = socket.create_connection((access.host, access.port), limits.connect_s)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limits.unheard_s * 1000)
    return connection


def _log_in(transport: paramiko.Transport, access: Access, private: paramiko.PKey, limits: Limits) -> str:
    """The host key's text, checked before our own key is offered."""
    transport.banner_timeout = limits.banner_s
    transport.handshake_timeout = limits.handshake_s
    transport.auth_timeout = limits.login_s
    transport.channel_timeout = limits.open_s
    pinned = access.host_key.split()[:2]
    if pinned:
        options = transport.get_security_options()
        options.key_types = sorted(options.key_types, key=lambda kind: not _same_family(kind, pinned[0]))
    transport.start_client(timeout=limits.banner_s + limits.handshake_s)
    shown = transport.get_remote_server_key()
    if pinned and pinned != [shown.get_name(), shown.get_base64()]:
        raise WrongHostKey(f"{access.host}:{access.port}: another host key than this rental's; release the machine")
    transport.set_keepalive(limits.keepalive_s)
    if transport.auth_publickey(access.user, private):
        raise paramiko.SSHException("the key alone does not suffice")
    # sshd counts a login as half-open a moment longer than we do; once it gives a session it no longer does.
    transport.open_session(timeout=limits.open_s).close()
    return f"{shown.get_name()} {shown.get_base64()}"


def _same_family(kind: str, name: str) -> bool:
    return kind == name or ("rsa" in kind and "rsa" in name)


def _private_key(key: ShellKey) -> paramiko.PKey:
    try:
        return paramiko.Ed25519Key.from_private_key(io.StringIO(key.private))
    except (paramiko.SSHException, ValueError, IndexError):
        raise ShellError("the job's private key is no ed25519 key in OpenSSH's form") from None


class SshShell(Shell):
    """One connection; at most 8 sessions at once, further ones wait for their turn within their limit."""

    def __init__(self, transport: paramiko.Transport, where: str, host_key: str, limits: Limits, clock: Clock) -> None:
        self.host_key = host_key
        self._transport = transport
        self._where = where
        self._limits = limits
        self._clock = clock
        self._sessions = threading.BoundedSemaphore(SESSIONS)

    def perform(self, command: Command, stdin: bytes = b"") -> Outcome:
        """Run to the end within the command's limit; the first 4 MiB of each stream are kept."""
        return self._run(command, io.BytesIO(stdin), None, lambda _: None, idle=False)

    def put(self, command: Command, source: BinaryIO, progress: Callable[[int], None] = lambda _: None) -> Outcome:
        """Run with `source` as stdin, streamed; `progress` hears how many bytes were sent so far."""
        return self._run(command, source, None, progress, idle=True)

    def get(self, command: Command, sink: Callable[[bytes], object]) -> Outcome:
        """Run and hand stdout to `sink` piece by piece; the outcome's `out` stays empty."""
        return self._run(command, io.BytesIO(), sink, lambda _: None, idle=True)

    def follow(self, command: Command) -> "SshChannel":
        """Start a command that goes on. Its session counts until `close`."""
        channel = self._open(command)
        bell = _hang_bell(channel)
        pump = _Pump(channel, command.text, io.BytesIO())
        pump.start()
        pump.join(self._limits.open_s)
        if pump.is_alive() or pump.refused:
            self._shut(channel, pump)
            bell.close()
            raise Unreachable(f"{self._where}: {command.kind}: could not be started")
        return SshChannel(channel, self, pump, bell)

    def close(self) -> None:
        """End the connection; all its channels end with it."""
        self._transport.close()

    def _open(self, command: Command) -> paramiko.Channel:
        if not self._sessions.acquire(timeout=command.limit_s):
            raise Unreachable(f"{self._where}: {command.kind}: all {SESSIONS} sessions stayed busy")
        try:
            return self._transport.open_session(timeout=self._limits.open_s)
        except _BROKEN as error:
            self._sessions.release()
            raise Unreachable(f"{self._where}: {command.kind}: no session ({_short(error)})") from None
        except BaseException:
            self._sessions.release()
            raise

    def _shut(self, channel: paramiko.Channel, pump: "_Pump") -> None:
        """Let go of a session. A pump that still waits for room may hold the socket: then the connection ends."""
        if pump.is_alive() and not channel.closed:
            self._transport.close()
        with contextlib.suppress(*_BROKEN):
            channel.close()
        self._sessions.release()

    def is_broken(self) -> bool:
        """Whether the connection is over (a frozen peer shows only by silence)."""
        return not self._transport.is_active() or self._transport.saved_exception is not None

    def _run(
        self,
        command: Command,
        source: BinaryIO,
        sink: Callable[[bytes], object] | None,
        progress: Callable[[int], None],
        idle: bool,
    ) -> Outcome:
        channel = self._open(command)
        bell = _hang_bell(channel)
        pump = _Pump(channel, command.text, source)
        pump.start()
        try:
            kept = _Kept(sink)
            self._drain(command, channel, bell, pump, kept, progress, idle)
            return Outcome(channel.exit_status, bytes(kept.out), bytes(kept.err))
        finally:
            self._shut(channel, pump)
            bell.close()

    def _drain(
        self,
        command: Command,
        channel: paramiko.Channel,
        bell: Bell,
        pump: "_Pump",
        kept: "_Kept",
        progress: Callable[[int], None],
        idle: bool,
    ) -> None:
        """Return when the exit code is there and both streams ended; both are read in turn, so neither fills up."""
        started = moved_at = self._clock.monotonic()
        sent = 0
        while True:
            # In this order: what is there once the channel is closed is all that there will be.
            closed = channel.closed
            over = closed or channel.eof_received
            status_known = channel.exit_status != -1
            moved = kept.take(channel)
            if pump.sent != sent:
                sent, moved = pump.sent, True
                progress(sent)
            if pump.error is not None:
                raise pump.error
            now = self._clock.monotonic()
            moved_at = now if moved else moved_at
            if not moved:
                if over and (status_known or closed):
                    self._check_end(command, channel, status_known)
                    return
                if status_known and kept.sink is None and now - moved_at > _LINGER_S:
                    return
                bell.wait(_LOOK_S)
            if now - (moved_at if idle else started) > command.limit_s:
                raise Unreachable(f"{self._where}: {command.kind}: no end within {command.limit_s:g} s")

    def _check_end(self, command: Command, channel: paramiko.Channel, status_known: bool) -> None:
        if not status_known:
            raise Unreachable(f"{self._where}: {command.kind}: the connection broke before the end")
        if not channel.eof_received and self.is_broken():
            raise Unreachable(f"{self._where}: {command.kind}: the connection broke within the answer")


class SshChannel(Channel):
    """A command that goes on, read without ever waiting."""

    def __init__(self, channel: paramiko.Channel, shell: SshShell, pump: "_Pump", bell: Bell) -> None:
        # The shell is kept too: a connection that is collected as garbage would take the channel with it.
        self._channel = channel
        self._shell = shell
        self._pump = pump
        self._bell = bell
        self._closed = False

    def fileno(self) -> int:
        """Readable when `read` has something to say."""
        return self._bell.fileno()

    def read(self) -> tuple[bytes, bytes, bool]:
        """(stdout, stderr, ended), at most 1 MiB each. Raises Unreachable once all was read of a broken connection."""
        self._bell.hush()
        channel = self._channel
        over = bool(channel.eof_received) or channel.closed
        out, err = _read_both(channel)
        if out or err:
            if over or channel.recv_ready() or channel.recv_stderr_ready():
                self._bell.set()
            return out, err, False
        if over and not channel.eof_received and self._shell.is_broken():
            raise Unreachable("the connection to the machine broke")
        return b"", b"", over

    def close(self) -> None:
        """Let go; may be called twice."""
        if not self._closed:
            self._closed = True
            self._shell._shut(self._channel, self._pump)
            self._bell.close()


class _Kept:
    """What was read of both streams: stdout goes to `sink` where there is one, else the first 4 MiB are kept."""

    def __init__(self, sink: Callable[[bytes], object] | None) -> None:
        self.sink = sink
        self.out = bytearray()
        self.err = bytearray()

    def take(self, channel: paramiko.Channel) -> bool:
        """Read what is there now; whether there was anything."""
        out, err = _read_both(channel)
        if out and self.sink is not None:
            self.sink(out)
        else:
            self.out += out[: KEPT - len(self.out)]
        self.err += err[: KEPT - len(self.err)]
        return bool(out or err)


def _read_both(channel: paramiko.Channel) -> tuple[bytes, bytes]:
    """What is there now, at most 1 MiB each. A read also sends: it tells the other side that there is room again."""
    try:
        out = channel.recv(PIECE) if channel.recv_ready() else b""
        err = channel.recv_stderr(PIECE) if channel.recv_stderr_ready() else b""
    except _BROKEN as error:
        raise Unreachable(f"the connection to the machine broke ({_short(error)})") from None
    return out, err


class _Pump(threading.Thread):
    """Sends the command and its stdin, so that whoever reads never waits for a write.

    sent: bytes so far. error: what `source` raised. refused: the command itself could not be sent.
    """

    def __init__(self, channel: paramiko.Channel, text: str, source: BinaryIO) -> None:
        super().__init__(daemon=True, name="ssh-pump")
        self.sent = 0
        self.error: BaseException | None = None
        self.refused = False
        self._channel = channel
        # The outer shell stays, so that a death by signal comes back as 128 + its number.
        self._line = f"sh -c 'sh -c \"$0\"; exit $?' {shlex.quote(text)}"
        self._source = source

    def run(self) -> None:
        """Exec, copy, end of input. The window of the channel is the backpressure."""
        try:
            self._channel.exec_command(self._line)
        except _BROKEN:
            self.refused = True
            return
        for piece in self._pieces():
            # A command may well end without having read its input.
            try:
                self._channel.sendall(piece)
            except _BROKEN:
                return
            self.sent += len(piece)
        if self.error is None:
            with contextlib.suppress(*_BROKEN):
                self._channel.shutdown_write()

    def _pieces(self) -> Iterator[bytes]:
        try:
            while piece := self._source.read(SENT_AT_ONCE):
                yield piece
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread that waits for us raises it
            self.error = error


def _hang_bell(channel: paramiko.Channel) -> Bell:
    """Rung by whatever arrives on either stream, and by their end."""
    bell = Bell()
    for buffer in (channel.in_buffer, channel.in_stderr_buffer):
        buffer.set_event(bell)  # type: ignore[arg-type]  # set and clear are all that it calls
    return bell


_BROKEN: Final = (OSError, EOFError, paramiko.SSHException)


def _short(error: BaseException) -> str:
    """One line of at most 120 characters."""
    return " ".join(str(error).split())[:120] or type(error).__name__
