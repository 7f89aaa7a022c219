"""A stand-in for a rented machine: a folder as HOME, and real shells that perform the commands."""

import os
import re
import signal
import subprocess
from pathlib import Path

from jobs.command import Command, Outcome
from jobs.script.files import prepare, prepare_input
from jobs.script.follow import follow
from jobs.script.hello import hello
from jobs.script.replies import parse
from jobs.script.start import start, state
from providers.clock import RealClock

TAG = "job-7f3a-1"
NONCE = "0123456789abcdef"
PATIENCE_S = 60.0
CLOCK = RealClock()


class Machine:
    """HOME is a folder with a space and a quote in its name; `shell` is the sh that runs the texts."""

    def __init__(self, folder: Path, shell: str, path: str | None = None) -> None:
        self.home = folder / "my 'home'"
        self.home.mkdir(parents=True)
        self.shell = shell
        self.env = {"HOME": str(self.home), "PATH": path or f"/usr/bin:/bin:{os.environ['PATH']}"}
        self.state = self.home / ".gpupoor" / TAG
        self.dir = self.home / "gpupoor" / TAG

    def popen(self, command: Command | str) -> subprocess.Popen[bytes]:
        """The text begun, all streams as pipes."""
        text = command if isinstance(command, str) else command.text
        pipe = subprocess.PIPE
        return subprocess.Popen([self.shell, "-c", text], stdin=pipe, stdout=pipe, stderr=pipe, env=self.env)

    def perform(self, command: Command | str, stdin: bytes = b"") -> Outcome:
        """The text run to its end."""
        process = self.popen(command)
        out, err = process.communicate(stdin, PATIENCE_S)
        return Outcome(process.returncode % 256, out, err)

    def ask(self, command: Command | str, stdin: bytes = b"") -> dict[str, str]:
        """Perform and read the replies; anything on stderr is a fault."""
        outcome = self.perform(command, stdin)
        assert outcome.err == b"", outcome
        return parse(outcome.out)

    def prepare(self, run: str, setup: str | None = None, env: dict[str, str] | None = None, **more: object) -> None:
        """Hello and prepare, for a start."""
        assert self.ask(hello(TAG, NONCE, True))["nonce"] == NONCE
        stdin = prepare_input(env or {}, setup, run, more.get("python"), more.get("secrets") or {})  # type: ignore[arg-type]
        assert self.ask(prepare(TAG), stdin) == {"prepared": "yes"}

    def start(self) -> dict[str, str]:
        """Start the job that was prepared."""
        return self.ask(start(TAG, NONCE))

    def run(self, run: str, setup: str | None = None, env: dict[str, str] | None = None, **more: object) -> int:
        """Prepare, start and wait for the end; the job's exit code."""
        self.prepare(run, setup, env, **more)
        assert self.start() == {"start": "started"}
        return self.wait()

    def wait(self) -> int:
        """Wait for the job's end; its exit code."""
        until(lambda: self.ask(state(TAG))["phase"] == "ended")
        return int(self.ask(state(TAG))["exit"])

    def follow(self, offset: int = 0, heartbeat_s: int = 5) -> Outcome:
        """Follow to the end."""
        return self.perform(follow(TAG, offset, heartbeat_s))

    @property
    def log(self) -> bytes:
        """The combined log."""
        return Path(f"{self.dir}.log").read_bytes()

    @property
    def stderr(self) -> bytes:
        """What went to stderr alone."""
        return Path(f"{self.dir}.stderr").read_bytes()

    def processes(self, word: str = "") -> dict[int, str]:
        """Living processes of this machine (its HOME is in their environment) whose command line has `word`."""
        found = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            environ = _environ(int(folder.name))
            try:
                line = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            if f"HOME={self.home}\0".encode() in environ and word in line:
                found[int(folder.name)] = line.replace("\0", " ")
        return found

    def brother(self, tag: str) -> Path:
        """Another attempt prepared like the first; its state folder."""
        folder = self.state.parent / tag
        folder.mkdir()
        for name in ("nonce", "run.sh", "setup.sh", "env", "python"):
            (folder / name).write_bytes((self.state / name).read_bytes())
        return folder

    def marked(self, tag: str) -> list[int]:
        """Living processes with the mark of the attempt `tag`."""
        mark = re.compile(rb"GPUPOOR_TAG=\d+\." + re.escape(tag.encode()) + b":")
        return [pid for pid in self.processes() if mark.search(_environ(pid))]

    def pid(self, name: str) -> int:
        """The number in a file of the state folder."""
        return int((self.state / name).read_text())

    def clear(self) -> None:
        """Kill what is left."""
        while left := self.processes():
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            CLOCK.sleep(0.02)


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def until(fact, patience_s: float = PATIENCE_S) -> None:
    """Return when `fact()` is true; fail when it never is."""
    last = CLOCK.monotonic() + patience_s
    while not fact():
        assert CLOCK.monotonic() < last, "it never came"
        CLOCK.sleep(0.02)
