"""What the README tells people to type exists."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.cli.main import main

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```(?:sh|bash|console)?\n(.*?)^```", re.DOTALL | re.MULTILINE)


def typed(path: Path) -> list[str]:
    """Lines of fenced blocks, without prompts and comments."""
    lines = [line for block in FENCED.findall(path.read_text()) for line in block.splitlines()]
    return [line.removeprefix("$ ").split("  #")[0].strip() for line in lines]


COMMANDS = [line for line in typed(ROOT / "README.md") if line.startswith("gpupoor ")]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_exist(line: str) -> None:
    """Each gpupoor line names a command and options that there are."""
    words = shlex.split(re.split(r"\s[|>&;]", line)[0])[1:]
    end = words.index("--") if "--" in words else len(words)
    shown = CliRunner().invoke(main, [*words[:end], "--help"])
    assert shown.exit_code == 0, shown.output


def test_make_targets_exist() -> None:
    """Each make line names a target of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {line.split()[1] for line in typed(ROOT / "README.md") if re.match(r"make [a-z]", line)}
    assert named <= targets


def test_every_command_has_help_with_an_example() -> None:
    """`--help` of every command that the main help shows gives an example to type."""
    context = main.make_context("gpupoor", [], resilient_parsing=True)
    for name in main.list_commands(context):  # type: ignore[attr-defined]
        shown = CliRunner().invoke(main, [name, "--help"])
        assert shown.exit_code == 0 and "gpupoor " in shown.output.split("Usage:", 1)[1].split("\n", 1)[1], name
