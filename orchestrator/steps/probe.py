"""starting/probing: look at every card, the disk and the tools before a byte is uploaded."""

from jobs.requirements import NOMINAL_TOLERANCE
from jobs.script import replies
from jobs.script.probe import probe as probe_command
from jobs.states import STARTING
from orchestrator.db.models import Machine
from orchestrator.ending import end, try_again
from orchestrator.lost import unreachable
from orchestrator.result import StepResult
from orchestrator.rows import offer_of
from orchestrator.snapshot import Snapshot, open_shell
from orchestrator.world import World
from providers.shell import Unreachable, WrongHostKey

MIB_PER_GB = 1e9 / 2**20
DISK_TOLERANCE = 0.9  # file systems keep some for themselves


def probe(snap: Snapshot, world: World) -> StepResult:
    """starting/probing -> uploading, or the machine goes back with the reason."""
    machine = snap.machine
    assert machine is not None
    now = world.clock.now()
    if snap.job.wish == "cancel":
        return end(snap, world, "cancelled", "cancelled while its machine was looked at")
    if machine.state != "alive":
        return try_again(snap, world, "host", machine.why_released or "its machine was given back", bad_host=True)
    if now >= min(machine.boot_by or machine.fuse_at, machine.soft_stop_at):
        return try_again(snap, world, "host", "it could not be looked at within boot_limit", bad_host=True)
    try:
        outcome = open_shell(world, machine).perform(probe_command())
    except Unreachable as error:
        return unreachable(snap, machine, world, f"SSH: {error}")
    except WrongHostKey:
        return try_again(snap, world, "host", "another host key answers than the one of this rental", bad_host=True)
    fault = _fault(snap, machine, replies.parse(outcome.out))
    if fault:
        return try_again(snap, world, "host", fault, bad_host=True)
    return StepResult(
        STARTING,
        "uploading",
        job={"waiting_reason": None},
        look_again_at=now,
        events=(("probed", {"gpus": machine.gpu_count}),),
    )


def _fault(snap: Snapshot, machine: Machine, found: dict[str, str]) -> str | None:
    """Why this machine is not what was rented, or None."""
    if not found:
        return "a command on it printed nothing: the host is too small or its shell is broken"
    if found.get("tar") == "no":
        return "there is no tar on it"
    wanted = snap.spec.resources
    # the machine tells whole GB, rounded down
    if float(found.get("disk_free_gb") or 0) + 1 <= wanted.disk_gb * DISK_TOLERANCE:
        return f"{found.get('disk_free_gb', '?')} GB of disk are free, {wanted.disk_gb} GB were rented"
    return _gpu_fault(snap, machine, found) if wanted.gpu else None


def _gpu_fault(snap: Snapshot, machine: Machine, found: dict[str, str]) -> str | None:
    if found.get("gpu_error"):
        return f"nvidia-smi: {found['gpu_error']}"
    cards = [value for key, value in sorted(found.items()) if key.startswith("gpu.")]
    if len(cards) < machine.gpu_count:
        return f"{len(cards)} of {machine.gpu_count} GPUs are there"
    least = offer_of(machine).vram_gb * MIB_PER_GB * (1 - NOMINAL_TOLERANCE)
    for number, card in enumerate(cards):
        words = [word.strip() for word in card.split(",")]
        if len(words) < 2 or not words[1].replace(".", "", 1).isdigit():
            return f"GPU {number} reports {card!r}"
        if float(words[1]) < least:
            return f"GPU {number} has {words[1]} MiB, {offer_of(machine).vram_gb:g} GB were rented"
    need = next((wish.cuda for wish in snap.spec.resources.gpu if wish.cuda), None)
    have = found.get("cuda", "")
    if need and have and _version(have) < _version(need):
        return f"its driver knows CUDA {have}, the job wants {need}"
    return None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(".") if word.isdigit())
