"""Ctrl-C at a place of our choosing: raised anywhere, it can be lost in a callback that swallows exceptions."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether Ctrl-C was pressed. A second one acts at once, wherever the program is."""

    def __init__(self) -> None:
        self._pressed = False

    def check(self) -> None:
        """Raise KeyboardInterrupt when Ctrl-C was pressed."""
        if self._pressed:
            raise KeyboardInterrupt

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Inside, Ctrl-C is only noted. Outside the main thread nothing changes."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = signal.signal(signal.SIGINT, interrupt._hear)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
