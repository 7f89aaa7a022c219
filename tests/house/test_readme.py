"""What the README tells people to type works, and what it promises is in the code."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobs.states import REASONS
from orchestrator.cli.main import main
from orchestrator.demo.stage import Stage

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# Beginnings of lines that are not run here, each with the reason.
NOT_RUN = {
    "make demo": "a minute of its own; tests/end_to_end/test_demo.py plays it",
    "make test": "it would run this test again",
    "python3 -m venv": "it installs from the package index; the targets of the Makefile do the same",
}


def typed(language: str) -> list[str]:
    """Lines of fenced blocks in a language, without comments."""
    lines, inside = [], None
    for line in README.splitlines():
        if line.startswith("```"):
            inside = line[3:].strip() if inside is None else None
        elif inside == language:
            lines.append(line.split("  #")[0].strip())
    return [line for line in lines if line]


RUN = [line for line in typed("sh") if not line.startswith(tuple(NOT_RUN))]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A fresh home, the examples beside; whatever is started there is ended."""
    stage = Stage(tmp_path)
    yield stage
    stage.clear()


@pytest.mark.timeout(600)
def test_every_line_runs(stage: Stage, tmp_path: Path) -> None:
    """All lines in their order, in a fresh home: each ends with 0."""
    programs = tmp_path / "bin"
    programs.mkdir()
    words = shlex.join([sys.executable, "-P", "-c", "from orchestrator.cli.main import main; main()"])
    (programs / "gpupoor").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    (programs / "gpupoor").chmod(0o755)
    environment = {**stage.environment, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    for line in RUN:
        ran = subprocess.run(["sh", "-c", line], cwd=stage.folder, env=environment, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"


def test_what_is_not_run_is_still_there() -> None:
    """The list of exceptions names nothing that the README no longer says, and no gpupoor command."""
    assert [start for start in NOT_RUN if not any(line.startswith(start) for line in typed("sh"))] == []
    assert [start for start in NOT_RUN if start.startswith("gpupoor")] == []


def test_make_targets_exist() -> None:
    """Each make line names a target of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {line.split()[1] for line in typed("sh") if re.match(r"make [a-z]", line)}
    assert {"demo", "test"} <= named <= targets


def test_the_job_file_is_the_example() -> None:
    """The job file that is shown is the one that is run."""
    assert typed("yaml") == (ROOT / "examples/hello/job.yaml").read_text().splitlines()


def test_all_exit_codes_are_told() -> None:
    """Every code that a job can end with stands in the table."""
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    assert {code for _, code in REASONS.values()} | {0, 1, 2, 7, 9, 130} == told


def test_every_command_has_help_with_an_example() -> None:
    """`--help` of every command that the main help shows gives an example to type."""
    context = main.make_context("gpupoor", [], resilient_parsing=True)
    for name in main.list_commands(context):  # type: ignore[attr-defined]
        shown = CliRunner().invoke(main, [name, "--help"])
        assert shown.exit_code == 0 and "gpupoor " in shown.output.split("Usage:", 1)[1].split("\n", 1)[1], name
