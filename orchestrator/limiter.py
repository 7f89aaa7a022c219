"""The limiter: how often a provider is asked, shared by all processes through the database.

Each kind of call has a bucket of its own, so a release never waits behind lists, rents or offers. A bucket
may go into debt: whoever takes a token that is not there yet waits, outside of any transaction, until it is.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from sqlalchemy import select, update

from jobs.money import SECOND
from orchestrator.db.change import insert_into
from orchestrator.db.models import RateToken
from orchestrator.world import Database
from providers.clock import Clock


@dataclass(frozen=True)
class Rate:
    """So many calls per second in the long run, and so many at once after a rest."""

    per_s: float
    burst: float


RATES: Final[Mapping[str, Rate]] = {
    "release": Rate(10, 30),
    "list": Rate(2, 10),
    "rent": Rate(2, 10),
    "offers": Rate(1, 5),
}
_DRAWN_FOR_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0


class SharedLimiter:
    """`orchestrator.world.Limiter`.

    free: providers that need no limit (own machines, the simulated cloud). key: the API key of a provider,
    for telling accounts apart; only a digest of it is stored.
    """

    def __init__(self, database: Database, clock: Clock, free: frozenset[str] = frozenset(),
                 key: Callable[[str], str] = lambda _: "", rates: Mapping[str, Rate] = RATES) -> None:
        self._database, self._clock, self._free, self._key, self._rates = database, clock, free, key, rates
        self._lock = threading.Lock()
        self._drawn: dict[tuple[str, str], tuple[int, float]] = {}

    def wait(self, provider: str, kind: str) -> None:
        """Return when a call of this kind may go out. Raises Unanswered when the database is silent."""
        if provider in self._free or self._take_drawn(provider, kind):
            return
        rate = self._rates[kind]
        count = max(1, int(rate.per_s / 4))
        missing = self._draw(provider, kind, rate, count)
        if missing > 0:
            self._clock.sleep(min(missing / rate.per_s, _LONGEST_WAIT_S))
        elif count > 1:
            with self._lock:
                self._drawn[provider, kind] = (count - 1, self._clock.monotonic() + _DRAWN_FOR_S)

    def _take_drawn(self, provider: str, kind: str) -> bool:
        """A token that this process drew ahead; those of a fast bucket come several at a time."""
        with self._lock:
            left, until = self._drawn.get((provider, kind), (0, 0.0))
            if left < 1 or self._clock.monotonic() > until:
                return False
            self._drawn[provider, kind] = (left - 1, until)
            return True

    def _draw(self, provider: str, kind: str, rate: Rate, count: int) -> float:
        """Take `count` tokens; how many of them are not there yet."""
        now = self._clock.now()
        key_hash = sha256(self._key(provider).encode()).hexdigest()[:16]
        where = (RateToken.provider == provider, RateToken.key_hash == key_hash, RateToken.kind == kind)
        with self._database.write() as session:
            full = insert_into(session, RateToken).values(provider=provider, key_hash=key_hash, kind=kind,
                                                          tokens=rate.burst, at=now)
            session.execute(full.on_conflict_do_nothing())
            row = session.execute(select(RateToken.tokens, RateToken.at).where(*where).with_for_update()).one()
            rest = max(now - row.at, 0) / SECOND
            debt_allowed = -_LONGEST_WAIT_S * rate.per_s
            tokens = max(min(row.tokens + rest * rate.per_s, rate.burst) - count, debt_allowed)
            session.execute(update(RateToken).where(*where).values(tokens=tokens, at=now))
        return -tokens
