"""Following a job's output."""

from jobs.command import Command


def follow(tag: str, offset: int, heartbeat_s: int = 5) -> Command:
    """Command that goes on: raw log bytes from `offset` on stdout, notes on stderr, until the job's end."""
    return Command("follow", "exit 1", float("inf"), {"tag": tag, "offset": offset})


def follow_stderr(tag: str, offset: int) -> Command:
    """Command that goes on: raw bytes of the job's stderr from `offset` on stdout, until the job's end."""
    return Command("follow_stderr", "exit 1", float("inf"), {"tag": tag, "offset": offset})
