"""The guard: a process of its own that outlives its parent while machines live (`python -m orchestrator.guard`).

It reads the providers' lists, the labels and the database; it only destroys what is overdue or
unowned, warns, and rings. A provider call that hangs blocks only its own thread.
"""

import os
import socket
import threading
from dataclasses import dataclass, field

import structlog
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from jobs.errors import GpupoorError
from jobs.money import SECOND
from orchestrator.db.models import Machine, Turn
from orchestrator.reap import Report, reap_region
from orchestrator.world import World

log = structlog.get_logger()

LOOK_S = 0.5  # real seconds between two looks at the clock
HUNG_S = 120.0  # real seconds, twice what one call may take
ORPHAN_AFTER = 30 * SECOND  # an orchestrator that has not been seen for so long is over


@dataclass
class Guard:
    """Turns of the guard, one thread per provider and region."""

    world: World
    busy: dict[tuple[str, str], tuple[threading.Thread, float]] = field(default_factory=dict)

    def turn(self) -> None:
        """Start a look at every region whose last look has ended, or hangs for so long that nothing may come of it."""
        now = self.world.clock.monotonic()
        for name, provider in sorted(self.world.providers.items()):
            for region in provider.facts.regions:
                before = self.busy.get((name, region))
                if before is not None and before[0].is_alive() and now - before[1] < HUNG_S:
                    log.warning("guard.still_waiting", provider=name, region=region)
                    continue
                thread = threading.Thread(
                    target=self._look, args=(name, region), daemon=True, name=f"guard {name} {region}"
                )
                self.busy[name, region] = (thread, now)
                thread.start()
        self._note_turn()

    def _look(self, provider: str, region: str) -> None:
        report = Report()
        try:
            reap_region(self.world, provider, region, report)
        except Exception:  # the guard goes on whatever one look meets
            log.exception("guard.failed", provider=provider, region=region)
        if report.destroyed or report.unreachable:
            log.info("guard.turn", provider=provider, destroyed=report.destroyed, unreachable=report.unreachable)

    def _note_turn(self) -> None:
        now = self.world.clock.now()
        host, pid = socket.gethostname(), os.getpid()
        key = f"guard:{host}:{pid}"
        try:
            with self.world.database.write() as session:
                row = session.get(Turn, key)
                if row is None:
                    session.add(Turn(process=key, kind="guard", host=host, pid=pid, at=now, started_at=now))
                else:
                    row.at = now
        except (SQLAlchemyError, GpupoorError) as error:
            log.warning("guard.no_database", error=str(error))

    def needed(self) -> bool:
        """Whether machines live or an orchestrator does; a database that cannot be read needs a guard too."""
        now = self.world.clock.now()
        try:
            with self.world.database.read() as session:
                live = session.execute(
                    select(func.count()).select_from(Machine).where(Machine.state != "gone")
                ).scalar_one()
                parents = session.execute(
                    select(func.count())
                    .select_from(Turn)
                    .where(Turn.kind == "orchestrator", Turn.at > now - ORPHAN_AFTER)
                ).scalar_one()
        except (SQLAlchemyError, GpupoorError):
            return True
        return bool(live or parents)

    def run(self) -> None:
        """Turn by turn, each guard_every of the world's time, until nobody needs a guard."""
        due = self.world.clock.now()
        while True:
            now = self.world.clock.now()
            if now >= due or due - now > 2 * self.world.settings.guard_every:
                self.turn()
                due = self.world.clock.now() + self.world.settings.guard_every
                if not self.needed():
                    log.info("guard.not_needed")
                    return
            self.world.clock.sleep(LOOK_S)


def main() -> None:
    """The process: one world, turns until nobody needs it."""
    from orchestrator import logs, wiring

    logs.set_up()
    Guard(wiring.world(wiring.settings())).run()


if __name__ == "__main__":
    main()
