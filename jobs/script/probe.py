"""What the machine really is."""

from jobs.command import Command


def probe(limit_s: int = 20) -> Command:
    """Command that looks at GPUs, disk, memory, CPUs, Python and tar."""
    return Command("probe", "exit 1", limit_s + 20.0)
