"""Market and real machines together: over HTTP and SSH, with a clock that stands still, over the cloud's own death."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobs.command import Command
from jobs.script.fuse import boot_fuse_text
from providers.clock import RealClock
from providers.keys import make_key_pair
from providers.shell import Access
from providers.ssh import connect

ROOT = Path(__file__).parents[3]
KEY = {"Authorization": "Bearer k"}
OFFER = {"provider": "mock", "gpu": "RTX-4090", "vram_gb": 24, "price_per_hour": "0.36", "boot_s": 2}


class RealCloud:
    """One process of the cloud on `state`, its clock standing still."""

    def __init__(self, state: Path) -> None:
        command = [sys.executable, "-m", "providers.simulator.server", str(state), "0", "0"]
        self.child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.child.stdout is not None
        self.url = self.child.stdout.readline().strip()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return httpx.request(method, self.url + path, json=body, headers=KEY, timeout=20).json()

    def advance(self, seconds: float) -> None:
        self.ask("POST", "/_cloud/clock", {"advance_s": seconds})

    def end(self, number: int) -> None:
        self.child.send_signal(number)
        self.child.communicate()


@pytest.fixture
def clouds(tmp_path: Path) -> Iterator[list[RealCloud]]:
    """A cloud; whatever is put into the list is ended, its machines first."""
    found = [RealCloud(tmp_path / "state")]
    yield found
    for machine in found[-1].ask("GET", "/mock/v1/machines")["machines"]:
        found[-1].ask("DELETE", f"/mock/v1/machines/{machine['id']}")
    found[-1].end(signal.SIGTERM)


def until(what: Callable[[], Any]) -> Any:
    """What it gives, asked again until it is true; pytest's limit ends it."""
    while not (found := what()):
        time.sleep(0.02)
    return found


def test_a_machine_outlives_the_cloud_and_ends_itself_on_cloud_time(clouds: list[RealCloud], tmp_path: Path) -> None:
    """Rented, reached, the cloud killed and started again; the boot fuse fires on a step, and the bill ends there."""
    first, key = clouds[0], make_key_pair("job")
    first.ask("POST", "/_cloud/market", {"offers": [OFFER]})
    offer = first.ask("GET", "/mock/v1/offers")["offers"][0]["id"]
    order = {"offer_id": offer, "public_key": key.public, "boot_text": boot_fuse_text(300, 60, "poweroff", 2**40)}
    machine = first.ask("POST", "/mock/v1/machines", order)
    path = f"/mock/v1/machines/{machine['id']}"
    assert machine["address"] is None
    first.advance(2)
    until(lambda: first.ask("GET", path)["address"])
    first.end(signal.SIGKILL)

    second = RealCloud(tmp_path / "state")
    clouds.append(second)
    address = until(lambda: second.ask("GET", path)["address"])
    shell = connect(Access(address["host"], address["port"], address["user"]), key, clock=RealClock())
    armed = Command("look", "cat $HOME/.gpupoor/fuse.end && echo here > $HOME/mark", 20)
    until(lambda: shell.perform(armed).code == 0)
    shell.close()
    second.advance(200)
    assert second.ask("GET", "/_cloud/bill")["alive"] == 1
    second.advance(160)
    until(lambda: second.ask("GET", "/_cloud/bill")["alive"] == 0)
    [line] = second.ask("GET", "/_cloud/bill")["machines"]
    assert (line["state"], line["cost"]) == ("gone", "0.0362")
    assert (Path(line["home"]) / "mark").read_text() == "here\n"
