"""Showing what a command prints while it prints it, and keeping every byte for the proofs."""

import os
import select
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType

import click

from jobs.errors import GpupoorError
from providers.clock import RealClock

_INDENT = "    "


class TooSlow(GpupoorError):
    """A command did not come to the awaited point in time."""


class Viewer:
    """One running command. out, err: all that it wrote so far; most_lines: show no more of them than that.

    On a terminal lines that draw themselves again are shown as they come; elsewhere each line once, as it ended.
    """

    def __init__(self, process: subprocess.Popen[bytes], clock: RealClock) -> None:
        assert process.stdout is not None and process.stderr is not None
        self._process, self._clock = process, clock
        self._pipes = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
        self.out, self.err = self._pipes.values()
        self._open = set(self._pipes)
        self._live = sys.stdout.isatty()
        self._lines = dict.fromkeys(self._pipes, b"")
        self._shown, self._at_start = 0, True
        self.most_lines: int | None = None

    def __enter__(self) -> "Viewer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the command where it still runs; what it works for does not notice."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.poll()

    def show(self, until: Callable[[], bool] = lambda: False, limit_s: float = 120.0) -> None:
        """Show what it prints until it ends or `until()` holds. Raises TooSlow after limit_s."""
        give_up = self._clock.monotonic() + limit_s
        while self._open and not until():
            if self._clock.monotonic() > give_up:
                raise TooSlow(f"{self._process.args[-1]!r} did not come to its point within {limit_s:.0f} s")  # type: ignore[index]
            for number in select.select(list(self._open), [], [], 0.1)[0]:
                self._take(number)
        if not self._open:
            self._process.wait()

    def _take(self, number: int) -> None:
        data = os.read(number, 65536)
        if data:
            self._pipes[number] += data
        else:
            self._open.discard(number)
        if self._live and self.most_lines is None:
            self._draw(data.decode(errors="replace"))
        else:
            self._print_lines(number, data or b"\n" * bool(self._lines[number]))

    def _draw(self, text: str) -> None:
        if not text:
            return
        first, ends = _INDENT * self._at_start, text.endswith("\n")
        body = text.removesuffix("\n").replace("\n", f"\n{_INDENT}").replace("\r", f"\r{_INDENT}")
        click.echo(first + body, nl=ends)
        self._at_start = ends

    def _print_lines(self, number: int, data: bytes) -> None:
        *lines, self._lines[number] = (self._lines[number] + data).split(b"\n")
        for line in lines:
            self._shown += 1
            if self.most_lines is not None and self._shown > self.most_lines:
                if self._shown == self.most_lines + 1:
                    click.echo(f"{_INDENT}...")
                continue
            click.echo(_INDENT + line.decode(errors="replace").rstrip("\r").rsplit("\r", 1)[-1].rstrip())
