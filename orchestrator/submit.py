"""Submit: take a job in, or say why not. Nothing is rented here; an accepted job is one committed row.

The id is made by the client, so a repeat after a lost answer is harmless. If the process dies
before the commit nothing was queued (at most an unused bundle lies in the store); after it,
the sweep finds the job due.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from sqlalchemy import exists, select
from sqlalchemy.exc import IntegrityError

from jobs.errors import GpupoorError, Usage
from jobs.spec import JobSpec, spec_hash
from jobs.states import QUEUED
from orchestrator.db.models import Event, Job
from orchestrator.limits import Limits, job_budget, understood
from orchestrator.preview import Preview, look_ahead
from orchestrator.settings import Settings
from orchestrator.world import World

ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HANDLE_TRIES = 50
_LONGEST_NAME = 40


@dataclass(frozen=True)
class Bundle:
    """The packed workdir. sha: of its bytes; open: gives them to be stored; bytes: how many they are."""

    sha: str
    bytes: int
    open: Callable[[], BinaryIO]


@dataclass(frozen=True)
class Request:
    """What a client hands in.

    spec: with everything that flags changed; flags: the names of limits that flags set. folder: where the
    command was typed. secrets: name -> value. now: refuse instead of waiting.
    """

    spec: JobSpec
    default_name: str
    folder: str
    user: str
    simulated: bool = False
    id: str | None = None
    flags: frozenset[str] = frozenset()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    bundle: Bundle | None = None
    git: dict[str, Any] | None = None
    no_fuse_ok: bool = False
    now: bool = False


@dataclass(frozen=True)
class Accepted:
    """The job as it stands. repeated: it had been accepted before, and nothing was changed.

    preview: None for a repeat.
    """

    id: str
    handle: str
    repeated: bool
    limits: Limits
    preview: Preview | None


def check(request: Request, settings: Settings) -> Limits:
    """All limits of the job with their origin. Raises Usage for what can be seen without asking anybody."""
    if request.id is not None and not ID.fullmatch(request.id):
        raise Usage(f"--id {request.id!r}: write 1 to 64 letters, digits, - or _")
    missing = [name for name in request.spec.secrets if name not in request.secrets]
    if missing:
        raise Usage(f"secret {missing[0]} has no value here; export {missing[0]}=... before you submit")
    return understood(request.spec, settings, request.flags)


def rehearse(world: World, request: Request) -> tuple[Limits, Preview]:
    """What `submit` would say, with nothing written. Raises as `submit` does."""
    limits = check(request, world.settings)
    before = _earlier(world, request)
    if before is not None:
        _check_same(before, request)
    job = Job(**_row(world, request, limits))
    return limits, look_ahead(world, job, request.spec, refuse_waiting=request.now)


def submit(world: World, request: Request) -> Accepted:
    """Queue a job. Raises Usage (exit 2), RefusedByLimit (exit 3: it can never fit, or `now` and it would wait)."""
    limits = check(request, world.settings)
    before = _earlier(world, request)
    if before is not None:
        return _repeat(world, before, request, limits)
    row = _row(world, request, limits)
    preview = look_ahead(world, Job(**row), request.spec, refuse_waiting=request.now)
    if request.bundle is not None:
        with request.bundle.open() as source:
            world.blobs.write(bundle_blob(request.bundle), source)
    try:
        handle = _insert(world, row)
    except IntegrityError:
        before = _earlier(world, request)
        if before is None:
            raise
        return _repeat(world, before, request, limits)
    world.doorbell.ring("job", row["id"])
    return Accepted(row["id"], handle, False, limits, preview)


def bundle_blob(bundle: Bundle) -> str:
    """The blob that holds a bundle: named by its content, so the same workdir is stored once."""
    return f"bundles/{bundle.sha}"


def handle_stem(name: str) -> str:
    """The part of a handle before its four letters: lower case, fit for folders and labels."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST_NAME].strip("-") or "job"


def _earlier(world: World, request: Request) -> Job | None:
    if request.id is None:
        return None
    with world.database.read() as session:
        return session.get(Job, request.id)


def _check_same(before: Job, request: Request) -> None:
    """Raises Usage when the id of an earlier job comes with another job file."""
    if (before.spec_hash, before.simulated) != (spec_hash(request.spec), request.simulated):
        raise Usage(f"--id {before.id} belongs to {before.handle}, submitted with another job file; choose another id")


def _repeat(world: World, before: Job, request: Request, limits: Limits) -> Accepted:
    _check_same(before, request)
    world.doorbell.ring("job", before.id)
    return Accepted(before.id, before.handle, True, limits, None)


def _row(world: World, request: Request, limits: Limits) -> dict[str, Any]:
    """The columns of the new job; its handle is chosen when it is written."""
    now = world.clock.now()
    spec = request.spec
    clear = json.dumps(dict(request.secrets)).encode()
    return {
        "id": request.id or world.ids.token(),
        "name": spec.name or request.default_name,
        "project": spec.project,
        "user": request.user,
        "simulated": request.simulated,
        "folder": request.folder,
        "spec": spec.model_dump_json(),
        "spec_hash": spec_hash(spec),
        "bundle": bundle_blob(request.bundle) if request.bundle else None,
        "secrets_sealed": world.vault.seal(clear) if request.secrets else None,
        "limits": limits,
        "git": request.git,
        "no_fuse_ok": request.no_fuse_ok,
        "priority": spec.priority,
        "gpus": min((wish.count for wish in spec.resources.gpu), default=0),
        "budget": job_budget(limits),
        "state": QUEUED,
        "due_at": now,
        "submitted_at": now,
    }


def _insert(world: World, row: dict[str, Any]) -> str:
    """Write the job under a handle that nobody has, and return it. Raises IntegrityError when the id is taken."""
    stem = handle_stem(row["name"])
    with world.database.write() as session:
        for _ in range(_HANDLE_TRIES):
            handle = f"{stem}-{world.ids.short()}"
            if not session.scalar(select(exists().where(Job.handle == handle))):
                break
        else:
            raise GpupoorError(f"no free handle like {stem}-xxxx was found; give the job another name")
        session.add(Job(**row, handle=handle))
        session.flush()
        session.add(Event(at=row["submitted_at"], job=row["id"], word="submitted", data={"handle": handle}))
    return handle
