"""JobSpec: what a job file says, checked and frozen. Reading one: jobs/job_file.py.

Durations: microseconds. Money: micro-dollars. Memory and disk: GB (1e9 bytes).
"""

import hashlib
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GpuWish(_Frozen):
    """One way to meet `resources.gpu`: a model or a memory size, count of GPUs in one machine.

    model: canonical name of jobs/gpus.py, or None for any. vram_gb: per GPU, nominal.
    """

    model: str | None = None
    vram_gb: float | None = None
    count: int = 1
    min_compute_capability: float | None = None
    cuda: str | None = None


class Resources(_Frozen):
    """What a machine must have. gpu: any of these, in this order; empty: any offer fits."""

    gpu: tuple[GpuWish, ...] = ()
    cpus: int | None = None
    memory_gb: float | None = None
    disk_gb: int = 20
    spot: bool | Literal["auto"] = False
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    trust: Literal["datacenter", "verified", "any"] = "verified"
    stop: Literal["hard", "boot", "any"] = "any"
    max_price: int | None = None


class Estimate(_Frozen):
    """hours the work takes on one machine with the GPU `on`."""

    hours: float
    on: str


class JobSpec(_Frozen):
    """A job file. None: not said, the setting or default applies."""

    name: str | None = None
    project: str | None = None
    workdir: str | None = None
    resources: Resources = Resources()
    image: str | None = None
    python: str | None = None
    env: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    setup: str | None = None
    run: str
    outputs: tuple[str, ...] = ()
    budget: int | None = None
    max_duration: int | None = None
    max_wait: int | None = None
    grace: int | None = None
    boot_limit: int | None = None
    retries: int = 0
    priority: int = 0
    estimate: Estimate | None = None


def spec_hash(spec: JobSpec) -> str:
    """SHA-256 (hexadecimal) of the spec in its one canonical JSON form; equal specs have equal hashes."""
    text = json.dumps(spec.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
