"""One guarded change: how many rows it met tells whether the guard held; and an INSERT that may meet a row."""

from typing import Any, cast

from sqlalchemy import CursorResult, Delete, Update
from sqlalchemy.orm import Session


def change(session: Session, statement: Update | Delete) -> int:
    """Carry out an UPDATE or DELETE; the number of rows it changed (0: its guard did not hold)."""
    return cast("CursorResult[tuple[()]]", session.execute(statement)).rowcount


def insert_into(session: Session, table: Any) -> Any:
    """An INSERT in the words of this database, which has `on_conflict_do_nothing` and `on_conflict_do_update`."""
    if session.get_bind().dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # 50 ms and asyncio, only where it is used

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
