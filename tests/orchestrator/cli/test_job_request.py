"""From a job file and flags to a request."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.errors import InvalidJob, Usage
from orchestrator.cli.job_request import Flags, Read, read_request
from orchestrator.settings import Settings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a job file, and the shell standing in it."""
    (tmp_path / "qlora.yaml").write_text("run: true\nbudget: 5\nenv: {A: from-file, B: kept}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(*, file: str = "qlora.yaml", **flags: object) -> Read:
    """What is handed in for `file`."""
    return read_request(file, Flags(**flags), Settings(home=Path("home")))  # type: ignore[arg-type]


def test_a_job_file_becomes_a_request(folder: Path) -> None:
    """Named after its file; the folder of the command is kept for commands without a JOB."""
    request = read().request
    assert (request.default_name, request.folder, request.spec.budget) == ("qlora", str(folder), 5_000_000)
    assert (request.flags, request.bundle, request.simulated) == (frozenset(), None, False)


def test_flags_win_over_the_file_and_are_known_as_flags(folder: Path) -> None:
    """--set, --budget, --name, --project; only limits count as limits."""
    request = read(budget="2.5", name="n", project="p", sets=("max_duration=10m", "resources.gpu=24GB")).request
    assert (request.spec.budget, request.spec.name, request.spec.project) == (2_500_000, "n", "p")
    assert request.flags == {"budget", "max_duration"}


def test_variables_come_from_flags_files_and_the_shell(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--env wins over --env-file over the job file; text passes byte for byte."""
    (folder / "vars").write_text("# mine\n\nexport A='x y'\nC=1=2 $HOME \"q\"\n D = e\n")
    monkeypatch.setenv("E", "shell")
    env = read(env_file=Path("vars"), env=("E", "F=a,b=c\nd")).request.spec.env
    assert env == {"A": "x y", "B": "kept", "C": '1=2 $HOME "q"', "D": "e", "E": "shell", "F": "a,b=c\nd"}
    assert read(env_file=Path("vars"), env=("A=flag",)).request.spec.env["A"] == "flag"


def test_secrets_are_taken_from_the_shell(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name; the value is not in the spec."""
    monkeypatch.setenv("TOKEN", "marker")
    request = read(secret=("TOKEN",)).request
    assert request.secrets == {"TOKEN": "marker"}
    assert "marker" not in request.spec.model_dump_json()


def test_stdin_is_a_job_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-`, named after the folder."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"run: true\nbudget: 1\n")))
    assert read(file="-").request.default_name == folder.name


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"file": "nothing.yaml"}, "nothing.yaml"), ({"env": ("UNSET_HERE",)}, "UNSET_HERE"),
        ({"env_file": Path("gone")}, "gone"), ({"budget": "much"}, "budget"), ({"sets": ("x",)}, "path=value"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_wrong_usage(folder: Path, flags: dict[str, object], says: str) -> None:
    """Exit 2, and the name of what is wrong."""
    with pytest.raises((Usage, InvalidJob), match=says):
        read(**flags)


def test_the_commit_is_noted(folder: Path) -> None:
    """Its id and whether tracked files differ; none outside a repository."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert read().request.git is None
    subprocess.run([*git, "add", "qlora.yaml"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    found = read().request.git
    assert found is not None
    assert (len(found["commit"]), found["dirty"]) == (40, False)
    (folder / "qlora.yaml").write_text("run: false\nbudget: 1\n")
    assert read().request.git == {"commit": found["commit"], "dirty": True}
