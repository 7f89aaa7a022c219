"""starting/uploading: the bundle, the scripts and the environment go to the machine; then setup may start."""

import json

from jobs.script import replies
from jobs.script.files import prepare, prepare_input, unpack
from jobs.states import STARTING
from orchestrator.ending import end, try_again
from orchestrator.lost import unreachable
from orchestrator.result import StepResult
from orchestrator.snapshot import Snapshot, open_shell
from orchestrator.world import World
from providers.shell import ShellError, WrongHostKey

EMPTY_TAR = bytes(1024)  # two blocks of zeros: the end of an archive


def upload(snap: Snapshot, world: World) -> StepResult:
    """starting/uploading -> setup. May be repeated from the start; nothing runs yet."""
    machine = snap.machine
    assert machine is not None
    now = world.clock.now()
    if snap.job.wish == "cancel":
        return end(snap, world, "cancelled", "cancelled during the upload")
    if machine.state != "alive":
        return try_again(snap, world, "host", machine.why_released or "its machine was given back", bad_host=True)
    if now >= machine.soft_stop_at:
        return try_again(snap, world, "host", "the upload was not done before the money ended", bad_host=True)
    try:
        shell = open_shell(world, machine)
        if snap.job.bundle:
            with world.blobs.open(snap.job.bundle) as source:
                unpacked = shell.put(unpack(snap.tag), source)
        else:
            unpacked = shell.perform(unpack(snap.tag), stdin=EMPTY_TAR)
        world.point("upload.unpacked")
        prepared = shell.perform(prepare(snap.tag), stdin=_prepared(snap, world))
    except WrongHostKey:
        return try_again(snap, world, "host", "another host key answers than the one of this rental", bad_host=True)
    except ShellError as error:
        return unreachable(snap, machine, world, f"upload: {error}")
    if replies.parse(unpacked.out).get("unpacked") != "yes":
        text = unpacked.err.decode(errors="replace").strip()[-300:]
        return try_again(snap, world, "host", f"the files could not be unpacked: {text}", bad_host=True)
    if replies.parse(prepared.out).get("prepared") != "yes":
        text = prepared.err.decode(errors="replace").strip()[-300:]
        return try_again(snap, world, "host", f"the scripts could not be written: {text}", bad_host=True)
    return StepResult(
        STARTING,
        "setup",
        job={"waiting_reason": None},
        attempt={"silent_since": None},
        look_again_at=world.clock.now(),
        events=(("uploaded", {}),),
    )


def _prepared(snap: Snapshot, world: World) -> bytes:
    secrets = json.loads(world.vault.open(snap.job.secrets_sealed)) if snap.job.secrets_sealed else {}
    return prepare_input(
        env=snap.spec.env,
        setup=snap.spec.setup or "",
        run=snap.spec.run,
        python=snap.spec.python or "",
        secrets=secrets,
    )
