"""The fuse: ends jobs and machine at a moment, with nobody of ours alive."""

from jobs.command import Command


def arm_fuse(tag: str, left_s: int, grace_s: int, destroy_text: str) -> Command:
    """Command that sets the machine's end to `left_s` seconds from now, replying `fuse=armed`."""
    return Command("arm_fuse", "exit 1", 30.0, {"tag": tag, "left_s": left_s, "grace_s": grace_s})


def boot_fuse_text(left_s: int, grace_s: int, destroy_text: str) -> str:
    """Shell text for the first boot command: arms the same fuse before anybody logs in."""
    return "exit 1"
