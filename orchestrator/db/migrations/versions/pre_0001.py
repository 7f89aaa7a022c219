"""Everything as of the first release."""

import sqlalchemy as sa
from alembic import op

revision = "pre_0001"
down_revision = None
branch_labels = None
depends_on = None


def _alarms() -> None:
    op.create_table(
        "alarms",
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("per_hour", sa.BigInteger(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("code", "machine"),
    )


def _bad_hosts() -> None:
    op.create_table(
        "bad_hosts",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "host"),
    )


def _balances() -> None:
    op.create_table(
        "balances",
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("month", sa.Text(), nullable=False),
        sa.Column("settled", sa.BigInteger(), nullable=False),
        sa.Column("held", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("settled >= 0 and held >= 0", name="balance_not_negative"),
        sa.PrimaryKeyConstraint("simulated", "scope", "name", "month"),
    )


def _caps() -> None:
    op.create_table(
        "caps",
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("month", sa.Text(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("simulated", "scope", "name", "month"),
    )


def _entries() -> None:
    op.create_table(
        "entries",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("month", sa.Text(), nullable=False),
        sa.Column("from_at", sa.BigInteger(), nullable=True),
        sa.Column("to_at", sa.BigInteger(), nullable=True),
        sa.Column("micro", sa.BigInteger(), nullable=False),
        sa.Column("bound", sa.Boolean(), nullable=False),
        sa.CheckConstraint("kind in ('reserve', 'give_back', 'settle', 'overrun')", name="entry_kind"),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("entries_job", "entries", ["job"], unique=False)
    op.create_index("entries_machine", "entries", ["machine"], unique=False)
    op.create_index("entries_month", "entries", ["simulated", "month"], unique=False)


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("job", sa.Text(), nullable=True),
        sa.Column("machine", sa.Text(), nullable=True),
        sa.Column("word", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("told_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("events_job", "events", ["job"], unique=False)


def _installations() -> None:
    op.create_table(
        "installations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("handle", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=True),
        sa.Column("burst", sa.Text(), nullable=True),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("spec_hash", sa.Text(), nullable=False),
        sa.Column("reuse_hash", sa.Text(), nullable=True),
        sa.Column("bundle", sa.Text(), nullable=True),
        sa.Column("secrets_sealed", sa.LargeBinary(), nullable=True),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.Column("git", sa.JSON(), nullable=True),
        sa.Column("no_fuse_ok", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("budget", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=True),
        sa.Column("wish", sa.Text(), nullable=True),
        sa.Column("wish_at", sa.BigInteger(), nullable=True),
        sa.Column("waiting_for", sa.Text(), nullable=True),
        sa.Column("waiting_reason", sa.Text(), nullable=True),
        sa.Column("waiting_since", sa.BigInteger(), nullable=True),
        sa.Column("waiting_on", sa.Text(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("lease_token", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("attempt_number", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.JSON(), nullable=False),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("reason_code", sa.Text(), nullable=True),
        sa.Column("results", sa.Text(), nullable=False),
        sa.Column("cleanup", sa.Text(), nullable=False),
        sa.Column("submitted_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("cleanup in ('none', 'pending', 'done', 'alarm')", name="cleanup_word"),
        sa.CheckConstraint("results in ('none', 'complete', 'incomplete')", name="results_word"),
        sa.CheckConstraint(
            "state || '/' || coalesce(phase, '') in ('queued/', 'queued/choosing', 'queued/releasing', "
            "'starting/renting', 'starting/booting', 'starting/probing', 'starting/uploading', "
            "'starting/setup', 'running/run', 'finishing/collecting', 'succeeded/releasing', 'succeeded/', "
            "'failed/releasing', 'failed/', 'stopped/releasing', 'stopped/', 'cancelled/releasing', "
            "'cancelled/')",
            name="place_is_in_the_table",
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("handle"),
    )
    op.create_index("jobs_due", "jobs", ["due_at"], unique=False, sqlite_where=sa.text("due_at is not null"))
    op.create_index("jobs_folder", "jobs", ["folder", "submitted_at"], unique=False)
    op.create_index("jobs_name", "jobs", ["name", "submitted_at"], unique=False)
    op.create_index("jobs_order", "jobs", ["state", "priority", "submitted_at"], unique=False)
    op.create_index("jobs_submitted", "jobs", ["submitted_at"], unique=False)


def _limiter() -> None:
    op.create_table(
        "limiter",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("key_hash", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Float(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "key_hash", "kind"),
    )


def _log_chunks() -> None:
    op.create_table(
        "log_chunks",
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("blob", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job", "attempt", "stream", "offset"),
    )


def _trust() -> None:
    op.create_table(
        "trust",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("list_ok_at", sa.BigInteger(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("provider", "region"),
    )


def _turns() -> None:
    op.create_table(
        "turns",
        sa.Column("process", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("process"),
    )


def _machines() -> None:
    op.create_table(
        "machines",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("offer", sa.JSON(), nullable=False),
        sa.Column("offer_reason", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("provider_id", sa.Text(), nullable=True),
        sa.Column("spot", sa.Boolean(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("gpu_count", sa.BigInteger(), nullable=False),
        sa.Column("price", sa.JSON(), nullable=False),
        sa.Column("disk_gb", sa.BigInteger(), nullable=False),
        sa.Column("price_ceiling", sa.BigInteger(), nullable=False),
        sa.Column("stop_class", sa.Text(), nullable=False),
        sa.Column("traffic_allowance", sa.BigInteger(), nullable=True),
        sa.Column("send_by", sa.BigInteger(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("seen_at", sa.BigInteger(), nullable=True),
        sa.Column("ghost_until", sa.BigInteger(), nullable=True),
        sa.Column("stop_at", sa.BigInteger(), nullable=False),
        sa.Column("fuse_at", sa.BigInteger(), nullable=False),
        sa.Column("soft_stop_at", sa.BigInteger(), nullable=False),
        sa.Column("boot_by", sa.BigInteger(), nullable=True),
        sa.Column("held_until", sa.BigInteger(), nullable=True),
        sa.Column("hold_why", sa.Text(), nullable=True),
        sa.Column("access", sa.JSON(), nullable=True),
        sa.Column("ssh_key_sealed", sa.LargeBinary(), nullable=True),
        sa.Column("ssh_public", sa.Text(), nullable=False),
        sa.Column("boot_nonce", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("why_released", sa.Text(), nullable=True),
        sa.Column("provider_word", sa.Text(), nullable=True),
        sa.Column("preempted", sa.Boolean(), nullable=True),
        sa.Column("tombstoned_at", sa.BigInteger(), nullable=True),
        sa.Column("release_sent_at", sa.BigInteger(), nullable=True),
        sa.Column("release_tries", sa.BigInteger(), nullable=False),
        sa.Column("absent_list_1", sa.BigInteger(), nullable=True),
        sa.Column("absent_list_2", sa.BigInteger(), nullable=True),
        sa.Column("gone_at", sa.BigInteger(), nullable=True),
        sa.Column("provider_start", sa.BigInteger(), nullable=True),
        sa.Column("provider_end", sa.BigInteger(), nullable=True),
        sa.Column("traffic_bytes", sa.BigInteger(), nullable=False),
        sa.Column("lease_token", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "state in ('intended', 'sent', 'absent', 'alive', 'releasing', 'gone')", name="machine_state_word"
        ),
        sa.ForeignKeyConstraint(
            ["job"],
            ["jobs.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("label"),
        sa.UniqueConstraint("token"),
    )
    op.create_index("machines_live", "machines", ["state", "due_at"], unique=False)
    op.create_index("machines_of_job", "machines", ["job"], unique=False)
    op.create_index(
        "one_unresolved_create",
        "machines",
        ["job"],
        unique=True,
        sqlite_where=sa.text("state in ('intended', 'sent')"),
        postgresql_where=sa.text("state in ('intended', 'sent')"),
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("work_started_at", sa.BigInteger(), nullable=True),
        sa.Column("work_ended_at", sa.BigInteger(), nullable=True),
        sa.Column("remote_phase", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("stop_why", sa.Text(), nullable=True),
        sa.Column("stop_sent_at", sa.BigInteger(), nullable=True),
        sa.Column("silent_since", sa.BigInteger(), nullable=True),
        sa.Column("follow_token", sa.Text(), nullable=True),
        sa.Column("follow_until", sa.BigInteger(), nullable=True),
        sa.Column("log_bytes", sa.BigInteger(), nullable=False),
        sa.Column("stderr_bytes", sa.BigInteger(), nullable=False),
        sa.Column("results_blob", sa.Text(), nullable=True),
        sa.Column("results_list", sa.JSON(), nullable=True),
        sa.Column("gpu_util", sa.Float(), nullable=True),
        sa.Column("vram_peak_mb", sa.BigInteger(), nullable=True),
        sa.Column("phase_times", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job"],
            ["jobs.id"],
        ),
        sa.ForeignKeyConstraint(
            ["machine"],
            ["machines.id"],
        ),
        sa.PrimaryKeyConstraint("job", "number"),
    )
    op.create_index("attempts_followed", "attempts", ["follow_until"], unique=False)
    op.create_index("attempts_machine", "attempts", ["machine"], unique=False)


def _reservations() -> None:
    op.create_table(
        "reservations",
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("parts", sa.JSON(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["machine"],
            ["machines.id"],
        ),
        sa.PrimaryKeyConstraint("machine"),
    )


def upgrade() -> None:
    _alarms()
    _bad_hosts()
    _balances()
    _caps()
    _entries()
    _events()
    _installations()
    _jobs()
    _limiter()
    _log_chunks()
    _trust()
    _turns()
    _machines()
    _attempts()
    _reservations()


def downgrade() -> None:
    raise NotImplementedError("a home goes forward only; restore a backup instead")
