"""The limits of a job as they were understood at submit, each with where it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.errors import Usage
from jobs.money import usd
from jobs.units import duration_text
from orchestrator.settings import Settings

if TYPE_CHECKING:
    from jobs.spec import JobSpec

# name -> {"value": micro-dollars, microseconds or a count, or None; "from": file, flag, setting or default}
Limits = dict[str, dict[str, Any]]

_OF_THE_JOB = ("budget", "max_duration", "max_wait", "grace", "boot_limit")
_OF_THE_INSTALLATION = ("max_gpus", "max_per_hour")
MONEY_LIMITS = ("budget", "max_per_hour")
NO_BUDGET = (
    "no budget: write `budget: 5` into the job file, pass --budget 5, or set one for all jobs: "
    "gpupoor config set default_budget 5"
)


def understood(spec: JobSpec, settings: Settings, flags: frozenset[str]) -> Limits:
    """All limits. Raises Usage when nobody named a budget."""
    limits: Limits = {}
    for name in _OF_THE_JOB:
        said = getattr(spec, name)
        if said is not None:
            limits[name] = {"value": said, "from": "flag" if name in flags else "file"}
        else:
            limits[name] = _from_settings(settings, "default_budget" if name == "budget" else name)
    for name in _OF_THE_INSTALLATION:
        limits[name] = _from_settings(settings, name)
    if limits["budget"]["value"] is None:
        raise Usage(NO_BUDGET)
    return limits


def limit_text(name: str, value: int | None) -> str | int | None:
    """The value of one limit as people and programs read it: money as decimal string, a duration, or a count."""
    if value is None or name == "max_gpus":
        return value
    return usd(value) if name in MONEY_LIMITS else duration_text(value)


def limits_document(limits: Limits) -> dict[str, dict[str, Any]]:
    """All limits for JSON."""
    return {
        name: {"value": limit_text(name, limit["value"]), "from": limit["from"]} for name, limit in limits.items()
    }


def job_budget(limits: Limits) -> int:
    """Micro-dollars that the job may spend."""
    return int(limits["budget"]["value"])


def _from_settings(settings: Settings, name: str) -> dict[str, Any]:
    origin = settings.origins.get(name, "default")
    return {"value": getattr(settings, name, None), "from": "default" if origin == "default" else "setting"}
