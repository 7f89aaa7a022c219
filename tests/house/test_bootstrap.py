"""bootstrap.sh: a virtual environment from a bare Python, or the command to type."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bootstrap.sh"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with the script, a `python3` of the test's making, and no other program than the script uses."""
    shutil.copy(SCRIPT, tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "dirname", "id", "rm", "mktemp"):
        (programs / name).symlink_to(shutil.which(name) or name)
    return tmp_path


def bootstrap(bare: Path, python: str) -> subprocess.CompletedProcess[str]:
    """Run it with a `python3` that is this shell text."""
    program = bare / "bin" / "python3"
    program.write_text(f"#!/bin/sh\n{python}\n")
    program.chmod(0o755)
    environ = {"PATH": str(bare / "bin"), "HOME": os.environ["HOME"]}
    return subprocess.run([bare / "bootstrap.sh"], env=environ, capture_output=True, text=True, check=False)


def test_a_python_with_venv(bare: Path) -> None:
    """Python's own venv is used where it works; the second call finds it there and changes nothing."""
    assert bootstrap(bare, f'exec {sys.executable} "$@"').returncode == 0
    made = (bare / ".venv" / "pyvenv.cfg").stat().st_mtime_ns
    assert bootstrap(bare, "exit 1").returncode == 0
    assert (bare / ".venv" / "pyvenv.cfg").stat().st_mtime_ns == made


def test_nothing_works(bare: Path) -> None:
    """With neither venv nor pip nor apt it fails with the command to type, and leaves no half environment."""
    ended = bootstrap(bare, f'[ "$1" = "-m" ] && exit 1\nexec {sys.executable} "$@"')
    assert ended.returncode == 1 and "apt-get install -y python3-venv" in ended.stderr
    assert not (bare / ".venv").exists()


def test_an_old_python(bare: Path) -> None:
    """A Python that is too old is named as the reason."""
    ended = bootstrap(bare, "exit 1")
    assert ended.returncode == 1 and "3.11" in ended.stderr
