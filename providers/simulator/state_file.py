"""What a cloud remembers, on disk: one SQLite file in its state folder, held by one process at a time."""

import fcntl
import json
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class FolderHeldError(Exception):
    """Another process runs a cloud on this state folder."""


class StateFile:
    """Values of JSON by kind and key, and the log of requests. Nothing is durable before `commit`.

    Raises FolderHeldError when another process has the folder. One caller at a time, from any thread.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # A record lock: a forked host process does not inherit it, so it ends with this process however that ends.
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise FolderHeldError(f"another cloud runs on {folder}; stop it first or name another --state") from None
        self._rows = sqlite3.connect(folder / "cloud.sqlite", check_same_thread=False)
        self._rows.execute("pragma journal_mode = wal")
        self._rows.execute("pragma synchronous = full")
        self._rows.execute("create table if not exists kept (kind text, key text, value text, primary key (kind, key))")
        self._rows.execute("create table if not exists requests (number integer primary key, value text, status int)")
        self._rows.commit()

    def save(self, kind: str, key: str, value: object) -> None:
        """Keep `value` (None: drop it)."""
        if value is None:
            self._rows.execute("delete from kept where kind = ? and key = ?", (kind, key))
        else:
            # Not `insert or replace`: a row keeps its place, so that what came first is loaded first.
            text = "insert into kept values (?, ?, ?) on conflict (kind, key) do update set value = excluded.value"
            self._rows.execute(text, (kind, key, json.dumps(value)))

    def kept(self, kind: str) -> Mapping[str, Any]:
        """All values of a kind, in the order in which their keys were first kept."""
        found = self._rows.execute("select key, value from kept where kind = ? order by rowid", (kind,))
        return {key: json.loads(value) for key, value in found}

    def arrive(self, request: Mapping[str, object]) -> int:
        """Log a request that came in; its number."""
        number = self._rows.execute("insert into requests (value) values (?)", (json.dumps(request),)).lastrowid
        assert number is not None
        return number

    def answered(self, number: int, status: int) -> None:
        """Log what a request was answered."""
        self._rows.execute("update requests set status = ? where number = ?", (status, number))

    def requests(self) -> list[dict[str, Any]]:
        """All requests in the order of their arrival; status null: not answered."""
        found = self._rows.execute("select value, status from requests order by number")
        return [{**json.loads(value), "status": status} for value, status in found]

    def commit(self) -> None:
        """Make everything durable."""
        self._rows.commit()

    def close(self) -> None:
        """Let the folder go."""
        self._rows.commit()
        self._rows.close()
        os.close(self._lock)
