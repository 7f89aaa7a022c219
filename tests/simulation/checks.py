"""The promises, checked after every move against the book and against the cloud's own truth."""

import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from jobs.states import TERMINAL, may_move, place
from orchestrator.settings import Settings
from tests.simulation.durable import DurableDatabase


class Broken(AssertionError):
    """A promise is broken."""


@dataclass(frozen=True)
class Truth:
    """A machine as the cloud knows it. cost: micro-dollars up to now. working: tags whose job process lives.
    starts: how often each tag was really started. taken_away: the simulated afternoon ended it."""

    id: str
    label: str
    alive: bool
    cost: int
    created_at: int
    ended_at: int | None
    working: frozenset[str]
    starts: tuple[tuple[str, int], ...]
    taken_away: bool


class Oracle(Protocol):
    """The cloud's own knowledge."""

    def machines(self) -> list[Truth]:
        """Every machine that ever was, in order of creation."""


@dataclass(frozen=True)
class Book:
    """The rows that the promises speak of. held: what open reservations hold, by machine."""

    jobs: list[sqlite3.Row]
    machines: list[sqlite3.Row]
    balances: list[sqlite3.Row]
    caps: dict[tuple[str, str], list[tuple[str, int | None]]]
    held: dict[str, int]


@dataclass
class Checks:
    """Looks at everything after a move. places: where each job was at the last look.

    Reads the file with plain SQL, beside the product's own code, and only when something was committed.
    """

    database: DurableDatabase
    settings: Settings
    oracle: Oracle
    places: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    _read_at: int = -1
    _book: Book | None = None

    def book(self) -> Book:
        """The rows as they are now."""
        if self._book is None or self._read_at != self.database.commits():
            self._read_at = self.database.commits()
            with sqlite3.connect(self.database.file) as connection:
                connection.row_factory = sqlite3.Row
                self._book = _read_book(connection)
        return self._book

    def after_move(self) -> None:
        """Raise Broken when a promise does not hold now."""
        fresh = self._read_at != self.database.commits()
        book, truths = self.book(), self.oracle.machines()
        if fresh:
            self._moves(book)
            self._counters(book)
        self._real_cost(book, truths)
        self._no_orphan(book, truths)
        self._one_run(truths)

    def _moves(self, book: Book) -> None:
        for job in book.jobs:
            now = place(job["state"], job["phase"])
            before = self.places.get(job["id"], "queued/")
            if not _in_one_move(before, now):
                raise Broken(f"moves: {job['id']} moved {before} -> {now}")
            self.places[job["id"]] = now

    def _limit(self, book: Book, balance: sqlite3.Row) -> int | None:
        scope, name, month = balance["scope"], balance["name"], balance["month"]
        if scope == "job":
            return next((job["budget"] for job in book.jobs if job["id"] == name), None)
        if scope in ("gpus", "per_hour"):
            return self.settings.max_gpus if scope == "gpus" else self.settings.max_per_hour
        in_force = [amount for of, amount in book.caps.get((scope, name), []) if of <= month]
        return in_force[-1] if in_force else None

    def _counters(self, book: Book) -> None:
        for balance in book.balances:
            limit, taken = self._limit(book, balance), balance["settled"] + balance["held"]
            if limit is not None and taken > limit:
                raise Broken(f"P1: {balance['scope']} {balance['name']} {balance['month']}: {taken} of {limit}")

    def _real_cost(self, book: Book, truths: list[Truth]) -> None:
        owner = {machine["label"].split("/")[0]: machine["job"] for machine in book.machines}
        real: Counter[str] = Counter()
        for truth in truths:
            real[owner.get(truth.label, "")] += truth.cost
        for job in book.jobs:
            if real[job["id"]] > job["budget"]:
                raise Broken(f"P1: {job['id']} has really cost {real[job['id']]} of {job['budget']}")

    def _no_orphan(self, book: Book, truths: list[Truth]) -> None:
        rows = {machine["label"]: machine for machine in book.machines}
        known = {machine["provider_id"]: machine for machine in book.machines}
        for truth in truths:
            row = known.get(truth.id) or rows.get(truth.label)
            if truth.id not in self.seen:
                self.seen.add(truth.id)
                if row is None or row["id"] not in book.held:
                    raise Broken(f"P2: {truth.id} was created without a row and a reservation")
                if truth.label in self.labels:
                    raise Broken(f"P2: {truth.id} is the second machine of one reservation")
                self.labels.add(truth.label)
            if row is not None and row["state"] == "gone" and row["provider_id"] == truth.id and truth.alive:
                raise Broken(f"P2: {truth.id} lives, its row says gone")

    def _one_run(self, truths: list[Truth]) -> None:
        working: Counter[str] = Counter()
        for truth in truths:
            for tag, count in truth.starts:
                if count > 1:
                    raise Broken(f"P3: {tag} was started {count} times on {truth.id}")
            for tag in truth.working if truth.alive else ():
                working[tag.rsplit("-", 1)[0]] += 1
        for handle, count in working.items():
            if count > 1:
                raise Broken(f"P3: {handle} runs on {count} machines at once")

    def _book_is_bill(self, truths: list[Truth]) -> None:
        """To the micro-dollar where the provider told start and end; where not, an upper bound that says so."""
        with sqlite3.connect(self.database.file) as connection:
            lines = _lines(connection)
        for truth in truths:
            line = lines.pop(truth.id, None) or lines.pop(truth.label, None)
            if line is None and truth.taken_away:
                continue  # gone before any answer or list showed it: nobody could have known of it
            booked, bound = line or (0, False)
            if booked < truth.cost or (booked > truth.cost and not bound):
                raise Broken(f"P5: the book says {booked} for {truth.id}, the bill {truth.cost}")
        unknown = {id: line for id, line in lines.items() if not line[1] and line[0]}
        if unknown:
            raise Broken(f"P5: booked machines that the cloud does not know: {unknown}")

    def at_the_end(self) -> None:
        """After the faults have ended and time has passed: all over, nothing lives, book = bill."""
        book, truths = self.book(), self.oracle.machines()
        alive = [truth.id for truth in truths if truth.alive]
        if alive:
            raise Broken(f"P2: still alive at the end: {alive}")
        still = [
            (job["id"], place(job["state"], job["phase"]), job["waiting_reason"])
            for job in book.jobs
            if job["state"] not in TERMINAL or job["phase"]
        ]
        if still:
            raise Broken(f"P4: not over at the end: {still}")
        self._book_is_bill(truths)
        holding = sum(balance["held"] for balance in book.balances)
        if holding:
            raise Broken(f"P1: {holding} still held at the end")


