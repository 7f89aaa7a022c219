"""The tables. Amounts: whole micro-dollars. Instants and durations: whole microseconds. Ids: text.

A row that was read is a picture of one moment: nobody sets its attributes. Every change is
an UPDATE with its guard in the WHERE (a lease token, a state), so a late writer changes nothing.
"""

from typing import ClassVar

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Text,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import JSON, Float

from jobs.states import CLEANUP, PLACES, RESULTS

Micros = BigInteger


def _one_of(column: str, words: tuple[str, ...]) -> str:
    return f"{column} in ({', '.join(repr(word) for word in words)})"


class Table(DeclarativeBase):
    """Base of all tables."""

    type_annotation_map: ClassVar = {int: BigInteger, str: Text, float: Float, bytes: LargeBinary, dict: JSON}


class Installation(Table):
    """One row: who we are. id is part of every label (8 lower-case letters and digits)."""

    __tablename__ = "installations"
    id: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[int]


class Job(Table):
    """What a user submitted and where it stands. wish: null or 'cancel', looked at first by every step.

    waiting_on: the counter ('scope/name/month') that had no room for it.
    """

    __tablename__ = "jobs"
    id: Mapped[str] = mapped_column(primary_key=True)
    handle: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    project: Mapped[str | None]
    user: Mapped[str]
    simulated: Mapped[bool]
    folder: Mapped[str | None]
    burst: Mapped[str | None]
    spec: Mapped[str]
    spec_hash: Mapped[str]
    reuse_hash: Mapped[str | None]
    bundle: Mapped[str | None]
    secrets_sealed: Mapped[bytes | None]
    limits: Mapped[dict] = mapped_column(default=dict)
    git: Mapped[dict | None]
    no_fuse_ok: Mapped[bool] = mapped_column(default=False)
    priority: Mapped[int] = mapped_column(default=0)
    gpus: Mapped[int] = mapped_column(default=0)
    budget: Mapped[int]
    state: Mapped[str]
    phase: Mapped[str | None]
    wish: Mapped[str | None]
    wish_at: Mapped[int | None]
    waiting_for: Mapped[str | None]
    waiting_reason: Mapped[str | None]
    waiting_since: Mapped[int | None]
    waiting_on: Mapped[str | None]
    due_at: Mapped[int | None]
    lease_token: Mapped[str | None]
    lease_until: Mapped[int | None]
    attempt_number: Mapped[int] = mapped_column(default=0)
    tries: Mapped[dict] = mapped_column(default=dict)
    exit_code: Mapped[int | None]
    reason: Mapped[str | None]
    reason_code: Mapped[str | None]
    results: Mapped[str] = mapped_column(default="none")
    cleanup: Mapped[str] = mapped_column(default="none")
    submitted_at: Mapped[int]
    started_at: Mapped[int | None]
    ended_at: Mapped[int | None]
    __table_args__ = (
        CheckConstraint(_one_of("state || '/' || coalesce(phase, '')", PLACES), name="place_is_in_the_table"),
        CheckConstraint(_one_of("results", RESULTS), name="results_word"),
        CheckConstraint(_one_of("cleanup", CLEANUP), name="cleanup_word"),
        Index("jobs_due", "due_at", sqlite_where=text("due_at is not null")),
        Index("jobs_order", "state", "priority", "submitted_at"),
        Index("jobs_folder", "folder", "submitted_at"),
        Index("jobs_name", "name", "submitted_at"),
        Index("jobs_submitted", "submitted_at"),
    )


MACHINE_STATES = ("intended", "sent", "absent", "alive", "releasing", "gone")


