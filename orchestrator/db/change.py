"""One guarded change: how many rows it met tells whether the guard held."""

from typing import cast

from sqlalchemy import CursorResult, Delete, Update
from sqlalchemy.orm import Session


def change(session: Session, statement: Update | Delete) -> int:
    """Carry out an UPDATE or DELETE; the number of rows it changed (0: its guard did not hold)."""
    return cast("CursorResult[tuple[()]]", session.execute(statement)).rowcount
