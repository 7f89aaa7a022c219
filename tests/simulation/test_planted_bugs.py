"""The simulation finds what it must find: each planted bug breaks a promise within a hundred seeds."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
BUGS = sorted((HERE / "tests" / "bugs").glob("*.patch"))
SEEDS = 100


def planted(folder: Path, patch: Path) -> Path:
    """A copy of the product with the bug in it."""
    for package in ("jobs", "providers", "orchestrator", "tests/simulation"):
        shutil.copytree(HERE / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests" / "__init__.py").touch()
    subprocess.run(["git", "apply", "--unsafe-paths", f"--directory={folder}", patch], check=True, cwd="/")
    return folder


@pytest.mark.timeout(900)
@pytest.mark.parametrize("patch", BUGS, ids=lambda patch: patch.stem)
def test_found(patch: Path, tmp_path: Path) -> None:
    """A check of a promise, and no assert of the product, tells that something is wrong."""
    folder = planted(tmp_path, patch)
    hunt = [sys.executable, "-P", "-m", "tests.simulation.hunt", "0", str(SEEDS)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    found = subprocess.run(hunt, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    assert found.returncode == 3, found.stdout + found.stderr[-2000:]
    assert any(found.stdout.split(": ", 1)[1].startswith(promise) for promise in ("P1", "P2", "P3", "P4", "P5", "move"))


def test_there_are_bugs() -> None:
    """At least the six that every version of this test must find."""
    assert len(BUGS) >= 6
