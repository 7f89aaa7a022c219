"""What the rules on boot, ssh, disk and gpu do to machines, also to those that run already.

For a host in another process two files lie in a machine's folder: `gpu_calls` has one line for each call
of nvidia-smi (its shim appends it), `traffic` the number of bytes that went through it.
"""

from typing import TYPE_CHECKING, Any, Final

from providers.simulator.gpu_lines import gpu_lines
from providers.simulator.hosting import BootPlan
from providers.simulator.machine import BOOTING, RUNNING, Machine

if TYPE_CHECKING:
    from providers.simulator.market import Market

_ACCESS_DEEDS: Final = ("sshd_s", "banner_s", "key_s", "wrong_host_key", "disk_gb", "bandwidth_bytes_s")
HANG: Final = "hang"


class Afflictions:
    """The hurts of a market's machines; keeps what was told to the hosts in the machines themselves."""

    HOST_DEEDS: Final = frozenset({*_ACCESS_DEEDS, "never_boots", "boot_s", "new_port", "gpu_report"})

    def __init__(self, market: "Market") -> None:
        self._market = market

    def judge(self, machine: Machine) -> dict[str, Any]:
        """All that hurts the machine now: what its create brought, then boot, ssh, disk and gpu in this order."""
        hurts = dict(machine.deeds)
        if not self._market.faults.rules:
            return hurts
        now, line = self._market.now(), self._market.line(machine)
        for word in ("boot", "ssh", "disk"):
            rule = self._market.faults.on_machine(word, machine.provider, line, now)
            hurts.update(rule.do if rule else {})
        rule = self._market.faults.peek("gpu", machine.provider, line, now)
        hurts.update(rule.do if rule else {})
        return hurts

    def time_boot(self, machine: Machine, hurts: dict[str, Any]) -> None:
        """Set when it is up, as long as it is not."""
        if machine.state(self._market.now()) == BOOTING:
            machine.up_after(None if hurts.get("never_boots") else hurts.get("boot_s", machine.boot_s))

    def boot_plan(self, machine: Machine, hurts: dict[str, Any]) -> BootPlan:
        """How its host shall bring it up."""
        return BootPlan(
            authorized_key=machine.public_key,
            boot_text=machine.boot_text,
            boot_s=hurts.get("boot_s", machine.boot_s),
            sshd_s=hurts.get("sshd_s", 0.0),
            banner_s=hurts.get("banner_s", 0.0),
            key_s=hurts.get("key_s", 0.0),
            never=bool(hurts.get("never_boots")),
            wrong_host_key=bool(hurts.get("wrong_host_key")),
            gpu_lines=gpu_lines(machine.gpu, machine.vram_gb, machine.gpu_count),
            disk_gb=float(hurts.get("disk_gb", machine.disk_gb or 100)),
            bandwidth_bytes_s=int(hurts.get("bandwidth_bytes_s", 0)),
        )

    def settle(self, machine: Machine) -> bool:
        """Count its calls of nvidia-smi, and tell its host what changed; whether anything did."""
        counted = self._count_gpu_calls(machine)
        hurts = self.judge(machine)
        self.time_boot(machine, hurts)
        running = machine.state(self._market.now()) == RUNNING
        told: dict[str, Any] = {
            "gpu_report": hurts.get("gpu_report"),
            "new_port": bool(hurts.get("new_port")) and (running or bool(machine.told.get("new_port"))),
            "access": {name: hurts[name] for name in _ACCESS_DEEDS if name in hurts},
        }
        before, machine.told = machine.told, told
        if told["gpu_report"] != before.get("gpu_report"):
            self._market.hosts.gpu_report(machine.id, told["gpu_report"])
        if told["new_port"] and not before.get("new_port"):
            self._market.hosts.new_port(machine.id)
        if told["access"] != before.get("access", told["access"]):
            self._market.hosts.change(machine.id, self.boot_plan(machine, hurts))
        return counted or told != before

    def nvidia_smi(self, machine: Machine) -> str:
        """Count one call and give what it prints, or `hang`; for hosts that live in this process."""
        hurts = {**machine.deeds, **self._next_gpu_hurt(machine)}
        machine.gpu_calls += 1
        self._market.save_faults()
        lines = gpu_lines(machine.gpu, machine.vram_gb, machine.gpu_count)
        return str(hurts.get("gpu_report", "\n".join(lines)))

    def count_traffic(self, machine: Machine) -> None:
        """Take over how many bytes went through it, as far as its host counts them."""
        try:
            text = (self._market.folder_of(machine) / "traffic").read_text(encoding="ascii")
            machine.traffic_bytes = max(machine.traffic_bytes, int(text))
        except (OSError, ValueError):
            return

    def _count_gpu_calls(self, machine: Machine) -> bool:
        try:
            calls = (self._market.folder_of(machine) / "gpu_calls").read_bytes().count(b"\n")
        except OSError:
            return False
        new = calls - machine.gpu_calls
        for _ in range(new):
            self._next_gpu_hurt(machine)
        machine.gpu_calls = max(calls, machine.gpu_calls)
        return new > 0

    def _next_gpu_hurt(self, machine: Machine) -> dict[str, Any]:
        rule = self._market.faults.on_call("gpu", machine.provider, [self._market.line(machine)], self._market.now())
        return dict(rule.do) if rule else {}
