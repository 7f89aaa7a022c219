"""The examples are job files that this version takes."""

from pathlib import Path

import pytest

from jobs import job_file

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("**/job.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_examples_are_accepted(path: Path) -> None:
    """Each example is read without a fault or a warning, and names a budget, a time limit and outputs."""
    found = job_file.read(path.read_bytes(), path.name)
    assert found.warnings == ()
    assert found.spec.budget and found.spec.max_duration and found.spec.outputs


def test_the_first_example_is_five_lines() -> None:
    """The smallest job file that does something is counted on one hand."""
    assert len((FOLDER / "hello" / "job.yaml").read_text().splitlines()) == 5
