"""Money in whole micro-dollars (1 USD = 1,000,000), and time in whole microseconds UTC.

Every amount and every instant in this project is an int in these units; a float never
holds money. Rounding goes up, against us: what we book is never less than what we owe.
"""

from decimal import Decimal, InvalidOperation

MICRO = 1_000_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 3600 * SECOND


def parse_usd(text: str | int | float) -> int:
    """Micro-dollars of `text`, a number of dollars with up to six decimals.

    Raises ValueError that says what would be right.
    """
    try:
        amount = Decimal(str(text).strip())
    except InvalidOperation:
        raise ValueError(f"{text!r} is not an amount of dollars; write for example 2.50") from None
    micro = amount * MICRO if amount.is_finite() else Decimal("NaN")
    if not micro.is_finite() or micro != micro.to_integral_value():
        raise ValueError(f"{text!r} is not an amount of dollars with up to six decimals")
    if abs(micro) > 10**15:
        raise ValueError(f"{text!r} is more than a billion dollars")
    return int(micro)


def usd(micro: int) -> str:
    """Decimal string of dollars for JSON: at least two decimals, at most six, exact."""
    sign = "-" if micro < 0 else ""
    whole, rest = divmod(abs(micro), MICRO)
    decimals = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{decimals}"


def cost(micro_per_hour: int, duration: int) -> int:
    """Micro-dollars for `duration` microseconds at `micro_per_hour`, rounded up."""
    return -(-micro_per_hour * max(duration, 0) // HOUR)


def affordable_duration(micro_per_hour: int, amount: int) -> int:
    """The longest duration in microseconds whose `cost` is at most `amount`."""
    if micro_per_hour <= 0:
        raise ValueError("a price of zero has no longest duration")
    return max(amount, 0) * HOUR // micro_per_hour
