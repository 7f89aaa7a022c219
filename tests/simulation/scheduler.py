"""The seeded scheduler: steps, followers and guards as greenlets of processes that may die at any point.

Synchronous product code runs unchanged. Every call to a provider or a machine and every named crash point
hands the baton back; the scheduler decides by its seed who runs next and how much time has passed.
A crash abandons a process's greenlets and poisons its World: kill -9 runs no `finally`.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from greenlet import GreenletExit, getcurrent, greenlet


class Killed(BaseException):
    """Raised by everything that a dead process still touches, so that nothing of it has an effect."""


@dataclass
class Process:
    """A process of ours. open_transactions: looked at whenever the baton is handed over."""

    name: str
    alive: bool = True
    open_transactions: int = 0
    running: list["Task"] = field(default_factory=list)

    def check(self) -> None:
        """Raise Killed when this process is dead."""
        if not self.alive:
            raise Killed(self.name)


@dataclass
class Task:
    """One greenlet of a process. point: the place at which it handed the baton back."""

    what: str
    process: Process
    body: greenlet
    point: str = "start"
    wake_at: int = 0


class Scheduler:
    """Runs tasks of processes one move at a time, by a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.hub = getcurrent()
        self.tasks: list[Task] = []
        self.graveyard: list[greenlet] = []
        self.moves = 0
        self.trace: list[str] = []
        self.current: Task | None = None

    def start(self, process: Process, what: str, act: Callable[[], object]) -> None:
        """A new task; it runs when the dice say so."""

        def body() -> None:
            with suppress(Killed, GreenletExit):
                act()

        task = Task(what, process, greenlet(body, parent=self.hub))
        self.tasks.append(task)
        process.running.append(task)

    def switch(self, point: str, wake_at: int = 0) -> None:
        """Called by product code wherever the outside is touched: hand the baton back, go on when chosen."""
        task = self.current
        if task is None or getcurrent() is self.hub:
            return
        task.process.check()
        assert task.process.open_transactions == 0, f"{task.what}: the baton is handed over at {point} in a transaction"
        task.point, task.wake_at = point, wake_at
        self.hub.switch()
        task.process.check()

    def step(self, now: int) -> bool:
        """Let one task that is not asleep go on; False when there is none."""
        ready = [task for task in self.tasks if task.wake_at <= now]
        if not ready:
            return False
        task = self.dice.choice(ready)
        self.current = task
        self.moves += 1
        self.trace.append(f"{task.process.name} {task.what} {task.point}")
        try:
            task.body.switch()
        finally:
            self.current = None
        if task.body.dead:
            self._forget(task)
        return True

    def _forget(self, task: Task) -> None:
        self.tasks = [other for other in self.tasks if other is not task]
        task.process.running = [other for other in task.process.running if other is not task]

    def kill(self, process: Process) -> None:
        """kill -9: its tasks stand still for ever, and what they would still do has no effect."""
        process.alive = False
        self.trace.append(f"kill {process.name} at {[task.point for task in process.running]}")
        for task in list(process.running):
            self.graveyard.append(task.body)
            self._forget(task)
