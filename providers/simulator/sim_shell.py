"""Shell and Channel to a machine inside the process: the same words and bytes as over SSH, no thread, no socket."""

from collections.abc import Callable
from typing import BinaryIO, Final, TypeVar

from jobs.command import Command, Outcome
from jobs.money import SECOND
from providers.clock import Clock
from providers.shell import Channel, Shell, Unreachable
from providers.simulator.sim_job import ERROR_TEXT, LOG_TEXT, SimJob, stream
from providers.simulator.sim_machine import SimMachine

PIECE: Final = 1 << 20
T = TypeVar("T")
HEARTBEAT: Final = 5 * SECOND


class SimShell(Shell):
    """A connection to one machine. It breaks when the machine dies or restarts.

    switch(name): called before and after each act; whoever schedules may let others run there, or end us.
    breaks(): whether the connection breaks now; asked before each act and after it.
    """

    def __init__(
        self, machine: SimMachine, clock: Clock, switch: Callable[[str], None], breaks: Callable[[], bool]
    ) -> None:
        self.host_key = machine.host_key
        self._machine, self._clock, self._switch, self._breaks = machine, clock, switch, breaks
        self._life = machine.lives
        self._closed = False

    def perform(self, command: Command, stdin: bytes = b"") -> Outcome:
        """Run to the end."""
        return self._pass(command.kind, lambda: self._act(command, stdin))

    def put(self, command: Command, source: BinaryIO, progress: Callable[[int], None] = lambda _: None) -> Outcome:
        """Run with `source` as stdin; its bytes are read and forgotten, as no job here looks at files."""
        moved = 0
        while piece := source.read(PIECE):
            moved += len(piece)
            progress(moved)
        return self._pass(command.kind, lambda: self._act(command, b""))

    def get(self, command: Command, sink: Callable[[bytes], object]) -> Outcome:
        """Run and hand stdout to `sink`."""
        outcome = self._pass(command.kind, lambda: self._act(command, b""))
        sink(outcome.out)
        return Outcome(outcome.code, b"", outcome.err)

    def follow(self, command: Command) -> Channel:
        """Start to follow a log."""

        def start() -> Channel:
            self._reach(command.limit_s)
            return SimChannel(self._machine, self._clock, command)

        return self._pass(command.kind, start)

    def close(self) -> None:
        """End the connection."""
        self._closed = True

    def _pass(self, word: str, act: Callable[[], T]) -> T:
        self._switch(f"shell.{word}")
        if self._breaks():
            self._closed = True
            raise Unreachable("the connection broke before the command was sent")
        done = act()
        self._switch(f"shell.{word}.done")
        if self._breaks():
            self._closed = True
            raise Unreachable("the connection broke before the answer came")
        return done

    def _act(self, command: Command, stdin: bytes) -> Outcome:
        self._reach(command.limit_s)
        return self._machine.act(command, stdin)

    def _reach(self, limit_s: float) -> None:
        """Raises Unreachable: at once where the connection is broken, after the limit where nobody answers."""
        if self._closed or self._machine.lives != self._life or not self._machine.listens():
            raise Unreachable("the connection is broken")
        if self._machine.silent():
            self._clock.sleep(min(limit_s, 30.0))
            raise Unreachable(f"no answer in {min(limit_s, 30.0):g} s")


class SimChannel(Channel):
    """Follows one tag's log (or its stderr) by virtual time."""

    def __init__(self, machine: SimMachine, clock: Clock, command: Command) -> None:
        self._machine, self._clock = machine, clock
        self._tag = str(command.facts["tag"])
        offset = command.facts["offset"]
        assert isinstance(offset, int)
        self._offset = offset
        self._errors = command.kind == "follow_stderr"
        self._life = machine.lives
        self._shown: str | None = None
        self._beat = 0
        self._closed = self._ended = False

    def fileno(self) -> int:
        """None: ask `read`."""
        return -1

    def read(self) -> tuple[bytes, bytes, bool]:
        """What is there now. Raises Unreachable when the machine died or restarted, or after `close`."""
        if self._ended:
            return b"", b"", True
        if self._closed or self._machine.lives != self._life or not self._machine.listens():
            raise Unreachable("the connection is broken")
        if self._machine.silent():
            return b"", b"", False
        job = self._machine.job(self._tag)
        if job is None or not job.nonce:
            self._ended = True
            return b"", b"lost\n", True
        return self._piece(job)

    def close(self) -> None:
        """Let go."""
        self._closed = True

    def _piece(self, job: SimJob) -> tuple[bytes, bytes, bool]:
        now = self._machine.moment()
        log, errors = job.log_bytes(now), job.stderr_bytes(now)
        size, text = (errors, ERROR_TEXT) if self._errors else (log, LOG_TEXT)
        data = stream(text, self._offset, min(size, self._offset + PIECE))
        self._offset += len(data)
        code, phase = job.exit_code(now), job.phase(now)
        if code is not None and self._offset >= size:
            self._ended = True
            return data, f"end {code} {log} {errors}\n".encode(), True
        if code is None and (phase != self._shown or now - self._beat >= HEARTBEAT):
            self._shown, self._beat = phase, now
            return data, f"hb {self._machine.uptime()} {phase} {log} {errors}\n".encode(), False
        return data, b"", False
