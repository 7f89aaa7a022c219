"""Hundreds of public job files of other tools: each is read or refused, none breaks the reader."""

import os
from pathlib import Path

import pytest

from jobs import job_file
from jobs.errors import InvalidJob

SHARED = Path(os.environ.get("GPUPOOR_SHARED") or Path(__file__).resolve().parents[3] / "shared")
FOLDER = SHARED / "jobfiles"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} does not exist")


def files() -> list[Path]:
    """All job files of the collection."""
    return sorted(path for path in FOLDER.glob("*/*") if path.is_file())


def test_nothing_but_invalid_job() -> None:
    """Every file is a job, or InvalidJob whose lines all begin with its name."""
    refused = 0
    for path in files():
        try:
            job_file.read(path.read_bytes(), path.name)
        except InvalidJob as error:
            refused += 1
            lines = str(error).splitlines()
            assert lines and all(line.startswith((f"{path.name}:", "and ")) for line in lines), path
    assert refused > 0


def test_templates_are_named() -> None:
    """A file that YAML cannot read because of a template says so."""
    said = []
    for path in files():
        try:
            job_file.read(path.read_bytes(), path.name)
        except InvalidJob as error:
            said.append("looks like a template" in str(error))
    assert any(said)
