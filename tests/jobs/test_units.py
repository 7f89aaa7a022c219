"""Durations and sizes: one meaning each, or a refusal that says what would be right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.money import HOUR, MINUTE, SECOND
from jobs.units import DAY, LONGEST, duration_text, parse_duration, parse_size, size_text


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("90s", 90 * SECOND),
        ("10m", 10 * MINUTE),
        ("1.5h", 90 * MINUTE),
        ("2d", 2 * DAY),
        ("1h30m", 90 * MINUTE),
        ("1d12h", 36 * HOUR),
        ("1h0.5s", HOUR + SECOND // 2),
        ("0s", 0),
    ],
)
def test_durations(text: str, micros: int) -> None:
    """A number and its unit, or several from the greatest to the smallest."""
    assert parse_duration(text) == micros


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("90", "90s, 90m or 90h"),
        ("1:30", "1h30m for hours and minutes, 1m30s for minutes and seconds"),
        ("01:30", "1h30m for hours"),
        ("12:30:45", "12h30m45s"),
        ("10 minutes", "write 10m"),
        ("1h 30m", "write 1h30m"),
        ("2 Hours", "write 2h"),
        ("1w", "write 7d"),
        ("off", "leave the line out"),
        ("1.5h30m", "write one like"),
        ("30m1h", "write one like"),
        ("-1h", "write one like"),
        ("", "write one like"),
        ("٣m", "write one like"),
        ("0.0000001s", "write one like"),
    ],
)
def test_refused_durations(text: str, better: str) -> None:
    """What has no meaning, or two, is refused with what would be right."""
    with pytest.raises(ValueError, match=r"write|leave") as refused:
        parse_duration(text)
    assert better in str(refused.value)


def test_longest_duration() -> None:
    """Ten years are the longest."""
    assert parse_duration("3650d") == LONGEST
    with pytest.raises(ValueError, match="ten years"):
        parse_duration("3651d")


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0s"),
        (45 * SECOND, "45s"),
        (90 * SECOND, "1m30s"),
        (90 * MINUTE, "1h30m"),
        (24 * HOUR, "24h"),
        (48 * HOUR, "2d"),
        (80 * HOUR, "80h"),
        (60 * SECOND + 1, "1m0.000001s"),
        (-5 * MINUTE, "-5m"),
    ],
)
def test_duration_text(micros: int, text: str) -> None:
    """Durations are shown in the words of the job file."""
    assert duration_text(micros) == text


@given(st.integers(min_value=0, max_value=LONGEST))
def test_shown_durations_read_the_same(micros: int) -> None:
    """What is shown can be written back and means the same, to the microsecond."""
    assert parse_duration(duration_text(micros)) == micros


@given(st.text(alphabet="0123456789.smhd: ", max_size=12))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Any text is a duration that is not negative, or a ValueError."""
    try:
        assert parse_duration(text) >= 0
    except ValueError as error:
        assert repr(text) in str(error)


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GB", 24 * 10**9), ("500MB", 5 * 10**8), ("1.5TB", 15 * 10**11), ("16GiB", 16 * 2**30), ("24gb", 24 * 10**9)],
)
def test_sizes(text: str, size: int) -> None:
    """GB is decimal, GiB is binary."""
    assert parse_size(text) == size


def test_bare_size() -> None:
    """A bare number is a size only where its unit was agreed."""
    assert parse_size("100", bare="GB") == 100 * 10**9
    with pytest.raises(ValueError, match="write 100GB"):
        parse_size("100")


@pytest.mark.parametrize(("text", "better"), [("24G", "24GB"), ("16+", "16GB, which means at least"), ("x", "500MB")])
def test_refused_sizes(text: str, better: str) -> None:
    """Half a unit is refused with the whole one."""
    with pytest.raises(ValueError, match="write") as refused:
        parse_size(text)
    assert better in str(refused.value)


def test_size_text() -> None:
    """Sizes are shown in the greatest unit that they fill."""
    assert [size_text(size) for size in (500_000_000, 1_500_000_000_000, 24_000_000_000, 0)] == [
        "500MB",
        "1.5TB",
        "24GB",
        "0KB",
    ]
