"""`gpupoor submit` as a user types it: real processes, a fresh home, a simulated cloud of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RUN = [sys.executable, "-P", "-c", "from orchestrator.cli.main import main; main()"]
JOB = "resources: {gpu: 24GB}\nworkdir: .\nrun: %s\noutputs: [out]\nbudget: 2\n"


class Shell:
    """A folder in which `gpupoor` is typed, and a home of its own."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GPUPOOR_")}
        self.environment = {**clean, "HOME": str(folder), "GPUPOOR_HOME": str(folder / "home"), **environment}

    def write(self, run: str, name: str = "job.yaml") -> None:
        """A job file that runs `run`."""
        (self.folder / name).write_text(JOB % run)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Type a command and do not wait."""
        return subprocess.Popen(
            [*RUN, *words], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def gpupoor(self, *words: str, timeout: float = 120) -> tuple[int, bytes, str]:
        """(exit code, stdout, stderr) of a command."""
        with self.start(*words) as process:
            out, err = process.communicate(timeout=timeout)
            return process.returncode, out, err.decode()

    def document(self, *words: str) -> Any:
        """What a command prints as JSON."""
        return json.loads(self.gpupoor(*words, "-o", "json")[1])


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A fresh home; at the end everything that was started in it is ended by its own commands."""
    shell = Shell(tmp_path)
    yield shell
    if (tmp_path / "home/up.lock").exists():
        shell.gpupoor("cancel", "--all")
        code, _, said = shell.gpupoor("status", "--all")
        assert code == 0, said
        for job in shell.document("status", "--all")["jobs"]:
            shell.gpupoor("logs", job["id"], "-f")
        code, said = 3, ""
        for _ in range(60):
            code, _, said = shell.gpupoor("down")
            if code != 3:
                break
        assert code == 0, said


def test_a_job_from_file_to_results(shell: Shell) -> None:
    """The log alone on stdout, phases on stderr, exit 0; the document is last with JSON; outputs come by pull."""
    shell.write("'echo hello; echo oops >&2; mkdir out; echo result > out/r'")
    code, out, err = shell.gpupoor("submit", "job.yaml", "--mock", "-f", "--id", "mine-1")
    assert (code, sorted(out.splitlines())) == (0, [b"hello", b"oops"]), err
    assert "SIMULATED" in err
    assert "succeeded" in err
    assert shell.gpupoor("pull")[0] == 0
    handle = shell.document("status", "mine-1")["handle"]
    assert (shell.folder / "gpupoor-out" / handle / "out/r").read_text() == "result\n"
    again = shell.document("submit", "job.yaml", "--mock", "--id", "mine-1")
    assert (again["handle"], again["state"], len(again["attempts"])) == (handle, "succeeded", 1)
    shell.write("'exit 9'")
    assert shell.gpupoor("submit", "job.yaml", "--mock", "--id", "mine-1")[0] == 2
    code, out, _ = shell.gpupoor("submit", "job.yaml", "--mock", "--wait", "--exit-code", "-o", "json")
    found = json.loads(out)
    assert (code, found["state"], found["reason_code"], found["exit_code"]) == (9, "failed", "own_exit", 9)
    assert found["results"] == "incomplete"


def test_ctrl_c_detaches_and_the_job_goes_on(shell: Shell) -> None:
    """Exit 130 and one line that says the price, the stop and what to type; then cancel ends it with exit 8."""
    shell.write("'echo begun; sleep 300'")
    with shell.start("submit", "job.yaml", "--mock", "-f") as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"begun\n"
        follower.send_signal(signal.SIGINT)
        _, err = follower.communicate(timeout=30)
    assert follower.returncode == 130
    job = shell.document("status")["jobs"][0]
    last = err.decode().splitlines()[-1]
    assert last.startswith(f"detached; {job['handle']} goes on (sim $")
    assert last.endswith("). gpupoor logs -f · gpupoor cancel")
    assert (job["state"], job["reason_code"]) == ("running", None)
    (cancelled,) = shell.document("cancel", job["id"])
    assert cancelled["machine_may_appear"]
    assert shell.gpupoor("logs", "-f")[0] == 8


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["job.yaml"], "--mock"),
        (["job.yaml", "--mock", "--burst", "b"], "not yet"),
        (["job.yaml", "--mock", "--keep", "1h"], "not yet"),
        (["job.yaml", "--mock", "--set", "resources.providers=[vast]"], "--mock"),
        (["job.yaml", "--set", "resources.providers=[mock, vast]"], "never mixed"),
        (["job.yaml", "--mock", "--exit-code"], "--wait"),
        (["job.yaml", "job.yaml", "--mock", "-f"], "one job"),
        (["job.yaml", "job.yaml", "--mock", "--id", "x"], "one by one"),
        (["gone.yaml", "--mock"], "gone.yaml"),
        (["free.yaml", "--mock"], "budget"),
    ],
)
def test_wrong_usage_starts_nothing(shell: Shell, words: list[str], says: str) -> None:
    """Exit 2 and what would be right; neither cloud nor orchestrator is started."""
    shell.write("'true'")
    (shell.folder / "free.yaml").write_text("run: true\n")
    code, out, err = shell.gpupoor("submit", *words)
    assert (code, out) == (2, b"")
    assert says in err
    assert not (shell.folder.parent / "home/sim/cloud.json").exists()
    assert not (shell.folder.parent / "home/up.lock").exists()
