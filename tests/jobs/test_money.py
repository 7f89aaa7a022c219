"""Whole micro-dollars: exact, and rounded up against us."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.money import HOUR, affordable_duration, cost, parse_usd, usd

AMOUNTS = st.integers(min_value=-(10**15), max_value=10**15)


@given(AMOUNTS)
def test_shown_amounts_read_the_same(micro: int) -> None:
    """What is shown is exact."""
    assert parse_usd(usd(micro)) == micro


@pytest.mark.parametrize(
    ("micro", "text"), [(0, "0.00"), (1, "0.000001"), (2_500_000, "2.50"), (-10_000, "-0.01"), (123_400, "0.1234")]
)
def test_usd(micro: int, text: str) -> None:
    """At least two decimals, at most six."""
    assert usd(micro) == text


@pytest.mark.parametrize("text", ["", "five", "NaN", "inf", "0.0000001", "1e40", "1,5"])
def test_no_amount(text: str) -> None:
    """What is no amount with up to six decimals is refused."""
    with pytest.raises(ValueError, match="dollars"):
        parse_usd(text)


def test_ten_thousand_bookings_do_not_drift() -> None:
    """10,000 times 0.0001 is exactly 1."""
    assert sum(parse_usd("0.0001") for _ in range(10_000)) == parse_usd("1")


@given(st.integers(min_value=1, max_value=10**9), st.integers(min_value=0, max_value=10**12))
def test_affordable_duration_is_the_longest(per_hour: int, amount: int) -> None:
    """It costs at most the amount, and one microsecond more costs more."""
    longest = affordable_duration(per_hour, amount)
    assert cost(per_hour, longest) <= amount < cost(per_hour, longest + 1)


def test_cost_is_rounded_up() -> None:
    """A microsecond is never free; an hour is the price."""
    assert (cost(1, 1), cost(390_000, HOUR), cost(390_000, -5)) == (1, 390_000, 0)


def test_free_has_no_longest_duration() -> None:
    """A price of zero would last for ever."""
    with pytest.raises(ValueError, match="zero"):
        affordable_duration(0, 1)
