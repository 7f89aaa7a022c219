"""Durations and sizes as people write them, and back: `1h30m`, `24GB`. One meaning each, or a refusal.

Durations: whole microseconds. Sizes: whole bytes; 1 GB = 1e9 bytes, 1 GiB = 2**30.
"""

import re
from decimal import Decimal

from jobs.money import HOUR, MINUTE, SECOND

DAY = 24 * HOUR
LONGEST = 3650 * DAY

_UNITS = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND}
_DURATION = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in _UNITS), re.ASCII)
_LONG_WORDS = (
    (re.compile(r"\s+"), ""),
    (re.compile(r"days?"), "d"),
    (re.compile(r"hours?|hrs?"), "h"),
    (re.compile(r"minutes?|mins?"), "m"),
    (re.compile(r"seconds?|secs?"), "s"),
)

_BYTES = {
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]*)", re.ASCII)
BIGGEST = 10**18


def parse_duration(text: str) -> int:
    """Microseconds of `90s`, `10m`, `1.5h`, `2d` or `1h30m`; only the last part may have decimals.

    Raises ValueError that says what would be right.
    """
    found = _micros(text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration; {_better_duration(text)}")
    if found > LONGEST:
        raise ValueError(f"{text!r} is longer than ten years; write a shorter one")
    return found


def duration_text(micros: int) -> str:
    """`micros` in the words of a job file: `90s` is `1m30s`, two whole days are `2d`, 80 hours stay `80h`."""
    sign, left = ("-", -micros) if micros < 0 else ("", micros)
    if left >= 2 * DAY and left % DAY == 0:
        return f"{sign}{left // DAY}d"
    hours, left = divmod(left, HOUR)
    minutes, left = divmod(left, MINUTE)
    seconds, rest = divmod(left, SECOND)
    decimals = f".{rest:06d}".rstrip("0") if rest else ""
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    parts.append(f"{seconds}{decimals}s" if seconds or rest else "")
    return sign + ("".join(parts) or "0s")


def parse_size(text: str, bare: str = "") -> int:
    """Bytes of `24GB`, `500MB`, `1.5TB`, `16GiB`; a fraction of a byte is rounded up.

    bare: the unit that a number without one has; empty: such a number is refused.
    Raises ValueError that says what would be right.
    """
    match = _SIZE.fullmatch(text.strip())
    factor = _BYTES.get((match[2] or bare).upper()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not a size; {_better_size(text, bare)}")
    if len(match[1].split(".")[0]) > 18 or Decimal(match[1]) * factor > BIGGEST:
        raise ValueError(f"{text!r} is more than a million TB; write a smaller one")
    return -int(-Decimal(match[1]) * factor // 1)


def size_text(size: int) -> str:
    """`size` bytes in the words of a job file: `500MB`, `1.5TB`; exact down to a thousandth of the unit."""
    for unit in ("TB", "GB", "MB", "KB"):
        if size >= _BYTES[unit]:
            return f"{Decimal(size) / _BYTES[unit]:.3f}".rstrip("0").rstrip(".") + unit
    return f"{Decimal(size) / 1000:.3f}".rstrip("0").rstrip(".") + "KB"


def _micros(text: str) -> int | None:
    """Microseconds, or None where `text` has not exactly one meaning."""
    match = _DURATION.fullmatch(text)
    if match is None or len(text) > 40:
        return None
    parts = [(amount, unit) for amount, unit in zip(match.groups(), _UNITS.values(), strict=True) if amount]
    if not parts or any("." in amount for amount, _ in parts[:-1]):
        return None
    total = sum(Decimal(amount) * unit for amount, unit in parts)
    return int(total) if total == int(total) else None


def _better_duration(text: str) -> str:
    bare = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", bare, re.ASCII):
        return f"write its unit: {bare}s, {bare}m or {bare}h"
    if clock := re.fullmatch(r"(\d+):(\d\d)", bare, re.ASCII):
        first, second = int(clock[1]), int(clock[2])
        return f"write {first}h{second}m for hours and minutes, {first}m{second}s for minutes and seconds"
    if clock := re.fullmatch(r"(\d+):(\d\d):(\d\d)", bare, re.ASCII):
        return f"write {int(clock[1])}h{int(clock[2])}m{int(clock[3])}s"
    if bare.lower() in ("off", "no", "none", "never", "false", "null", "~"):
        return "leave the line out for the default, or write one like 90s, 10m, 1.5h or 2d"
    if weeks := re.fullmatch(r"(\d{1,3})\s*w(eeks?)?", bare.lower(), re.ASCII):
        return f"write {7 * int(weeks[1])}d"
    shorter = bare.lower()
    for words, letter in _LONG_WORDS:
        shorter = words.sub(letter, shorter)
    return f"write {shorter}" if _micros(shorter) is not None else "write one like 90s, 10m, 1.5h, 2d or 1h30m"


def _better_size(text: str, bare: str) -> str:
    example = "write one like 500MB or 24GB" + (f", or a bare number of {bare}" if bare else "")
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGTkmgt]?)(?:i?[Bb])?\s*(\+|\.\.)?", text.strip(), re.ASCII)
    if not match:
        return example
    unit = match[2].upper() + "B" if match[2] else bare or "GB"
    return f"write {match[1]}{unit}" + (", which means at least so much" if match[3] else "")
