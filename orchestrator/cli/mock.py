"""Which world a command means, and the simulated cloud that stands in for all providers."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.errors import Unanswered, Usage
from providers.clock import RealClock

if TYPE_CHECKING:
    from orchestrator.settings import Settings

MOCK = "mock"
_START_S = 20.0
_COMMAND = "from orchestrator.cli.main import main; main()"


def means_simulated(settings: Settings, mock: bool, providers: Sequence[str] = ()) -> bool:
    """Whether the simulated world is meant: only when it is named. Raises Usage when both are."""
    if MOCK in providers and any(name != MOCK for name in providers):
        raise Usage(f"providers {', '.join(providers)}: simulated and real ones are never mixed; keep one kind")
    if mock and providers and MOCK not in providers:
        raise Usage(f"--mock, and the job file names {', '.join(providers)}; leave one of them out")
    return mock or MOCK in providers or bool(settings.mock_url and not providers)


def ensure_cloud(settings: Settings) -> Settings:
    """Settings whose mock_url answers: the one that was set, the cloud that runs already, or one started now.

    The cloud outlives us: its state lies in HOME/sim, its address and process number in
    HOME/sim/cloud.json. Raises Unanswered when it does not come up.
    """
    if settings.mock_url:
        return settings
    folder = settings.home / "sim"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    url = _running(folder)
    if url is None:
        with _alone(folder):
            url = _running(folder) or _start(folder)
    return replace(settings, mock_url=url)


def _remembered(folder: Path) -> str | None:
    try:
        return str(json.loads((folder / "cloud.json").read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError):
        return None


def _running(folder: Path) -> str | None:
    url = _remembered(folder)
    if url is None:
        return None
    try:
        with urllib.request.urlopen(f"{url}/_cloud/clock", timeout=3) as answer:
            return url if "now" in json.load(answer) else None
    except (OSError, ValueError):
        return None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One starter at a time: the lock goes with the process that held it."""
    with (folder / "starting.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start(folder: Path) -> str:
    """Start a cloud, at its old address where that is free: an orchestrator may still know it by that one."""
    old = _remembered(folder)
    ports = [old.rsplit(":", 1)[-1].strip("/")] if old else []
    for port in [*ports, "0"]:
        url = _start_at(folder, port)
        if url is not None:
            return url
    log = folder / "cloud.log"
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it said nothing"]
    raise Unanswered(f"the simulated cloud did not start: {said[-1]}; see {log}")


def _start_at(folder: Path, port: str) -> str | None:
    """Its address once it answers, None when it ended or said nothing in time.

    It prints to a file and not to a pipe, which would break when this process ends.
    """
    clock = RealClock()
    out = folder / "cloud.out"
    command = [sys.executable, "-P", "-c", _COMMAND, "cloud", "--state", str(folder), "--port", port]
    with out.open("wb") as stdout, (folder / "cloud.log").open("ab") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=folder, start_new_session=True
        )
    until = clock.monotonic() + _START_S
    while clock.monotonic() < until and process.poll() is None:
        first, newline, _ = out.read_text(encoding="utf-8", errors="replace").partition("\n")
        if newline and first.startswith("http"):
            url = first.strip().rstrip("/")
            note = folder / "cloud.json.new"
            note.write_text(json.dumps({"url": url, "pid": process.pid}), encoding="utf-8")
            note.replace(folder / "cloud.json")
            return url
        clock.sleep(0.02)
    process.terminate()
    return None
