"""The one table of a job's life."""

import pytest

from jobs.states import (
    LIVE,
    MOVES,
    PHASES,
    PLACES,
    REASONS,
    STARTING,
    SUCCEEDED,
    TERMINAL,
    exit_code,
    may_move,
    place,
)  # fmt: skip


def test_the_table_is_whole() -> None:
    """Every place has its moves, and every move leads to a place."""
    assert set(MOVES) == set(PLACES)
    assert {new for news in MOVES.values() for new in news} <= set(PLACES)
    assert set(PHASES) == {*LIVE, *TERMINAL}


@pytest.mark.parametrize("old", PLACES)
def test_staying_is_allowed_and_ends_are_ends(old: str) -> None:
    """A job may stay where it is; from an end it goes nowhere but to the end of its clean-up."""
    assert may_move(old, old)
    state = old.split("/")[0]
    if state in TERMINAL:
        assert all(new == f"{state}/" for new in MOVES[old])


@pytest.mark.parametrize("old", [p for p in PLACES if p.split("/")[0] in LIVE])
def test_every_live_place_can_be_left_by_every_end(old: str) -> None:
    """Cancel, a stop and a failure are possible everywhere."""
    ends = {new.split("/")[0] for new in MOVES[old]}
    assert {"failed", "stopped", "cancelled"} <= ends


def test_no_way_skips_the_proof() -> None:
    """Once something was rented, no end is reached but through the release of its machine."""
    for old in (place(STARTING, phase) for phase in PHASES[STARTING]):
        assert not {f"{state}/" for state in TERMINAL} & set(MOVES[old])


def test_exit_codes() -> None:
    """The reason decides the exit code; success with results missing is 7."""
    assert exit_code(SUCCEEDED, None, "complete") == 0
    assert exit_code(SUCCEEDED, None, "incomplete") == 7
    assert {code: exit_code(state, code, "none") for code, (state, _) in REASONS.items()} == {
        "budget": 3, "cap": 3, "max_duration": 6, "deadline": 6, "burst_end": 6, "no_capacity": 4, "max_wait": 4,
        "own_exit": 5, "host": 5, "preempted": 5, "cancelled": 8,
    }  # fmt: skip
