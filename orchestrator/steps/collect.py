"""finishing/collecting: outputs home, then a tombstone, then the end (or another try)."""

import tempfile
from typing import Any, BinaryIO, cast

from jobs.money import SECOND
from jobs.script import replies
from jobs.script.files import manifest, pack
from jobs.script.start import state
from jobs.script.stop import tombstone
from jobs.states import FINISHING
from orchestrator import asking
from orchestrator.db.models import Machine
from orchestrator.ending import end, try_again
from orchestrator.limits import MONEY_LIMITS, limit_text
from orchestrator.lost import SILENT_LIMIT, over_by_its_provider
from orchestrator.result import StepResult
from orchestrator.snapshot import Snapshot, open_shell
from orchestrator.world import World
from providers.shell import Shell, ShellError

IN_MEMORY = 1_000_000
NOTHING_RAN = 97  # of an attempt without a phase (jobs/script/start.py)


def collect(snap: Snapshot, world: World) -> StepResult:
    """collecting -> an end, or queued/releasing for another try. Repeatable: the blob is whole or absent."""
    machine, attempt = snap.machine, snap.attempt
    assert machine is not None and attempt is not None
    now = world.clock.now()
    if machine.state != "alive":
        return _over(
            snap, world, "incomplete" if snap.spec.outputs else "none", {}, machine.why_released or "machine gone"
        )
    try:
        shell = open_shell(world, machine)
        code = attempt.exit_code if attempt.exit_code is not None else _exit_code(snap, shell)
        results, found = _bring_home(snap, shell, world)
        world.point("collect.stored")
        dead = replies.parse(shell.perform(tombstone(snap.tag)).out).get("tombstone") == "dead"
    except ShellError as error:
        world.shells.drop(machine.id)
        if now < _last_moment(snap, machine, world) and not _is_over(snap, machine, world):
            return StepResult(
                FINISHING, "collecting", job={"waiting_reason": f"SSH: {error}"}, look_again_at=now + 2 * SECOND
            )
        return _over(
            snap, world, "incomplete" if snap.spec.outputs else "none", {}, f"results could not be fetched: {error}"
        )
    result = _over(snap, world, results, found, "", code)
    stone = {"tombstoned_at": now} if dead else {}
    return StepResult(**{**result.__dict__, "machine": {**result.machine, **stone}})


def _exit_code(snap: Snapshot, shell: Shell) -> int | None:
    """What the machine says of the end, where the watcher did not hear it."""
    told = replies.parse(shell.perform(state(snap.tag)).out).get("exit", "")
    return int(told) if told.isdigit() else None


def _is_over(snap: Snapshot, machine: Machine, world: World) -> bool:
    """Whether its provider says that the machine ended. Raises ProviderError when it says nothing."""
    return over_by_its_provider(snap, machine, asking.get(world, machine), world) is not None


def _last_moment(snap: Snapshot, machine: Machine, world: World) -> int:
    """Until when fetching is tried: the fuse; not so long after a stop that nobody answered."""
    attempt = snap.attempt
    assert attempt is not None
    if attempt.exit_code is None and attempt.stop_sent_at is not None:
        patience = SILENT_LIMIT if snap.spec.outputs else 30 * SECOND
        return min(machine.fuse_at, attempt.stop_sent_at + snap.grace(world.settings) + patience)
    return machine.fuse_at


def _bring_home(snap: Snapshot, shell: Shell, world: World) -> tuple[str, dict[str, Any]]:
    """(results word, attempt columns) after the declared outputs are stored as one blob."""
    if not snap.spec.outputs:
        return "none", {}
    listed = replies.parse(shell.perform(manifest(snap.tag, snap.spec.outputs)).out)
    there = {
        path: {"is": listed.get(f"out.{n}", "missing"), "bytes": int(listed.get(f"bytes.{n}") or 0)}
        for n, path in enumerate(snap.spec.outputs)
    }
    whole = all(facts["is"] != "missing" for facts in there.values())
    if all(facts["is"] == "missing" for facts in there.values()):
        return "incomplete", {"results_list": there}
    name = f"results/{snap.job.id}/{snap.job.attempt_number}.tar"
    # a spool that stays in memory while small; the blob appears whole or not at all
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, dir=_spool_folder(world)) as spool:
        packed = shell.get(pack(snap.tag, snap.spec.outputs), spool.write)
        spool.seek(0)
        world.blobs.write(name, cast(BinaryIO, spool))
    return ("complete" if whole and packed.code == 0 else "incomplete"), {"results_blob": name, "results_list": there}


def _spool_folder(world: World) -> str | None:
    return str(world.settings.home) if world.settings.home.is_dir() else None


def _over(
    snap: Snapshot, world: World, results: str, found: dict[str, Any], trouble: str, told: int | None = None
) -> StepResult:
    """The end that this try deserves: a stop's reason, success, or a crash of its own."""
    attempt = snap.attempt
    assert attempt is not None
    code = told if attempt.exit_code is None else attempt.exit_code
    if attempt.stop_why:
        result = end(
            snap, world, attempt.stop_why, _stopped_text(snap, attempt.stop_why), exit_code=code, results=results
        )
    elif code == 0:
        result = end(snap, world, "succeeded", _missing_text(found) or trouble, exit_code=0, results=results)
    elif code == NOTHING_RAN and attempt.remote_phase in (None, "none"):
        result = try_again(snap, world, "host", "the start died on the machine", bad_host=True)
    elif code is None:
        result = try_again(snap, world, "host", trouble or "host gone before exit code", results=results, bad_host=True)
    else:
        result = try_again(snap, world, "own_exit", _exit_text(code), exit_code=code, results=results)
    return StepResult(**{**result.__dict__, "attempt": {**result.attempt, **found}})


def _missing_text(found: dict[str, Any]) -> str:
    missing = [path for path, facts in (found.get("results_list") or {}).items() if facts["is"] == "missing"]
    return f"outputs missing: {', '.join(missing)}" if missing else ""


def _stopped_text(snap: Snapshot, why: str) -> str:
    limits = snap.job.limits or {}
    limit = limits.get(why)
    if why == "cancelled":
        return "cancelled by its owner"
    if limit:
        sign = f"{'sim ' if snap.job.simulated else ''}$" if why in MONEY_LIMITS else ""
        return f"stopped at its {why} of {sign}{limit_text(why, limit['value'])} (from {limit['from']})"
    return f"stopped: {why}"


def _exit_text(code: int) -> str:
    hints = {
        137: " (killed by signal 9: maybe out of memory)",
        143: " (killed by signal 15)",
        126: " (not executable)",
        127: " (command not found)",
    }
    return f"exit code {code}{hints.get(code, '')}"
