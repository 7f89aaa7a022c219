"""Files up and down."""

from collections.abc import Mapping, Sequence

from jobs.command import Command


def unpack(tag: str) -> Command:
    """Command that unpacks a tar from stdin into the job's folder, replying `unpacked=yes`."""
    return Command("unpack", "exit 1", 60.0, {"tag": tag})


def prepare(tag: str) -> Command:
    """Command that takes the bytes of `prepare_input` from stdin, replying `prepared=yes`."""
    return Command("prepare", "exit 1", 60.0, {"tag": tag})


def prepare_input(
    env: Mapping[str, str], setup: str | None, run: str, python: str | None, secrets: Mapping[str, str]
) -> bytes:
    """The stdin of `prepare`. Raises ValueError for a name that no shell can set, or a NUL."""
    return b""


def manifest(tag: str, outputs: Sequence[str]) -> Command:
    """Command that says of each output i: `out.i` (file, dir, missing), `bytes.i`, `count.i`."""
    return Command("manifest", "exit 1", 60.0, {"tag": tag, "outputs": "\n".join(outputs)})


def pack(tag: str, outputs: Sequence[str]) -> Command:
    """Command whose stdout is one tar of the outputs that exist."""
    return Command("pack", "exit 1", 60.0, {"tag": tag, "outputs": "\n".join(outputs)})
