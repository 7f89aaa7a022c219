"""The watcher: one thread over all follow channels of this process, and the claims on what it follows.

A job's end is seen by push. The claims lie in the database (follow_token, follow_until), so several processes
share the attempts, and what a dead one followed is taken over when its claim has run out.
"""

import contextlib
import os
import select as polling
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import structlog
from sqlalchemy import and_, exists, or_, select, update
from sqlalchemy.orm import Session

from jobs.errors import GpupoorError
from jobs.states import RUNNING, STARTING
from orchestrator.db.change import change
from orchestrator.db.models import Attempt, Job, Machine
from orchestrator.follower import Followed, Follower
from orchestrator.leases import MARGIN
from orchestrator.world import World

MOST: Final = 200
_CONNECTORS: Final = 32
_CLAIM_EVERY_S: Final = 1.0
_GATHER_S: Final = 0.05

_log = structlog.get_logger("watcher")


def claim(world: World, most: int = MOST) -> list[Followed]:
    """Take the right to follow attempts that nobody follows: their work may have started and has no end yet."""
    now = world.clock.now()
    free = or_(Attempt.follow_token.is_(None), Attempt.follow_until < now - MARGIN)
    wanted = (select(Job.id, Job.handle, Attempt.number, Attempt.machine, Attempt.remote_phase, Attempt.silent_since)
              .join(Attempt, and_(Attempt.job == Job.id, Attempt.number == Job.attempt_number))
              .join(Machine, Machine.id == Attempt.machine)
              .where(_works(), Machine.state == "alive", Attempt.exit_code.is_(None), free,
                     or_(Attempt.remote_phase.is_(None), Attempt.remote_phase != "lost"))
              .order_by(Job.submitted_at, Job.id).limit(most))
    with world.database.read() as session:
        rows = session.execute(wanted).all()
    if not rows:
        return []
    claimed = []
    with world.database.write() as session:
        for row in rows:
            token = world.ids.token()
            take = update(Attempt).where(Attempt.job == row.id, Attempt.number == row.number, free)
            if change(session, take.values(follow_token=token, follow_until=now + world.settings.lease,
                                            silent_since=None)) == 1:
                claimed.append(Followed(row.id, row.number, f"{row.handle}-{row.number}", row.machine, token,
                                        row.remote_phase, row.silent_since is not None))
    return claimed


def renew(world: World, followed: list[Followed]) -> list[Followed]:
    """Extend claims; those that are still ours, of jobs that still work."""
    until = world.clock.now() + world.settings.lease
    with world.database.write() as session:
        return [one for one in followed if _renew_one(session, one, until)]


def let_go(world: World, followed: list[Followed]) -> None:
    """Give claims back, so that another process, or this one after a restart, need not wait for their end."""
    with world.database.write() as session:
        for one in followed:
            session.execute(update(Attempt).where(*_ours(one)).values(follow_token=None, follow_until=None))


def _works() -> Any:
    return or_(and_(Job.state == STARTING, Job.phase == "setup"), and_(Job.state == RUNNING, Job.phase == "run"))


def _ours(one: Followed) -> tuple[Any, ...]:
    return Attempt.job == one.job, Attempt.number == one.number, Attempt.follow_token == one.token


def _renew_one(session: Session, one: Followed, until: int) -> bool:
    works = exists().where(Job.id == one.job, Job.attempt_number == one.number, _works())
    return change(session, update(Attempt).where(*_ours(one), works).values(follow_until=until)) == 1


class Watcher:
    """Follows every attempt that it can claim, in one thread; `start` it, `wake` it, `stop` it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._followers: list[Follower] = []
        self._connectors = ThreadPoolExecutor(_CONNECTORS, thread_name_prefix="connector")
        self._bell, self._bell_end = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._bell_end, False)
        self._stopping = threading.Event()
        self._claim_at = 0.0
        self._renew_at = 0
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Look for new attempts now. Safe from any thread."""
        self._claim_at = 0.0
        self._ring()

    def stop(self, limit_s: float = 3.0) -> None:
        """End the thread and give the claims back; jobs go on."""
        self._stopping.set()
        self._ring()
        self._thread.join(limit_s)
        self._connectors.shutdown(wait=False, cancel_futures=True)

    def turn(self) -> None:
        """One turn: claim, renew, take in what came."""
        now = self._world.clock.monotonic()
        if now >= self._claim_at:
            self._claim_at = now + _CLAIM_EVERY_S
            self._claim()
        self._renew()
        for follower in self._followers:
            self._pump(follower)
        self._followers = [follower for follower in self._followers if not follower.over]

    def _claim(self) -> None:
        room = MOST - len(self._followers)
        for followed in claim(self._world, room) if room > 0 else ():
            self._followers.append(Follower(self._world, followed, self._connectors.submit, self._ring))

    def _renew(self) -> None:
        now = self._world.clock.now()
        if now < self._renew_at or not self._followers:
            return
        self._renew_at = now + self._world.settings.lease // 3
        ours = renew(self._world, [follower.followed for follower in self._followers])
        for follower in self._followers:
            if follower.followed not in ours:
                follower.close()

    def _pump(self, follower: Follower) -> None:
        """One error, of whatever kind, must end neither the thread nor the job."""
        try:
            follower.pump(self._world.clock.monotonic())
        except GpupoorError as error:
            _log.warning("cannot store, trying again", tag=follower.followed.tag, error=str(error))
            self._stopping.wait(0.2)
        except Exception:  # noqa: BLE001
            _log.exception("following failed, starting over", tag=follower.followed.tag)
            follower.close()
            self._claim_at = self._world.clock.monotonic() + _CLAIM_EVERY_S
            with contextlib.suppress(GpupoorError):
                let_go(self._world, [follower.followed])

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.turn()
                self._wait()
            except GpupoorError as error:
                _log.warning("the watcher waits", error=str(error))
                self._stopping.wait(1.0)
            except Exception:  # noqa: BLE001  a watcher that dies silently leaves all jobs unwatched
                _log.exception("a turn of the watcher failed")
                self._stopping.wait(1.0)
        with contextlib.suppress(GpupoorError):
            self._end()

    def _end(self) -> None:
        for follower in self._followers:
            follower.close()
        let_go(self._world, [follower.followed for follower in self._followers])

    def _wait(self) -> None:
        """Until something comes, but not longer than a follower or the next claim wants; then gather a little."""
        now = self._world.clock.monotonic()
        waits = [max(self._claim_at - now, 0.0), *(follower.due_in(now) for follower in self._followers)]
        poll = polling.poll()
        poll.register(self._bell, polling.POLLIN)
        blind = False
        for follower in self._followers:
            for descriptor in follower.descriptors():
                if descriptor < 0:
                    blind = True
                else:
                    poll.register(descriptor, polling.POLLIN)
        ready = poll.poll(1000 * min([*waits, 0.05] if blind else waits))
        if any(descriptor == self._bell for descriptor, _ in ready):
            with contextlib.suppress(BlockingIOError):
                os.read(self._bell, 65536)
        elif ready:
            self._stopping.wait(_GATHER_S)

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._bell_end, b"!")