class Machine(Table):
    """A machine, from before its create call until it is proved gone.

    intended: row and reservation stand, nothing sent. sent: the create may be under way or its answer lost.
    absent: resolved as not made, the reservation stays until ghost_until. alive: seen. releasing: unwanted.
    gone: proved by two complete lists and a get; only then is it settled.
    """

    __tablename__ = "machines"
    id: Mapped[str] = mapped_column(primary_key=True)
    job: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    attempt: Mapped[int]
    simulated: Mapped[bool]
    provider: Mapped[str]
    region: Mapped[str]
    offer: Mapped[dict]
    offer_reason: Mapped[str]
    label: Mapped[str] = mapped_column(unique=True)
    token: Mapped[str] = mapped_column(unique=True)
    provider_id: Mapped[str | None]
    spot: Mapped[bool]
    gpu: Mapped[str]
    gpu_count: Mapped[int]
    price: Mapped[dict]
    disk_gb: Mapped[int]
    price_ceiling: Mapped[int]
    stop_class: Mapped[str]
    traffic_allowance: Mapped[int | None]
    send_by: Mapped[int]
    sent_at: Mapped[int | None]
    seen_at: Mapped[int | None]
    ghost_until: Mapped[int | None]
    stop_at: Mapped[int]
    fuse_at: Mapped[int]
    soft_stop_at: Mapped[int]
    boot_by: Mapped[int | None]
    held_until: Mapped[int | None]
    hold_why: Mapped[str | None]
    access: Mapped[dict | None]
    ssh_key_sealed: Mapped[bytes | None]
    ssh_public: Mapped[str]
    boot_nonce: Mapped[str | None]
    state: Mapped[str]
    why_released: Mapped[str | None]
    provider_word: Mapped[str | None]
    preempted: Mapped[bool | None]
    tombstoned_at: Mapped[int | None]
    release_sent_at: Mapped[int | None]
    release_tries: Mapped[int] = mapped_column(default=0)
    absent_list_1: Mapped[int | None]
    absent_list_2: Mapped[int | None]
    gone_at: Mapped[int | None]
    provider_start: Mapped[int | None]
    provider_end: Mapped[int | None]
    traffic_bytes: Mapped[int] = mapped_column(default=0)
    lease_token: Mapped[str | None]
    lease_until: Mapped[int | None]
    due_at: Mapped[int | None]
    __table_args__ = (
        CheckConstraint(_one_of("state", MACHINE_STATES), name="machine_state_word"),
        # the migration says the same for PostgreSQL: here it would load that dialect into every process
        Index("one_unresolved_create", "job", unique=True, sqlite_where=text("state in ('intended', 'sent')")),
        Index("machines_live", "state", "due_at"),
        Index("machines_of_job", "job"),
    )


class Attempt(Table):
    """One try of a job on one machine, and what its follower has seen so far.

    work_started_at/work_ended_at: setup + run on the machine. silent_since: no heartbeat since then.
    stop_sent_at: our TERM. stop_why: the reason_code for which we stop it.
    """

    __tablename__ = "attempts"
    job: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    number: Mapped[int]
    machine: Mapped[str] = mapped_column(ForeignKey("machines.id"))
    outcome: Mapped[str | None]
    started_at: Mapped[int]
    ended_at: Mapped[int | None]
    work_started_at: Mapped[int | None]
    work_ended_at: Mapped[int | None]
    remote_phase: Mapped[str | None]
    exit_code: Mapped[int | None]
    stop_why: Mapped[str | None]
    stop_sent_at: Mapped[int | None]
    silent_since: Mapped[int | None]
    follow_token: Mapped[str | None]
    follow_until: Mapped[int | None]
    log_bytes: Mapped[int] = mapped_column(default=0)
    stderr_bytes: Mapped[int] = mapped_column(default=0)
    results_blob: Mapped[str | None]
    results_list: Mapped[dict | None]
    gpu_util: Mapped[float | None]
    vram_peak_mb: Mapped[int | None]
    phase_times: Mapped[dict] = mapped_column(default=dict)
    __table_args__ = (PrimaryKeyConstraint("job", "number"), Index("attempts_machine", "machine"),
                      Index("attempts_followed", "follow_until"))


class Cap(Table):
    """A limit that a person set. scope: user, project, overall, provider, burst. month: YYYY-MM or ''."""

    __tablename__ = "caps"
    simulated: Mapped[bool]
    scope: Mapped[str]
    name: Mapped[str]
    month: Mapped[str]
    amount: Mapped[int | None]
    __table_args__ = (PrimaryKeyConstraint("simulated", "scope", "name", "month"),)


class Balance(Table):
    """What is spent and held under one scope in one month ('' for scope job and burst)."""

    __tablename__ = "balances"
    simulated: Mapped[bool]
    scope: Mapped[str]
    name: Mapped[str]
    month: Mapped[str]
    settled: Mapped[int] = mapped_column(default=0)
    held: Mapped[int] = mapped_column(default=0)
    __table_args__ = (PrimaryKeyConstraint("simulated", "scope", "name", "month"),
                      CheckConstraint("settled >= 0 and held >= 0", name="balance_not_negative"))


