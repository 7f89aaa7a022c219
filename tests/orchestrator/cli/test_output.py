"""How things are printed."""

import pytest
from click.testing import CliRunner

from orchestrator.cli.output import clean, money, print_table
from orchestrator.views.instants import clock_text, elapsed_text, rfc3339


@pytest.mark.parametrize(
    ("micro", "text"),
    [(5_000_000, "$5.00"), (31_000, "$0.031"), (390_000, "$0.39"), (1, "$0.001"), (0, "$0.00"), (-1_500_000, "-$1.50")],
)
def test_money_for_people(micro: int, text: str) -> None:
    """Two decimals, a third where needed, rounded up; simulated money says so."""
    assert money(micro) == text
    assert money(micro, simulated=True) == f"sim {text}"


def test_unknown_money_is_a_dash() -> None:
    """Not zero."""
    assert money(None) == "-"


def test_a_table_is_aligned_and_plain_in_a_pipe() -> None:
    """Wide characters count twice, amounts stand to the right, nothing steers the terminal."""
    import click

    @click.command()
    def show() -> None:
        print_table(("NAME", "COST"), [("模型", "$1.00"), ("a\x1b[31mb\nc", None)], right=("COST",))

    lines = CliRunner().invoke(show).output.splitlines()
    assert lines == ["NAME       COST", "模型      $1.00", "a[31mb c      -"]


def test_control_characters_are_taken_out() -> None:
    """What a job or provider says may not move the cursor."""
    assert clean("a\x1b]0;t\x07b\r\nc\x9b") == "a]0;tb  c"


def test_times_for_programs_and_people() -> None:
    """RFC 3339 in UTC; a clock in the zone of the settings; two steps of elapsed time."""
    at = 1_796_904_600_000_000
    assert rfc3339(at) == "2026-12-10T12:10:00Z"
    assert rfc3339(None) is None
    assert clock_text(at, at, "Europe/Berlin") == "13:10"
    assert clock_text(at, at + 86_400_000_000) == "2026-12-10 12:10"
    assert [elapsed_text(s * 1_000_000) for s in (-1, 45, 723, 11_220, 187_200)] == [
        "0s", "45s", "12m 03s", "3h 07m", "2d 04h",
    ]  # fmt: skip
