"""Command: one thing to do on a machine, as a value that a test can compare.

`text` is POSIX shell for a real machine; `kind` and `facts` say the same in values, so
that a machine simulated inside the process can act on them and never runs a shell.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Fact = str | int | bool | None


@dataclass(frozen=True)
class Command:
    """One act on a machine.

    kind: the word for the act (jobs/script has one function for each).
    text: POSIX shell text, run by `sh` on the machine.
    limit_s: real seconds after which whoever performs it gives up.
    facts: the arguments of the act, for the in-process simulator.
    """

    kind: str
    text: str
    limit_s: float = 30.0
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code (0..255) and both streams, whole."""

    code: int
    out: bytes = b""
    err: bytes = b""