class Reservation(Table):
    """Money held for one machine. parts: [{scope, name, month, micro}], what was added to each balance."""

    __tablename__ = "reservations"
    machine: Mapped[str] = mapped_column(ForeignKey("machines.id"), primary_key=True)
    total: Mapped[int]
    parts: Mapped[list[dict]] = mapped_column(JSON)
    settled_at: Mapped[int | None]


ENTRY_KINDS = ("reserve", "give_back", "settle", "overrun")
COSTS = ("settle", "overrun")  # what was really spent; an overrun is a machine that appeared after its row was closed


class Entry(Table):
    """One line of the append-only ledger; the key makes a second booking of the same thing impossible."""

    __tablename__ = "entries"
    key: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[int]
    kind: Mapped[str]
    simulated: Mapped[bool]
    job: Mapped[str]
    machine: Mapped[str]
    attempt: Mapped[int]
    user: Mapped[str]
    project: Mapped[str | None]
    provider: Mapped[str]
    gpu: Mapped[str]
    part: Mapped[str]
    month: Mapped[str]
    from_at: Mapped[int | None]
    to_at: Mapped[int | None]
    micro: Mapped[int]
    bound: Mapped[bool] = mapped_column(default=False)
    __table_args__ = (CheckConstraint(_one_of("kind", ENTRY_KINDS), name="entry_kind"),
                      Index("entries_month", "simulated", "month"), Index("entries_job", "job"),
                      Index("entries_machine", "machine"))


class Event(Table):
    """Something that happened, written in the transaction of the step that made it happen."""

    __tablename__ = "events"
    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True,
                                    autoincrement=True)
    at: Mapped[int]
    job: Mapped[str | None]
    machine: Mapped[str | None]
    word: Mapped[str]
    data: Mapped[dict] = mapped_column(default=dict)
    told_at: Mapped[int | None]
    __table_args__ = (Index("events_job", "job"),)


class LogChunk(Table):
    """A piece of a stream ('log', 'stderr') of an attempt, stored as a blob; offset in bytes."""

    __tablename__ = "log_chunks"
    job: Mapped[str]
    attempt: Mapped[int]
    stream: Mapped[str]
    offset: Mapped[int]
    length: Mapped[int]
    blob: Mapped[str]
    __table_args__ = (PrimaryKeyConstraint("job", "attempt", "stream", "offset"),)


class BadHost(Table):
    """A host that failed us; weight decays with time."""

    __tablename__ = "bad_hosts"
    provider: Mapped[str]
    host: Mapped[str]
    weight: Mapped[float]
    at: Mapped[int]
    why: Mapped[str]
    __table_args__ = (PrimaryKeyConstraint("provider", "host"),)


class RateToken(Table):
    """The shared rate limiter: tokens left per provider key and kind of call."""

    __tablename__ = "limiter"
    provider: Mapped[str]
    key_hash: Mapped[str]
    kind: Mapped[str]
    tokens: Mapped[float]
    at: Mapped[int]
    __table_args__ = (PrimaryKeyConstraint("provider", "key_hash", "kind"),)


class Trust(Table):
    """Whether the list of a region may be believed."""

    __tablename__ = "trust"
    provider: Mapped[str]
    region: Mapped[str]
    list_ok_at: Mapped[int | None]
    why: Mapped[str | None]
    __table_args__ = (PrimaryKeyConstraint("provider", "region"),)


class Alarm(Table):
    """Something that a person must know until it is over; cleared by whoever sees it mended."""

    __tablename__ = "alarms"
    code: Mapped[str]
    machine: Mapped[str]
    simulated: Mapped[bool]
    text: Mapped[str]
    per_hour: Mapped[int | None]
    at: Mapped[int]
    __table_args__ = (PrimaryKeyConstraint("code", "machine"),)


class Turn(Table):
    """Which of our processes live: one row per process, refreshed by each turn."""

    __tablename__ = "turns"
    process: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    host: Mapped[str]
    pid: Mapped[int]
    at: Mapped[int]
    started_at: Mapped[int]
