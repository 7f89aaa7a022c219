"""A job on a machine that is simulated inside the process: what it would do, computed from times alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from jobs.money import SECOND

LOG_TEXT: Final = b"the work goes on and says so in this line\n"
ERROR_TEXT: Final = b"and this is a complaint\n"


@dataclass(frozen=True)
class FakeJob:
    """What the job of a tag does. Seconds from its start; bytes per second while setup and run go on.

    save_s: how long it works on after TERM (None: it ignores TERM). term_exit: its exit code then.
    outputs: path -> bytes, there once the run has begun; `late_outputs` only after a run of its full length.
    """

    duration_s: float = 60.0
    setup_s: float = 0.0
    setup_exit: int = 0
    exit_code: int = 0
    log_bytes_s: float = 20.0
    stderr_bytes_s: float = 0.0
    save_s: float | None = 1.0
    term_exit: int = 143
    outputs: Mapping[str, bytes] = field(default_factory=dict)
    late_outputs: Mapping[str, bytes] = field(default_factory=dict)


@dataclass
class SimJob:
    """One tag on one machine. Instants are cloud microseconds; None: has not happened.

    term_at, kill_at: when it was or will be sent TERM, KILL (the first counts).
    """

    nonce: str = ""
    tombstone: bool = False
    unpacked: bool = False
    prepared: bool = False
    work: FakeJob = field(default_factory=FakeJob)
    started_at: int | None = None
    term_at: int | None = None
    kill_at: int | None = None

    def term(self, at: int) -> None:
        """TERM reaches it at `at`, unless an earlier one does."""
        self.term_at = at if self.term_at is None else min(self.term_at, at)

    def kill(self, at: int) -> None:
        """KILL reaches it at `at`, unless an earlier one does."""
        self.kill_at = at if self.kill_at is None else min(self.kill_at, at)

    def shift(self, since: int, duration: int) -> None:
        """It was frozen from `since` for `duration`: whatever was still to come comes so much later."""
        if self.started_at is not None:
            over = self.end()[0] <= since
            self.started_at += 0 if over else duration
        self.term_at = _later(self.term_at, since, duration)
        self.kill_at = _later(self.kill_at, since, duration)

    def end(self) -> tuple[int, int]:
        """(when it ends, exit code) as far as is known now. It must have been started."""
        assert self.started_at is not None
        setup_end = self.started_at + round(self.work.setup_s * SECOND)
        if self.work.setup_exit:
            found = (setup_end, self.work.setup_exit)
        else:
            found = (setup_end + round(self.work.duration_s * SECOND), self.work.exit_code)
        if self.term_at is not None and self.term_at < found[0] and self.work.save_s is not None:
            at = self.term_at + round(self.work.save_s * SECOND)
            found = min(found, (at, self.work.term_exit), key=lambda one: one[0])
        if self.kill_at is not None and self.kill_at < found[0]:
            found = (max(self.kill_at, self.started_at), 137)
        return found

    def over(self, now: int) -> bool:
        """Whether nothing of it lives at `now`."""
        return self.started_at is None or self.end()[0] <= now

    def exit_code(self, now: int) -> int | None:
        """Its exit code, once it ended."""
        return self.end()[1] if self.started_at is not None and self.end()[0] <= now else None

    def phase(self, now: int) -> str:
        """none, setup or run; the last one stays after the end."""
        if self.started_at is None:
            return "none"
        setup_end = self.started_at + round(self.work.setup_s * SECOND)
        return "setup" if min(now, self.end()[0]) < setup_end or self.work.setup_exit else "run"

    def log_bytes(self, now: int) -> int:
        """Length of the combined log."""
        return self._bytes(now, self.work.log_bytes_s)

    def stderr_bytes(self, now: int) -> int:
        """Length of what went to stderr."""
        return self._bytes(now, self.work.stderr_bytes_s)

    def _bytes(self, now: int, per_second: float) -> int:
        if self.started_at is None:
            return 0
        return int(max(min(now, self.end()[0]) - self.started_at, 0) * per_second / SECOND)

    def outputs(self, now: int) -> dict[str, bytes]:
        """What lies in its folder: path -> bytes."""
        if self.phase(now) != "run":
            return {}
        assert self.started_at is not None
        whole = self.end()[0] >= self.started_at + round((self.work.setup_s + self.work.duration_s) * SECOND)
        late = self.work.late_outputs if whole and self.over(now) else {}
        return {**self.work.outputs, **late}


def stream(text: bytes, offset: int, end: int) -> bytes:
    """Bytes offset..end of `text` repeated for ever."""
    if end <= offset:
        return b""
    start = offset % len(text)
    times = (start + end - offset) // len(text) + 1
    return (text * times)[start : start + end - offset]


def _later(instant: int | None, since: int, duration: int) -> int | None:
    return instant + duration if instant is not None and instant > since else instant
