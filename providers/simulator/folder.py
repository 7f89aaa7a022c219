"""What lies in the folder of a simulated machine, and the plan that is kept there for the cloud's next life."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from providers.clock import RealClock
from providers.simulator import clock_file
from providers.simulator.hosting import BootPlan


@dataclass(frozen=True)
class Folder:
    """The places below one machine's folder. `run` is written by the machine, `home` by its jobs."""

    path: Path

    @property
    def home(self) -> Path:
        """$HOME, kept after the end."""
        return self.path / "home"

    @property
    def run(self) -> Path:
        """Marks of processes, port, stand-ins: all that is not the user's."""
        return self.path / "run"

    @property
    def orders(self) -> Path:
        """The Orders by which it boots."""
        return self.path / "orders.json"

    @property
    def host(self) -> Path:
        """Mark of the process that brings the machine up (gone once it is up)."""
        return self.run / "host"

    @property
    def init(self) -> Path:
        """Mark of the machine's PID 1."""
        return self.run / "init"

    @property
    def port(self) -> Path:
        """The port number, there from the moment the machine is up."""
        return self.run / "port"

    @property
    def ended(self) -> Path:
        """Cloud microseconds at which it powered itself off."""
        return self.run / "ended"

    @property
    def destroyed(self) -> Path:
        """There once it must never come up again."""
        return self.run / "destroyed"

    @property
    def frozen(self) -> Path:
        """There while it is frozen."""
        return self.run / "frozen"

    @property
    def partitioned(self) -> Path:
        """Cloud microseconds until which no byte passes."""
        return self.run / "partitioned"

    @property
    def moved(self) -> Path:
        """There while a new port is wished and not yet taken."""
        return self.run / "moved"

    @property
    def second_key(self) -> Path:
        """There once the wrong host key is the one to show."""
        return self.run / "second_key"

    @property
    def log(self) -> Path:
        """What the machine's own processes complain about, and what the boot text prints."""
        return self.path / "machine.log"

    @property
    def shims(self) -> Path:
        """Programs laid over the real ones."""
        return self.run / "shims"

    @property
    def path_first(self) -> Path:
        """First entry of PATH."""
        return self.run / "bin"

    @property
    def real_date(self) -> Path:
        """The covered date program, in the machine's own view."""
        return self.run / "real-date"

    @property
    def uptime(self) -> Path:
        """Laid over /proc/uptime, written by PID 1."""
        return self.run / "uptime"

    @property
    def gpu_lines(self) -> Path:
        """The cards as rented."""
        return self.run / "gpu_lines"

    @property
    def traffic(self) -> Path:
        """Number of bytes that went through its SSH channels, both ways, since the first boot."""
        return self.path / "traffic"

    @property
    def gpu_calls(self) -> Path:
        """One line (the arguments) for each call of nvidia-smi."""
        return self.path / "gpu_calls"

    @property
    def disk(self) -> Path:
        """Bytes of the disk instead of those that were rented, while it is there."""
        return self.path / "disk_bytes"

    @property
    def gpu_report(self) -> Path:
        """What nvidia-smi says instead of the rented cards, while it is there."""
        return self.path / "gpu_report"


@dataclass(frozen=True)
class Orders:
    """All that a machine's processes must know. booted_at: cloud microseconds of the first boot.

    as_user: the user that its jobs run as ("": whoever runs the cloud). max_sessions: per connection, 0: no limit.
    """

    machine: str
    plan: BootPlan
    clock: str
    sshd: str
    as_user: str
    max_sessions: int
    booted_at: int


def save_orders(folder: Folder, orders: Orders) -> None:
    """Write them whole or not at all."""
    replace_text(folder.orders, json.dumps(asdict(orders)))


def load_orders(folder: Folder) -> Orders:
    """Read them. Raises OSError where there are none."""
    values = json.loads(folder.orders.read_text())
    plan = values.pop("plan")
    plan["gpu_lines"] = tuple(plan["gpu_lines"])
    return Orders(plan=BootPlan(**plan), **values)


def replace_text(path: Path, text: str) -> None:
    """Write a file so that a reader, and a death between two lines, sees the old or the new and never half."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_text(text)
    aside.replace(path)


def cloud_now(clock: Path) -> int:
    """The cloud's microseconds; real ones while there is no clock file."""
    real_us = RealClock().now()
    try:
        return clock_file.read(clock, real_us)
    except (OSError, ValueError):
        return real_us


def wait_until(clock: Path, cloud_us: int) -> None:
    """Wait until the cloud's clock says so, however it is stepped meanwhile."""
    real = RealClock()
    while cloud_now(clock) < cloud_us:
        real.sleep(0.01)
