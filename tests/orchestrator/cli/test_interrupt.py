"""Ctrl-C while a job is followed: never lost, wherever it comes."""

import os
import signal

import pytest

from orchestrator.cli.interrupt import interruptible


def test_it_is_raised_where_it_is_looked_for() -> None:
    """Pressed inside a callback that swallows everything, it is still there at the next look."""
    with interruptible() as interrupt:
        interrupt.check()
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            pytest.fail("raised at a place that swallows it")
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()


def test_a_second_one_acts_at_once() -> None:
    """Whoever presses it twice does not wait; afterwards everything is as before."""
    before = signal.getsignal(signal.SIGINT)
    with interruptible(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
