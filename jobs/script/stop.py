"""Ending a job."""

from jobs.command import Command


def stop(tag: str, grace_s: int) -> Command:
    """Command that has TERM sent, then KILL after `grace_s`; returns at once: `stop=sent` or `stop=over`."""
    return Command("stop", "exit 1", 30.0, {"tag": tag, "grace_s": grace_s})


def tombstone(tag: str) -> Command:
    """Command after which the job never starts here: `tombstone=dead` when all is gone, else `alive`."""
    return Command("tombstone", "exit 1", 30.0, {"tag": tag})
