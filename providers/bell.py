"""A bell that poll() hears: one descriptor for several streams, and no ring is ever lost between them."""

import contextlib
import os
import select
import threading


class Bell:
    """Has `set` and `clear` like an event, for whoever rings; one reader waits by `fileno` or `wait`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)

    def fileno(self) -> int:
        """Readable after a ring."""
        return self._reader

    def set(self) -> None:
        """Ring."""
        # Under the lock: the descriptor may be somebody else's right after close.
        with self._lock, contextlib.suppress(BlockingIOError):
            if not self._closed:
                os.write(self._writer, b"!")

    def clear(self) -> None:
        """Nothing: who rang finds its stream empty, but another stream may have rung meanwhile."""

    def hush(self) -> None:
        """Take the rings away; to be called before looking, so that what comes after the look rings again."""
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._reader, 65536)) == 65536:
                pass

    def wait(self, seconds: float) -> None:
        """Until a ring, at most so long."""
        self._poll.poll(seconds * 1000)
        self.hush()

    def close(self) -> None:
        """Rings are lost from now on; may be called twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._reader)
                os.close(self._writer)
