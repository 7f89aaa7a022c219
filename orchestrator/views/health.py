"""Is everything well: one check after the other, each with what to do if not. Nothing is mended here."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import exists, func, select
from sqlalchemy.exc import SQLAlchemyError

from jobs.errors import GpupoorError
from jobs.money import SECOND
from jobs.states import LIVE
from orchestrator.db.models import Event, Job, Machine, Turn
from orchestrator.views.alarms import COSTING, STILL_PERIODS, alarms
from orchestrator.views.instants import elapsed_text, rfc3339
from orchestrator.views.machines import machines

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from orchestrator.world import World

LEAST_FREE: Final = 500_000_000
ORCHESTRATOR_STILL: Final = 30 * SECOND
CLOCK_SLACK: Final = 10 * SECOND
BROKER_S: Final = 3
_PROBE: Final = "doctor/probe"


class Check(NamedTuple):
    """One line of `doctor -o json`."""

    name: str
    ok: bool
    text: str


def checks(world: World) -> Iterator[Check]:
    """Every check that needs a world. Network: one list per provider and region."""
    for name, look in _CHECKS:
        try:
            yield Check(name, *look(world))
        except (GpupoorError, OSError, SQLAlchemyError) as error:
            yield Check(name, False, str(error).splitlines()[0])


def _clock(world: World) -> tuple[bool, str]:
    """Nothing was written later than now: a clock that was set back would make limits last longer."""
    now = world.clock.now()
    with world.database.read() as session:
        last = max(_last(session, Turn.at), _last(session, Event.at), _last(session, Job.submitted_at))
    if last > now + CLOCK_SLACK:
        return False, f"the clock stands {elapsed_text(last - now)} before what was written last; set it right"
    return True, f"{rfc3339(now - now % SECOND)}, zone {world.settings.zone}"


def _last(session: Session, column: Any) -> int:
    return session.scalar(select(func.max(column))) or 0


def _keys(world: World) -> tuple[bool, str]:
    missing = [alarm["text"] for alarm in alarms(world) if alarm["code"] == "key_missing"]
    if missing:
        return False, "; ".join(missing)
    real = sorted(name for name, provider in world.providers.items() if not provider.facts.simulated)
    return (
        True,
        f"keys for {', '.join(real)}" if real else "no provider key; --mock needs none, gpupoor login stores one",
    )


def _database(world: World) -> tuple[bool, str]:
    from orchestrator.db.engine import parse, shown

    with world.database.write() as session:
        session.execute(select(func.count()).select_from(Turn))
    return True, shown(parse(world.settings.database_url))


def _broker(world: World) -> tuple[bool, str]:
    url = world.settings.broker_url
    if not url or url.startswith("memory:"):
        return True, "inside the orchestrator's own process"
    from kombu import connection

    untyped: Any = connection
    limits = {"socket_connect_timeout": BROKER_S, "socket_timeout": BROKER_S}
    try:
        with untyped.Connection(url, connect_timeout=BROKER_S, transport_options=limits) as broker:
            broker.ensure_connection(max_retries=1, timeout=BROKER_S)
            return True, str(broker.as_uri())
    except Exception as error:  # noqa: BLE001  # each transport has errors of its own; every one means the same here
        return False, f"the broker does not answer ({type(error).__name__}); jobs go on by the database alone, slower"


def _blobs(world: World) -> tuple[bool, str]:
    try:
        world.blobs.write(_PROBE, io.BytesIO(b"probe"))
        world.blobs.open(_PROBE).close()
        world.blobs.delete(_PROBE)
    except (OSError, KeyError) as error:
        return False, f"{world.settings.blobs_url} cannot be written and read: {error}"
    return True, world.settings.blobs_url


def _disk(world: World) -> tuple[bool, str]:
    free = shutil.disk_usage(world.settings.home).free
    text = f"{free / 1e9:.1f} GB free in {world.settings.home}"
    return free >= LEAST_FREE, text if free >= LEAST_FREE else f"{text}; logs and outputs need room: free some"


def _ballast(world: World) -> tuple[bool, str]:
    """Only an SQLite database has one; it is made by the first write."""
    from orchestrator.db.ballast import SIZE
    from orchestrator.db.engine import ConnectedDatabase

    database = world.database
    if not isinstance(database, ConnectedDatabase) or database.path is None:
        return True, "the database server's own affair"
    try:
        size = (database.path.parent / "ballast").stat().st_size
    except FileNotFoundError:
        size = 0
    if size < SIZE:
        return False, "the file that is freed when the disk is full is not there; free some space, it comes back"
    return True, f"{size // 10**6} MB stand by for a full disk"


def _guard(world: World) -> tuple[bool, str]:
    return _alive(world, "guard", STILL_PERIODS * world.settings.guard_every, _count_live(world)[0])


def _orchestrator(world: World) -> tuple[bool, str]:
    return _alive(world, "orchestrator", ORCHESTRATOR_STILL, sum(_count_live(world)))


def _alive(world: World, kind: str, still: int, needed: int) -> tuple[bool, str]:
    """Whether a process of this kind made a turn lately; where nothing lives, none is needed."""
    with world.database.read() as session:
        last = session.scalar(select(func.max(Turn.at)).where(Turn.kind == kind))
    age = None if last is None else world.clock.now() - last
    if age is not None and age <= still:
        return True, f"alive, last turn {elapsed_text(age)} ago"
    seen = "none runs" if age is None else f"the last turn was {elapsed_text(age)} ago"
    if needed:
        return False, f"{seen}, and something lives; gpupoor up -d"
    return True, f"{seen}; none is needed now"


def _count_live(world: World) -> tuple[bool, bool]:
    """Whether machines cost money, and whether jobs wait or run."""
    with world.database.read() as session:
        machine = session.scalar(select(exists().where(Machine.state.in_(COSTING))))
        job = session.scalar(select(exists().where(Job.state.in_(LIVE))))
    return bool(machine), bool(job)


def _strays(world: World) -> tuple[bool, str]:
    """Every provider answers, and no machine with our label is unknown to our rows.

    A simulated cloud that is off and holds nothing of ours is not missed.
    """
    with world.database.read() as session:
        play = session.scalar(select(exists().where(Machine.state.in_(COSTING), Machine.simulated.is_(True))))
    found = [
        machines(world, simulated) for simulated in ((False, True) if play or world.settings.mock_url else (False,))
    ]
    silent = [text for inventory in found for text in inventory.silent]
    rows = [row for inventory in found for row in inventory.machines]
    strays = [f"{row['provider']} {row['id']}" for row in rows if row["ours"] and row["job"] is None]
    foreign = sum(not row["ours"] for row in rows)
    if silent:
        return False, f"what lives is not known at {'; '.join(silent)}"
    if strays:
        return False, f"no row knows {', '.join(strays)}; gpupoor reap --adopt ID takes one"
    return True, f"{len(rows) - foreign} machine(s) of ours, {foreign} of others"


def _alarms(world: World) -> tuple[bool, str]:
    known = alarms(world)
    return not known, "; ".join(alarm["text"] for alarm in known) or "none"


_CHECKS: Final[tuple[tuple[str, Callable[[World], tuple[bool, str]]], ...]] = (
    ("clock", _clock),
    ("keys", _keys),
    ("database", _database),
    ("broker", _broker),
    ("blobs", _blobs),
    ("disk", _disk),
    ("ballast", _ballast),
    ("guard", _guard),
    ("orchestrator", _orchestrator),
    ("strays", _strays),
    ("alarms", _alarms),
)
