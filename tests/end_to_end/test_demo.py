"""`gpupoor demo` as a user types it: its proofs hold, it fails when one does not, and it leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RUN = [sys.executable, "-P", "-c", "from orchestrator.cli.main import main; main()"]


class Demo:
    """A running demo whose temporary folder lies in `folder`."""

    def __init__(self, folder: Path) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GPUPOOR_")}
        self.folder = folder
        self.process = subprocess.Popen(
            [*RUN, "demo"], env={**clean, "TMPDIR": str(folder)}, cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        )  # fmt: skip
        self.said: list[str] = []

    def read_to(self, words: str) -> None:
        """Wait for a line with these words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if words in line:
                return
        raise AssertionError(f"{words!r} was not said:\n{''.join(self.said)}")

    def end(self) -> tuple[int, str]:
        """Exit code and everything that was said."""
        rest, _ = self.process.communicate(timeout=250)
        return self.process.returncode, "".join(self.said) + rest

    def living(self) -> list[str]:
        """Command lines of processes that know this folder: orchestrator, guard, cloud, machines."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                texts = [(entry / name).read_bytes() for name in ("environ", "cmdline")]
                texts.append(os.fsencode((entry / "cwd").readlink()))
            except OSError:
                continue
            if entry.name != str(os.getpid()) and any(f"{self.folder}/gpupoor-demo".encode() in text for text in texts):
                found.append(texts[1].replace(b"\0", b" ").decode(errors="replace"))
        return found


@contextmanager
def playing(folder: Path) -> Iterator[Demo]:
    """A demo that is interrupted when the test fails before its end."""
    demo = Demo(folder)
    with demo.process:
        try:
            yield demo
        finally:
            if demo.process.poll() is None:
                demo.process.send_signal(signal.SIGINT)


def test_the_story_holds_and_leaves_nothing(tmp_path: Path) -> None:
    """Exit 0, every proof is told, and neither a process nor a file of it stays."""
    with playing(tmp_path) as demo:
        code, said = demo.end()
    assert code == 0, said
    assert said.startswith("SIMULATED")
    proofs = re.findall(r"^  ok  (.*)$", said, re.MULTILINE)
    assert f"{len(proofs)} proofs" in said.splitlines()[-1]
    assert len(proofs) >= 15
    assert demo.living() == []
    assert list(tmp_path.iterdir()) == []


def test_a_broken_promise_is_an_exit_code(tmp_path: Path) -> None:
    """A job that somebody else cancels in the middle: exit 1, the reason, the home kept, no process left."""
    with playing(tmp_path) as demo:
        demo.read_to("fresh model")
        [home] = tmp_path.glob("gpupoor-demo-*/home")
        subprocess.run([*RUN, "cancel", "--all", "-y"], env={**os.environ, "GPUPOOR_HOME": str(home)}, check=True)
        code, said = demo.end()
    assert code == 1, said
    assert "The demo failed: " in said
    assert str(home.parent) in said.splitlines()[-1]
    assert home.is_dir()
    assert demo.living() == []


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    """Exit 130 in the middle of a training; machines, cloud, guard and files are gone."""
    with playing(tmp_path) as demo:
        demo.read_to("fresh model")
        assert demo.living() != []
        demo.process.send_signal(signal.SIGINT)
        code, said = demo.end()
    assert code == 130, said
    assert demo.living() == []
    assert list(tmp_path.iterdir()) == []