def _lines(connection: sqlite3.Connection) -> dict[str, tuple[int, bool]]:
    """Provider id, or label of a machine that was never seen -> (micro-dollars booked, whether they are our bound)."""
    query = """select coalesce(m.provider_id, m.label), coalesce(sum(e.micro), 0), coalesce(max(e.bound), 0)
               from machines m left join entries e on e.machine = m.id and e.kind in ('settle', 'overrun')
               group by m.id having m.provider_id is not null or e.key is not null"""
    return {id: (micro, bool(bound)) for id, micro, bound in connection.execute(query)}


def _read_book(connection: sqlite3.Connection) -> Book:
    def rows(query: str) -> list[sqlite3.Row]:
        return connection.execute(query).fetchall()

    caps: dict[tuple[str, str], list[tuple[str, int | None]]] = {}
    for cap in rows("select scope, name, month, amount from caps order by month"):
        caps.setdefault((cap["scope"], cap["name"]), []).append((cap["month"], cap["amount"]))
    return Book(
        rows("select id, state, phase, budget, waiting_reason from jobs"),
        rows("select id, job, label, provider_id, state from machines"),
        rows("select scope, name, month, settled, held from balances"),
        caps,
        {
            row["machine"]: row["total"]
            for row in rows("select machine, total from reservations where settled_at is null")
        },
    )


def _in_one_move(old: str, new: str) -> bool:
    """Whether one step leads from `old` to `new`; a job that ends with no machine is cleaned up at once."""
    return may_move(old, new) or (new.endswith("/") and may_move(old, f"{new}releasing"))
