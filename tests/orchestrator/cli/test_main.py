"""The door itself: help without imports, exit codes, names."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli import main as door

HEAVY = ("sqlalchemy", "pydantic", "httpx", "rich", "celery", "paramiko", "asyncssh", "yaml", "alembic")
RUN = "from orchestrator.cli.main import main; main()"


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    """A door with one more command, `end`, and a fresh home."""
    monkeypatch.setitem(door.COMMANDS, "end", ("tests.orchestrator.cli.commands:end", "jobs", "End."))
    monkeypatch.setenv("GPUPOOR_HOME", str(tmp_path))
    return CliRunner()


def call(runner: CliRunner, *words: str) -> Result:
    """Run `gpupoor words`."""
    return runner.invoke(door.main, list(words))


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["nonsense"], []])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    """Neither help nor a wrong name pays for a library."""
    look = f"import sys, atexit; atexit.register(lambda: print([m for m in {HEAVY} if m in sys.modules])); {RUN}"
    done = subprocess.run([sys.executable, "-c", look, *words], capture_output=True, text=True, check=False)
    assert done.stdout.rstrip().endswith("[]")


def test_a_command_of_a_later_version_is_named(ends: CliRunner) -> None:
    """`login` is told from a typing error."""
    ended = call(ends, "login", "runpod")
    assert ended.exit_code == 2 and "not in this version yet" in ended.stderr


def test_help_shows_groups_and_at_most_18_commands() -> None:
    """Jobs, money, machines, setup; aliases stay hidden."""
    shown = CliRunner().invoke(door.main, ["--help"])
    assert shown.exit_code == 0
    for group in ("Jobs:", "Money:", "Machines:", "Setup:"):
        assert group in shown.output
    names = [line.split()[0] for line in shown.output.splitlines() if line.startswith("  ") and line.strip()]
    assert len(door.COMMANDS) <= 18
    assert set(door.COMMANDS) <= set(names)
    assert not set(door.ALIASES) & set(names)


def test_every_group_of_a_command_exists() -> None:
    """No command is lost from the help by a misspelt group."""
    assert {group for _, group, _ in door.COMMANDS.values()} == set(door.GROUPS)


@pytest.mark.parametrize(
    ("way", "code", "says"),
    [("0", 0, ""), ("7", 7, ""), ("limit", 3, "gpupoor: too much\nraise it\n"), ("interrupt", 130, "")],
)
def test_a_command_ends_with_its_exit_code(ends: CliRunner, way: str, code: int, says: str) -> None:
    """Numbers, errors of ours, Ctrl-C."""
    done = call(ends, "end", way)
    assert (done.exit_code, done.stderr.strip()) == (code, says.strip())
    assert done.stdout == ""


def test_an_unexpected_error_writes_its_trace_to_a_private_file(ends: CliRunner, tmp_path: Path) -> None:
    """Exit 1, a short message, and the trace where it says."""
    done = call(ends, "end", "crash")
    assert done.exit_code == 1
    (trace,) = (tmp_path / "errors").iterdir()
    assert str(trace) in done.stderr
    assert "Traceback" in trace.read_text()
    assert "Traceback" not in done.stderr
    assert trace.stat().st_mode & 0o777 == 0o600


def test_a_wrong_name_is_answered_with_the_nearest(ends: CliRunner) -> None:
    """Exit 2 and a suggestion."""
    done = call(ends, "sumbit")
    assert done.exit_code == 2
    assert "did you mean submit?" in done.stderr


def test_wrong_flags_are_exit_2(ends: CliRunner) -> None:
    """Click's own refusals keep their code."""
    assert call(ends, "end").exit_code == 2


def test_the_version_is_told() -> None:
    """One line."""
    assert CliRunner().invoke(door.main, ["--version"]).output.startswith("gpupoor ")


def test_a_closed_pipe_is_quiet() -> None:
    """Whoever reads may go; nothing is said on stderr."""
    put = "import orchestrator.cli.main as d; d.COMMANDS['end'] = ('tests.orchestrator.cli.commands:end', 'jobs', '.')"
    command = [sys.executable, "-c", f"{put}; d.main()", "end", "pipe"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == door.PIPE_CLOSED


def test_a_name_that_is_no_text_is_printed_escaped() -> None:
    """A file name of odd bytes ends no command."""
    put = "import orchestrator.cli.main as d; d.COMMANDS['end'] = ('tests.orchestrator.cli.commands:end', 'jobs', '.')"
    done = subprocess.run([sys.executable, "-c", f"{put}; d.main()", "end", "odd"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"\\udcff\n")
