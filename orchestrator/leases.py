"""One worker per job and per machine at a time: a token with an end, checked by every write.

A lease that ran out may be taken by anybody MARGIN after its end; its first holder's
writes then match no row and change nothing.
"""

from sqlalchemy import or_, update
from sqlalchemy.orm import Session

from jobs.money import SECOND
from orchestrator.db.change import change
from orchestrator.db.models import Job, Machine

MARGIN = 10 * SECOND
_TABLES: dict[str, type[Job] | type[Machine]] = {"job": Job, "machine": Machine}


def take(session: Session, kind: str, id: str, token: str, now: int, until: int) -> bool:
    """Take the lease of a row if it is free; whether it is ours now."""
    table = _TABLES[kind]
    free = or_(table.lease_token.is_(None), table.lease_until < now - MARGIN)
    return change(session, update(table).where(table.id == id, free).values(lease_token=token, lease_until=until)) == 1


def renew(session: Session, kind: str, id: str, token: str, until: int) -> bool:
    """Move the end of a lease that is still ours; False: it is not."""
    table = _TABLES[kind]
    ours = update(table).where(table.id == id, table.lease_token == token)
    return change(session, ours.values(lease_until=until)) == 1


def let_go(session: Session, kind: str, id: str, token: str) -> bool:
    """Give the lease back; False: it was not ours any more, and whoever asked must change nothing."""
    table = _TABLES[kind]
    ours = update(table).where(table.id == id, table.lease_token == token)
    return change(session, ours.values(lease_token=None, lease_until=None)) == 1
