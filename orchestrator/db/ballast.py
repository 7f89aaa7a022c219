"""Ballast: a file that is thrown away when the disk is full, so that the ends of jobs can still be booked."""

import errno
import os
from pathlib import Path
from typing import Final

from providers.clock import Clock

SIZE: Final = 16_000_000
_LOOK_EVERY_S: Final = 60.0


class Ballast:
    """16 MB in `folder`, there from the first write on; made again when there is room for it four times."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._file = folder / "ballast"
        self._clock = clock
        self._look_at = 0.0

    def free(self) -> None:
        """Throw the ballast away; silent when it is gone already."""
        self._file.unlink(missing_ok=True)
        self._look_at = self._clock.monotonic() + _LOOK_EVERY_S

    def restore(self) -> None:
        """Make it if it is missing and there is room; looks at the disk once a minute at most."""
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY_S
        try:
            if self._file.stat().st_size >= SIZE:
                return
        except FileNotFoundError:
            pass
        room = os.statvfs(self._file.parent)
        if room.f_bavail * room.f_frsize >= 4 * SIZE:
            self._make()

    def _make(self) -> None:
        aside = self._file.with_name(f"ballast.{os.getpid()}")
        try:
            with aside.open("wb") as file:
                # Real blocks, not a hole; a file system that compresses would need chance bytes, few homes do.
                file.write(b"\xa5" * SIZE)
            aside.replace(self._file)
        except OSError as error:
            aside.unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
