"""Hosts that only remember what they were told, and a cloud process around them."""

import sys
from pathlib import Path

from providers.clock import RealClock
from providers.shell import Access
from providers.simulator.cloud_clock import CloudClock
from providers.simulator.hosting import BootPlan
from providers.simulator.server import run


class Steps:
    """A clock that a test moves. Microseconds."""

    def __init__(self, now: int = 1_800_000_000_000_000) -> None:
        self.instant = now

    def now(self) -> int:
        return self.instant

    def advance(self, seconds: float) -> None:
        self.instant += round(seconds * 1_000_000)


class StandInHosts:
    """told: every call, in order. own_ends: machine -> when it switched itself off."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.plans: dict[str, BootPlan] = {}
        self.own_ends: dict[str, int] = {}
        self.up: set[str] = set()

    def boot(self, machine: str, folder: Path, plan: BootPlan) -> None:
        (folder / "home").mkdir(parents=True)
        self.told.append(("boot", machine))
        self.plans[machine] = plan
        self.up.add(machine)

    def adopt(self, machine: str, folder: Path) -> None:
        self.told.append(("adopt", machine))
        self.up.add(machine)

    def access(self, machine: str) -> Access | None:
        return Access("127.0.0.1", 22022) if machine in self.up else None

    def ended_by_itself(self, machine: str) -> int | None:
        return self.own_ends.get(machine)

    def alive(self, machine: str) -> bool:
        return machine in self.up

    def destroy(self, machine: str) -> None:
        self.told.append(("destroy", machine))
        self.up.discard(machine)

    def kill(self, machine: str) -> None:
        self.told.append(("kill", machine))

    def freeze(self, machine: str) -> None:
        self.told.append(("freeze", machine))

    def unfreeze(self, machine: str) -> None:
        self.told.append(("unfreeze", machine))

    def partition(self, machine: str, seconds: float) -> None:
        self.told.append(("partition", machine, seconds))

    def restart(self, machine: str, wipe: bool) -> None:
        self.told.append(("restart", machine, wipe))

    def new_port(self, machine: str) -> None:
        self.told.append(("new_port", machine))

    def change(self, machine: str, plan: BootPlan) -> None:
        self.told.append(("change", machine, plan.disk_gb, plan.wrong_host_key))

    def gpu_report(self, machine: str, text: str | None) -> None:
        self.told.append(("gpu_report", machine, text))

    def notice(self, machine: str) -> None:
        self.told.append(("notice", machine))


if __name__ == "__main__":
    state = Path(sys.argv[1])
    state.mkdir(parents=True, exist_ok=True)
    clock = CloudClock(state / "clock", RealClock().now, float(sys.argv[2]))
    run(state, 0, None, None, clock, StandInHosts())
