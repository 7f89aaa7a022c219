"""What a step decided, as values: applied by `advance` in one transaction, only if the lease still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.ledger import Amount

Changes = Mapping[str, Any]
Happened = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class NewMachine:
    """The rows of a machine about to be asked for and of the attempt on it.

    reserve: money to hold for it.
    """

    row: dict[str, Any]
    reserve: Amount


@dataclass(frozen=True)
class StepResult:
    """Where a job goes next.

    job, machine, attempt: columns to change. new: a machine to reserve money for. release: why the
    current machine is unwanted from now on. bad_host: why its host should be avoided (bad_weight: how much).
    look_again_at: instant of the next look, None: when somebody rings.
    """

    state: str
    phase: str | None
    job: Changes = field(default_factory=dict)
    machine: Changes = field(default_factory=dict)
    attempt: Changes = field(default_factory=dict)
    new: NewMachine | None = None
    release: str | None = None
    bad_host: str | None = None
    bad_weight: float = 1.0
    events: tuple[Happened, ...] = ()
    look_again_at: int | None = None


@dataclass(frozen=True)
class MachineResult:
    """What became of an unwanted machine. usage: what it cost, once proved gone (None: it never existed).

    alarms: code -> text (None: mended)."""

    machine: Changes
    gone: bool = False
    usage: Any = None
    alarms: Mapping[str, str | None] = field(default_factory=dict)
    events: tuple[Happened, ...] = ()
    look_again_at: int | None = None
