"""Starting the job, once."""

from jobs.command import Command


def start(tag: str, nonce: str) -> Command:
    """Command that starts the job unless it ever was: `start=started/already/restarted/tombstone`."""
    return Command("start", "exit 1", 30.0, {"tag": tag, "nonce": nonce})


def state(tag: str) -> Command:
    """Command that says where the job stands: `phase`, `exit`, `log`, `stderr`, `nonce`."""
    return Command("state", "exit 1", 30.0, {"tag": tag})
