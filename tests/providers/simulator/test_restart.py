"""The cloud's own death: kill -9, and the next process on the same folder knows everything."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

PLAIN = {"provider": "mock", "gpu": "RTX-4090", "vram_gb": 24, "price_per_hour": "0.36", "spot_price": "0.1"}
KEY = {"Authorization": "Bearer k"}
ROOT = Path(__file__).parents[3]


class Process:
    """One cloud process on a state folder, its clock standing still."""

    def __init__(self, state: Path) -> None:
        command = [sys.executable, "-m", "tests.providers.simulator.stand_in", str(state), "0"]
        self.child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.child.stdout is not None
        self.url = self.child.stdout.readline().strip()

    def end(self, number: int) -> int:
        self.child.send_signal(number)
        self.child.communicate()
        return self.child.returncode

    def get(self, path: str) -> Any:
        return httpx.get(self.url + path, headers=KEY, timeout=20).json()

    def post(self, path: str, body: Any) -> Any:
        return httpx.post(self.url + path, json=body, headers=KEY, timeout=20).json()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[list[Process]]:
    """Every process that is put into this list is ended."""
    found: list[Process] = []
    yield found
    for process in found:
        if process.child.poll() is None:
            process.end(signal.SIGKILL)


def test_kill_minus_nine_loses_nothing(tmp_path: Path, processes: list[Process]) -> None:
    """Bill, offers, rules with their counts, requests, standing requests, tokens and clock are there again."""
    first = Process(tmp_path / "state")
    processes.append(first)
    first.post("/_cloud/market", {"offers": [PLAIN]})
    rules = [
        {"on": "list", "times": 2, "do": {"status": 500}},
        {"on": "spot", "do": {"reborn": {"after_s": 500, "label": True}}},
    ]
    first.post("/_cloud/faults", {"rules": rules})
    offers = first.get("/mock/v1/offers")["offers"]
    kept = first.post("/mock/v1/machines", {"offer_id": offers[0]["id"], "label": "gp-a", "token": "t"})
    lost = first.post("/mock/v1/machines", {"offer_id": offers[1]["id"], "label": "gp-b"})
    first.get("/mock/v1/machines")
    first.post("/_cloud/clock", {"advance_s": 100})
    first.post(f"/_cloud/machines/{lost['id']}/preempt", {"notice_s": 0})
    before = {path: first.get(path) for path in ("/_cloud/bill", "/_cloud/faults", "/_cloud/requests", "/_cloud/clock")}
    assert before["/_cloud/bill"]["standing_requests"] == 1
    assert first.end(signal.SIGKILL) == -signal.SIGKILL

    second = Process(tmp_path / "state")
    processes.append(second)
    assert {path: second.get(path) for path in before} == before
    assert second.get("/mock/v1/offers") == {"offers": [{**one, "as_of": second_now(second)} for one in taken(offers)]}
    again = second.post("/mock/v1/machines", {"offer_id": offers[0]["id"], "token": "t"})
    assert (again["id"], again["address"]) == (kept["id"], {"host": "127.0.0.1", "port": 22022, "user": "root"})
    assert "error" in second.get("/mock/v1/machines")
    assert len(second.get("/mock/v1/machines")["machines"]) == 1


def taken(offers: list[Any]) -> list[Any]:
    """The offers with one of their common stock taken."""
    return [{**one, "capacity": one["capacity"] - 1} for one in offers]


def second_now(process: Process) -> Any:
    """The cloud's time there."""
    return process.get("/_cloud/clock")["now"]


def test_a_second_cloud_on_the_same_folder_is_refused(tmp_path: Path, processes: list[Process]) -> None:
    """It says why and ends; the first goes on."""
    first = Process(tmp_path / "state")
    processes.append(first)
    second = Process(tmp_path / "state")
    _, complaint = second.child.communicate()
    assert second.child.returncode != 0
    assert "another cloud runs on" in complaint
    assert first.get("/_cloud/bill")["alive"] == 0


def test_a_term_leaves_machines(tmp_path: Path, processes: list[Process]) -> None:
    """SIGTERM ends the process alone, with code 0; its machines are adopted by the next one."""
    first = Process(tmp_path / "state")
    processes.append(first)
    offer = first.get("/mock/v1/offers")["offers"][0]["id"]
    first.post("/mock/v1/machines", {"offer_id": offer})
    assert first.end(signal.SIGTERM) == 0
    second = Process(tmp_path / "state")
    processes.append(second)
    assert second.get("/_cloud/bill")["alive"] == 1
