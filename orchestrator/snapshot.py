"""Snapshot: all that a step may know of a job, read in one transaction and never written to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.states import place
from orchestrator.db.models import Attempt, Job, Machine
from orchestrator.settings import Settings
from orchestrator.world import World
from providers.shell import Access, Shell, ShellKey

if TYPE_CHECKING:
    from jobs.spec import JobSpec


@dataclass(frozen=True)
class Snapshot:
    """A job, its newest attempt with the machine it runs on, and every machine it ever had."""

    job: Job
    attempt: Attempt | None
    machine: Machine | None
    machines: tuple[Machine, ...]

    @cached_property
    def spec(self) -> JobSpec:
        """The job file as it was accepted."""
        from jobs.spec import JobSpec  # pydantic: not in every process

        return JobSpec.model_validate_json(self.job.spec)

    @property
    def place(self) -> str:
        """`state/phase`."""
        return place(self.job.state, self.job.phase)

    @property
    def tag(self) -> str:
        """The name of this attempt on its machine."""
        return f"{self.job.handle}-{self.job.attempt_number}"

    def grace(self, settings: Settings) -> int:
        """Microseconds between TERM and KILL."""
        return settings.grace if self.spec.grace is None else self.spec.grace

    def boot_limit(self, settings: Settings) -> int:
        """Microseconds that a machine may take until it can be used."""
        return settings.boot_limit if self.spec.boot_limit is None else self.spec.boot_limit

    def max_wait(self, settings: Settings) -> int:
        """Microseconds that the job may wait for a machine."""
        return settings.max_wait if self.spec.max_wait is None else self.spec.max_wait


def read_snapshot(session: Session, job_id: str) -> Snapshot | None:
    """The job as it is now, or None where there is none."""
    job = session.get(Job, job_id)
    if job is None:
        return None
    machines = tuple(session.scalars(select(Machine).where(Machine.job == job_id).order_by(Machine.attempt)))
    attempt = session.get(Attempt, (job_id, job.attempt_number)) if job.attempt_number else None
    machine = next((m for m in machines if attempt is not None and m.id == attempt.machine), None)
    return Snapshot(job, attempt, machine, machines)


def open_shell(world: World, machine: Machine) -> Shell:
    """A connection to a machine with the key and the host key of its rental. Raises ShellError."""
    assert machine.access is not None and machine.ssh_key_sealed is not None
    key = ShellKey(world.vault.open(machine.ssh_key_sealed).decode(), machine.ssh_public)
    return world.shells.open(machine.id, machine.provider, Access(**machine.access), key)
