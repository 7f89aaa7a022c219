"""Where the demo is played: a home of its own, commands typed in it, its cloud, and an end that leaves nothing.

Every process of the demo carries GPUPOOR_HOME of this one temporary folder in its environment; by that
(and by the marks of the simulated machines) it is found and ended, whatever became of its parent.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from jobs.errors import GpupoorError
from orchestrator.demo.viewer import Viewer
from providers.clock import RealClock
from providers.simulator import processes
from providers.simulator.folder import Folder

# A short ladder of stops: 2 s of guard, 2 s of grace and 30 s to collect lie between soft stop and reserved end.
SETTINGS: Final = {"GPUPOOR_GUARD_EVERY": "1s", "GPUPOOR_GRACE": "2s", "GPUPOOR_MAX_GPUS": "2", "GPUPOOR_ZONE": "UTC"}
_PROGRAM: Final = "from orchestrator.cli.main import main; main()"
_COMMAND_S: Final = 90.0
_END_S: Final = 15.0


class DemoFailed(GpupoorError):
    """Something that the demo promised did not hold."""


class Stage:
    """A folder to type in, with `examples` beside, and the home of an installation that nobody else uses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.home = self.folder / "home"
        shutil.copytree(find_examples(), self.folder / "examples")
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GPUPOOR_")}
        self.environment = {**clean, "GPUPOOR_HOME": str(self.home), **SETTINGS}
        self.clock = RealClock()

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Type `gpupoor WORDS` and do not wait. A session of its own: Ctrl-C reaches the demo, which cleans up."""
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, *words], cwd=self.folder, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def view(self, *words: str) -> Viewer:
        """Type a command in sight of everybody; the viewer shows what it prints."""
        shown = " ".join(f"'{word}'" if " " in word else word for word in words)
        click.secho(f"\n  $ gpupoor {shown}", fg="cyan")
        return Viewer(self.start(*words), self.clock)

    def type(self, *words: str, code: int = 0, most_lines: int | None = None) -> bytes:
        """Type a command in sight, wait for its end, and give what it wrote on stdout. Raises DemoFailed."""
        with self.view(*words) as viewer:
            viewer.most_lines = most_lines
            viewer.show(limit_s=_COMMAND_S)
            self._expect(words, viewer.code, code, bytes(viewer.err))
            return bytes(viewer.out)

    def read(self, *words: str) -> bytes:
        """What a command writes on stdout, unseen. Raises DemoFailed when it fails."""
        with self.start(*words) as process:
            try:
                out, err = process.communicate(timeout=_COMMAND_S)
            except BaseException:
                process.kill()
                raise
        self._expect(words, process.returncode, 0, err)
        return out

    def document(self, *words: str) -> Any:
        """What a command tells as JSON."""
        return json.loads(self.read(*words, "-o", "json"))

    def cloud(self, call: str, body: Mapping[str, Any] | None = None) -> Any:
        """One call of the cloud's control API: its own books, which nothing of ours can write. Raises DemoFailed."""
        data = None if body is None else json.dumps(body).encode()
        try:
            url = json.loads((self.home / "sim" / "cloud.json").read_text(encoding="utf-8"))["url"]
            with urllib.request.urlopen(urllib.request.Request(f"{url}/_cloud/{call}", data), timeout=10) as answer:
                return json.load(answer)
        except (OSError, ValueError, KeyError) as error:
            raise DemoFailed(f"the simulated cloud does not answer {call}: {error}") from None

    def orchestrator(self) -> int | None:
        """The process number of the orchestrator, None when none runs."""
        from orchestrator.up import LOCK, is_held

        lock = self.home / LOCK
        return int(lock.read_text(encoding="utf-8")) if is_held(lock) else None

    def living(self) -> list[processes.Mark]:
        """Every process that was started in this home, but for those of machines."""
        mine, found = f"GPUPOOR_HOME={self.home}".encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            mark = processes.mark_of(int(entry.name)) if mine in words else None
            found += [mark] if mark else []
        return found

    def machine_processes(self) -> list[processes.Mark]:
        """What lives of the simulated machines: each one's host and its first process."""
        places = [Folder(path) for path in (self.home / "sim" / "machines").glob("*")]
        marks = [processes.read_mark(path) for place in places for path in (place.host, place.init)]
        return [mark for mark in marks if mark is not None and processes.lives(mark)]

    def is_empty(self) -> bool:
        """Whether nothing of the demo lives any more."""
        return not self.living() and not self.machine_processes()

    def wait_until_empty(self) -> bool:
        """False when something still lives after a while."""
        until = self.clock.monotonic() + _END_S
        while not self.is_empty():
            if self.clock.monotonic() > until:
                return False
            self.clock.sleep(0.05)
        return True

    def clear(self) -> None:
        """Kill whatever is left, again and again until nobody is there who could start others."""
        until = self.clock.monotonic() + _END_S
        while not self.is_empty() and self.clock.monotonic() < until:
            for place in (self.home / "sim" / "machines").glob("*/run"):
                (place / "destroyed").touch()
            for mark in [*self.living(), *self.machine_processes()]:
                processes.send(mark, signal.SIGKILL)
            self.clock.sleep(0.05)

    def _expect(self, words: tuple[str, ...], code: int | None, wanted: int, err: bytes) -> None:
        if code != wanted:
            said = err.decode(errors="replace").strip().splitlines()[-3:]
            raise DemoFailed(f"gpupoor {' '.join(words)}: exit code {code} instead of {wanted}: {' | '.join(said)}")


def find_examples() -> Path:
    """The folder of examples beside the packages: `examples` in a checkout, `gpupoor_examples` in a wheel."""
    beside = Path(__file__).parents[2]
    for folder in (beside / "examples", beside / "gpupoor_examples"):
        if (folder / "tiny-lm" / "job.yaml").exists():
            return folder
    raise DemoFailed("the examples are not there; install gpupoor-queue anew, or run this from a checkout")
