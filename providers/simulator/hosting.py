"""What the simulated market asks of whoever makes its machines real (SSH servers on loopback).

The market decides and bills; a host only boots, hurts and ends machines. All calls return at
once; seconds are cloud seconds. A host outlives the cloud's own death: after a restart the
market calls `adopt` for every machine that its state on disk says is alive.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from providers.shell import Access


@dataclass(frozen=True)
class BootPlan:
    """How a machine comes up. authorized_key: one line. boot_text: shell run as the first boot command, or "".

    boot_s: seconds until it is up. sshd_s: until the port opens. banner_s: until the SSH banner comes
    (the port accepts and stays silent before). key_s: until the key is accepted. never: it never boots.
    gpu_lines: what nvidia-smi prints for the query our probe makes, one line a card; "hang" makes it hang.
    gpu_command_file is re-read at each nvidia-smi call, so a fault can change the report later.
    """

    authorized_key: str
    boot_text: str = ""
    boot_s: float = 1.0
    sshd_s: float = 0.0
    banner_s: float = 0.0
    key_s: float = 0.0
    never: bool = False
    wrong_host_key: bool = False
    gpu_lines: tuple[str, ...] = ()
    disk_gb: float = 100.0
    bandwidth_bytes_s: int = 0


class Hosts(Protocol):
    """Makes machines real. machine: the market's id; folder: everything of the machine lies below it."""

    def boot(self, machine: str, folder: Path, plan: BootPlan) -> None:
        """Start it; `access` tells when it listens. folder/home becomes $HOME and is kept after the end."""

    def adopt(self, machine: str, folder: Path) -> None:
        """Take up a machine that an earlier cloud process booted (its host process may live or be dead)."""

    def access(self, machine: str) -> Access | None:
        """Where it listens (with no host key told), or None while it does not."""

    def ended_by_itself(self, machine: str) -> int | None:
        """Instant (cloud microseconds) at which it powered itself off (shutdown, poweroff, halt, reboot), or None."""

    def alive(self, machine: str) -> bool:
        """Whether any process of it lives."""

    def destroy(self, machine: str) -> None:
        """End all its processes for good, at once; folder/home stays. May be called twice."""

    def kill(self, machine: str) -> None:
        """As a power cut: all processes die, the market decides what that means."""

    def freeze(self, machine: str) -> None:
        """SIGSTOP to SSH server and jobs; TCP connections stay open."""

    def unfreeze(self, machine: str) -> None:
        """SIGCONT."""

    def partition(self, machine: str, seconds: float) -> None:
        """No byte passes for so long; connections are kept, new ones hang."""

    def restart(self, machine: str, wipe: bool) -> None:
        """A container restart: all processes die, the disk is wiped if asked, SSH comes up again."""

    def new_port(self, machine: str) -> None:
        """From now on it listens elsewhere."""

    def change(self, machine: str, plan: BootPlan) -> None:
        """A rule reached it: from now on disk, bandwidth and host key are as in `plan`, the rest of it stays."""

    def gpu_report(self, machine: str, text: str | None) -> None:
        """What nvidia-smi prints from now on ("hang": it hangs; None: as booted)."""

    def notice(self, machine: str) -> None:
        """A spot notice reached the machine (file folder/home/.spot_notice and SIGTERM to nobody)."""
