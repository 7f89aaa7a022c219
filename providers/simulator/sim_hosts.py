"""Hosts inside the process: machines that are values on a virtual clock."""

from collections.abc import Callable
from pathlib import Path

from providers.shell import Access
from providers.simulator.hosting import BootPlan
from providers.simulator.sim_job import FakeJob
from providers.simulator.sim_machine import SimMachine

_FIRST_PORT = 20_001


class SimHosts:
    """hosting.Hosts over SimMachine. machines: every machine that was ever booted, by the market's id.

    jobs: tag -> what its job does. nvidia_smi: machine id -> what one call of nvidia-smi prints there.
    """

    def __init__(self, now: Callable[[], int], jobs: Callable[[str], FakeJob], destroys: bool) -> None:
        self._now, self._jobs, self._destroys = now, jobs, destroys
        self.nvidia_smi: Callable[[str], str] = lambda _: ""
        self.machines: dict[str, SimMachine] = {}
        self._next_port = _FIRST_PORT

    def boot(self, machine: str, folder: Path, plan: BootPlan) -> None:
        """Start it."""
        smi = self._smi(machine)
        self.machines[machine] = SimMachine(plan, self._now, self._jobs, smi, self._port(), self._destroys)

    def adopt(self, machine: str, folder: Path) -> None:
        """Nothing: what lives in this process needs no adoption."""

    def access(self, machine: str) -> Access | None:
        """Where it listens, or None while it does not."""
        found = self.machines[machine]
        return Access("127.0.0.1", found.port) if found.listens() else None

    def ended_by_itself(self, machine: str) -> int | None:
        """When its fuse gave it back, or None."""
        found = self.machines.get(machine)
        if found is None:
            return None
        found.settle()
        return found.ended_by_itself

    def alive(self, machine: str) -> bool:
        """Whether anything on it lives."""
        return self.machines[machine].dead_at is None

    def destroy(self, machine: str) -> None:
        """End it for good."""
        self.machines[machine].die()

    def kill(self, machine: str) -> None:
        """As a power cut."""
        self.machines[machine].die()

    def freeze(self, machine: str) -> None:
        """Nothing on it moves."""
        self.machines[machine].freeze()

    def unfreeze(self, machine: str) -> None:
        """It goes on."""
        self.machines[machine].unfreeze()

    def partition(self, machine: str, seconds: float) -> None:
        """No byte passes."""
        self.machines[machine].cut(seconds)

    def restart(self, machine: str, wipe: bool) -> None:
        """The container restarts; its disk is always wiped here."""
        self.machines[machine].restart()

    def new_port(self, machine: str) -> None:
        """It listens elsewhere."""
        self.machines[machine].new_port(self._port())

    def change(self, machine: str, plan: BootPlan) -> None:
        """Disk and host key are as in `plan` from now on; nothing here has a speed."""
        self.machines[machine].change(plan)

    def gpu_report(self, machine: str, text: str | None) -> None:
        """Nothing: each call of nvidia-smi asks the market."""

    def notice(self, machine: str) -> None:
        """Nothing: jobs inside the process do not look for a notice."""

    def at(self, access: Access) -> SimMachine | None:
        """Whichever machine listens there."""
        found = (one for one in self.machines.values() if one.port == access.port and one.listens())
        return next(found, None)

    def _port(self) -> int:
        self._next_port += 1
        return self._next_port - 1

    def _smi(self, machine: str) -> Callable[[], str]:
        return lambda: self.nvidia_smi(machine)
