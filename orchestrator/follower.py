"""A follower: reads what one attempt prints, and notes on the attempt's row what it heard.

`pump` never waits for the machine, so that one thread can serve all followers, and a simulation can call it
by itself. What was read and not stored yet is thrown away when a connection breaks and read again: the offset in
the database is the truth, so no byte is lost or doubled wherever a process dies.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from sqlalchemy import select, update

from jobs.errors import GpupoorError
from jobs.script.follow import follow, follow_stderr
from orchestrator import log_store
from orchestrator.db.change import change
from orchestrator.db.models import Attempt, Machine
from orchestrator.snapshot import open_shell
from orchestrator.world import World
from providers.shell import Channel, ShellError, WrongHostKey

SILENT_S: Final = 20.0
GATHER_S: Final = 0.5
_ASLEEP_S: Final = 5.0
_MOST_KEPT: Final = 4 * log_store.CHUNK
_BACKOFF_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0)
_END_WAIT_S: Final = 60.0

_log = structlog.get_logger("watcher")


@dataclass(frozen=True)
class Followed:
    """An attempt that this process follows: what `claim` found.

    token: the right to write. phase, silent: what the follower before had noted.
    """

    job: str
    number: int
    tag: str
    machine: str
    token: str
    phase: str | None = None
    silent: bool = False


@dataclass
class _Stream:
    """One stream on its way home. stored: bytes in the database; waiting: read and not stored yet."""

    name: str
    channel: Channel
    stored: int
    waiting: bytearray = field(default_factory=bytearray)
    since: float = 0.0
    ended: bool = False


class Follower:
    """Follows one attempt until its end, its loss, or until somebody else follows it.

    connect_soon: runs a call that may block (a connection being made) now or later, anywhere.
    wake: called when that call has come to an end.
    """

    def __init__(self, world: World, followed: Followed, connect_soon: Callable[[Callable[[], None]], object],
                 wake: Callable[[], None] = lambda: None) -> None:
        self.followed = followed
        self.over = False
        self._world, self._connect_soon, self._wake = world, connect_soon, wake
        self._streams: tuple[_Stream, ...] = ()
        self._made: tuple[_Stream, ...] | GpupoorError | None = None
        self._connecting = False
        self._retry_at, self._failures = 0.0, 0
        self._heard = self._pumped = self._connected = world.clock.monotonic()
        self._phase, self._silent = followed.phase, followed.silent
        self._notes = b""
        self._end: tuple[int, int, int] | None = None
        self._end_heard = 0.0

    def pump(self, now: float) -> bool:
        """Take in what is there and store what is due; False when there is nothing more to follow.

        now: real seconds, of the world's monotonic clock. Raises Unanswered when the database is silent
        or the disk full: call again later.
        """
        if now - self._pumped > _ASLEEP_S:
            self._heard = now  # we slept, not the machine: count its silence from here
            self._silent = self._silent and not self._write({"silent_since": None})
        self._pumped = now
        try:
            if self._streams or self._take_connection(now):
                self._read(now)
                self._store(now)
        except ShellError as error:
            self._break_off(now, error)
        except log_store.NotFollowing:
            self.close()
        if not self.over:
            self._judge_silence(now)
        return not self.over

    def descriptors(self) -> list[int]:
        """What to poll for; a stream that has enough waiting is left out."""
        return [s.channel.fileno() for s in self._streams if not s.ended and len(s.waiting) < _MOST_KEPT]

    def due_in(self, now: float) -> float:
        """Seconds until pump has something to do although nothing came."""
        if any(stream.waiting for stream in self._streams) or self._end:
            return GATHER_S / 2
        return 1.0 if self._streams else min(max(self._retry_at - now, 0.05), 1.0)

    def close(self) -> None:
        """Stop following here; the job goes on, and another process may follow it."""
        self.over = True
        self._let_go_channels()

    def _ours(self) -> list[Any]:
        return [Attempt.job == self.followed.job, Attempt.number == self.followed.number,
                Attempt.follow_token == self.followed.token]

    # -- the connection

    def _take_connection(self, now: float) -> bool:
        """Whether a connection is there now; starts to make one when it is time."""
        made, self._made = self._made, None
        if made is None:
            if not self._connecting and now >= self._retry_at:
                self._connecting = True
                self._connect_soon(self._connect)
                made, self._made = self._made, None
            if made is None:
                return False
        self._connecting = False
        if isinstance(made, WrongHostKey):
            self._write_over({"remote_phase": "lost"})
            return False
        if isinstance(made, GpupoorError):
            raise made if isinstance(made, ShellError) else ShellError(str(made))
        self._streams, self._notes, self._end, self._connected = made, b"", None, now
        return True

    def _connect(self) -> None:
        """Connect and open both channels at the stored offsets. Blocks; runs in another thread than pump."""
        made: tuple[_Stream, ...] | GpupoorError
        try:
            made = self._open_streams()
        except GpupoorError as error:
            made = error
        except Exception as error:  # noqa: BLE001  whatever it is, this follower must try again
            _log.exception("cannot follow, trying again", tag=self.followed.tag)
            made = ShellError(f"{type(error).__name__}: {error}")
        self._made = made
        if self.over and isinstance(made, tuple):
            for stream in made:
                _close(stream.channel)
        self._wake()

    def _open_streams(self) -> tuple[_Stream, ...]:
        world, tag = self._world, self.followed.tag
        with world.database.read() as session:
            machine = session.get_one(Machine, self.followed.machine)
            stored = session.execute(select(Attempt.log_bytes, Attempt.stderr_bytes).where(*self._ours())).one_or_none()
        if stored is None:
            raise ShellError("somebody else follows now")
        shell = open_shell(world, machine)
        log = shell.follow(follow(tag, stored.log_bytes))
        try:
            errors = shell.follow(follow_stderr(tag, stored.stderr_bytes))
        except BaseException:
            _close(log)
            raise
        return _Stream("log", log, stored.log_bytes), _Stream("stderr", errors, stored.stderr_bytes)

    def _break_off(self, now: float, error: ShellError) -> None:
        """Throw away what is not stored and connect again, a little later each time."""
        self._let_go_channels()
        pause = _BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)]
        self._failures += 1
        self._retry_at = now + pause
        _log.info("connection lost, trying again", tag=self.followed.tag, seconds=pause, error=str(error))

    def _let_go_channels(self) -> None:
        streams, self._streams = self._streams, ()
        for stream in streams:
            _close(stream.channel)

    # -- what comes in

    def _read(self, now: float) -> None:
        for stream in self._streams:
            if stream.ended or len(stream.waiting) >= _MOST_KEPT:
                continue
            out, notes, stream.ended = stream.channel.read()
            if out:
                stream.since = stream.since if stream.waiting else now
                stream.waiting += out
            if stream.name == "log" and notes:
                self._hear(notes, now)
                if self.over:
                    return
        log = self._streams[0]
        if log.ended and self._end is None:
            raise ShellError("the follower on the machine ended without telling the job's end")

    def _hear(self, notes: bytes, now: float) -> None:
        *lines, self._notes = (self._notes + notes).split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").split()
            if words[:1] == ["hb"] and len(words) == 5:
                self._heard, self._failures = now, 0
                self._note_life(words[2])
            elif words[:1] == ["end"] and len(words) == 4:
                self._heard, self._end_heard = now, self._end_heard or now
                self._end = (int(words[1]), int(words[2]), int(words[3]))
            elif words == ["lost"]:
                self._write_over({"remote_phase": "lost"})
                return

    def _note_life(self, phase: str) -> None:
        changes: dict[str, Any] = {}
        if phase != self._phase:
            changes["remote_phase"] = phase
        if self._silent:
            changes["silent_since"] = None
        if changes and self._write(changes):
            self._phase, self._silent = phase, False

    def _judge_silence(self, now: float) -> None:
        if now - self._heard > SILENT_S and not self._silent:
            self._silent = self._write({"silent_since": self._world.clock.now()})
        if self._streams and now - max(self._heard, self._connected) > SILENT_S:
            # A frozen peer looks like a quiet one; only a new connection can tell.
            self._break_off(now, ShellError(f"no heartbeat for {SILENT_S:.0f} s"))
            self._world.shells.drop(self.followed.machine)

    # -- what is stored

    def _store(self, now: float) -> None:
        for stream in self._streams:
            while stream.waiting and (len(stream.waiting) >= log_store.CHUNK or now - stream.since >= GATHER_S
                                      or self._end is not None):
                self._store_piece(stream)
        if self._end is not None and self._streams:
            self._finish(now, *self._end)

    def _store_piece(self, stream: _Stream) -> None:
        piece = bytes(stream.waiting[:log_store.CHUNK])
        stored = log_store.append(self._world, self.followed.job, self.followed.number, stream.name, stream.stored,
                                  piece, self.followed.token)
        if stored != stream.stored + len(piece):
            raise ShellError("the log was stored further by somebody else")
        stream.stored = stored
        del stream.waiting[:len(piece)]

    def _finish(self, now: float, code: int, log_bytes: int, stderr_bytes: int) -> None:
        """Book the end once both streams are home, or when the rest did not come for a minute."""
        log, errors = self._streams
        if log.stored < log_bytes or errors.stored < stderr_bytes:
            if now - self._end_heard < _END_WAIT_S and not (log.ended and errors.ended):
                return
            if now - self._end_heard < _END_WAIT_S:
                raise ShellError("the streams ended before all was there")
            _log.warning("the end of the log did not come", tag=self.followed.tag)
        self._write_over({"exit_code": code, "work_ended_at": self._world.clock.now(), "silent_since": None})

    def _write(self, changes: dict[str, Any]) -> bool:
        """Change the attempt's row and ring; False when it is followed by somebody else, and over then."""
        with self._world.database.write() as session:
            changed = change(session, update(Attempt).where(*self._ours()).values(changes)) == 1
        if changed:
            self._world.doorbell.ring("job", self.followed.job)
        else:
            self.close()
        return changed

    def _write_over(self, changes: dict[str, Any]) -> None:
        self._write({**changes, "follow_token": None, "follow_until": None})
        self.close()


def _close(channel: Channel) -> None:
    with suppress(ShellError, OSError):
        channel.close()
