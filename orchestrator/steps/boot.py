"""starting/booting: wait until the machine can be used, then mark it ours and lengthen its fuse."""

from jobs.money import SECOND
from jobs.script import replies
from jobs.script.fuse import arm_fuse
from jobs.script.hello import hello
from jobs.states import STARTING
from orchestrator import asking
from orchestrator.db.models import Machine
from orchestrator.ending import end, try_again
from orchestrator.lost import over_by_its_provider
from orchestrator.result import StepResult
from orchestrator.snapshot import Snapshot, open_shell
from orchestrator.world import World
from providers.base import Sighting
from providers.shell import Unreachable, WrongHostKey

LOOK_AGAIN = SECOND // 2


def boot(snap: Snapshot, world: World) -> StepResult:
    """starting/booting -> probing once our nonce is on the machine; given up at the boot limit."""
    machine = snap.machine
    assert machine is not None
    now = world.clock.now()
    if snap.job.wish == "cancel":
        return end(snap, world, "cancelled", "cancelled while its machine booted")
    if machine.state != "alive":
        return try_again(snap, world, "host", machine.why_released or "its machine was given back", bad_host=True)
    if now >= min(machine.boot_by or machine.fuse_at, machine.soft_stop_at):
        limit = snap.boot_limit(world.settings) // SECOND
        return try_again(
            snap,
            world,
            "host",
            f"not usable within boot_limit ({limit} s); a large image takes long to pull",
            bad_host=True,
        )
    seen = asking.get(world, machine)
    lost = over_by_its_provider(snap, machine, seen, world)
    if lost is not None:
        return lost
    if seen is None or not seen.ready or seen.access is None:
        return StepResult(STARTING, "booting", machine=_sighted(seen), look_again_at=now + LOOK_AGAIN)
    return _greet(snap, machine, seen, world)


def _sighted(seen: Sighting | None) -> dict[str, object]:
    if seen is None:
        return {}
    changes: dict[str, object] = {"provider_word": seen.word}
    if seen.started_at is not None:
        changes["provider_start"] = seen.started_at
    return changes


def _greet(snap: Snapshot, machine: Machine, seen: Sighting, world: World) -> StepResult:
    """First contact: pin the host key, leave our nonce, arm or lengthen the fuse."""
    assert seen.access is not None and machine.boot_nonce is not None
    pinned = machine.access["host_key"] if machine.access else ""
    access = {"host": seen.access.host, "port": seen.access.port, "user": seen.access.user, "host_key": pinned}
    reached = Machine(
        id=machine.id,
        provider=machine.provider,
        access=access,
        ssh_key_sealed=machine.ssh_key_sealed,
        ssh_public=machine.ssh_public,
    )
    now = world.clock.now()
    grace = snap.grace(world.settings)
    destroy = world.providers[machine.provider].facts.destroy_text
    try:
        shell = open_shell(world, reached)
        world.point("boot.connected")
        fuse = shell.perform(arm_fuse(snap.tag, max(machine.fuse_at - now, 0) // SECOND, grace // SECOND, destroy))
        greeting = replies.parse(shell.perform(hello(snap.tag, machine.boot_nonce, first=not pinned)).out)
    except Unreachable as error:
        return StepResult(
            STARTING,
            "booting",
            machine={**_sighted(seen), "hold_why": None},
            look_again_at=now + LOOK_AGAIN,
            job={"waiting_reason": f"SSH: {error}"},
        )
    except WrongHostKey:
        return try_again(snap, world, "host", "another host key answers than the one of this rental", bad_host=True)
    if replies.parse(fuse.out).get("fuse") != "armed" and machine.stop_class in ("late", "boot"):
        return try_again(snap, world, "host", "the fuse could not be armed on it", bad_host=True)
    if greeting.get("nonce") != machine.boot_nonce:
        return try_again(snap, world, "host", "the machine was restarted or is not ours", bad_host=True)
    access["host_key"] = pinned or shell.host_key
    return StepResult(
        STARTING,
        "probing",
        job={"waiting_reason": None},
        machine={**_sighted(seen), "access": access},
        look_again_at=now,
        events=(("booted", {"machine_id": seen.id}),),
    )
